//! Node regression: the value of every vertex, some steps ahead.

mod autoregression;
mod blend;
mod forecast;
mod latest;
mod least_squares;
mod seasonal;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use kymo_graph::{Step, Store};
use kymo_model::Slot;
use kymo_model::metric::{Evidence, Needs};
use kymo_tensor::{Shape, Tape, Var};

use super::{Goal, Says, Table, Tallies, Task, truth_steps};
use crate::config::{Settings, Target};
use crate::data::{Part, Split};
use crate::error::{Error, Result};
use crate::forward::{Forward, Loss};
use forecast::{Forecast, Signal};

/// The task.
pub struct Regression;

impl Task for Regression {
    fn name(&self) -> &'static str {
        "node-regression"
    }

    fn about(&self) -> &'static str {
        "a value of every vertex at the next step; baselines: its last value, its mean, a blend of both, the \
         value of a season ago, linear autoregression, the mean of training"
    }

    fn metrics(&self) -> &'static [&'static str] {
        &["mse", "mae", "rmse"]
    }

    fn shows(&self) -> &'static [Needs] {
        &[Needs::Values]
    }

    fn open(&self, store: &Arc<Store>, settings: &Settings) -> Result<Box<dyn Goal>> {
        if !store.manifest().targets {
            let problem = format!(
                "{} has no values to predict; ingest a signal (kymo ingest --signal) or choose another task",
                store.path().display()
            );
            return Err(Error::settings("task.name", problem));
        }
        let horizon = settings.task.horizon;
        let split = Split::by_time(store.steps().saturating_sub(horizon), settings)?;
        let mut goal = Values {
            store: store.clone(),
            split,
            horizon,
            logarithm: settings.task.target == Target::Log,
            window: settings.train.window,
            mean: 0.0,
            scale: (0.0, 1.0),
            forecasts: Mutex::default(),
        };
        // What is no number is found now, not when the test comes to it.
        (0..goal.store.steps()).try_for_each(|step| goal.truth(step).map(drop))?;
        goal.measure(settings.task.target == Target::Standardised)?;
        Ok(Box::new(goal))
    }
}

/// The task on one store.
struct Values {
    store: Arc<Store>,
    split: Split,
    horizon: usize,
    logarithm: bool,
    /// Steps of a model's window.
    window: usize,
    /// The mean of the training values.
    mean: f32,
    /// What is subtracted from a value, and what it is then divided by.
    scale: (f32, f32),
    /// Baselines that have been asked, and up to which step they have taken values in.
    forecasts: Mutex<BTreeMap<&'static str, Asked>>,
}

/// A forecast, and the next step that it takes in.
type Asked = (Step, Box<dyn Forecast>);

const NAMES: [&str; 2] = ["head.weight", "head.bias"];

fn head(tape: &mut Tape<'_>, embedding: Var, extra: &[Var]) -> kymo_tensor::Result<Var> {
    tape.linear(embedding, extra[0], extra[1])
}

impl Values {
    /// The vertices that have a value at a step, and the values.
    fn truth(&self, step: Step) -> Result<(&[u32], Vec<f32>)> {
        let (vertices, values) = self.store.targets(step)?;
        if let Some(at) = values.iter().position(|value| !value.is_finite()) {
            let name = self.store.ids()?.name(vertices[at]);
            let problem = format!(
                "found {} as the value of vertex {name} at step {step}, expected a finite number; mend the \
                 input and ingest it again",
                values[at]
            );
            return Err(kymo_graph::Error::store(self.store.path(), problem).into());
        }
        let value = |&value: &f32| if self.logarithm { value.max(-0.999).ln_1p() } else { value };
        let truth = values.iter().map(value).collect();
        // Baselines go through all steps: what they have seen need not stay in memory.
        self.store.has_read(size_of_val(vertices) + size_of_val(values));
        Ok((vertices, truth))
    }

