//! The last value of every vertex, the mean of its values so far, and the mean of all.

use kymo_graph::Step;

use super::forecast::{Forecast, Known, Signal};
use crate::error::Result;

/// What is known of every vertex: its last value and the mean of all of them, both the mean of training where
/// it has none.
pub struct Latest {
    /// The last value.
    pub last: Vec<f32>,
    sums: Vec<f64>,
    counts: Vec<u32>,
    mean: f32,
}

impl Latest {
    /// Before the first step.
    pub fn new(signal: &Signal<'_>) -> Latest {
        let vertices = signal.vertices;
        let mean = signal.mean;
        Latest { last: vec![mean; vertices], sums: vec![0.0; vertices], counts: vec![0; vertices], mean }
    }

    /// The mean of the values of a vertex so far.
    pub fn vertex_mean(&self, vertex: usize) -> f32 {
        match self.counts[vertex] {
            0 => self.mean,
            count => (self.sums[vertex] / f64::from(count)) as f32,
        }
    }
}

impl Forecast for Latest {
    fn learn(&mut self, _: Step, (vertices, values): &Known<'_>) {
        for (&vertex, &value) in vertices.iter().zip(values) {
            let vertex = vertex as usize;
            self.last[vertex] = value;
            self.sums[vertex] += f64::from(value);
            self.counts[vertex] += 1;
        }
    }

    fn predict(&self, _: &Signal<'_>) -> Result<Vec<f32>> {
        Ok(self.last.clone())
    }
}

struct VertexMean(Latest);

impl Forecast for VertexMean {
    fn learn(&mut self, step: Step, known: &Known<'_>) {
        self.0.learn(step, known);
    }

    fn predict(&self, signal: &Signal<'_>) -> Result<Vec<f32>> {
        Ok((0..signal.vertices).map(|vertex| self.0.vertex_mean(vertex)).collect())
    }
}

struct Mean;

impl Forecast for Mean {
    fn learn(&mut self, _: Step, _: &Known<'_>) {}

    fn predict(&self, signal: &Signal<'_>) -> Result<Vec<f32>> {
        Ok(vec![signal.mean; signal.vertices])
    }
}

/// The last value of every vertex.
pub fn last_value(signal: &Signal<'_>) -> Result<Box<dyn Forecast>> {
    Ok(Box::new(Latest::new(signal)))
}

/// The mean of every vertex so far.
pub fn vertex_mean(signal: &Signal<'_>) -> Result<Box<dyn Forecast>> {
    Ok(Box::new(VertexMean(Latest::new(signal))))
}

/// The mean of training, for all.
pub fn mean(_: &Signal<'_>) -> Result<Box<dyn Forecast>> {
    Ok(Box::new(Mean))
}
