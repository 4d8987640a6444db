//! Tasks: what is to be predicted, how a prediction is trained and judged, and what it has to beat.

mod classification;
mod edge;
mod least_squares;
mod link;
mod pairs;
mod regression;

pub(crate) use least_squares::LeastSquares;
pub use link::{CHANCE, attacked, stands_out};

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use kymo_graph::{Step, Store};
use kymo_model::metric::{self, Evidence, Metric, Needs, Tally};
use kymo_model::{Params, Slot};
use kymo_plan::price::Asked;

use crate::config::Settings;
use crate::config::machine::Need;
use crate::data::{Part, Split};
use crate::error::{Error, Result};
use crate::forward::{Forward, Loss, Outputs};

/// Something that can be asked of a model.
pub trait Task: Send + Sync {
    /// Its name.
    fn name(&self) -> &'static str;

    /// One line about it.
    fn about(&self) -> &'static str;

    /// Metrics that are reported unless others are asked for; the first one decides.
    fn metrics(&self) -> &'static [&'static str];

    /// What a metric of this task may look at.
    fn shows(&self) -> &'static [Needs];

    /// Changes the defaults of settings that do better otherwise for this task; most tasks have none.
    fn defaults(&self, _settings: &mut Settings) {}

    /// The task on this data; fails where the data has nothing to predict.
    fn open(&self, store: &Arc<Store>, settings: &Settings) -> Result<Box<dyn Goal>>;
}

/// Every task there is.
pub const ALL: &[&dyn Task] = &[
    &regression::Regression,
    &classification::Classification,
    &link::LinkPrediction,
    &edge::EdgeRegression,
    &edge::EdgeClassification,
];

/// The task of this name.
pub fn find(name: &str) -> Result<&'static dyn Task> {
    ALL.iter().copied().find(|task| task.name() == name).ok_or_else(|| {
        let names: Vec<&str> = ALL.iter().map(|task| task.name()).collect();
        Error::settings("task.name", format!("there is no task '{name}'; known are {}", names.join(", ")))
    })
}

/// Settings put together by `resolve` over defaults: these, or those that the task has which is asked for.
pub fn resolved(base: &Settings, resolve: impl Fn(&Settings) -> Result<Settings>) -> Result<Settings> {
    let settings = resolve(base)?;
    // A name that is unknown is refused where settings are checked.
    let Ok(task) = find(&settings.task.name) else { return Ok(settings) };
    let mut base = base.clone();
    task.defaults(&mut base);
    resolve(&base)
}

/// A task on one store.
pub trait Goal: Send + Sync {
    /// Which samples are for what.
    fn split(&self) -> &Split;

    /// The parameters of its head, above embeddings of this width.
    fn slots(&self, width: usize) -> Vec<Slot>;

