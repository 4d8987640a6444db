//! One walk over all steps before training: how columns are to be scaled, how many rows each step changes,
//! and whether all numbers are finite. A row is looked at when it changes, not at every step.

use std::ops::Range;
use std::sync::Mutex;

use kymo_graph::store::StoredFeatures;
use kymo_graph::{Step, Store, Vertex};
use rayon::prelude::*;

use super::degrees::Degrees;
use super::dense::not_a_number;
use super::features::Constant;
use super::scale::Scales;
use super::stored::{Stored, is_same, piece};
use crate::error::{Error, Result};
use crate::workers::WorkerGroup;

/// What is to be found out.
pub struct Survey<'a> {
    /// The data.
    pub store: &'a Store,
    /// Where columns come from.
    pub constant: Constant,
    /// How many steps a row shows.
    pub lags: usize,
    /// The steps that columns are scaled by, where they are.
    pub scaled_by: Option<Range<Step>>,
    /// Those who divide the walk over stored features among them, where they are several processes.
    pub among: Option<&'a WorkerGroup>,
}

/// What is found out: how columns are scaled, and how many rows are others than at the step before, of each
/// step.
type Found = (Scales, Vec<usize>);

/// A value that is no number: its step, its vertex, its column and what is there, as its bits.
type Odd = (Step, usize, usize, u32);

/// What one process found out: sums of its pieces, as bits, or what is no number, and rows that change.
type Told = (Vec<std::result::Result<Vec<[u64; 2]>, Odd>>, Vec<usize>);

