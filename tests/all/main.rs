//! The tests of the whole: one binary, so that it is linked once.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod bad_input;
mod cli;
mod fixture;
mod python;
mod real_data;
mod tidy;