    /// The loss of a window: the mean over all that is labelled at the samples `at`, each with its place in
    /// the window. `None` where nothing is. `salt` makes random choices differ from window to window.
    fn loss<'a>(
        &self,
        forward: &mut Forward<'_, 'a>,
        at: &[(usize, Step)],
        salt: u64,
    ) -> Result<Option<Loss<'a>>>;

    /// The pairs of vertices that [`Goal::loss`] asks about at each of the samples, for the same `salt`; most
    /// tasks ask about none.
    fn pairs(&self, _at: &[(usize, Step)], _salt: u64) -> Result<Vec<Asked>> {
        Ok(Vec::new())
    }

    /// What was measured of the training part and decides how outputs are read; most tasks need nothing.
    fn measured(&self) -> Vec<f32> {
        Vec::new()
    }

    /// Takes what was measured where the model was trained, in place of what was measured here; false where
    /// that is nothing that the task measures.
    fn adopt(&mut self, measured: &[f32]) -> bool {
        measured.is_empty()
    }

    /// Sets parameters that begin with something that was fitted on the training part.
    fn start(&self, _params: &mut Params) -> Result<()> {
        Ok(())
    }

    /// How many values, classes or links there are to predict at a sample of a part; `None` where that is not
    /// known beforehand. A part that has none at all is refused before training ([`check_parts`]).
    fn labelled(&self, _part: Part, _sample: Step) -> Result<Option<usize>> {
        Ok(None)
    }

    /// Whether [`Goal::loss`] asks for all rows at once, instead of block by block.
    fn holds_all_rows(&self) -> bool {
        false
    }

    /// What the task holds in memory beside the model, above embeddings of this width.
    fn needs(&self, _width: usize) -> Vec<Need> {
        Vec::new()
    }

    /// Bytes that the task holds since it was opened.
    fn held_bytes(&self) -> u64 {
        0
    }

    /// How many pairs a look at all parts but training's scores with these metrics, where each of them takes
    /// its time; 0 where that is little.
    fn scored_pairs(&self, _metrics: &[&dyn Metric]) -> f64 {
        0.0
    }

    /// What the model says at the last step of a window, in plain numbers that [`Goal::judge`] understands.
    fn outputs<'a>(&self, forward: &mut Forward<'_, 'a>) -> Result<Outputs<'a>>;

    /// Shows the metrics what a model or a baseline says at a sample.
    fn judge(&self, part: Part, sample: Step, says: Says<'_>, tallies: &mut Tallies) -> Result<()>;

    /// How many steps after the last one that a model sees lies what it predicts; of several, the furthest.
    fn horizon(&self) -> usize {
        1
    }

    /// What a model has to beat.
    fn baselines(&self) -> Vec<&'static str>;

    /// Rules that know nothing of what is asked, some of them baselines: where one does well by a metric,
    /// that metric says little about models. Most tasks have none.
    fn attacks(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// Writes what the model says at a sample as a table: a header, then a row for each prediction.
    fn table(&self, sample: Step, says: Says<'_>, top: usize) -> Result<Table>;

    /// What is true of each row of such a table in a part, as it would be predicted; nothing where the part
    /// does not ask about it. `None` where the task cannot tell.
    fn truth_of(&self, _part: Part, _sample: Step, _table: &Table) -> Result<Option<Truths>> {
        Ok(None)
    }
}

/// Who predicts.
#[derive(Clone, Copy)]
pub enum Says<'a> {
    /// A model: its outputs and its parameters.
    Model(&'a [f32], &'a Params),
    /// A baseline of [`Goal::baselines`], or a rule of [`Goal::attacks`].
    Baseline(&'static str),
}

/// What is true of each row of a table.
pub type Truths = Vec<Option<String>>;

/// Predictions to be written.
pub struct Table {
    /// The names of the columns.
    pub header: Vec<&'static str>,
    /// Vertices that stand first in each row; their original ids are written.
    pub vertices: Vec<Vec<u32>>,
    /// What follows them.
    pub values: Vec<Vec<String>>,
    /// The horizon of each row, where it is not the same for all ([`Goal::horizon`]).
    pub horizons: Vec<usize>,
}

/// Metrics at work.
pub struct Tallies {
    metrics: Vec<&'static dyn Metric>,
    all: Gathered,
    /// Parts of what is shown, apart from each other, where that was asked for.
    slices: Option<Vec<Sliced>>,
    /// Time that the model, not the metrics, has taken to score pairs.
    pub scoring: Duration,
}

type Gathered = Vec<(&'static dyn Metric, Box<dyn Tally>)>;

/// What metrics gather of a part.
struct Sliced {
    name: String,
    count: usize,
    /// What is counted: a part may be shown in several ways.
    counted: Needs,
    all: Gathered,
}

/// What metrics come to on a part of what they were shown.
pub struct Slice {
    /// What the part is called.
    pub name: String,
    /// How many values or links it has.
    pub count: usize,
    /// The metrics that saw something.
    pub values: Vec<(&'static str, f64)>,
}

impl Tallies {
    /// Those of these metrics, before they have seen anything.
    pub fn new(metrics: &[&'static dyn Metric]) -> Tallies {
        let all = gathered(metrics);
        Tallies { metrics: metrics.to_vec(), all, slices: None, scoring: Duration::ZERO }
    }

    /// The same, with parts apart from each other beside the whole.
    pub fn sliced(metrics: &[&'static dyn Metric]) -> Tallies {
        Tallies { slices: Some(Vec::new()), ..Tallies::new(metrics) }
    }

    /// Whether parts are gathered, too.
    pub fn are_sliced(&self) -> bool {
        self.slices.is_some()
    }

    /// Whether one of them has to be shown this.
    pub fn want(&self, needs: Needs) -> bool {
        self.metrics.iter().any(|metric| metric.needs() == needs)
    }

    /// Shows them a step.
    pub fn add(&mut self, needs: Needs, evidence: &Evidence<'_>) {
        show(&mut self.all, needs, evidence);
    }

    /// Shows a part of a step, `count` values or links, to the metrics of that part; parts are listed in the
    /// order in which they were first named.
    pub fn add_slice(&mut self, name: &str, count: usize, needs: Needs, evidence: &Evidence<'_>) {
        let Some(slices) = &mut self.slices else { return };
        let at = slices.iter().position(|slice| slice.name == name).unwrap_or_else(|| {
            let (name, all) = (name.to_owned(), gathered(&self.metrics));
            slices.push(Sliced { name, count: 0, counted: needs, all });
            slices.len() - 1
        });
        slices[at].count += if slices[at].counted == needs { count } else { 0 };
        show(&mut slices[at].all, needs, evidence);
    }

    /// What they have come to; those that saw nothing are left out.
    pub fn values(&self) -> Vec<(&'static str, f64)> {
        values(&self.all)
    }

    /// What they have come to on parts; those that have nothing are left out.
    pub fn slices(&self) -> Vec<Slice> {
        let slice = |slice: &Sliced| Slice {
            name: slice.name.clone(),
            count: slice.count,
            values: values(&slice.all),
        };
        let all = self.slices.iter().flatten().map(slice);
        all.filter(|slice| slice.count > 0).collect()
    }
}

fn gathered(metrics: &[&'static dyn Metric]) -> Gathered {
    metrics.iter().map(|&metric| (metric, metric.tally())).collect()
}

fn show(all: &mut Gathered, needs: Needs, evidence: &Evidence<'_>) {
    all.iter_mut().filter(|(metric, _)| metric.needs() == needs).for_each(|(_, tally)| tally.add(evidence));
}

fn values(all: &Gathered) -> Vec<(&'static str, f64)> {
    all.iter().filter_map(|(metric, tally)| Some((metric.name(), tally.value()?))).collect()
}

/// What a parameter begins with: these numbers, or zeros.
fn begin_with(params: &mut Params, name: &str, values: Option<&[f32]>) -> Result<()> {
    let place = params.get_mut(name).filter(|place| values.is_none_or(|values| values.len() == place.len()));
    let place = place.ok_or_else(|| Error::Bug(format!("{name} is missing, or of another length")))?;
    match values {
        Some(values) => place.copy_from_slice(values),
        None => place.fill(0.0),
    }
    Ok(())
}

/// The metrics of a task that the settings ask for, the deciding one first.
pub fn metrics_of(task: &dyn Task, settings: &Settings) -> Result<Vec<&'static dyn Metric>> {
    let known = || {
        let fits = |metric: &&&dyn Metric| task.shows().contains(&metric.needs());
        metric::ALL.iter().filter(fits).map(|metric| metric.name()).collect::<Vec<_>>()
    };
    let asked: Vec<&str> = match settings.task.metrics.iter().map(String::as_str).collect::<Vec<_>>() {
        none if none.is_empty() => task.metrics().to_vec(),
        all if all == ["all"] => {
            // The usual one still decides.
            let usual = task.metrics();
            usual.iter().copied().chain(known().into_iter().filter(|name| !usual.contains(name))).collect()
        }
        asked => asked,
    };
    let one = |name: &&str| {
        let metric = metric::find(name).ok().filter(|metric| task.shows().contains(&metric.needs()));
        metric.ok_or_else(|| {
            let problem =
                format!("{} has no metric '{name}'; known are {}, or all", task.name(), known().join(", "));
            Error::settings("task.metrics", problem)
        })
    };
    if asked.is_empty() {
        return Err(Error::settings(
            "task.metrics",
            format!("{} has none, expected at least one", task.name()),
        ));
    }
    asked.iter().map(one).collect()
}

/// Fails where a part of the data has nothing to predict: such a run would learn nothing, choose its epoch by
/// nothing, or end without a test.
pub fn check_parts(goal: &dyn Goal, settings: &Settings) -> Result<()> {
    // Training looks at samples that a loss is taken at, the others at all they have.
    let of_window = |window: Range<Step>| match settings.loss_at_all() {
        true => window,
        false => window.end - 1..window.end,
    };
    let trained: BTreeSet<Step> = goal.split().windows(settings).into_iter().flat_map(of_window).collect();
    let samples = |part: Part| match part {
        Part::Train => trained.iter().copied().collect(),
        Part::Validation | Part::Test => goal.split().samples(part).collect::<Vec<Step>>(),
    };
    let has_some = |part: Part| -> Result<bool> {
        for sample in samples(part) {
            if goal.labelled(part, sample)? != Some(0) {
                return Ok(true);
            }
        }
        Ok(false)
    };
    for part in Part::ALL {
        if has_some(part)? {
            continue;
        }
        // Counted only where they are told: a look at every step takes its time.
        let counted = |part: Part| -> Result<String> {
            let (samples, mut count) = (samples(part), 0);
            for &sample in &samples {
                count += goal.labelled(part, sample)?.unwrap_or(0);
            }
            Ok(format!("{} has {count} at {} samples", part.name(), samples.len()))
        };
        let counts = Part::ALL.into_iter().map(counted).collect::<Result<Vec<String>>>()?;
        let problem = format!(
            "there is nothing to predict in the part for {} ({}); change split.train, split.validation, \
             task.horizon or train.window so that every part has values, classes or links, or ingest data \
             that has them there (kymo ingest --events N makes steps of N events each, however they are \
             spread over time)",
            part.name(),
            counts.join(", ")
        );
        return Err(Error::settings("split", problem));
    }
    Ok(())
}

/// Fails where several horizons are asked for, which a task other than regression does not have.
fn one_horizon(task: &dyn Task, settings: &Settings) -> Result<()> {
    if settings.task.horizons.trim().is_empty() {
        return Ok(());
    }
    let problem = format!(
        "found {:?}, but {} predicts one step; leave it out, or choose node-regression",
        settings.task.horizons,
        task.name()
    );
    Err(Error::settings("task.horizons", problem))
}
