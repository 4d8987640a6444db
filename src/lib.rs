//! Kymo.

pub mod cli;
