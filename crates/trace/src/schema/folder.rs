//! The folder of a run: the names of its files, and reading and writing them.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::record::{Record, from_json, read, write};
use super::{
    AveragingRecord, EpochRecord, PlanRecord, ProfileRecord, RunSummary, ScheduleRecord, SettingsRecord,
};
use crate::error::{Error, Result};
use crate::metrics::whole_lines;
use crate::timeline::{WorkerTrace, merge};

/// All settings of the run.
pub const SETTINGS: &str = kymo_files::place::SETTINGS;
/// Parameters, the optimiser's state and the position: what the run can be resumed from.
pub const CHECKPOINT: &str = kymo_files::place::CHECKPOINT;
/// An [`EpochRecord`] a line.
pub const METRICS: &str = "metrics.jsonl";
/// An [`AveragingRecord`] a line, where models were averaged.
pub const AVERAGING: &str = "averaging.jsonl";
/// The [`RunSummary`].
pub const SUMMARY: &str = "summary.json";
/// The [`ProfileRecord`].
pub const PROFILE: &str = "profile.json";
/// The [`ScheduleRecord`].
pub const SCHEDULE: &str = "schedule.json";
/// The [`PlanRecord`].
pub const PLAN: &str = "plan.json";
/// The timelines of all workers for Chrome's tracing and Perfetto.
pub const CHROME_TRACE: &str = "trace.json";
/// Held by the process that trains the run.
pub const LOCK: &str = "lock";
/// The folder of events for TensorBoard.
pub const TENSORBOARD: &str = "tensorboard";
/// The folder of data that was made for the run.
pub const DATA: &str = "data";
/// The folder of the workers' timelines, each named by [`trace_name`].
pub const TRACES: &str = "trace";

/// The file of a worker's timeline, within [`TRACES`].
pub fn trace_name(worker: usize) -> String {
    format!("worker-{worker}.jsonl")
}

/// The worker whose timeline has this name.
pub(crate) fn worker_of(name: &str) -> Option<usize> {
    let worker = name.strip_prefix("worker-")?.strip_suffix(".jsonl")?.parse().ok()?;
    // Other spellings of the number, such as 01, are other files.
    (trace_name(worker) == name).then_some(worker)
}

/// The folder of a run.
///
/// A file that is not there is nothing or an empty list: a run that is under way has no summary yet, and one
/// with a single worker has no schedule. A file that is damaged is an error that names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunFolder {
    path: PathBuf,
}

impl RunFolder {
    /// Opens the folder; fails where there is none.
    pub fn open(path: impl Into<PathBuf>) -> Result<RunFolder> {
        let path = path.into();
        let found =
            std::fs::metadata(&path).map_err(Error::resource("cannot open the run's folder", &path))?;
        if !found.is_dir() {
            let problem = "is not a folder; expected the folder of a run, as given to kymo train -o";
            return Err(Error::file(&path, problem));
        }
        Ok(RunFolder { path })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where a file of it is, by one of the names of this module.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// The settings.
    pub fn settings(&self) -> Result<Option<SettingsRecord>> {
        let path = self.file(SETTINGS);
        let Some(text) = bytes(&path)? else { return Ok(None) };
        let wrong = |_| Error::file(&path, "is not text in UTF-8; restore the file");
        SettingsRecord::from_toml(&path, &String::from_utf8(text).map_err(wrong)?).map(Some)
    }

    /// What was measured in each epoch so far. A last line that was cut short is skipped.
    pub fn epochs(&self) -> Result<Vec<EpochRecord>> {
        lines(&self.file(METRICS))
    }

    /// When models were averaged, where they were.
    pub fn averaging(&self) -> Result<Vec<AveragingRecord>> {
        lines(&self.file(AVERAGING))
    }

    /// The outcome of the run, once it has finished.
    pub fn summary(&self) -> Result<Option<RunSummary>> {
        read(&self.file(SUMMARY))
    }

    /// What windows and snapshots cost, once measured.
    pub fn profile(&self) -> Result<Option<ProfileRecord>> {
        read(&self.file(PROFILE))
    }

    /// The schedule, where windows were scheduled.
    pub fn schedule(&self) -> Result<Option<ScheduleRecord>> {
        read(&self.file(SCHEDULE))
    }

    /// The plan, where there are several workers.
    pub fn plan(&self) -> Result<Option<PlanRecord>> {
        read(&self.file(PLAN))
    }

    /// The timelines of all workers on one clock, in the order of their numbers.
    pub fn traces(&self) -> Result<Vec<WorkerTrace>> {
        let there = self.file(TRACES).try_exists();
        let there = there.map_err(Error::resource("cannot read", &self.file(TRACES)))?;
        if there { merge(&self.path) } else { Ok(Vec::new()) }
    }

    /// Writes the outcome of the run.
    pub fn write_summary(&self, summary: &RunSummary) -> Result<()> {
        self.write(SUMMARY, summary)
    }

    /// Writes what windows and snapshots cost.
    pub fn write_profile(&self, profile: &ProfileRecord) -> Result<()> {
        self.write(PROFILE, profile)
    }

    /// Writes the schedule.
    pub fn write_schedule(&self, schedule: &ScheduleRecord) -> Result<()> {
        self.write(SCHEDULE, schedule)
    }

    /// Writes the plan.
    pub fn write_plan(&self, plan: &PlanRecord) -> Result<()> {
        self.write(PLAN, plan)
    }

    fn write<T: Record>(&self, name: &str, record: &T) -> Result<()> {
        write(&self.file(name), record)
    }
}

/// The records in a file that has one a line; none where there is no file. A last line that was cut short is
/// skipped.
pub fn lines<T: Record>(path: &Path) -> Result<Vec<T>> {
    let text = bytes(path)?.unwrap_or_default();
    let parse = |(number, line)| from_json(line).map_err(|problem| Error::line(path, number, problem));
    whole_lines(&text).map(parse).collect()
}

/// The content of a file; nothing where there is none.
fn bytes(path: &Path) -> Result<Option<Vec<u8>>> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::resource("cannot read", path)(error)),
    }
}
