//! Node regression: the value of every vertex, some steps ahead, or several numbers of steps at once.
//!
//! A prediction is a linear map of the embedding and of the last values of the vertex: one column for each
//! horizon. The part of the last values is added where the outputs are judged or written, because those of a
//! model do not say which step they are about.

mod autoregression;
mod blend;
mod calendar;
mod columns;
mod detect;
mod forecast;
mod known;
mod latest;
mod loss;
mod seasonal;
mod start;
mod usual;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use kymo_graph::{Step, Store};
use kymo_model::metric::{Evidence, Needs};
use kymo_model::params::Initial;
use kymo_model::{Params, Slot};
use kymo_tensor::Shape;

use super::{Goal, Says, Table, Tallies, Task, Truths};
use crate::config::machine::Need;
use crate::config::{self, Errors, Settings, Target};
use crate::data::{Part, Split, in_degrees};
use crate::error::{Error, Result};
use crate::forward::{Forward, Loss, Outputs};
use calendar::Calendar;
use columns::Columns;
use forecast::{Forecast, Signal};
use known::Looks;
use loss::{NAMES, head};
use start::Start;

/// The task.
pub struct Regression;

impl Task for Regression {
    fn name(&self) -> &'static str {
        "node-regression"
    }

    fn about(&self) -> &'static str {
        "a value of every vertex at the next step, or at several (task.horizons); baselines: its last value, \
         its mean, a blend of both, the value of a season ago, the mean of all seasons, linear \
         autoregression, the mean of training"
    }

    fn metrics(&self) -> &'static [&'static str] {
        &["mse", "mae", "rmse"]
    }

    fn shows(&self) -> &'static [Needs] {
        &[Needs::Values]
    }

    fn open(&self, store: &Arc<Store>, settings: &Settings) -> Result<Box<dyn Goal>> {
        let degrees = match settings.task.signal {
            config::Signal::Stored => None,
            config::Signal::InDegree => Some(InDegrees::of(store)?),
        };
        if degrees.is_none() && !store.manifest().targets {
            let problem = format!(
                "{} has no values to predict; ingest a signal (kymo ingest --signal), choose \
                 task.signal=in-degree or another task",
                store.path().display()
            );
            return Err(Error::settings("task.name", problem));
        }
        let horizons = settings.task.all_horizons()?;
        let furthest = horizons.last().copied().unwrap_or(1);
        let split = Split::of_store(store, furthest, settings)?;
        let mut goal = Values {
            store: store.clone(),
            degrees,
            past: columns::past(settings)?,
            season: None,
            calendar: Calendar::default(),
            columns: Columns::default(),
            usuals: Columns::default(),
            samples: if settings.loss_at_all() { settings.train.window } else { 1 },
            workers: settings.parallel.workers,
            start: OnceLock::new(),
            is_adopted: false,
            split,
            horizons,
            logarithm: settings.task.target == Target::Log,
            is_absolute: match settings.task.errors {
                Errors::Auto => {
                    settings.task.metrics.first().is_some_and(|name| name == "mae" || name == "mape")
                }
                Errors::Squared => false,
                Errors::Absolute => true,
            },
            window: settings.train.window,
            mean: 0.0,
            scale: (0.0, 1.0),
            forecasts: Mutex::default(),
        };
        // What is no number is found now, not when the test comes to it.
        (0..goal.store.steps()).try_for_each(|step| goal.truth(step).map(drop))?;
        goal.measure(settings.task.target == Target::Standardised)?;
        goal.look(&settings.task)?;
        goal.make_room();
        Ok(Box::new(goal))
    }
}

