//! What a run leaves behind for others to read: metrics and timelines.
//!
//! `metrics` and `tensorboard` say what a run measured. Timelines say where its time went: a `Recorder` on each worker takes
//! spans (`span`), its `WorkerTrace` is written into the run's folder (`timeline`), and all of them together become a picture
//! (`chrome`) or a table (`summary`).
//!
//! This crate knows no graphs, tensors or workers; it is the boundary between a run and whoever looks at it.

pub mod chrome;
pub mod error;
pub mod metrics;
pub mod recorder;
pub mod span;
pub mod summary;
pub mod tensorboard;
pub mod timeline;
mod whole;

pub use error::{Error, Result};
pub use recorder::{Open, Recorder};
pub use span::{Kind, Span, Total, Totals};
pub use summary::Summary;
pub use timeline::{WorkerTrace, merge};
