//! The folder of a run that is under way: its log and its events for TensorBoard grow with every epoch.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use kymo_files::place::{enclosing, is_store};
use kymo_files::{Lock, clear, write_whole};
use kymo_trace::metrics::Log;
use kymo_trace::schema::{AveragingRecord, EpochRecord, Metrics, RunFolder, folder as names};
use kymo_trace::tensorboard::EventFile;

use crate::config::{Settings, overlay};
use crate::error::{Error, Result};

/// The files of a run.
pub struct Folder {
    files: RunFolder,
    /// A line for each epoch.
    log: Log,
    /// The same for TensorBoard.
    events: EventFile,
    /// Keeps other processes from training here.
    _lock: Lock,
}

/// Files that only the process that trains the run writes.
const WRITTEN_WHOLE: [&str; 9] = [
    names::SETTINGS,
    names::CHECKPOINT,
    names::METRICS,
    names::AVERAGING,
    names::SUMMARY,
    names::PROFILE,
    names::SCHEDULE,
    names::PLAN,
    names::CHROME_TRACE,
];

/// Seconds since 1970.
fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

impl Folder {
    /// The checkpoint of the run in this folder.
    pub fn checkpoint_of(path: &Path) -> PathBuf {
        path.join(names::CHECKPOINT)
    }

    /// The data that was made for the run in this folder.
    pub fn data_of(path: &Path) -> PathBuf {
        path.join(names::DATA)
    }

    /// The settings of the run in this folder.
    pub fn settings_of(path: &Path) -> PathBuf {
        path.join(names::SETTINGS)
    }

    /// Writes the settings of a run into its folder.
    pub fn write_settings(path: &Path, values: &Settings) -> Result<()> {
        let text = overlay::to_toml(values)?;
        Ok(write_whole(&Folder::settings_of(path), |file| file.write_all(text.as_bytes()))?)
    }

    /// Takes the folder for this process, until the lock is dropped; fails while another one trains there.
    pub fn lock(path: &Path) -> Result<Lock> {
        std::fs::create_dir_all(path).map_err(Error::resource("cannot make the folder", path))?;
        let lock = Lock::take(&path.join(names::LOCK), path)?;
        // Nobody else writes these files now: what is unfinished is of a process that is dead.
        for name in WRITTEN_WHOLE {
            let _ = std::fs::remove_file(path.join(format!("{name}.partial")));
        }
        clear(&Folder::data_of(path))?;
        Ok(lock)
    }

    /// Fails where no run can begin: another one lives in the folder, or a store, with which the run would be
    /// lost when it is replaced.
    pub fn check_new(path: &Path) -> Result<()> {
        let store = enclosing(path, is_store).map_err(Error::resource("cannot write", path))?;
        let problem = if let Some(store) = store {
            format!("{} is in the store {}; choose a folder outside it", path.display(), store.display())
        } else if Folder::checkpoint_of(path).exists() {
            format!(
                "{} has a run already; go on with it (kymo train --resume -o {0}) or choose another folder",
                path.display()
            )
        } else if path.join(names::METRICS).exists() {
            format!(
                "{} has the log of a run but no checkpoint to go on from; choose another folder",
                path.display()
            )
        } else {
            return Ok(());
        };
        Err(Error::settings("--output", problem))
    }

    /// Begins the log of a new run; refuses where another run has one.
    pub fn create(path: &Path, lock: Lock) -> Result<Folder> {
        Folder::with(path, Log::create(&path.join(names::METRICS))?, lock)
    }

    /// Opens the folder of a run that is to go on behind this many lines of its log.
    pub fn reopen(path: &Path, lines: usize, lock: Lock) -> Result<Folder> {
        Folder::with(path, Log::reopen(&path.join(names::METRICS), lines)?, lock)
    }

    fn with(path: &Path, log: Log, lock: Lock) -> Result<Folder> {
        let events = EventFile::create(&path.join(names::TENSORBOARD), "kymo", now())?;
        Ok(Folder { files: RunFolder::open(path)?, log, events, _lock: lock })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.files.path()
    }

    /// The files that are written once.
    pub fn files(&self) -> &RunFolder {
        &self.files
    }

    /// Where the checkpoint is.
    pub fn checkpoint(&self) -> PathBuf {
        Folder::checkpoint_of(self.path())
    }

    /// Logs an epoch.
    pub fn record(&mut self, record: &EpochRecord) -> Result<()> {
        self.log.append(record)?;
        let (step, now) = (record.epoch as i64, now());
        self.events.scalar("loss/train", step, record.loss as f32, now)?;
        self.events.scalar("learning_rate", step, record.learning_rate, now)?;
        self.events.scalar("edges_per_second", step, record.edges_per_second as f32, now)?;
        for (name, &value) in &record.validation {
            self.events.scalar(&format!("{name}/validation"), step, value as f32, now)?;
        }
        Ok(self.events.flush()?)
    }

    /// Records when models were averaged. What a run recorded behind this place before it was interrupted is
    /// left out: it has not happened.
    pub fn record_averaging(&mut self, record: AveragingRecord) -> Result<()> {
        let place = |record: &AveragingRecord| (record.epoch, record.window);
        let mut all = self.files.averaging()?;
        all.retain(|before| place(before) < place(&record));
        all.push(record);
        Ok(write_whole(&self.files.file(names::AVERAGING), |file| {
            for record in &all {
                serde_json::to_writer(&mut *file, record)?;
                file.write_all(b"\n")?;
            }
            Ok(())
        })?)
    }

    /// Logs the test.
    pub fn record_test(&mut self, epoch: usize, metrics: &Metrics) -> Result<()> {
        for (name, &value) in metrics {
            self.events.scalar(&format!("{name}/test"), epoch as i64, value as f32, now())?;
        }
        Ok(self.events.flush()?)
    }
}