/// The task on one store.
struct Values {
    store: Arc<Store>,
    /// What is predicted where it is not what the store has.
    degrees: Option<InDegrees>,
    split: Split,
    /// How far ahead values are predicted, ascending.
    horizons: Vec<usize>,
    /// How many past values of a vertex its predictions are made of, beside the embedding.
    past: usize,
    /// Where values come back after a season, what is looked at of it.
    season: Option<Looks>,
    /// What is looked at of the time of a step that is predicted.
    calendar: Calendar,
    /// The values of the steps that were last asked for.
    columns: Columns,
    /// What was last asked for of what is usual at a step.
    usuals: Columns,
    /// Samples of a window.
    samples: usize,
    /// Workers of this process, each of which goes through windows of its own.
    workers: usize,
    /// What the head begins with, once it was fitted.
    start: OnceLock<Start>,
    /// Whether a model is at hand that has learnt from other data.
    is_adopted: bool,
    logarithm: bool,
    /// Whether absolute errors are learnt from, not squared ones.
    is_absolute: bool,
    /// Steps of a model's window.
    window: usize,
    /// The mean of the training values.
    mean: f32,
    /// What is subtracted from a value, and what it is then divided by.
    scale: (f32, f32),
    /// Baselines that have been asked, and up to which step they have taken values in.
    forecasts: Mutex<BTreeMap<(&'static str, usize), Asked>>,
}

/// The in-degrees of all vertices, which follow from the snapshots: that of a step is known at that step, as
/// a stored value is.
struct InDegrees {
    vertices: Vec<u32>,
    steps: Vec<Vec<f32>>,
}

impl InDegrees {
    fn of(store: &Store) -> Result<InDegrees> {
        Ok(InDegrees { vertices: (0..store.vertices() as u32).collect(), steps: in_degrees(store)? })
    }
}

/// A forecast, and the next step that it takes in.
type Asked = (Step, Box<dyn Forecast>);

impl Values {
    /// The vertices that have a value at a step, and the values as they are.
    fn stored(&self, step: Step) -> Result<(&[u32], &[f32])> {
        match &self.degrees {
            None => Ok(self.store.targets(step)?),
            Some(degrees) => {
                let values = degrees.steps.get(step).map_or(&[][..], |values| values);
                Ok((&degrees.vertices[..values.len()], values))
            }
        }
    }

    /// What was read of the store need not stay in memory.
    fn has_read(&self, vertices: &[u32], values: &[f32]) {
        if self.degrees.is_none() {
            self.store.has_read(size_of_val(vertices) + size_of_val(values));
        }
    }

    /// The vertices that have a value at a step, and the values.
    fn truth(&self, step: Step) -> Result<(&[u32], Vec<f32>)> {
        let (vertices, values) = self.stored(step)?;
        if let Some(at) = values.iter().position(|value| !value.is_finite()) {
            let name = self.store.ids()?.name(vertices[at]);
            let problem = format!(
                "found {} as the value of vertex {name} at step {step}, expected a finite number; mend the \
                 input and ingest it again",
                values[at]
            );
            return Err(kymo_graph::Error::store(self.store.path(), problem).into());
        }
        let truth = values.iter().map(|&value| self.value(value)).collect();
        // Baselines go through all steps: what they have seen need not stay in memory.
        self.has_read(vertices, values);
        Ok((vertices, truth))
    }

    /// A value as it is predicted.
    fn value(&self, stored: f32) -> f32 {
        if self.logarithm { stored.max(-0.999).ln_1p() } else { stored }
    }

    /// Mean and deviation over what is trained on, and over nothing else.
    fn measure(&mut self, standardise: bool) -> Result<()> {
        let (mut count, mut sum, mut squares) = (0usize, 0.0f64, 0.0f64);
        for step in self.trained_on() {
            for value in self.truth(step)?.1 {
                count += 1;
                sum += f64::from(value);
                squares += f64::from(value) * f64::from(value);
            }
        }
        if count == 0 {
            // Refused with the counts of all parts (`check_parts`).
            return Ok(());
        }
        let mean = sum / count as f64;
        let variance = squares / count as f64 - mean * mean;
        self.mean = mean as f32;
        if standardise {
            let deviation = if variance > 1e-12 { variance.sqrt() } else { 1.0 };
            self.scale = (mean as f32, deviation as f32);
        }
        Ok(())
    }

    /// The steps whose values are trained on.
    fn trained_on(&self) -> BTreeSet<Step> {
        let samples = self.split.samples(Part::Train);
        samples.flat_map(|sample| self.horizons.iter().map(move |horizon| sample + horizon)).collect()
    }

