//! A run from its folder: begun, resumed and trained, or loaded to be evaluated. The top of this crate.

mod store;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kymo_files::place::{is_store, parent};
use kymo_graph::{Progress, Store};
use kymo_plan::Plan;

use crate::artifact::{Course, Folder, Position, Saved};
use crate::config::overlay::{self, Override};
use crate::config::{Parallel, RateName, Settings};
use crate::data::{Measured, builtin};
use crate::error::{Error, Result};
use crate::launch::{Crew, InProcess, Launcher, agreement};
use crate::schedule;
use crate::step::{Custom, RunContext, Sharing, Worker};
use crate::train::{Ending, Observer};
use crate::workers::WorkerGroup;

pub use store::absolute;
use store::{STORE, check_store};

/// A run that can be trained.
pub struct Session {
    crew: Crew,
    course: Course,
    /// Where the run is written, at the process of the first worker.
    folder: Option<Folder>,
    path: PathBuf,
}

impl Session {
    /// Begins a run in a new folder; nothing is left there if the settings do not go with the data.
    pub fn begin(settings: Settings, path: &Path, progress: &Progress) -> Result<Session> {
        let launcher = InProcess(settings.parallel.workers);
        Session::begin_with(settings, path, progress, &Custom::default(), &launcher)
    }

    /// Begins a run with a model or a task of the caller's own, and with the workers of a launcher.
    pub fn begin_with(
        settings: Settings,
        path: &Path,
        progress: &Progress,
        custom: &Custom,
        launcher: &dyn Launcher,
    ) -> Result<Session> {
        // Before anything is started: the number of workers may be one that nothing can be started with.
        settings.check()?;
        settings.check_stale()?;
        let settings = Settings {
            parallel: schedule::absolute_costs(settings.parallel)?,
            averaging: settings.averaging.absolute()?,
            ..settings
        };
        let endpoints = launcher.endpoints()?;
        let settings = schedule::fitted(settings, &endpoints)?;
        let made = missing(path);
        let mut lock = None;
        if endpoints.iter().any(|group| group.leads()) {
            Folder::check_new(path)?;
            lock = Some(Folder::lock(path)?);
            // Again: another run may have been begun and ended in between.
            Folder::check_new(path)?;
        }
        let begun = || -> Result<Crew> {
            let from = start(&settings)?;
            let measured = from.as_ref().and_then(|(saved, path)| saved.measured(path));
            let mut crew = open(settings, path, progress, custom, endpoints, measured.as_ref())?;
            if let Some((saved, checkpoint)) = &from {
                crew.workers.iter_mut().try_for_each(|worker| saved.apply(worker, checkpoint))?;
            }
            Ok(crew)
        };
        let mut crew = begun().inspect_err(|_| {
            drop(lock.take());
            unmake(path, &made);
        })?;
        let (course, crew_plan) = (Course::default(), crew.plan.clone());
        let worker = crew.first()?;
        let mut folder = None;
        if let Some(lock) = lock.filter(|_| worker.group.leads()) {
            Folder::write_settings(path, worker.settings())?;
            // Before the log: a log without a checkpoint would look like a run, and there would be nothing to
            // resume.
            course.save(worker, &Folder::checkpoint_of(path))?;
            let made = Folder::create(path, lock)?;
            write_plan(&made, crew_plan)?;
            folder = Some(made);
        }
        Ok(Session { crew, course, folder, path: path.to_path_buf() })
    }

    /// Goes on with the run in a folder, with the settings it was begun with. `changes` may ask for more
    /// epochs, more patience or other limits of the machine; whatever would change what was computed so far
    /// is refused.
    pub fn resume(path: &Path, changes: &[Override], progress: &Progress) -> Result<Session> {
        Session::resume_with(path, changes, progress, &Custom::default(), None)
    }

