//! A blend of the last value and the mean of a vertex, in the parts that did best in training.

use kymo_graph::Step;

use super::super::least_squares::LeastSquares;
use super::forecast::{Forecast, Known, Signal};
use super::latest::Latest;
use crate::error::Result;

struct Blend {
    latest: Latest,
    parts: [f64; 2],
}

/// How far the last value and the mean of a vertex are from the mean of all.
fn inputs(latest: &Latest, vertex: usize, mean: f32) -> [f64; 2] {
    [latest.last[vertex], latest.vertex_mean(vertex)].map(|value| f64::from(value) - f64::from(mean))
}

/// Finds the parts.
pub fn fit(signal: &Signal<'_>) -> Result<Box<dyn Forecast>> {
    let mut sums = LeastSquares::new(2);
    signal.walk(Latest::new(signal), |latest, (vertices, values)| {
        for (&vertex, &value) in vertices.iter().zip(values) {
            let output = f64::from(value) - f64::from(signal.mean);
            sums.add(&inputs(latest, vertex as usize, signal.mean), output);
        }
    })?;
    let parts = sums.solve();
    Ok(Box::new(Blend { latest: Latest::new(signal), parts: [parts[0], parts[1]] }))
}

impl Forecast for Blend {
    fn learn(&mut self, step: Step, known: &Known<'_>) {
        self.latest.learn(step, known);
    }

    fn predict(&self, signal: &Signal<'_>) -> Result<Vec<f32>> {
        let value = |vertex: usize| {
            let [last, own] = inputs(&self.latest, vertex, signal.mean);
            (f64::from(signal.mean) + self.parts[0] * last + self.parts[1] * own) as f32
        };
        Ok((0..signal.vertices).map(value).collect())
    }
}
