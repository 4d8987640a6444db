//! The errors of predictions, squared or absolute: a linear map of the embedding and of what is known of the
//! vertex, with a column for each horizon, against the values that came.

use std::ops::Range;
use std::sync::Arc;

use kymo_graph::{Step, Vertex};
use kymo_tensor::{Resident, Result as Computed, Tape, Var};

use super::Values;
use super::columns::Column;
use crate::error::Result;
use crate::forward::{Forward, Loss, OwnRows};

/// Parameters: of the embedding, of nothing, of known values (the last ones, the newest first, those of a
/// season ago, what is usual), and of the calendar.
pub const NAMES: [&str; 4] = ["head.weight", "head.bias", "head.past", "head.calendar"];

/// What the embedding says.
pub fn head(tape: &mut Tape<'_>, embedding: Var, extra: &[Var]) -> Computed<Var> {
    tape.linear(embedding, extra[0], extra[1])
}

/// What is known of one sample, with a number for each row here.
struct Sample {
    /// What is known of each vertex beside the embedding.
    known: Vec<Arc<Resident>>,
    /// What the calendar says, the same of every vertex.
    time: Vec<Arc<Resident>>,
    /// What came, for each horizon.
    truth: Vec<Arc<Resident>>,
    /// The weight of each row, for each horizon, unless all count.
    weights: Vec<Option<Arc<Resident>>>,
    /// Whether errors are absolute, not squared.
    is_absolute: bool,
}

impl Sample {
    /// The sum of errors of some rows, times `scale`.
    fn errors(
        &self,
        tape: &mut Tape<'_>,
        rows: Range<usize>,
        embedding: Var,
        extra: &[Var],
        scale: f32,
    ) -> Computed<Var> {
        let mut extra = extra.to_vec();
        if !self.time.is_empty() {
            let time = tape.held_columns(&self.time, 0..1)?;
            let of_time = tape.matmul(time, extra[3])?;
            extra[1] = tape.add(extra[1], of_time)?;
        }
        let mut prediction = head(tape, embedding, &extra)?;
        if !self.known.is_empty() {
            let known = tape.held_columns(&self.known, rows.clone())?;
            let of_known = tape.matmul(known, extra[2])?;
            prediction = tape.add(prediction, of_known)?;
        }
        let of = |tape: &mut Tape<'_>, prediction, truth, weights| match self.is_absolute {
            true => tape.mae(prediction, truth, weights, scale),
            false => tape.mse(prediction, truth, weights, scale),
        };
        if self.weights.iter().all(Option::is_none) {
            let truth = tape.held_columns(&self.truth, rows)?;
            return of(tape, prediction, truth, None);
        }
        // A row has one weight, but may have a value at one horizon and none at another.
        let mut sums = Vec::with_capacity(self.truth.len());
        for (number, (truth, weights)) in self.truth.iter().zip(&self.weights).enumerate() {
            let truth = tape.held_columns(std::slice::from_ref(truth), rows.clone())?;
            let weights = match weights {
                Some(weights) => Some(tape.held_columns(std::slice::from_ref(weights), rows.clone())?),
                None => None,
            };
            let prediction = match self.truth.len() {
                1 => prediction,
                _ => tape.slice_columns(prediction, number..number + 1)?,
            };
            sums.push(of(tape, prediction, truth, weights)?);
        }
        match sums[..] {
            [one] => Ok(one),
            _ => tape.add_all(&sums),
        }
    }
}

/// The numbers of the vertices that rows stand for.
fn of_rows(column: &Arc<Resident>, own: &OwnRows) -> Arc<Resident> {
    match own {
        OwnRows::All(_) => column.clone(),
        OwnRows::Some(vertices) => {
            let numbers: Vec<f32> = vertices.iter().map(|&vertex| column[vertex as usize]).collect();
            Arc::new(numbers.into())
        }
    }
}

/// The weights of all vertices where some of them count only, and how many of those have a value.
fn counted(column: &Column, targets: &[Vertex], vertices: usize) -> (Arc<Resident>, usize) {
    let mut weights = vec![0.0; vertices];
    let mut count = 0;
    for &vertex in targets {
        let is_present = column.present.as_ref().is_none_or(|present| present[vertex as usize] > 0.0);
        if is_present {
            weights[vertex as usize] = 1.0;
            count += 1;
        }
    }
    (Arc::new(weights.into()), count)
}

impl Values {
    /// The mean of the errors at some places of a window.
    pub(super) fn errors<'a>(
        &self,
        forward: &mut Forward<'_, 'a>,
        at: &[(usize, Step)],
    ) -> Result<Option<Loss<'a>>> {
        let mut samples = Vec::with_capacity(at.len());
        // Of all workers together: each adds its share of the mean.
        let mut count = 0;
        for &(place, step) in at {
            let own = forward.own(place);
            let is_absolute = self.is_absolute;
            let time = self.time_of(step)?.into_iter().map(|value| Arc::new(vec![value].into())).collect();
            let mut sample =
                Sample { known: Vec::new(), time, truth: Vec::new(), weights: Vec::new(), is_absolute };
            for known in self.known_columns(step)? {
                sample.known.push(of_rows(&known.values, &own));
            }
            for horizon in &self.horizons {
                let column = self.column(step + horizon)?;
                let (weights, many) = match forward.some_targets() {
                    None => (column.present.clone(), column.count),
                    Some(targets) => {
                        let (weights, many) = counted(&column, targets, self.store.vertices());
                        (Some(weights), many)
                    }
                };
                count += many;
                sample.truth.push(of_rows(&column.values, &own));
                sample.weights.push(weights.map(|weights| of_rows(&weights, &own)));
            }
            samples.push(sample);
        }
        if count == 0 {
            return Ok(None);
        }
        let scale = forward.parts() as f32 / count as f32;
        let places: Vec<usize> = at.iter().map(|&(place, _)| place).collect();
        let loss =
            forward.loss_of_rows(self.names(), &places, move |tape, number, rows, embedding, extra| {
                samples[number].errors(tape, rows, embedding, extra, scale)
            })?;
        Ok(Some(loss))
    }
}