    /// Goes on with a run that has a model or a task of the caller's own, with the workers of a launcher; as
    /// many threads as the run has workers where there is none.
    pub fn resume_with(
        path: &Path,
        changes: &[Override],
        progress: &Progress,
        custom: &Custom,
        launcher: Option<&dyn Launcher>,
    ) -> Result<Session> {
        let endpoints = launcher.map(Launcher::endpoints).transpose()?;
        let first = endpoints.as_ref().and_then(|all| all.first().cloned());
        let (saved, lock) = match &first {
            // Its folder is where the first worker is; others need not see it.
            Some(group) if !group.leads() => {
                let bytes = group.broadcast(Vec::new())?;
                (Saved::from_bytes(&bytes, &Folder::checkpoint_of(path))?.found_from(path), None)
            }
            _ => {
                check_there(path)?;
                // Before the checkpoint is read: another process may be about to write one.
                let lock = Folder::lock(path)?;
                let saved = saved(path)?;
                if let Some(group) = &first {
                    let checkpoint = Folder::checkpoint_of(path);
                    let bytes = std::fs::read(&checkpoint);
                    group.broadcast(bytes.map_err(Error::resource("cannot read", &checkpoint))?)?;
                }
                (saved, Some(lock))
            }
        };
        let mut settings = changed(&saved.settings, changes, path)?;
        if let Some(group) = &first {
            settings.parallel.workers = group.size();
        }
        settings.check()?;
        settings.check_stale()?;
        let endpoints = match endpoints {
            Some(endpoints) => endpoints,
            None => InProcess(settings.parallel.workers).endpoints()?,
        };
        let settings = schedule::fitted(settings, &endpoints)?;
        custom.check_complete(&settings, path)?;
        let measured = saved.measured(&Folder::checkpoint_of(path));
        let mut crew = open(settings, path, progress, custom, endpoints, measured.as_ref())?;
        if lock.is_some() {
            schedule::check_left(path, &crew.first()?.context)?;
        }
        let mut course = Course::default();
        for worker in &mut crew.workers {
            course = saved.restore(worker, &Folder::checkpoint_of(path))?;
        }
        let settings = crew.first()?.settings().clone();
        // How long others are waited for changes nothing.
        let Parallel { deadline, sums, .. } = settings.parallel;
        if settings.parallel != (Parallel { deadline, sums, ..saved.settings.parallel.clone() })
            && let Some(worker) = crew.workers.first()
        {
            course.deal_anew(worker, &crew.division);
        }
        // With more patience or more epochs it may go on.
        let (patience, position) = (settings.train.patience, &mut course.position);
        position.finished = patience > 0 && position.epoch - position.best_epoch >= patience;
        let mut folder = None;
        if let Some(lock) = lock {
            let reopened = Folder::reopen(path, position.lines, lock)?;
            Folder::write_settings(path, &settings)?;
            write_plan(&reopened, crew.plan.clone())?;
            folder = Some(reopened);
        }
        Ok(Session { crew, course, folder, path: path.to_path_buf() })
    }

    /// Whether there is a run to resume in a folder.
    pub fn exists(path: &Path) -> bool {
        Folder::checkpoint_of(path).exists()
    }

