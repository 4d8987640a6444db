//! Settings that are looked for: trials are runs of their own, and the validation alone decides which of them
//! are trained on.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use kymo_files::Lock;
use kymo_graph::Progress;
use kymo_run::config::overlay::{self, Override};
use kymo_run::session::absolute;
use kymo_run::train::Observer;
use kymo_run::tune::{Rung, Space, rungs, survivors};
use kymo_run::{Class, Error, Result, Session, Settings, task};
use kymo_trace::schema::{EpochRecord, RunFolder, TrialRecord, TuneRecord, read, write};

use super::{Run, Trained, in_pool};

/// The file of a folder that says what was tried there.
const RECORD: &str = "tune.json";

/// A search for settings, by random search and successive halving.
///
/// Each trial is a run in a folder of its own, `trial-000` and so on; the first has the settings as they are.
/// A third of the trials, those with the best validation, are trained three times as long, and so on, until
/// the last have all epochs of the settings. Stopped or killed, [`Tune::run`] goes on where it was.
///
/// ```no_run
/// let tuned = kymo::Tune::new(kymo::Run::on("messages").task("link-prediction").settings()?, "tuned")
///     .over(&["model.hidden=32,64,128", "train.learning_rate=0.002..0.03"])
///     .trials(27)
///     .run(&|_, _| ())?;
/// println!("{:?}", tuned.best()?.summary()?.test.metrics);
/// # Ok::<(), kymo::Error>(())
/// ```
pub struct Tune {
    settings: Settings,
    folder: PathBuf,
    space: Option<Vec<String>>,
    settled: Vec<String>,
    trials: usize,
    jobs: usize,
    progress: Progress,
}

/// What came of a search.
#[derive(Debug)]
pub struct Tuned {
    /// All trials.
    pub record: TuneRecord,
    folder: PathBuf,
}

impl Tuned {
    /// Where the run of a trial is.
    pub fn folder(&self, trial: usize) -> PathBuf {
        folder_of(&self.folder, trial)
    }

    /// The best trial, trained to its end.
    pub fn best(&self) -> Result<Trained> {
        let best =
            self.record.best.ok_or_else(|| Error::Bug("a search ended without a best trial".into()))?;
        Run::load(self.folder(best))
    }
}

/// All settings, each by its key.
fn pairs(settings: &Settings) -> Result<Vec<(String, serde_json::Value)>> {
    let wrong = |error: serde_json::Error| Error::Bug(format!("settings cannot be written: {error}"));
    let sections = serde_json::to_value(settings).map_err(wrong)?;
    let mut pairs = Vec::new();
    for (section, values) in sections.as_object().into_iter().flatten() {
        for (key, value) in values.as_object().into_iter().flatten() {
            pairs.push((format!("{section}.{key}"), value.clone()));
        }
    }
    Ok(pairs)
}

fn folder_of(folder: &Path, trial: usize) -> PathBuf {
    folder.join(format!("trial-{trial:03}"))
}

/// A trial that stops after some epochs, or when it is told to.
struct Until<'a> {
    epochs: usize,
    done: usize,
    told: &'a AtomicBool,
}

impl Observer for Until<'_> {
    fn epoch(&mut self, record: &EpochRecord) {
        self.done = record.epoch;
    }

    fn stop(&self) -> bool {
        self.done >= self.epochs || self.told.load(Ordering::Relaxed)
    }
}

impl Tune {
    /// A search that begins with these settings and leaves its trials in a folder.
    pub fn new(settings: Settings, folder: impl Into<PathBuf>) -> Tune {
        let (folder, progress) = (folder.into(), Progress::silent());
        Tune { settings, folder, space: None, settled: Vec::new(), trials: 27, jobs: 1, progress }
    }

    /// What is tried, each as `KEY=A,B,...` or `KEY=LOW..HIGH`; where nothing is said the usual settings
    /// ([`USUAL`](kymo_run::tune::USUAL)) but for those that are not at their defaults.
    pub fn over(mut self, axes: &[impl AsRef<str>]) -> Tune {
        self.space = Some(axes.iter().map(|axis| axis.as_ref().to_owned()).collect());
        self
    }

    /// Settings that are not tried, though they are among the usual ones and at their defaults.
    pub fn settled(mut self, keys: impl IntoIterator<Item = String>) -> Tune {
        self.settled.extend(keys);
        self
    }

    /// How many trials there are.
    pub fn trials(mut self, trials: usize) -> Tune {
        self.trials = trials;
        self
    }

