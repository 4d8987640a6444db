//! Training with one process a worker, as a user starts it: with `mpirun`. What comes out is held against the
//! same run on threads, which the other tests hold against one worker.
//!
//! `KYMO_MPIRUN` names another launcher than `mpirun`. Where there is none, the tests say so and do nothing.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

#[path = "../all/fixture.rs"]
#[allow(dead_code)]
mod fixture;
mod launch;
mod oracle;
mod refused;
mod resumed;
