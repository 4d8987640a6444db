//! Every operation on a GPU against the same operation on the host: values within 1e-5 and gradients within
//! 1e-4 of their largest, and the same bits when it is done again. Without a GPU the tests say that they were
//! skipped.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod attention;
mod cells;
mod compare;
mod dense;
mod edges;
mod elementwise;
mod losses;
mod rows;
mod sparse;