    /// How many are trained at a time; they share the threads.
    pub fn jobs(mut self, jobs: usize) -> Tune {
        self.jobs = jobs;
        self
    }

    /// Lets `progress` stop it.
    pub fn progress(mut self, progress: &Progress) -> Tune {
        self.progress = progress.clone();
        self
    }

    /// Whether there is a search to go on with in a folder.
    pub fn exists(folder: &Path) -> bool {
        folder.join(RECORD).exists()
    }

    /// What is to be done, before anything was.
    pub fn plan(&self) -> Result<TuneRecord> {
        for (setting, found) in [("--trials", self.trials), ("--jobs", self.jobs)] {
            if found == 0 {
                return Err(Error::settings(setting, "found 0, expected at least 1"));
            }
        }
        let settings = Settings { data: absolute(self.settings.data.clone())?, ..self.settings.clone() };
        settings.check()?;
        let space = match &self.space {
            Some(texts) => Space::new(texts, &settings)?,
            None => {
                let (given, usual) = (pairs(&settings)?, pairs(&Settings::default())?);
                let differs = given.iter().filter(|pair| !usual.contains(pair)).map(|(key, _)| key);
                let settled: Vec<&str> = self.settled.iter().chain(differs).map(String::as_str).collect();
                Space::usual(&settled, &settings)?
            }
        };
        if space.texts().is_empty() {
            let problem = "every setting that is usually tried is settled; say what to try with --over";
            return Err(Error::settings("--over", problem));
        }
        let metrics = task::metrics_of(task::find(&settings.task.name)?, &settings)?;
        let metric = metrics.first().ok_or_else(|| Error::Bug("a task without a metric".into()))?;
        let rungs = rungs(self.trials, settings.train.epochs);
        Ok(TuneRecord {
            version: TuneRecord::VERSION,
            settings: overlay::to_toml(&settings)?,
            space: space.texts(),
            trials: self.trials,
            metric: metric.name().into(),
            higher_is_better: metric.higher_is_better(),
            rungs: rungs.iter().map(|rung| [rung.trials, rung.epochs]).collect(),
            results: Vec::new(),
            best: None,
        })
    }

    /// Trains the trials; `heard` is told of each that has come to the end of its rung.
    pub fn run(self, heard: &(dyn Fn(&TrialRecord, Rung) + Sync)) -> Result<Tuned> {
        let record = self.plan()?;
        let (folder, is_new) = (self.folder.clone(), !self.folder.exists());
        std::fs::create_dir_all(&folder).map_err(Error::resource("cannot make the folder", &folder))?;
        let lock = Lock::take(&folder.join("tune.lock"), &folder)?;
        let done = self.search(record, heard);
        drop(lock);
        if done.is_err() && is_new && !Session::exists(&folder_of(&folder, 0)) {
            // Nothing was trained: only what is empty goes, and the error is the news.
            let _ = std::fs::remove_file(folder.join(RECORD));
            let _ = std::fs::remove_dir(&folder);
        }
        Ok(Tuned { record: done?, folder })
    }

    /// Goes through the rungs.
    fn search(
        &self,
        mut record: TuneRecord,
        heard: &(dyn Fn(&TrialRecord, Rung) + Sync),
    ) -> Result<TuneRecord> {
        let path = self.folder.join(RECORD);
        if let Some(before) = read::<TuneRecord>(&path)? {
            let before = TuneRecord { results: Vec::new(), best: None, ..before };
            if before != record {
                let problem = "what was begun there has other settings, trials or values to try; go on with \
                               those, or choose another folder";
                return Err(Error::settings("--resume", problem));
            }
        }
        write(&path, &record)?;
        let space = Space::new(&record.space, &self.settings)?;
        let mut going: Vec<usize> = (0..self.trials).collect();
        for &[count, epochs] in &record.rungs.clone() {
            going.truncate(count);
            let rung = Rung { trials: going.len(), epochs };
            for trial in self.train(&going, rung, &space, &record, heard)? {
                record.results.retain(|other| other.trial != trial.trial);
                record.results.push(trial);
            }
            record.results.sort_by_key(|trial| trial.trial);
            write(&path, &record)?;
            let of_rung = record.results.iter().filter(|trial| going.contains(&trial.trial));
            let values: Vec<_> = of_rung.map(|trial| (trial.trial, trial.value)).collect();
            going = survivors(&values, record.higher_is_better, going.len());
        }
        record.best = going.first().copied();
        if record.best.is_none() {
            let problem = format!("no trial has a validation by {}; see {}", record.metric, path.display());
            return Err(Error::settings("--trials", problem));
        }
        write(&path, &record)?;
        Ok(record)
    }

