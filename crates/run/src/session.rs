//! A run from its folder: begun, resumed, or looked at.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use kymo_graph::{Progress, Store};
use kymo_model::zoo;
use kymo_plan::Plan;

use crate::builtin;
use crate::error::{Error, Result};
use crate::folder::{self, Folder};
use crate::layers;
use crate::learner::Learner;
use crate::saved::{Best, Position, Saved, save};
use crate::settings::Settings;
use crate::shared::Shared;
use crate::task;
use crate::teamwork::{self, Company};
use crate::train::{self, Ending, Watch};

/// A run that can be trained.
pub struct Session {
    /// What learns: the first worker.
    pub learner: Learner,
    /// The other workers.
    others: Vec<Learner>,
    /// What they will do, where there are several.
    pub plan: Option<Plan>,
    position: Position,
    best: Best,
    folder: Folder,
}

impl Session {
    /// Begins a run in a new folder; nothing is left there if the settings do not go with the data.
    pub fn begin(settings: Settings, path: &Path, progress: &Progress) -> Result<Session> {
        Folder::check_new(path)?;
        let there = [folder::data(path), path.to_path_buf()].map(|path| path.exists());
        let (learner, others, plan) = open(settings, path, progress).inspect_err(|_| unmake(path, there))?;
        let (position, best) = (Position::default(), None);
        folder::write_settings(path, learner.settings())?;
        // Before the log: a log without a checkpoint would look like a run, and there would be nothing to go on from.
        save(&learner, &position, &best, &folder::checkpoint(path))?;
        let folder = Folder::create(path)?;
        Ok(Session { learner, others, plan, position, best, folder })
    }

    /// Goes on with the run in a folder, with the settings it was begun with. `changes` may ask for more epochs, more
    /// patience or other limits of the machine; whatever would change what was computed so far is refused.
    pub fn resume(path: &Path, changes: &[(String, String, String)], progress: &Progress) -> Result<Session> {
        let checkpoint = folder::checkpoint(path);
        let saved = saved(path)?;
        let settings = changed(&saved.settings, changes, path)?;
        let (mut learner, mut others, plan) = open(settings, path, progress)?;
        let best = saved.restore(&mut learner, &checkpoint)?;
        for other in &mut others {
            saved.restore(other, &checkpoint)?;
        }
        let mut position = saved.position.clone();
        // With more patience or more epochs it may go on.
        let patience = learner.settings().train.patience;
        position.finished = patience > 0 && position.epoch - position.best_epoch >= patience;
        let folder = Folder::reopen(path, position.lines)?;
        folder::write_settings(path, learner.settings())?;
        Ok(Session { learner, others, plan, position, best, folder })
    }

    /// Whether there is a run to go on with in a folder.
    pub fn exists(path: &Path) -> bool {
        folder::checkpoint(path).exists()
    }

