//! A trained run: how good it is, and what it predicts.

use std::ops::Range;
use std::path::{Path, PathBuf};

use kymo_graph::{Progress, Step};
use kymo_model::{Config, Model};
use kymo_run::session::{check_there, load_with};
use kymo_run::task::{Says, Table, Task, Truths};
use kymo_run::train::{embeddings, evaluate, outputs};
use kymo_run::{Custom, Error, Part, Result, Worker};
use kymo_trace::schema::{Evaluation, RunFolder, RunSummary, folder as names};

use super::embeddings::Embeddings;
use super::in_pool;
use super::predictions::{At, Predict, Predictions};

/// The run in a folder, with the parameters of its best epoch.
///
/// Data and parameters are opened when they are first needed, and stay open.
///
/// ```no_run
/// let mut trained = kymo::Run::load("runs/first")?;
/// let test = trained.evaluate(kymo::Part::Test)?;
/// println!("{:?}, baselines {:?}", test.metrics, test.baselines);
/// for row in trained.predict(kymo::Predict::next().top(5))?.rows() {
///     println!("{:?} {:?}", row.vertices, row.values);
/// }
/// # Ok::<(), kymo::Error>(())
/// ```
pub struct Trained {
    folder: PathBuf,
    custom: Custom,
    metrics: Vec<String>,
    device: Option<String>,
    store: Option<PathBuf>,
    progress: Progress,
    worker: Option<Worker>,
}

impl Trained {
    pub(super) fn new(folder: PathBuf, custom: Custom) -> Trained {
        let (metrics, progress) = (Vec::new(), Progress::silent());
        Trained { folder, custom, metrics, device: None, store: None, progress, worker: None }
    }

    pub(super) fn load(folder: PathBuf) -> Result<Trained> {
        check_there(&folder)?;
        Ok(Trained::new(folder, Custom::default()))
    }

    /// The model that the run was trained with, where it is not built in.
    pub fn with_model<F>(mut self, name: &str, make: F) -> Trained
    where
        F: Fn(&Config) -> kymo_model::Result<Box<dyn Model>> + Send + Sync + 'static,
    {
        self.custom = self.custom.with_model(name, make);
        self.closed()
    }

    /// The task that the run was trained for, where it is not built in.
    pub fn with_task(mut self, task: impl Task + 'static) -> Trained {
        self.custom = self.custom.with_task(task);
        self.closed()
    }

    /// Metrics instead of those of the run: names of `kymo list metrics`, or `all`.
    pub fn metrics<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Trained {
        self.metrics = names.into_iter().map(Into::into).collect();
        self.closed()
    }

    /// Where to compute, instead of where it was trained: `cpu`, `cuda` or `cuda:N`.
    pub fn device(mut self, device: &str) -> Trained {
        self.device = Some(device.to_owned());
        self.closed()
    }

    /// Another store than the one it was trained on: that one grown, or one of the same kind. Its features
    /// and values are scaled as they were in training, and its parts are those that the run's settings make
    /// of it.
    pub fn on(mut self, store: impl Into<PathBuf>) -> Trained {
        self.store = Some(store.into());
        self.closed()
    }

    /// Reports evaluations and predictions to `progress`, which can stop them, too; and the making of
    /// built-in data, should it be gone.
    pub fn progress(mut self, progress: &Progress) -> Trained {
        self.progress = progress.clone();
        self
    }

    /// What was opened in another way is opened anew.
    fn closed(mut self) -> Trained {
        self.worker = None;
        self
    }

    /// Where the run is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// How training went: epochs, validation, test, times. Fails where it has not come to its end.
    pub fn summary(&self) -> Result<RunSummary> {
        let summary = RunFolder::open(&self.folder)?.summary()?;
        let unfinished = "is not there: the run has not come to its end; resume it";
        summary.ok_or_else(|| Error::file(&self.folder.join(names::SUMMARY), unfinished))
    }

