//! The files of a run's folder as types, and the folder that reads and writes them.
//!
//! Every JSON file is a [`Record`]: it carries the version of its layout. Within a version fields are only
//! added, so a reader that ignores what it does not know can read all files of the versions it knows. A file
//! of a later version is refused. `docs/run-folder.md` describes every file and field.
//!
//! ```no_run
//! use kymo_trace::schema::RunFolder;
//!
//! let run = RunFolder::open("runs/first")?;
//! for epoch in run.epochs()? {
//!     println!("epoch {}: loss {:.4}, {:?}", epoch.epoch, epoch.loss, epoch.validation);
//! }
//! if let Some(summary) = run.summary()? {
//!     println!("{}: best after {} epochs", summary.model, summary.best_epoch);
//!     for (metric, value) in &summary.test.metrics {
//!         println!("test {metric} {value:.4}");
//!     }
//! }
//! # Ok::<(), kymo_trace::Error>(())
//! ```

mod averaging;
mod epoch;
mod evaluation;
pub mod folder;
mod group;
mod number;
mod plan;
mod profile;
mod record;
mod run_summary;
mod schedule;
mod settings;
mod stale;
mod tune;

pub use averaging::{AveragingRecord, AveragingRound};
pub use epoch::EpochRecord;
pub use evaluation::{Evaluation, Metrics, Slice};
pub use folder::RunFolder;
pub use group::{GroupReport, Traffic, WorkerReport};
pub use plan::{
    PlanRecord, PlannedBatch, PlannedBytes, PlannedEpoch, PlannedIteration, PlannedWindow, PlannedWorker,
};
pub use profile::{CostModelRecord, EXPLAINED, ProfileRecord, STAGES, SnapshotCost};
pub use record::{Record, from_json, read, write};
pub use run_summary::{RunSummary, SnapshotsHeld};
pub use schedule::{ScheduleRecord, check_iterations};
pub use settings::{SettingValue, SettingsRecord};
pub use stale::StaleRecord;
pub use tune::{TrialRecord, TuneRecord};

pub(crate) use record::record;

/// The document is compiled with the tests, so that its example in Rust cannot go stale.
#[cfg(doctest)]
#[doc = include_str!("../../../../docs/run-folder.md")]
struct Document;