    /// What is made of the values as baselines see them, some steps ahead.
    fn with_signal<T>(&self, horizon: usize, make: impl FnOnce(&Signal<'_>) -> Result<T>) -> Result<T> {
        let known = |step: Step| self.truth(step);
        make(&Signal {
            vertices: self.store.vertices(),
            horizon,
            train: self.split.samples(Part::Train),
            window: self.window,
            mean: self.mean,
            known: &known,
        })
    }

    /// What a baseline says at `sample` about a horizon. It goes on from where it was asked last, where that
    /// was no later.
    fn forecast(&self, name: &'static str, sample: Step, horizon: usize) -> Result<Vec<f32>> {
        let mut forecasts = self.forecasts.lock().unwrap_or_else(PoisonError::into_inner);
        let asked = forecasts.remove(&(name, horizon)).filter(|(next, _)| *next <= sample + 1);
        let (values, forecast) = self.with_signal(horizon, |signal| {
            let (next, mut forecast) = match asked {
                Some(asked) => asked,
                None => {
                    let kind = forecast::ALL.iter().find(|kind| kind.name == name);
                    let unknown = || Error::settings("baseline", format!("there is none called {name}"));
                    (0, (kind.ok_or_else(unknown)?.fit)(signal)?)
                }
            };
            for step in next..=sample {
                forecast.learn(step, &(signal.known)(step)?);
            }
            Ok((forecast.predict(signal)?, forecast))
        })?;
        forecasts.insert((name, horizon), (sample + 1, forecast));
        Ok(values)
    }

    /// What is said of every vertex at each horizon.
    fn predictions(&self, sample: Step, says: Says<'_>) -> Result<Vec<Vec<f32>>> {
        let (outputs, params) = match says {
            Says::Baseline(name) => {
                let all = self.horizons.iter().map(|&horizon| self.forecast(name, sample, horizon));
                return all.collect();
            }
            Says::Model(outputs, params) => (outputs, params),
        };
        let (count, (mean, deviation)) = (self.horizons.len(), self.scale);
        let (known, time) = (self.known_columns(sample)?, self.time_of(sample)?);
        let weights = |name: &str, columns: usize| match columns {
            0 => Ok(&[][..]),
            columns => params
                .get(name)
                .filter(|weights| weights.len() == columns * count)
                .ok_or_else(|| Error::Bug(format!("{name} of the model are missing, or too few"))),
        };
        let (weights, of_time) = (weights(NAMES[2], known.len())?, weights(NAMES[3], time.len())?);
        let of = |number: usize| {
            let mut said: Vec<f32> = outputs.iter().skip(number).step_by(count).copied().collect();
            if !time.is_empty() {
                let parts = time.iter().zip(of_time.iter().skip(number).step_by(count));
                let sum: f32 = parts.map(|(value, weight)| value * weight).sum();
                said.iter_mut().for_each(|said| *said += sum);
            }
            for (column, &weight) in known.iter().zip(weights.iter().skip(number).step_by(count)) {
                let both = said.iter_mut().zip(column.values.iter());
                both.for_each(|(sum, value)| *sum = value.mul_add(weight, *sum));
            }
            said.iter_mut().for_each(|value| *value = *value * deviation + mean);
            said
        };
        Ok((0..count).map(of).collect())
    }
}

impl Goal for Values {
    fn split(&self) -> &Split {
        &self.split
    }

    fn slots(&self, width: usize) -> Vec<Slot> {
        let count = self.horizons.len();
        let mut slots = vec![Slot::weight(NAMES[0], width, count), Slot::bias(NAMES[1], count)];
        if self.past > 0 {
            // They begin with what was fitted.
            let (shape, initial) = (Shape::new(self.known(), count), Initial::Constant(0.0));
            slots.push(Slot { name: NAMES[2].into(), shape, initial });
        }
        if self.names().len() > 3 {
            let (shape, initial) = (Shape::new(self.calendar.columns(), count), Initial::Constant(0.0));
            slots.push(Slot { name: NAMES[3].into(), shape, initial });
        }
        slots
    }

    fn measured(&self) -> Vec<f32> {
        let season = self.season.map_or([0.0; 3], Looks::numbers);
        [&[self.mean, self.scale.0, self.scale.1][..], &season, &[self.calendar.number()]].concat()
    }