    /// Trains some trials up to an epoch, several at a time.
    fn train(
        &self,
        trials: &[usize],
        rung: Rung,
        space: &Space,
        record: &TuneRecord,
        heard: &(dyn Fn(&TrialRecord, Rung) + Sync),
    ) -> Result<Vec<TrialRecord>> {
        let (next, told) = (AtomicUsize::new(0), self.progress.stop_flag());
        let (done, failed) = (Mutex::new(Vec::new()), Mutex::new(None));
        let fail = |error: Error| *failed.lock().unwrap_or_else(|broken| broken.into_inner()) = Some(error);
        let work = || {
            while !told.load(Ordering::Relaxed) {
                let Some(&trial) = trials.get(next.fetch_add(1, Ordering::Relaxed)) else { return };
                match self.advance(trial, rung.epochs, space, record) {
                    Ok(trial) => {
                        heard(&trial, rung);
                        done.lock().unwrap_or_else(|broken| broken.into_inner()).push(trial);
                    }
                    Err(error) => {
                        // The others stop as well: what is wrong is not about one trial.
                        next.store(trials.len(), Ordering::Relaxed);
                        return fail(error);
                    }
                }
            }
        };
        let jobs = self.jobs.min(trials.len());
        if jobs == 1 {
            in_pool(work);
        } else {
            let threads = (rayon::current_num_threads() / jobs).max(1);
            let pools = (0..jobs).map(|_| rayon::ThreadPoolBuilder::new().num_threads(threads).build());
            let pools: Vec<_> = pools
                .collect::<std::result::Result<_, _>>()
                .map_err(|error| Error::settings("--jobs", error.to_string()))?;
            std::thread::scope(|scope| {
                pools.iter().for_each(|pool| drop(scope.spawn(|| pool.install(work))));
            });
        }
        if let Some(error) = failed.into_inner().unwrap_or_else(|broken| broken.into_inner()) {
            return Err(error);
        }
        if told.load(Ordering::Relaxed) {
            return Err(Error::Stopped(self.folder.clone()));
        }
        Ok(done.into_inner().unwrap_or_else(|broken| broken.into_inner()))
    }

    /// Trains one trial up to an epoch, from where it is. What is wrong with its settings, or goes wrong
    /// because of them, is told of the trial; everything else is an error, and so is whatever is wrong with
    /// the first, which has the settings that were given.
    fn advance(
        &self,
        trial: usize,
        epochs: usize,
        space: &Space,
        record: &TuneRecord,
    ) -> Result<TrialRecord> {
        let folder = folder_of(&self.folder, trial);
        let settings = space.draw(self.settings.train.seed, trial);
        let mut found = TrialRecord { trial, settings, epochs: 0, value: None, problem: None };
        match self.train_until(&folder, &found.settings, epochs) {
            Ok(()) => {}
            Err(error) if trial > 0 && matches!(error.class(), Class::Settings | Class::Diverged) => {
                found.problem = Some(error.to_string());
            }
            Err(error) => return Err(error),
        }
        if found.problem.is_none() {
            let records = RunFolder::open(&folder)?.epochs()?;
            let seen = || records.iter().filter(|record| record.epoch <= epochs);
            found.epochs = seen().count();
            let values = seen().filter_map(|epoch| epoch.validation.get(&record.metric).copied());
            let better =
                |one: f64, other: f64| if record.higher_is_better { one.max(other) } else { one.min(other) };
            found.value = values.reduce(better);
        }
        Ok(found)
    }

    fn train_until(&self, folder: &Path, settings: &[(String, String)], epochs: usize) -> Result<()> {
        let session = if Session::exists(folder) {
            Run::resume(folder).progress(&self.progress).open()?
        } else {
            let change = |(key, value): &(String, String)| (key.clone(), value.clone(), "--over".to_owned());
            let changes: Vec<Override> = settings.iter().map(change).collect();
            let settings = overlay::resolve_over(&self.settings, None, &changes)?;
            Run::with_settings(settings).folder(folder).progress(&self.progress).open()?
        };
        let (stop, done) = (self.progress.stop_flag(), session.position().epoch);
        if done < epochs && !session.position().finished || epochs == self.settings.train.epochs {
            let mut until = Until { epochs, done, told: &stop };
            in_pool(|| session.train(&mut until))?;
        }
        Ok(())
    }
}
