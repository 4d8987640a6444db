//! Training: the only place where graphs, models, tasks and workers meet.

pub mod error;
pub mod link;

pub use error::{Error, Result};
