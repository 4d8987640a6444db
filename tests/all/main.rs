//! The tests of the whole: one binary, so that it is linked once.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod bad_input;
mod cli;
mod examples;
mod facade;
mod fixture;
#[cfg(unix)]
mod launch;
mod outputs;
mod predict;
#[cfg(unix)]
mod process;
mod published;
mod python;
mod real_data;
mod rooms;
mod simulate;
mod starved;
mod tidy;
mod train;
mod train_bad;
mod train_killed;
mod train_resumed;
mod train_settings;
mod tune;
mod workers;
