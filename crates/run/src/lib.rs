//! Training: the only place where graphs, models, tasks and workers meet.

pub mod checkpoint;
pub mod error;
pub mod file;
pub mod layers;

pub use error::{Error, Result};
