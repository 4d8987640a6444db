//! What the head of a regression begins with: the linear function of what is known of a vertex that did best
//! in training. The embedding counts for nothing at first, so that a model begins as good as autoregression
//! and learns what that leaves over.

use kymo_model::Params;

use super::super::begin_with;
use super::super::least_squares::LeastSquares;
use super::Values;
use super::loss::NAMES;
use crate::data::Part;
use crate::error::Result;

/// Rows that weights are fitted on: more do not change so few numbers.
const ROWS: usize = 1 << 17;

/// What the head begins with.
#[derive(Clone, Debug, PartialEq)]
pub struct Start {
    /// The weight of each known column, with a column for each horizon.
    weights: Vec<f32>,
    /// The weight of each column of the calendar, alike.
    calendar: Vec<f32>,
    /// What is added at each horizon.
    bias: Vec<f32>,
}

impl Values {
    /// Fits it.
    pub(super) fn fitted(&self) -> Result<Start> {
        let (known, horizons) = (self.known(), self.horizons.len());
        // What is known of each vertex, what the calendar says of all, and a constant.
        let inputs = known + self.calendar.columns();
        let train = self.split.samples(Part::Train);
        let stride = (self.store.vertices() * train.len()).div_ceil(ROWS).max(1);
        // The first samples have little to look back on: they are fitted on where there is little else.
        let looks_back = self.past.max(self.season.map_or(0, |looks| looks.steps));
        let skipped = if train.len() > 2 * looks_back { looks_back } else { 0 };
        let mut sums: Vec<LeastSquares> = (0..horizons).map(|_| LeastSquares::new(inputs + 1)).collect();
        let mut row = vec![1.0; inputs + 1];
        for sample in train.skip(skipped) {
            let columns = self.known_columns(sample)?;
            let time = self.time_of(sample)?;
            row[known..].iter_mut().zip(time).for_each(|(place, value)| *place = f64::from(value));
            for (sum, horizon) in sums.iter_mut().zip(&self.horizons) {
                let truth = self.column(sample + horizon)?;
                // Not the same vertices at every sample.
                for vertex in (sample % stride..self.store.vertices()).step_by(stride) {
                    if truth.present.as_ref().is_some_and(|present| present[vertex] == 0.0) {
                        continue;
                    }
                    for (place, column) in row.iter_mut().zip(&columns) {
                        *place = f64::from(column.values[vertex]);
                    }
                    sum.add(&row, f64::from(truth.values[vertex]));
                }
            }
        }
        let mut weights = vec![0.0; inputs * horizons];
        let mut bias = Vec::with_capacity(horizons);
        for (number, sum) in sums.into_iter().enumerate() {
            let solved = sum.solve();
            for (place, &weight) in weights.iter_mut().skip(number).step_by(horizons).zip(&solved) {
                *place = weight as f32;
            }
            bias.push(solved[inputs] as f32);
        }
        let calendar = weights.split_off(known * horizons);
        Ok(Start { weights, calendar, bias })
    }
}

impl Start {
    /// Puts it into the parameters of the head.
    pub(super) fn put(&self, params: &mut Params) -> Result<()> {
        begin_with(params, NAMES[0], None)?;
        begin_with(params, NAMES[1], Some(&self.bias))?;
        begin_with(params, NAMES[2], Some(&self.weights))?;
        match self.calendar.is_empty() {
            true => Ok(()),
            false => begin_with(params, NAMES[3], Some(&self.calendar)),
        }
    }
}
