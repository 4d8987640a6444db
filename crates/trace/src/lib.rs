//! What a run leaves behind for others to read: metrics and timelines.
//!
//! This crate knows no graphs, tensors or workers; it is the boundary between a run and whoever looks at it.

pub mod error;
pub mod metrics;
pub mod tensorboard;

pub use error::{Error, Result};