    /// How far it has come.
    pub fn position(&self) -> &Position {
        &self.course.position
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the workers will do, where there are several.
    pub fn plan(&self) -> Option<&Plan> {
        self.crew.plan.as_ref()
    }

    /// The worker that speaks for this process.
    pub fn worker(&mut self) -> Result<&mut Worker> {
        self.crew.first()
    }

    /// Trains to the end, or until asked to stop.
    pub fn train(self, observer: &mut dyn Observer) -> Result<Ending> {
        let Session { crew, course, mut folder, .. } = self;
        let ending = crew.train(course, &mut folder, observer)?;
        if let (Ending::Finished(summary), Some(folder)) = (&ending, &folder) {
            folder.files().write_summary(summary)?;
        }
        Ok(ending)
    }
}

/// Writes the plan of the first epoch, where there are several workers.
fn write_plan(folder: &Folder, plan: Option<Plan>) -> Result<()> {
    let Some(plan) = plan else { return Ok(()) };
    let record = serde_json::to_value(&plan)
        .and_then(serde_json::from_value)
        .map_err(|error| Error::Bug(format!("a plan cannot be written: {error}")))?;
    Ok(folder.files().write_plan(&record)?)
}

/// The worker of the run in a folder, with the parameters of its best epoch: to be evaluated on the device
/// that the run was trained on, or on another.
pub fn load(path: &Path, metrics: &[String], device: Option<&str>, progress: &Progress) -> Result<Worker> {
    load_with(path, metrics, device, progress, &Custom::default(), None)
}

/// The same for a run that has a model or a task of the caller's own, on its data or on that of another
/// store, which is seen as the model has learnt to see data.
pub fn load_with(
    path: &Path,
    metrics: &[String],
    device: Option<&str>,
    progress: &Progress,
    custom: &Custom,
    store: Option<&Path>,
) -> Result<Worker> {
    check_there(path)?;
    let checkpoint = Folder::checkpoint_of(path);
    let saved = saved(path)?;
    let mut settings = saved.settings.clone();
    if !metrics.is_empty() {
        settings.task.metrics = metrics.to_vec();
    }
    if let Some(device) = device {
        settings.run.device = device.to_owned();
    }
    match store {
        Some(store) => {
            settings.data.store = store.to_string_lossy().into_owned();
            settings.data = absolute(settings.data)?;
        }
        None => check_store(&settings, path)?,
    }
    // Evaluation uses one worker.
    settings.parallel = Parallel::default();
    custom.check_complete(&settings, path)?;
    let measured = saved.measured(&checkpoint);
    let crew = open(settings, path, progress, custom, vec![WorkerGroup::alone()], measured.as_ref())?;
    let mut worker =
        crew.workers.into_iter().next().ok_or_else(|| Error::Bug("no worker was started".into()))?;
    if store.is_some() {
        saved.apply(&mut worker, &checkpoint)?;
        return Ok(worker);
    }
    if let Some(best) = saved.restore(&mut worker, &checkpoint)?.best {
        worker.replica.params.values = best;
    }
    Ok(worker)
}

/// The settings of a run that begins with the parameters of another, unless it has others: what is computed
/// is that run's, how and by whom is not.
pub fn settings_from(run: &Path) -> Result<Settings> {
    if !Session::exists(run) {
        return Err(Error::settings("--from", what_is_there(run)));
    }
    let mut settings =
        Settings { parallel: Parallel::default(), run: Default::default(), ..saved(run)?.settings };
    let whole = std::fs::canonicalize(run).map_err(Error::resource("cannot read", run))?;
    settings.train.from = whole.to_string_lossy().into_owned();
    Ok(settings)
}

/// The run whose parameters another one begins with, if one was named, and where its checkpoint is.
fn start(settings: &Settings) -> Result<Option<(Saved, PathBuf)>> {
    if settings.train.from.is_empty() {
        return Ok(None);
    }
    let run = Path::new(&settings.train.from);
    if !Session::exists(run) {
        return Err(Error::settings("train.from", what_is_there(run)));
    }
    Ok(Some((saved(run)?, Folder::checkpoint_of(run))))
}

/// Fails where a folder has no run.
pub fn check_there(path: &Path) -> Result<()> {
    if Session::exists(path) {
        return Ok(());
    }
    let problem = format!("{} has no run; kymo train -o {0} makes one", path.display());
    Err(Error::settings("RUN", problem))
}

/// What is in a folder that has no run.
pub fn what_is_there(path: &Path) -> String {
    let mut names: Vec<String> = match std::fs::read_dir(path) {
        Ok(entries) => {
            entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return format!("there is no {}{}", path.display(), runs_beside(path));
        }
        Err(error) => return format!("{} cannot be read: {error}", path.display()),
    };
    names.sort();
    let more = names.len().saturating_sub(SHOWN);
    names.truncate(SHOWN);
    let what = match more {
        _ if is_store(path) => "it is a store".to_owned(),
        _ if names.is_empty() => "it is empty".to_owned(),
        0 => format!("it holds {}", names.join(", ")),
        more => format!("it holds {} and {more} more", names.join(", ")),
    };
    format!("{} has no run: {what}", path.display())
}

/// Names that a message lists.
const SHOWN: usize = 6;

/// The runs in the folder that a path is in, in words.
fn runs_beside(path: &Path) -> String {
    let entries = std::fs::read_dir(parent(path)).into_iter().flatten().flatten();
    let runs =
        entries.map(|entry| path.with_file_name(entry.file_name())).filter(|path| Session::exists(path));
    let mut runs: Vec<String> = runs.map(|run| run.display().to_string()).collect();
    runs.sort();
    runs.truncate(SHOWN);
    if runs.is_empty() { String::new() } else { format!("; there is {}", runs.join(", ")) }
}

/// What the checkpoint in a folder holds; fails where it is not that of the run whose settings are beside it.
fn saved(path: &Path) -> Result<Saved> {
    let (checkpoint, file) = (Folder::checkpoint_of(path), Folder::settings_of(path));
    let saved = Saved::read(&checkpoint)?;
    if file.exists() {
        let written: Settings = overlay::resolve(Some(&file), &[])?;
        let differences = overlay::differences(&written, &saved.settings);
        // Where the store is may change between the two: what is in it is checked where it is opened.
        let may = |difference: &&String| MAY_CHANGE.contains(&key(difference)) || key(difference) == STORE;
        if let Some(difference) = differences.iter().find(|difference| !may(difference)) {
            let problem = format!(
                "it does not go with settings.toml beside it ({difference}): one of them was changed or \
                 belongs to \
                 another run"
            );
            return Err(Error::file(&checkpoint, problem));
        }
    }
    Ok(saved.found_from(path))
}

/// The key that a difference of settings is about.
fn key(difference: &str) -> &str {
    difference.split(':').next().unwrap_or_default()
}

/// Opens the data and puts everything together.
fn open(
    settings: Settings,
    path: &Path,
    progress: &Progress,
    custom: &Custom,
    endpoints: Vec<Arc<WorkerGroup>>,
    measured: Option<&Measured>,
) -> Result<Crew> {
    // What can be refused without looking at the data is refused before any is made.
    custom.check(&settings)?;
    let group = endpoints.first().ok_or_else(|| Error::Bug("no worker was started".into()))?;
    let among = group.size() > endpoints.len();
    if among && !group.leads() {
        // Data that is made is made once, by the first of all.
        group.barrier()?;
    }
    let store = match settings.data.store.as_str() {
        "" => builtin::make(&Folder::data_of(path), progress)?,
        store => Store::open(Path::new(store))?,
    };
    if among && group.leads() {
        group.barrier()?;
    }
    if among {
        agreement::check(group, &settings, &store)?;
    }
    let processes = if among { group.beside() } else { 1 };
    let sharing = Sharing { workers: endpoints.len(), processes };
    let group = group.clone();
    let others = among.then_some(&*group);
    let context = RunContext::open_among(settings, Arc::new(store), custom, sharing, others, measured)?;
    let crew = Crew::open(context, endpoints)?;
    if among {
        // What any of them refuses leaves nothing behind: the first one writes when all have said yes.
        group.barrier()?;
    }
    Ok(crew)
}

/// What a run that begins in a folder would make: its data, itself, the folders around it.
fn missing(path: &Path) -> Vec<PathBuf> {
    let data = Folder::data_of(path);
    let missing = data.ancestors().take_while(|path| !path.as_os_str().is_empty() && !path.exists());
    missing.map(Path::to_path_buf).collect()
}

/// Takes away what was made for a run that could not begin.
fn unmake(path: &Path, made: &[PathBuf]) {
    for folder in made {
        // What cannot be removed is not the news: the error that led here is. Folders around the data are
        // removed only if they are empty: they may belong to another run by now.
        let _ = if *folder == Folder::data_of(path) {
            std::fs::remove_dir_all(folder)
        } else {
            std::fs::remove_dir(folder)
        };
    }
}

/// Settings that may differ when a run goes on: they say how long and with what, not what is computed. What
/// workers there are and how they share the work may change as well: the rest of the epoch is dealt anew.
const MAY_CHANGE: [&str; 21] = [
    "train.epochs",
    "train.patience",
    "run.memory",
    "run.device",
    "run.precision",
    "run.device_memory",
    "run.checkpoint_epochs",
    "run.checkpoint_windows",
    "parallel.workers",
    "parallel.strategy",
    "parallel.windows",
    "parallel.groups",
    "parallel.order",
    "parallel.share",
    "parallel.profile_epochs",
    "parallel.costs",
    "parallel.cached_costs",
    "parallel.scale_rate",
    "parallel.deadline",
    "parallel.sums",
    "parallel.stale",
];

/// The settings of a run with what may be changed of them.
fn changed(saved: &Settings, changes: &[Override], path: &Path) -> Result<Settings> {
    let mut asked: Settings = overlay::resolve_over(saved, None, changes)?;
    if asked.data.store != saved.data.store {
        asked.data = absolute(asked.data)?;
    }
    for difference in overlay::differences(saved, &asked) {
        let key = key(&difference);
        let was_moved = key == STORE && !is_store(Path::new(&saved.data.store));
        if !MAY_CHANGE.contains(&key) && !was_moved {
            let problem = format!(
                "the run in {} was begun with another value ({difference}); begin a new one with -o, or \
                 leave it out",
                path.display()
            );
            return Err(Error::settings(key, problem));
        }
    }
    check_store(&asked, path)?;
    if asked.train.schedule == RateName::Cosine && asked.train.epochs != saved.train.epochs {
        let problem = "the cosine schedule was laid out for another number of epochs; begin a new run";
        return Err(Error::settings("train.epochs", problem));
    }
    Ok(asked)
}
