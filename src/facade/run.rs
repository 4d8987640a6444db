//! A run that is to be trained: what is learnt, from what, and where it is put.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use kymo_graph::Progress;
use kymo_model::{Config, Model};
use kymo_run::config::overlay::{self, Override};
use kymo_run::launch::{InProcess, Launcher, Processes};
use kymo_run::session::absolute;
use kymo_run::task::{self, Task};
use kymo_run::train::Observer;
use kymo_run::{Custom, Error, Result, Session, Settings};

use super::{Resume, Trained, in_pool};

/// A run that is to be trained.
///
/// Each method changes a setting, and the last change of a setting holds. A mistake in one of them is an
/// error of [`Run::train`], before anything is computed or written.
///
/// ```no_run
/// let trained = kymo::Run::on("messages")
///     .task("link-prediction")
///     .model("gcn-gru")
///     .epochs(20)
///     .set("train.clip", 5)
///     .folder("runs/first")
///     .train(&mut kymo::Silent)?;
/// println!("{:?}", trained.summary()?.test.metrics);
/// # Ok::<(), kymo::Error>(())
/// ```
#[derive(Clone)]
pub struct Run {
    settings: Settings,
    /// Whether these are the defaults, of which tasks may have some of their own.
    are_defaults: bool,
    changes: Vec<Override>,
    custom: Custom,
    folder: Option<PathBuf>,
    progress: Progress,
    among: Option<Processes>,
}

impl Run {
    /// A run on the store in a folder, as `kymo ingest` or [`crate::graph::ingest`] writes it.
    pub fn on(store: impl AsRef<Path>) -> Run {
        let mut settings = Settings::default();
        settings.data.store = store.as_ref().to_string_lossy().into_owned();
        Run { are_defaults: true, ..Run::with_settings(settings) }
    }

    /// A run on a small generated graph, which is put into the folder of the run.
    pub fn on_builtin_data() -> Run {
        Run { are_defaults: true, ..Run::with_settings(Settings::default()) }
    }

    /// A run with these settings.
    pub fn with_settings(settings: Settings) -> Run {
        let (changes, custom) = (Vec::new(), Custom::default());
        let (folder, progress, among) = (None, Progress::silent(), None);
        Run { settings, are_defaults: false, changes, custom, folder, progress, among }
    }

    /// What is to go on with the run in a folder.
    pub fn resume(folder: impl Into<PathBuf>) -> Resume {
        Resume::new(folder.into())
    }

    /// The run in a folder, to be evaluated or to predict. It need not have come to its end.
    pub fn load(folder: impl Into<PathBuf>) -> Result<Trained> {
        Trained::load(folder.into())
    }

    /// What is to be predicted: a name of `kymo list tasks`.
    pub fn task(self, name: &str) -> Run {
        self.set("task.name", name)
    }

    /// What predicts it: a name of `kymo list models`.
    pub fn model(self, name: &str) -> Run {
        self.set("model.name", name)
    }

    /// The hidden columns of the model.
    pub fn hidden(self, columns: usize) -> Run {
        self.set("model.hidden", columns)
    }

    /// The layers of the structure encoder.
    pub fn layers(self, layers: usize) -> Run {
        self.set("model.layers", layers)
    }

    /// The blocks above each other, each structure and then time.
    pub fn blocks(self, blocks: usize) -> Run {
        self.set("model.blocks", blocks)
    }

    /// The steps of a window.
    pub fn window(self, steps: usize) -> Run {
        self.set("train.window", steps)
    }

    /// The maximum number of epochs.
    pub fn epochs(self, epochs: usize) -> Run {
        self.set("train.epochs", epochs)
    }

    /// The learning rate.
    pub fn learning_rate(self, rate: f32) -> Run {
        self.set("train.learning_rate", rate)
    }

    /// The seed of all random numbers.
    pub fn seed(self, seed: u64) -> Run {
        self.set("train.seed", seed)
    }

    /// The number of workers, which are threads of this process, and their strategy: a name of
    /// `kymo list strategies`.
    pub fn workers(self, workers: usize, strategy: &str) -> Run {
        self.set("parallel.workers", workers).set("parallel.strategy", strategy)
    }

