//! Degrees of all vertices, step after step: each step costs what it changes, unless it is stored whole.

use std::ops::Range;

use kymo_graph::store::ChangeCounts;
use kymo_graph::{Edge, Step, Store, Vertex};

use super::features::Constant;
use super::scale::Scales;
use crate::error::Result;

/// Columns of one-hot degrees at most.
const MOST: usize = 256;

/// The columns of degrees at a step.
pub struct Degrees<'a> {
    store: &'a Store,
    constant: Constant,
    step: Step,
    /// How much each step changes, from the first one on.
    counts: Vec<ChangeCounts>,
    first: Step,
    inward: Vec<u32>,
    outward: Vec<u32>,
    /// The vertices whose columns are others than at the step before, ascending, and the degrees they had.
    pub changed: Vec<(Vertex, [u32; 2])>,
    /// Of each vertex, whether its degrees before this step are known already.
    seen: Vec<bool>,
}

impl<'a> Degrees<'a> {
    /// The degrees at the first of some steps.
    pub fn new(store: &'a Store, constant: Constant, steps: Range<Step>) -> Result<Degrees<'a>> {
        let vertices = store.vertices();
        let (inward, outward) = store.snapshot(steps.start)?.degrees(vertices);
        let counts = store.change_counts(steps.clone())?;
        let (step, first) = (steps.start, steps.start);
        let (changed, seen) = (Vec::new(), vec![false; vertices]);
        Ok(Degrees { store, constant, step, counts, first, inward, outward, changed, seen })
    }

    /// Goes to the next step.
    pub fn advance(&mut self) -> Result<()> {
        self.step += 1;
        self.changed.clear();
        let is_whole = self.counts.get(self.step - self.first).is_none_or(|counts| counts.edges.is_none());
        if is_whole {
            let now = self.store.snapshot(self.step)?.degrees(self.inward.len());
            let (inward, outward) =
                (std::mem::replace(&mut self.inward, now.0), std::mem::replace(&mut self.outward, now.1));
            let before = inward.into_iter().zip(outward).map(|(inward, outward)| [inward, outward]);
            self.changed.extend((0..).zip(before));
        } else {
            let delta = self.store.delta(self.step)?;
            delta.added.iter().for_each(|&(edge, _)| self.count(edge, |degree| degree.wrapping_add(1)));
            // Edges that were never there are found where the snapshot is made.
            delta.removed.iter().for_each(|&(edge, _)| self.count(edge, |degree| degree.wrapping_sub(1)));
            self.changed.iter().for_each(|&(vertex, _)| self.seen[vertex as usize] = false);
            self.changed.sort_unstable();
        }
        let (constant, inward, outward) = (self.constant, &self.inward, &self.outward);
        let columns = |[inward, outward]: [u32; 2]| match constant {
            Constant::OneHot(columns) => [0, outward.min(columns as u32 - 1)],
            _ => [inward, outward],
        };
        self.changed.retain(|&(vertex, before)| {
            columns(before) != columns([inward[vertex as usize], outward[vertex as usize]])
        });
        Ok(())
    }

    fn count(&mut self, edge: Edge, change: fn(u32) -> u32) {
        for vertex in [edge.source(), edge.target()] {
            if !std::mem::replace(&mut self.seen[vertex as usize], true) {
                self.changed.push((vertex, self.of(vertex)));
            }
        }
        let (inward, outward) = (edge.target() as usize, edge.source() as usize);
        self.inward[inward] = change(self.inward[inward]);
        self.outward[outward] = change(self.outward[outward]);
    }

    /// Edges that lead to a vertex, and edges that leave it.
    pub fn of(&self, vertex: Vertex) -> [u32; 2] {
        [self.inward[vertex as usize], self.outward[vertex as usize]]
    }

    /// Writes the columns of a vertex into the first ones of a row.
    pub fn write(&self, scales: &Scales, vertex: Vertex, row: &mut [f32]) {
        let degrees = self.of(vertex);
        let place = &mut row[..self.constant.columns()];
        if let Constant::OneHot(columns) = self.constant {
            place.fill(0.0);
            place[(degrees[1] as usize).min(columns - 1)] = 1.0;
        } else {
            scales.write(0, &degrees.map(log_of_one_plus), place);
        }
    }
}

/// As many columns as there are degrees in training, within bounds.
pub fn one_hot_columns(store: &Store, train: Range<Step>) -> Result<usize> {
    let mut most = 0;
    if !train.is_empty() {
        let mut degrees = Degrees::new(store, Constant::Degrees, train.clone())?;
        most = degrees.outward.iter().copied().max().unwrap_or(0);
        for _ in train.skip(1) {
            degrees.advance()?;
            let changed = degrees.changed.iter().map(|&(vertex, _)| degrees.of(vertex)[1]);
            most = changed.max().unwrap_or(0).max(most);
        }
    }
    Ok((most as usize + 2).min(MOST))
}

/// How a degree is seen as a number.
pub fn log_of_one_plus(degree: u32) -> f32 {
    (degree as f32).ln_1p()
}
