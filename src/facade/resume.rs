//! A run that is to go on: only what may change is offered.

use std::path::PathBuf;

use kymo_graph::Progress;
use kymo_model::{Config, Model};
use kymo_run::config::overlay::Override;
use kymo_run::launch::{Launcher, Processes};
use kymo_run::task::Task;
use kymo_run::train::Observer;
use kymo_run::{Custom, Result, Session};

use super::{Trained, in_pool};

/// A run that is to go on where it stopped, with the settings it was begun with.
pub struct Resume {
    folder: PathBuf,
    changes: Vec<Override>,
    custom: Custom,
    progress: Progress,
    among: Option<Processes>,
}

impl Resume {
    pub(super) fn new(folder: PathBuf) -> Resume {
        let (changes, custom) = (Vec::new(), Custom::default());
        Resume { folder, changes, custom, progress: Progress::silent(), among: None }
    }

    /// The maximum number of epochs, those that are done included.
    pub fn epochs(self, epochs: usize) -> Resume {
        self.set("train.epochs", epochs)
    }

    /// Another setting that may change: those that say how long and with what, not what is computed. All
    /// others are refused.
    pub fn set(mut self, key: &str, value: impl ToString) -> Resume {
        self.changes.push((key.to_owned(), value.to_string(), "Resume".to_owned()));
        self
    }

    /// Settings as they were typed, each with where it came from.
    pub fn changes(mut self, changes: Vec<Override>) -> Resume {
        self.changes.extend(changes);
        self
    }

    /// The model that the run was begun with, where it is not built in.
    pub fn with_model<F>(mut self, name: &str, make: F) -> Resume
    where
        F: Fn(&Config) -> kymo_model::Result<Box<dyn Model>> + Send + Sync + 'static,
    {
        self.custom = self.custom.with_model(name, make);
        self
    }

    /// The task that the run was begun with, where it is not built in.
    pub fn with_task(mut self, task: impl Task + 'static) -> Resume {
        self.custom = self.custom.with_task(task);
        self
    }

    /// Reports the making of built-in data to `progress`, which can stop it, too.
    pub fn progress(mut self, progress: &Progress) -> Resume {
        self.progress = progress.clone();
        self
    }

    /// Trains as one of several processes: each calls this, with the same changes. There need not be as many
    /// as before.
    pub fn among(mut self, processes: Option<Processes>) -> Resume {
        self.among = processes;
        self
    }

    /// Opens the data and reads the checkpoint, but does not train yet.
    pub fn open(self) -> Result<Session> {
        let launcher = self.among.as_ref().map(|processes| processes as &(dyn Launcher + Sync));
        in_pool(|| {
            let launcher = launcher.map(|launcher| launcher as &dyn Launcher);
            Session::resume_with(&self.folder, &self.changes, &self.progress, &self.custom, launcher)
        })
    }

    /// Trains on, as [`crate::Run::train`] does.
    pub fn train(self, observer: &mut dyn Observer) -> Result<Trained> {
        let custom = self.custom.clone();
        super::train(self.open()?, custom, observer)
    }
}