    /// Mean and deviation over what is trained on, and over nothing else.
    fn measure(&mut self, standardise: bool) -> Result<()> {
        let (mut count, mut sum, mut squares) = (0usize, 0.0f64, 0.0f64);
        for step in truth_steps(self.split.samples(Part::Train), self.horizon) {
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

    /// What a baseline says at `sample`. It goes on from where it was asked last, where that was no later.
    fn forecast(&self, name: &'static str, sample: Step) -> Result<Vec<f32>> {
        let known = |step: Step| self.truth(step);
        let signal = Signal {
            vertices: self.store.vertices(),
            horizon: self.horizon,
            train: self.split.samples(Part::Train),
            window: self.window,
            mean: self.mean,
            known: &known,
        };
        let mut forecasts = self.forecasts.lock().unwrap_or_else(PoisonError::into_inner);
        let (next, mut forecast) = match forecasts.remove(name).filter(|(next, _)| *next <= sample + 1) {
            Some(asked) => asked,
            None => {
                let kind = forecast::ALL.iter().find(|kind| kind.name == name);
                let unknown = || Error::settings("baseline", format!("there is none called {name}"));
                (0, (kind.ok_or_else(unknown)?.fit)(&signal)?)
            }
        };
        for step in next..=sample {
            forecast.learn(step, &known(step)?);
        }
        let values = forecast.predict(&signal)?;
        forecasts.insert(name, (sample + 1, forecast));
        Ok(values)
    }

    fn predictions(&self, sample: Step, says: Says<'_>) -> Result<Vec<f32>> {
        let (mean, deviation) = self.scale;
        match says {
            Says::Model(outputs, _) => Ok(outputs.iter().map(|value| value * deviation + mean).collect()),
            Says::Baseline(name) => self.forecast(name, sample),
        }
    }
}

impl Goal for Values {
    fn split(&self) -> &Split {
        &self.split
    }

    fn slots(&self, width: usize) -> Vec<Slot> {
        vec![Slot::weight(NAMES[0], width, 1), Slot::bias(NAMES[1], 1)]
    }

    fn loss<'a>(
        &self,
        forward: &mut Forward<'_, 'a>,
        at: &[(usize, Step)],
        _: u64,
    ) -> Result<Option<Loss<'a>>> {
        let mut steps = Vec::with_capacity(at.len());
        let mut count = 0;
        for &(place, sample) in at {
            let mut all = vec![None; self.store.vertices()];
            let (vertices, truth) = self.truth(sample + self.horizon)?;
            // Of all workers together: each adds its share of the mean.
            let mut set = |vertex: u32, value: f32| {
                all[vertex as usize] = Some((value - self.scale.0) / self.scale.1);
            };
            let values = vertices.iter().copied().zip(truth);
            match forward.some_targets() {
                None => {
                    count += values.len();
                    values.for_each(|(vertex, value)| set(vertex, value));
                }
                Some(_) => {
                    for (vertex, value) in values.filter(|&(vertex, _)| forward.counts(vertex)) {
                        count += 1;
                        set(vertex, value);
                    }
                }
            }
            let own = forward.own(place);
            let here = (0..own.len()).map(|row| all[own.vertex(row)]);
            let (values, weights): (Vec<f32>, Vec<f32>) =
                here.map(|value| value.map_or((0.0, 0.0), |value| (value, 1.0))).unzip();
            steps.push((values, weights));
        }
        if count == 0 {
            return Ok(None);
        }
        let scale = 1.0 / count as f32;
        let places: Vec<usize> = at.iter().map(|&(place, _)| place).collect();
        let loss = forward.loss_of_rows(&NAMES, &places, move |tape, number, rows, embedding, extra| {
            let (values, weights) = &steps[number];
            let column = Shape::new(rows.len(), 1);
            let target = tape.copied(column, &values[rows.clone()])?;
            let weights = tape.copied(column, &weights[rows])?;
            let prediction = head(tape, embedding, extra)?;
            tape.mse(prediction, target, Some(weights), scale)
        })?;
        Ok(Some(loss))
    }

    fn labelled(&self, _: Part, sample: Step) -> Result<Option<usize>> {
        Ok(Some(self.store.targets(sample + self.horizon)?.0.len()))
    }

    fn outputs(&self, forward: &mut Forward<'_, '_>) -> Result<Vec<f32>> {
        Ok(forward.last_rows(1, &NAMES, head)?)
    }

    fn judge(&self, _: Part, sample: Step, says: Says<'_>, tallies: &mut Tallies) -> Result<()> {
        let predictions = self.predictions(sample, says)?;
        let (vertices, truth) = self.truth(sample + self.horizon)?;
        let predicted: Vec<f32> = vertices.iter().map(|&vertex| predictions[vertex as usize]).collect();
        tallies.add(Needs::Values, &Evidence::Values { predicted: &predicted, truth: &truth });
        Ok(())
    }

    fn horizon(&self) -> usize {
        self.horizon
    }

    fn baselines(&self) -> Vec<&'static str> {
        forecast::ALL.iter().map(|kind| kind.name).collect()
    }

    fn table(&self, sample: Step, says: Says<'_>, _: usize) -> Result<Table> {
        let predictions = self.predictions(sample, says)?;
        Ok(Table {
            header: vec!["vertex", "value"],
            vertices: (0..predictions.len() as u32).map(|vertex| vec![vertex]).collect(),
            values: predictions.iter().map(|value| vec![value.to_string()]).collect(),
        })
    }
}
