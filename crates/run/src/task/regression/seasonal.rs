//! The value of a season ago. The season is the number of steps that did best in training.

use kymo_graph::Step;

use super::forecast::{Forecast, Known, Signal};
use super::latest::Latest;
use crate::error::Result;

/// The longest season that is tried, in steps.
const LONGEST: usize = 512;

/// Vertices and steps of training that seasons are tried on.
const VERTICES: usize = 512;
const STEPS: usize = 2048;

struct Seasonal {
    latest: Latest,
    season: usize,
    at: Option<Step>,
}

/// Finds the season.
pub fn fit(signal: &Signal<'_>) -> Result<Box<dyn Forecast>> {
    let season = season(signal)?.steps;
    Ok(Box::new(Seasonal { latest: Latest::new(signal), season, at: None }))
}

/// A season, and how well it does.
#[derive(Clone, Copy, Debug)]
pub struct Season {
    steps: usize,
    /// The mean square of what changes in a season, and of what changes in the steps that are looked ahead.
    changes: [f64; 2],
}

/// By how much values of a season ago have to be better than the last ones to be worth looking at.
const BETTER: f64 = 0.9;

impl Season {
    /// The steps of the season, where the values of a season ago are better than the last ones.
    pub fn that_is_better(self) -> Option<usize> {
        let [of_season, of_steps] = self.changes;
        (of_season < BETTER * of_steps).then_some(self.steps)
    }
}

/// The values of some vertices in the training part, step by step: one that is missing is the last before it.
pub fn rows(signal: &Signal<'_>) -> Result<Vec<Vec<f32>>> {
    let stride = signal.vertices.div_ceil(VERTICES).max(1);
    // All that the truth of training reaches, the newest of it.
    let end = signal.train.end + signal.horizon;
    let begin = end.saturating_sub(STEPS);
    let mut latest = Latest::new(signal);
    let mut rows: Vec<Vec<f32>> = Vec::new();
    for step in 0..end {
        latest.learn(step, &(signal.known)(step)?);
        if step >= begin {
            rows.push(latest.last.iter().step_by(stride).copied().collect());
        }
    }
    Ok(rows)
}

/// The steps after which values come back the closest, of some vertices in the training part.
pub fn season(signal: &Signal<'_>) -> Result<Season> {
    let rows = rows(signal)?;
    let longest = (rows.len() / 2).min(LONGEST);
    let error = |season: usize| {
        let pairs = rows.iter().zip(&rows[season..]);
        let errors = pairs.flat_map(|(old, new)| old.iter().zip(new));
        let sum: f64 = errors.map(|(old, new)| f64::from(new - old) * f64::from(new - old)).sum();
        sum / (rows.len() - season) as f64
    };
    // What comes sooner is not a season: it is the last value.
    let seasons = signal.horizon + 1..=longest;
    let tried = seasons.map(|season| (error(season), season));
    Ok(match tried.min_by(|one, other| one.0.total_cmp(&other.0)) {
        Some((best, steps)) => Season { steps, changes: [best, error(signal.horizon)] },
        None => Season { steps: signal.horizon, changes: [f64::INFINITY; 2] },
    })
}

impl Forecast for Seasonal {
    fn learn(&mut self, step: Step, known: &Known<'_>) {
        self.latest.learn(step, known);
        self.at = Some(step);
    }

    fn predict(&self, signal: &Signal<'_>) -> Result<Vec<f32>> {
        let mut values = self.latest.last.clone();
        let asked = self.at.map_or(signal.horizon, |at| at + signal.horizon);
        // Before the first season there is the last value alone.
        if let Some(then) = asked.checked_sub(self.season) {
            let (vertices, old) = (signal.known)(then)?;
            vertices.iter().zip(old).for_each(|(&vertex, value)| values[vertex as usize] = value);
        }
        Ok(values)
    }
}
