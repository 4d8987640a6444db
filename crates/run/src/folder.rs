//! The folder of a run: settings, checkpoint, log, events for TensorBoard, summary.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use kymo_trace::metrics::Log;
use kymo_trace::tensorboard::EventFile;
use serde::Serialize;

use crate::error::{Error, Result};
use crate::file::write_whole;
use crate::layers;
use crate::settings::Settings;

/// The files of a run.
pub struct Folder {
    path: PathBuf,
    /// `metrics.jsonl`: a line for each epoch.
    pub log: Log,
    /// The same for TensorBoard.
    pub events: EventFile,
}

/// Seconds since 1970.
pub fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// The checkpoint of the run in this folder.
pub fn checkpoint(path: &Path) -> PathBuf {
    path.join("checkpoint.safetensors")
}

/// The data that was made for the run in this folder.
pub fn data(path: &Path) -> PathBuf {
    path.join("data")
}

/// The settings of the run in this folder.
pub fn settings(path: &Path) -> PathBuf {
    path.join("settings.toml")
}

fn log(path: &Path) -> PathBuf {
    path.join("metrics.jsonl")
}

/// Writes the settings of a run into its folder, which is made where it is missing.
pub fn write_settings(path: &Path, values: &Settings) -> Result<()> {
    std::fs::create_dir_all(path).map_err(Error::resource("cannot make the folder", path))?;
    let text = layers::to_toml(values)?;
    write_whole(&settings(path), |file| file.write_all(text.as_bytes()))
}

impl Folder {
    /// Fails where another run lives in the folder.
    pub fn check_new(path: &Path) -> Result<()> {
        let problem = if checkpoint(path).exists() {
            format!(
                "{} has a run already; go on with it (kymo train --resume -o {0}) or choose another folder",
                path.display()
            )
        } else if log(path).exists() {
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
    pub fn create(path: &Path) -> Result<Folder> {
        Folder::with(path, Log::create(&log(path))?)
    }

    /// Opens the folder of a run that is to go on behind so many lines of its log.
    pub fn reopen(path: &Path, lines: usize) -> Result<Folder> {
        Folder::with(path, Log::reopen(&log(path), lines)?)
    }

    fn with(path: &Path, log: Log) -> Result<Folder> {
        let events = EventFile::create(&path.join("tensorboard"), "kymo", now())?;
        Ok(Folder { path: path.to_path_buf(), log, events })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes what the run came to.
    pub fn summarise(&self, summary: &impl Serialize) -> Result<()> {
        self.write_json("summary.json", summary)
    }

    /// Writes something as JSON, in the place of what is there.
    pub fn write_json(&self, name: &str, content: &impl Serialize) -> Result<()> {
        let path = self.path.join(name);
        let text = serde_json::to_string_pretty(content)
            .map_err(|error| Error::file(&path, format!("cannot be written as JSON: {error}")))?;
        write_whole(&path, |file| writeln!(file, "{text}"))
    }
}