impl Survey<'_> {
    /// Walks through all steps.
    pub fn walk(&self) -> Result<Found> {
        let steps = self.store.steps();
        let (sums, changed) = match self.constant {
            _ if self.constant.columns() == 0 || steps == 0 => (Vec::new(), vec![0; steps]),
            Constant::Stored(columns) => self.stored(&Stored::new(self.store, columns, 0..steps)?)?,
            _ => self.degrees()?,
        };
        let training = self.scaled_by.as_ref().map_or(0, Range::len);
        Ok((Scales::new(&sums, (training * self.store.vertices()).max(1) as f64), changed))
    }

    /// How many rows each step changes at most, by the counts of the store alone.
    pub fn estimate(&self) -> Result<Vec<usize>> {
        let (steps, vertices) = (self.store.steps(), self.store.vertices());
        if self.constant.columns() == 0 {
            return Ok(vec![0; steps]);
        }
        let counts = self.store.change_counts(0..steps)?.into_iter();
        let most = counts.map(|counts| match self.constant {
            Constant::Stored(_) => counts.segments,
            // An edge has two ends.
            _ => counts.edges.map(|edges| 2 * edges),
        });
        let most: Vec<usize> = most.map(|most| most.unwrap_or(vertices)).collect();
        let shown = |t: Step| &most[(t + 1).saturating_sub(self.lags)..=t];
        Ok((0..steps).map(|t| shown(t).iter().fold(0, |sum, most| vertices.min(sum + most))).collect())
    }

    fn tally(&self, vertices: usize) -> Tally<'_> {
        let steps = self.store.steps();
        let columns = if self.scaled_by.is_some() { self.constant.columns() } else { 0 };
        // The first step comes into view, and into that of the steps that show it.
        let changed = (0..steps).map(|t| if t < self.lags { vertices } else { 0 }).collect();
        Tally { survey: self, since: vec![0; vertices], sums: vec![[0.0; 2]; columns], changed }
    }

    fn degrees(&self) -> Result<(Vec<[f64; 2]>, Vec<usize>)> {
        let (steps, vertices) = (self.store.steps(), self.store.vertices());
        let mut degrees = Degrees::new(self.store, self.constant, 0)?;
        let mut tally = self.tally(vertices);
        for t in 1..steps {
            degrees.advance()?;
            // What leads from a step to the next is looked at once.
            self.store.release_edges(t)?;
            for &(vertex, before) in &degrees.before {
                tally.change(vertex as usize, &degrees.logarithms(before), t);
            }
        }
        for vertex in 0..vertices {
            tally.add(&degrees.logarithms(degrees.of(vertex as Vertex)), tally.since[vertex]..steps);
        }
        Ok((tally.sums, tally.changed))
    }

    /// Vertices are gone through in pieces, each from the first step to the last.
    fn stored(&self, stored: &Stored<'_>) -> Result<(Vec<[f64; 2]>, Vec<usize>)> {
        let (steps, vertices) = (self.store.steps(), self.store.vertices());
        let rows = piece(self.constant.columns());
        let changed = Mutex::new(vec![0; steps]);
        let (count, [rank, size]) =
            (vertices.div_ceil(rows), self.among.map_or([0, 1], |group| [group.rank(), group.size()]));
        let mine = count * rank / size..count * (rank + 1) / size;
        let pieces = mine.into_par_iter().map(|number| {
            let first = number * rows;
            let mut tally = self.tally(rows.min(vertices - first));
            let bytes = self.piece(stored, first, &mut tally)?;
            // Nobody needs all of the store at once.
            self.store.has_read(bytes);
            let mut changed = changed.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            changed.iter_mut().zip(&tally.changed).for_each(|(all, changed)| *all += changed);
            Ok(tally.sums.iter().map(|sums| sums.map(f64::to_bits)).collect())
        });
        let pieces = pieces.collect();
        let (pieces, changed) =
            self.told((pieces, changed.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)))?;
        // The first in the order of steps and vertices, whichever piece it is in.
        let odd = pieces.iter().filter_map(|piece| piece.as_ref().err());
        if let Some(&(t, vertex, column, found)) = odd.min_by_key(|odd| (odd.0, odd.1)) {
            return Err(not_a_number(self.store, Some(t), vertex, column, f32::from_bits(found))?);
        }
        let mut sums = self.tally(0).sums;
        for piece in pieces.iter().flatten() {
            for (all, sums) in sums.iter_mut().zip(piece) {
                *all = [all[0] + f64::from_bits(sums[0]), all[1] + f64::from_bits(sums[1])];
            }
        }
        Ok((sums, changed))
    }

    /// What all processes found out together, from what this one did: pieces are in the order of vertices,
    /// as if one had gone through them all.
    fn told(&self, mine: Told) -> Result<Told> {
        let Some(group) = self.among else { return Ok(mine) };
        let bytes = serde_json::to_vec(&mine).map_err(|error| Error::Bug(error.to_string()))?;
        let mut all = (Vec::new(), vec![0; self.store.steps()]);
        for (rank, bytes) in group.all_gather(&bytes)?.iter().enumerate() {
            let told: Option<Told> = serde_json::from_slice(bytes).ok();
            let told = told.filter(|told| told.1.len() == all.1.len());
            let (pieces, changed) =
                told.ok_or_else(|| Error::peer(rank, "said something of features that makes no sense"))?;
            all.0.extend(pieces);
            all.1.iter_mut().zip(changed).for_each(|(all, changed)| *all += changed);
        }
        Ok(all)
    }

    /// Goes through the steps of some vertices; the bytes that were looked at.
    fn piece(
        &self,
        stored: &Stored<'_>,
        first: usize,
        tally: &mut Tally<'_>,
    ) -> std::result::Result<usize, Odd> {
        let columns = self.constant.columns();
        let vertices = tally.since.len();
        let (mut rows, mut seen) = (vec![0.0; vertices * columns], 0);
        let check = |t: Step, vertex: usize, column: usize, values: &[f32]| {
            let odd = values.iter().position(|value| !value.is_finite());
            odd.map_or(Ok(()), |at| Err((t, vertex, column + at, values[at].to_bits())))
        };
        // What has lived no step counts for nothing: the zeros before the first step, and rows of which a
        // second segment changes at the same step.
        for (t, change) in stored.changes().iter().enumerate() {
            match change {
                StoredFeatures::Whole(all) => {
                    seen += rows.len();
                    for (index, row) in rows.chunks_exact_mut(columns).enumerate() {
                        let new = stored.row(all, first + index);
                        if !is_same(row, new) {
                            check(t, first + index, 0, new)?;
                            tally.change(index, row, t);
                            row.copy_from_slice(new);
                        }
                    }
                }
                StoredFeatures::Segments(segments) => {
                    let range = first as Vertex..(first + vertices) as Vertex;
                    for (vertex, column, values) in segments.within(range).iter() {
                        seen += values.len();
                        let index = vertex as usize - first;
                        check(t, vertex as usize, column, values)?;
                        let row = &mut rows[index * columns..(index + 1) * columns];
                        tally.change(index, row, t);
                        row[column..column + values.len()].copy_from_slice(values);
                    }
                }
            }
        }
        for (index, row) in rows.chunks_exact(columns).enumerate() {
            tally.add(row, tally.since[index]..self.store.steps());
        }
        Ok(size_of::<f32>() * seen)
    }
}

/// What the rows of some vertices come to.
struct Tally<'a> {
    survey: &'a Survey<'a>,
    /// The step that each row has been the same since.
    since: Vec<Step>,
    /// Of each column that is to be scaled, the values and their squares over the steps it is scaled by.
    sums: Vec<[f64; 2]>,
    /// Of each step, how many rows are others than at the step before, with what they show of earlier steps.
    changed: Vec<usize>,
}

impl Tally<'_> {
    /// The row at `index`, which was `old`, is another one from step `t` on.
    fn change(&mut self, index: usize, old: &[f32], t: Step) {
        let since = std::mem::replace(&mut self.since[index], t);
        self.add(old, since..t);
        // A change is in view for as many steps as a row shows; where the last one is, it counts already.
        let (steps, lags) = (self.changed.len(), self.survey.lags);
        let until = steps.min(t + lags);
        self.changed[until.min(t.max(since + lags))..until].iter_mut().for_each(|count| *count += 1);
    }

    /// Counts a row at each of these steps that columns are scaled by.
    fn add(&mut self, row: &[f32], steps: Range<Step>) {
        let Some(train) = &self.survey.scaled_by else { return };
        let times = train.end.min(steps.end).saturating_sub(train.start.max(steps.start));
        if times > 0 {
            for (sums, &value) in self.sums.iter_mut().zip(row) {
                let (value, times) = (f64::from(value), times as f64);
                sums[0] += value * times;
                sums[1] += value * value * times;
            }
        }
    }
}