    /// Any setting by its key, as `kymo list settings` shows them. Lists are written as in TOML.
    pub fn set(mut self, key: &str, value: impl ToString) -> Run {
        self.changes.push((key.to_owned(), value.to_string(), "Run".to_owned()));
        self
    }

    /// A model of one's own. Settings and checkpoints have its name alone: to resume or load the run, pass
    /// the model again.
    pub fn with_model<F>(mut self, name: &str, make: F) -> Run
    where
        F: Fn(&Config) -> kymo_model::Result<Box<dyn Model>> + Send + Sync + 'static,
    {
        self.custom = self.custom.with_model(name, make);
        self.model(name)
    }

    /// A task of one's own, for which the same holds.
    pub fn with_task(mut self, task: impl Task + 'static) -> Run {
        let name = task.name();
        self.custom = self.custom.with_task(task);
        self.task(name)
    }

    /// Where to put the run; `runs/MODEL-TASK-N` where nothing is said.
    pub fn folder(mut self, folder: impl Into<PathBuf>) -> Run {
        self.folder = Some(folder.into());
        self
    }

    /// Reports the making of built-in data to `progress`, which can stop it, too.
    pub fn progress(mut self, progress: &Progress) -> Run {
        self.progress = progress.clone();
        self
    }

    /// Trains as one of several processes: each calls this, with the same settings.
    pub fn among(mut self, processes: Option<Processes>) -> Run {
        self.among = processes;
        self
    }

    /// The settings with all changes.
    pub fn settings(&self) -> Result<Settings> {
        let over = |base: &Settings| overlay::resolve_over(base, None, &self.changes);
        let settings = match self.are_defaults {
            true => task::resolved(&self.settings, over)?,
            false => over(&self.settings)?,
        };
        Ok(Settings { data: absolute(settings.data)?, ..settings })
    }

    /// Opens the data, makes the model and begins the folder, but does not train yet: for a look at the plan,
    /// at the split or at the number of parameters. No other process can train there until the session is
    /// dropped.
    pub fn open(self) -> Result<Session> {
        let mut settings = self.settings()?;
        let here = InProcess(settings.parallel.workers);
        let launcher: &(dyn Launcher + Sync) = match &self.among {
            Some(processes) => {
                // Their number is the number of workers, unless another was asked for, which is refused.
                if settings.parallel.workers == 1 {
                    settings.parallel.workers = processes.count();
                }
                processes
            }
            None => &here,
        };
        let begin = |settings: Settings, folder: &Path| {
            in_pool(|| Session::begin_with(settings, folder, &self.progress, &self.custom, launcher))
        };
        if let Some(folder) = &self.folder {
            return begin(settings, folder);
        }
        let fresh = !Path::new(RUNS).exists();
        let folder = match &self.among {
            // The first process makes it, and all others have to know its name alone.
            Some(processes) => processes.agreed(
                || make_folder(&settings),
                |folder| folder.to_string_lossy().into_owned().into_bytes(),
                |bytes| Some(PathBuf::from(std::str::from_utf8(bytes).ok()?)),
            )?,
            None => make_folder(&settings)?,
        };
        begin(settings, &folder).inspect_err(|_| {
            // Only what is empty: the error is the news.
            let _ = std::fs::remove_dir(&folder);
            if fresh {
                let _ = std::fs::remove_dir(RUNS);
            }
        })
    }

    /// Trains until the last epoch or until validation stops getting better. Where the observer asks to stop,
    /// the run is saved and the error is [`crate::Error::Stopped`]; [`Run::resume`] goes on.
    pub fn train(self, observer: &mut dyn Observer) -> Result<Trained> {
        let custom = self.custom.clone();
        super::train(self.open()?, custom, observer)
    }
}

/// Where runs go that were given no folder.
const RUNS: &str = "runs";

/// Makes the first folder of this name that is not there yet: two runs that begin at the same time get two.
fn make_folder(settings: &Settings) -> Result<PathBuf> {
    std::fs::create_dir_all(RUNS).map_err(Error::resource("cannot create", Path::new(RUNS)))?;
    let mut number = 1;
    loop {
        let name = format!("{}-{}-{number}", settings.model.name, settings.task.name);
        let path = Path::new(RUNS).join(name);
        match std::fs::create_dir(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(Error::resource("cannot create", &path)(error)),
        }
    }
}