    /// The metrics of the model on a part of the data, beside those of baselines.
    pub fn evaluate(&mut self, part: Part) -> Result<Evaluation> {
        let worker = self.worker()?;
        in_pool(|| evaluate(worker, part))
    }

    /// What the model predicts.
    pub fn predict(&mut self, what: Predict) -> Result<Predictions> {
        if what.top == 0 {
            return Err(Error::settings("top", "found 0, expected at least 1"));
        }
        let worker = self.worker()?;
        let (samples, part) = samples(worker, what)?;
        let tables = in_pool(|| {
            let mut tables = Vec::with_capacity(samples.len());
            outputs(worker, samples, |worker, sample, outputs| {
                let says = Says::Model(&outputs, &worker.replica.params);
                let mut table = worker.goal().table(sample, says, what.top)?;
                if let Some(part) = part {
                    with_truth(worker.goal().truth_of(part, sample, &table)?, &mut table)?;
                }
                tables.push((sample, table));
                Ok(())
            })?;
            Ok::<_, Error>(tables)
        })?;
        let (horizon, ids) = (worker.goal().horizon(), worker.snapshots().store().ids()?);
        Ok(Predictions::new(tables, horizon, ids))
    }

    /// The embeddings of all vertices by which it predicts. [`Predict::top`] does not matter.
    pub fn embed(&mut self, what: Predict) -> Result<Embeddings> {
        let worker = self.worker()?;
        let (samples, _) = samples(worker, what)?;
        let (mut steps, mut values) = (Vec::new(), Vec::new());
        in_pool(|| {
            embeddings(worker, samples, |_, sample, rows| {
                steps.push(sample);
                values.push(rows);
                Ok(())
            })
        })?;
        let (width, ids) = (worker.context.model.width(), worker.snapshots().store().ids()?);
        Ok(Embeddings { steps, width, values, ids })
    }

    /// What all this is made of: the settings, the data, the task, the model and its parameters.
    pub fn worker(&mut self) -> Result<&mut Worker> {
        let worker = match self.worker.take() {
            Some(worker) => worker,
            None => {
                let Trained { folder, custom, metrics, device, store, progress, .. } = &*self;
                let (device, store) = (device.as_deref(), store.as_deref());
                in_pool(|| load_with(folder, metrics, device, progress, custom, store))?
            }
        };
        let worker = self.worker.insert(worker);
        worker.progress = self.progress.clone();
        Ok(worker)
    }
}

/// The last steps that the model is to see, and the part of the data that they are of, where they are.
fn samples(worker: &Worker, what: Predict) -> Result<(Range<Step>, Option<Part>)> {
    let steps = worker.snapshots().store().steps();
    let (samples, part) = match what.at {
        At::Last => (steps.saturating_sub(1)..steps, None),
        At::Step(step) => (step..step.saturating_add(1), None),
        At::Part(part) => (worker.split().samples(part), Some(part)),
    };
    if samples.end > steps || samples.is_empty() {
        let (found, last) = (samples.start, steps.saturating_sub(1));
        let problem = format!("found {found}, but the steps of the store are 0 to {last}");
        return Err(Error::settings("step", problem));
    }
    Ok((samples, part))
}

/// Adds what came true to each row; rows of which it is not known go.
fn with_truth(truths: Option<Truths>, table: &mut Table) -> Result<()> {
    let Some(truths) = truths else {
        let problem = "the task cannot tell what came true; leave --split out, or choose a step";
        return Err(Error::settings("split", problem));
    };
    table.header.push("truth");
    for (values, truth) in table.values.iter_mut().zip(&truths) {
        values.extend(truth.clone());
    }
    keep(&mut table.values, &truths);
    keep(&mut table.vertices, &truths);
    keep(&mut table.horizons, &truths);
    Ok(())
}

fn keep<T>(rows: &mut Vec<T>, truths: &Truths) {
    let mut is_known = truths.iter().map(Option::is_some);
    rows.retain(|_| is_known.next().unwrap_or(false));
}