    /// How far it has come.
    pub fn position(&self) -> &Position {
        &self.position
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Trains to the end, or until asked to stop.
    pub fn train(self, watch: &mut dyn Watch) -> Result<Ending> {
        let Session { mut learner, others, plan, position, best, folder } = self;
        let mut folder = Some(folder);
        let mut ending = match others.is_empty() {
            true => train::train(&mut learner, position, best, &mut folder, watch)?,
            false => teamwork::train((learner, others, plan), position, best, &mut folder, watch)?,
        };
        if let (Ending::Finished(summary), Some(folder)) = (&mut ending, &folder) {
            folder.summarise(summary)?;
        }
        Ok(ending)
    }
}

/// The learner of the run in a folder, with the parameters of its best epoch, on the device that the run was on or on another.
pub fn look(path: &Path, metrics: &[String], device: Option<&str>, progress: &Progress) -> Result<Learner> {
    let checkpoint = folder::checkpoint(path);
    if !checkpoint.exists() {
        let problem = format!("{} has no run; kymo train -o {0} makes one", path.display());
        return Err(Error::settings("RUN", problem));
    }
    let saved = saved(path)?;
    let mut settings = saved.settings.clone();
    if !metrics.is_empty() {
        settings.task.metrics = metrics.to_vec();
    }
    if let Some(device) = device {
        settings.run.device = device.to_owned();
    }
    // Whoever looks on needs no company.
    settings.parallel = crate::settings::Parallel::default();
    let (mut learner, _, _) = open(settings, path, progress)?;
    if let Some(best) = saved.restore(&mut learner, &checkpoint)? {
        learner.params.values = best;
    }
    Ok(learner)
}

/// What the checkpoint in a folder holds; fails where it is not that of the run whose settings are beside it.
fn saved(path: &Path) -> Result<Saved> {
    let (checkpoint, file) = (folder::checkpoint(path), folder::settings(path));
    let saved = Saved::read(&checkpoint)?;
    if file.exists() {
        let written: Settings = layers::resolve(Some(&file), &[])?;
        let differences = layers::differences(&written, &saved.settings);
        if let Some(difference) = differences.iter().find(|difference| !MAY_CHANGE.contains(&key(difference)))
        {
            let problem = format!(
                "it does not go with settings.toml beside it ({difference}): one of them was changed or belongs to another run"
            );
            return Err(Error::file(&checkpoint, problem));
        }
    }
    Ok(saved)
}

/// The key that a difference of settings speaks of.
fn key(difference: &str) -> &str {
    difference.split(':').next().unwrap_or_default()
}

/// Opens the data and puts everything together: the first worker, and the others.
fn open(settings: Settings, path: &Path, progress: &Progress) -> Result<Company> {
    // What can be refused without looking at the data is refused before any is made.
    settings.check()?;
    zoo::find(&settings.model.name)?;
    task::metrics_of(&settings)?;
    let store = match settings.data.store.as_str() {
        "" => builtin::make(&folder::data(path), progress)?,
        store => Store::open(Path::new(store))?,
    };
    teamwork::open(Shared::open(settings, Arc::new(store))?)
}

/// Takes away the data that was made for a run that could not begin, and its folder, as far as they were not `there` before.
fn unmake(path: &Path, there: [bool; 2]) {
    // What cannot be removed is not the news: the error that led here is.
    if !there[0] {
        let _ = std::fs::remove_dir_all(folder::data(path));
    }
    if !there[1] {
        // Only if it is empty: it may be somebody else's by now.
        let _ = std::fs::remove_dir(path);
    }
}

/// Settings that may differ when a run goes on: they say how long and with what, not what is computed.
const MAY_CHANGE: [&str; 8] = [
    "train.epochs",
    "train.patience",
    "run.memory",
    "run.device",
    "run.precision",
    "run.device_memory",
    "run.checkpoint_epochs",
    "run.checkpoint_windows",
];

fn changed(saved: &Settings, changes: &[(String, String, String)], path: &Path) -> Result<Settings> {
    let mut settings = saved.clone();
    if changes.is_empty() {
        return Ok(settings);
    }
    // What was typed, over the defaults, says which of the saved settings it speaks of.
    let asked: Settings = layers::resolve(None, changes)?;
    let asked = Settings { data: absolute(asked.data)?, ..asked };
    let spoken = |key: &str| changes.iter().any(|(asked, _, _)| asked == key);
    for difference in layers::differences(saved, &asked) {
        let key = key(&difference);
        if spoken(key) && !MAY_CHANGE.contains(&key) {
            let problem = format!(
                "the run in {} was begun with another value ({difference}); begin a new one with -o, or leave it out",
                path.display()
            );
            return Err(Error::settings(key, problem));
        }
    }
    for (key, _, _) in changes {
        match key.as_str() {
            "train.epochs" => settings.train.epochs = asked.train.epochs,
            "train.patience" => settings.train.patience = asked.train.patience,
            "run.memory" => settings.run.memory.clone_from(&asked.run.memory),
            "run.device" => settings.run.device.clone_from(&asked.run.device),
            "run.precision" => settings.run.precision.clone_from(&asked.run.precision),
            "run.device_memory" => settings.run.device_memory.clone_from(&asked.run.device_memory),
            "run.checkpoint_epochs" => settings.run.checkpoint_epochs = asked.run.checkpoint_epochs,
            "run.checkpoint_windows" => settings.run.checkpoint_windows = asked.run.checkpoint_windows,
            _ => {}
        }
    }
    if settings.train.schedule == "cosine" && settings.train.epochs != saved.train.epochs {
        let problem = "the cosine schedule was laid out for another number of epochs; begin a new run";
        return Err(Error::settings("train.epochs", problem));
    }
    Ok(settings)
}

/// The same data under a path that holds from everywhere.
pub fn absolute(mut data: crate::settings::Data) -> Result<crate::settings::Data> {
    if !data.store.is_empty() {
        let path = PathBuf::from(&data.store);
        let whole = std::fs::canonicalize(&path).map_err(Error::resource("cannot read", &path))?;
        data.store = whole.to_string_lossy().into_owned();
    }
    Ok(data)
}
