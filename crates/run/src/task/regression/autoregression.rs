//! Linear autoregression: the values of the last steps and the mean of a vertex, weighted as did best in
//! training, with the same weights for all vertices.

use std::collections::VecDeque;

use kymo_graph::Step;

use super::super::least_squares::LeastSquares;
use super::forecast::{Forecast, Known, Signal};
use super::latest::Latest;
use crate::error::Result;

/// The most steps that are looked back at.
const LAGS: usize = 16;

/// Rows that weights are fitted on: more do not change so few numbers.
const ROWS: usize = 1 << 20;

/// What was known at the last steps: a value that is missing is the one before it.
struct Past {
    latest: Latest,
    /// The newest first.
    lags: VecDeque<Vec<f32>>,
    most: usize,
    /// Steps that it has taken in.
    seen: usize,
}

impl Past {
    fn new(signal: &Signal<'_>) -> Past {
        // A season of a day or week of steps is seen by a window that long; at least two, for a trend.
        let most = signal.window.clamp(2, LAGS);
        let lags = (0..most).map(|_| vec![signal.mean; signal.vertices]).collect();
        Past { latest: Latest::new(signal), lags, most, seen: 0 }
    }

    /// Lags, the mean of the vertex, all less the mean of training, and a constant.
    fn inputs(&self, vertex: usize, mean: f32, out: &mut Vec<f64>) {
        out.clear();
        let values = self.lags.iter().map(|lag| lag[vertex]).chain([self.latest.vertex_mean(vertex)]);
        out.extend(values.map(|value| f64::from(value) - f64::from(mean)));
        out.push(1.0);
    }
}

impl Forecast for Past {
    fn learn(&mut self, step: Step, known: &Known<'_>) {
        self.latest.learn(step, known);
        self.seen += 1;
        let mut newest = self.lags.pop_back().unwrap_or_default();
        newest.clone_from(&self.latest.last);
        self.lags.push_front(newest);
    }

    fn predict(&self, _: &Signal<'_>) -> Result<Vec<f32>> {
        Ok(self.latest.last.clone())
    }
}

struct Autoregression {
    past: Past,
    weights: Vec<f64>,
}

/// Finds the weights.
pub fn fit(signal: &Signal<'_>) -> Result<Box<dyn Forecast>> {
    let past = Past::new(signal);
    let mut sums = LeastSquares::new(past.most + 2);
    let stride = (signal.vertices * signal.train.len()).div_ceil(ROWS).max(1);
    let mut inputs = Vec::new();
    // The first steps have no past: their lags are made up, and fitted on only where there is little else.
    let first = if signal.train.len() > 2 * past.most { past.most } else { 0 };
    signal.walk(past, |past, (vertices, values)| {
        if past.seen < first {
            return;
        }
        for (&vertex, &value) in
            vertices.iter().zip(values).filter(|(vertex, _)| (**vertex as usize).is_multiple_of(stride))
        {
            past.inputs(vertex as usize, signal.mean, &mut inputs);
            sums.add(&inputs, f64::from(value) - f64::from(signal.mean));
        }
    })?;
    Ok(Box::new(Autoregression { past: Past::new(signal), weights: sums.solve() }))
}

impl Forecast for Autoregression {
    fn learn(&mut self, step: Step, known: &Known<'_>) {
        self.past.learn(step, known);
    }

    fn predict(&self, signal: &Signal<'_>) -> Result<Vec<f32>> {
        let mut inputs = Vec::new();
        let value = |vertex: usize| {
            self.past.inputs(vertex, signal.mean, &mut inputs);
            let sum: f64 = inputs.iter().zip(&self.weights).map(|(input, weight)| input * weight).sum();
            (f64::from(signal.mean) + sum) as f32
        };
        Ok((0..signal.vertices).map(value).collect())
    }
}
