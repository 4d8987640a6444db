//! Degrees of all vertices, step after step: each step costs what it changes, unless it is stored whole.

use std::ops::Range;

use kymo_graph::{Edge, Step, Store, Vertex};

use super::features::Constant;
use super::scale::Scales;
use crate::error::Result;

/// Columns of one-hot degrees at most.
pub const MOST: usize = 256;

/// Degrees whose logarithms are kept: most vertices have one of these.
const FEW: u32 = 4096;

/// The columns of degrees at a step.
pub struct Degrees<'a> {
    store: &'a Store,
    /// Which columns they are.
    pub constant: Constant,
    step: Step,
    inward: Vec<u32>,
    outward: Vec<u32>,
    logarithms: Vec<f32>,
    /// The vertices whose columns are others than at the step before, in any order, and the degrees they had.
    pub before: Vec<(Vertex, [u32; 2])>,
    /// Of each vertex, whether it is among those.
    seen: Vec<bool>,
}

impl<'a> Degrees<'a> {
    /// The degrees at a step.
    pub fn new(store: &'a Store, constant: Constant, step: Step) -> Result<Degrees<'a>> {
        let vertices = store.vertices();
        let mut whole = step;
        while !is_whole(store, whole)? {
            whole -= 1;
        }
        let (inward, outward) = store.snapshot(whole)?.degrees(vertices);
        let (before, seen) = (Vec::new(), vec![false; vertices]);
        let logarithms = (0..FEW).map(log_of_one_plus).collect();
        let mut degrees = Degrees { store, constant, step: whole, inward, outward, logarithms, before, seen };
        while degrees.step < step {
            degrees.advance()?;
        }
        Ok(degrees)
    }

    /// Goes to the next step.
    pub fn advance(&mut self) -> Result<()> {
        self.step += 1;
        self.before.clear();
        if is_whole(self.store, self.step)? {
            let (inward, outward) = self.store.snapshot(self.step)?.degrees(self.inward.len());
            self.before = (0..self.inward.len() as Vertex).map(|vertex| (vertex, self.of(vertex))).collect();
            (self.inward, self.outward) = (inward, outward);
        } else {
            let delta = self.store.delta(self.step)?;
            delta.added.iter().for_each(|&(edge, _)| self.count(edge, |degree| degree.wrapping_add(1)));
            // Edges that were never there are found where the snapshot is made.
            delta.removed.iter().for_each(|&(edge, _)| self.count(edge, |degree| degree.wrapping_sub(1)));
            self.before.iter().for_each(|&(vertex, _)| self.seen[vertex as usize] = false);
        }
        let columns = |[inward, outward]: [u32; 2]| match self.constant {
            Constant::OneHot(columns) => [0, outward.min(columns as u32 - 1)],
            _ => [inward, outward],
        };
        let mut before = std::mem::take(&mut self.before);
        before.retain(|&(vertex, before)| columns(before) != columns(self.of(vertex)));
        self.before = before;
        Ok(())
    }

    /// The vertices whose columns are others than at the step before, ascending.
    pub fn changed(&self) -> Vec<Vertex> {
        let mut changed: Vec<Vertex> = self.before.iter().map(|&(vertex, _)| vertex).collect();
        changed.sort_unstable();
        changed
    }

    fn count(&mut self, edge: Edge, change: fn(u32) -> u32) {
        for vertex in [edge.source(), edge.target()] {
            if !std::mem::replace(&mut self.seen[vertex as usize], true) {
                self.before.push((vertex, self.of(vertex)));
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

    /// Degrees as they are seen as numbers.
    pub fn logarithms(&self, degrees: [u32; 2]) -> [f32; 2] {
        degrees.map(|degree| match self.logarithms.get(degree as usize) {
            Some(&logarithm) => logarithm,
            None => log_of_one_plus(degree),
        })
    }

    /// Writes the columns of a vertex into the first ones of a row.
    pub fn write(&self, scales: &Scales, vertex: Vertex, row: &mut [f32]) {
        let degrees = self.of(vertex);
        let place = &mut row[..self.constant.columns()];
        if let Constant::OneHot(columns) = self.constant {
            place.fill(0.0);
            place[(degrees[1] as usize).min(columns - 1)] = 1.0;
        } else {
            scales.write(0, &self.logarithms(degrees), place);
        }
    }
}

/// Whether all edges of a step are stored, as those of the first one are.
fn is_whole(store: &Store, t: Step) -> Result<bool> {
    Ok(t == 0 || store.change_counts(t..t + 1)?.iter().all(|counts| counts.edges.is_none()))
}

/// As many columns as there are degrees in training, within bounds.
pub fn one_hot_columns(store: &Store, train: Range<Step>) -> Result<usize> {
    let mut most = 0;
    if !train.is_empty() {
        let mut degrees = Degrees::new(store, Constant::Degrees, train.start)?;
        most = degrees.outward.iter().copied().max().unwrap_or(0);
        for t in train.skip(1) {
            degrees.advance()?;
            // What leads from a step to the next is looked at once.
            store.release_edges(t)?;
            let changed = degrees.before.iter().map(|&(vertex, _)| degrees.of(vertex)[1]);
            most = changed.max().unwrap_or(0).max(most);
        }
    }
    Ok((most as usize + 2).min(MOST))
}

/// How many edges end at each vertex, at every step.
pub fn in_degrees(store: &Store) -> Result<Vec<Vec<f32>>> {
    let mut all: Vec<Vec<f32>> = Vec::with_capacity(store.steps());
    if store.steps() == 0 {
        return Ok(all);
    }
    let mut degrees = Degrees::new(store, Constant::Degrees, 0)?;
    loop {
        all.push(degrees.inward.iter().map(|&degree| degree as f32).collect());
        if all.len() == store.steps() {
            return Ok(all);
        }
        degrees.advance()?;
    }
}

/// How a degree is seen as a number.
pub fn log_of_one_plus(degree: u32) -> f32 {
    (degree as f32).ln_1p()
}
