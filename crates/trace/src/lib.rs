//! What a run leaves in its folder for others to read: settings, metrics, timelines, profiles, plans, a
//! summary.
//!
//! `schema` has the types of all these files and [`schema::RunFolder`], which reads and writes them.
//! `metrics` and `tensorboard` log what a run measures while it runs. Timelines say where its time went: a
//! `Recorder` on each worker takes spans (`span`), its `WorkerTrace` is written into the run's folder
//! (`timeline`), and all of them together become a picture (`chrome`) or a table (`summary`). Files that are
//! written at once go through [`write_whole`].
//!
//! This crate knows no graphs, tensors or workers; it is the boundary between a run and its readers.

mod align;
pub mod bytes;
pub mod chrome;
pub mod error;
pub mod metrics;
pub mod recorder;
pub mod schema;
pub mod span;
pub mod summary;
pub mod tensorboard;
pub mod timeline;

pub use align::align;
pub use error::{Error, Result};
pub use kymo_files::write_whole;
pub use recorder::{Open, Recorder};
pub use span::{Kind, Span, Total, Totals};
pub use summary::{TimeSummary, WorkerTime};
pub use timeline::{WorkerTrace, merge};