    fn adopt(&mut self, measured: &[f32]) -> bool {
        let (&[mean, subtracted, divided], looks) = measured.split_first_chunk().unwrap_or((&[0.0; 3], &[]));
        let Some((season, calendar)) = known::looks(looks, self.horizon()) else { return false };
        if !measured.iter().all(|number| number.is_finite()) || divided <= 0.0 {
            return false;
        }
        (self.mean, self.scale) = (mean, (subtracted, divided));
        (self.season, self.calendar, self.is_adopted) = (season, calendar, true);
        self.make_room();
        true
    }

    fn start(&self, params: &mut Params) -> Result<()> {
        if self.past == 0 || self.is_adopted {
            return Ok(());
        }
        let start = match self.start.get() {
            Some(start) => start,
            None => {
                let fitted = self.fitted()?;
                self.start.get_or_init(|| fitted)
            }
        };
        start.put(params)
    }

    fn loss<'a>(
        &self,
        forward: &mut Forward<'_, 'a>,
        at: &[(usize, Step)],
        _: u64,
    ) -> Result<Option<Loss<'a>>> {
        self.errors(forward, at)
    }

    fn needs(&self, _: usize) -> Vec<Need> {
        let column = Columns::bytes(self.store.vertices()) as u64;
        vec![Need {
            what: "values of a few steps",
            bytes: column.saturating_mul((self.columns.room() + self.usuals.room()) as u64),
            lower: "task.past or task.horizons",
        }]
    }

    fn held_bytes(&self) -> u64 {
        let steps = self.degrees.iter().flat_map(|degrees| &degrees.steps);
        steps.map(|step| size_of_val(&step[..]) as u64).sum()
    }

    fn labelled(&self, _: Part, sample: Step) -> Result<Option<usize>> {
        let mut count = 0;
        for horizon in &self.horizons {
            count += self.stored(sample + horizon)?.0.len();
        }
        Ok(Some(count))
    }

    fn outputs<'a>(&self, forward: &mut Forward<'_, 'a>) -> Result<Outputs<'a>> {
        Ok(forward.last_rows(self.horizons.len(), &NAMES[..2], head)?)
    }

    fn judge(&self, _: Part, sample: Step, says: Says<'_>, tallies: &mut Tallies) -> Result<()> {
        for (&horizon, said) in self.horizons.iter().zip(self.predictions(sample, says)?) {
            let (vertices, truth) = self.truth(sample + horizon)?;
            let predicted: Vec<f32> = vertices.iter().map(|&vertex| said[vertex as usize]).collect();
            let step = Evidence::Values { predicted: &predicted, truth: &truth };
            tallies.add(Needs::Values, &step);
            if self.horizons.len() > 1 {
                tallies.add_slice(&format!("horizon {horizon}"), truth.len(), Needs::Values, &step);
            }
        }
        Ok(())
    }

    fn horizon(&self) -> usize {
        self.horizons.last().copied().unwrap_or(1)
    }

    fn baselines(&self) -> Vec<&'static str> {
        forecast::ALL.iter().map(|kind| kind.name).collect()
    }

    fn table(&self, sample: Step, says: Says<'_>, _: usize) -> Result<Table> {
        let predictions = self.predictions(sample, says)?;
        let (mut vertices, mut values, mut horizons) = (Vec::new(), Vec::new(), Vec::new());
        for (&horizon, said) in self.horizons.iter().zip(&predictions) {
            vertices.extend((0..said.len() as u32).map(|vertex| vec![vertex]));
            values.extend(said.iter().map(|value| vec![value.to_string()]));
            horizons.extend(std::iter::repeat_n(horizon, said.len()));
        }
        Ok(Table { header: vec!["vertex", "value"], vertices, values, horizons })
    }

    fn truth_of(&self, _: Part, sample: Step, table: &Table) -> Result<Option<Truths>> {
        let mut truths = BTreeMap::new();
        for &horizon in &self.horizons {
            let mut all: Truths = vec![None; self.store.vertices()];
            let (vertices, values) = self.truth(sample + horizon)?;
            vertices.iter().zip(values).for_each(|(&v, value)| all[v as usize] = Some(value.to_string()));
            truths.insert(horizon, all);
        }
        let of = |(row, horizon): (&Vec<u32>, &usize)| {
            let vertex = row.first().copied()?;
            truths.get(horizon)?.get(vertex as usize).cloned().flatten()
        };
        Ok(Some(table.vertices.iter().zip(&table.horizons).map(of).collect()))
    }
}
