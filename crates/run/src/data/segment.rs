//! The constant columns of consecutive steps in memory: the rows of the first step, and below them those that
//! change later, each once. A step is a list of which row is whose.
//!
//! Law: row `at(t)[v]` of a segment has the bits of row `v` of [`Inputs::rows`] at step `t`.

use std::collections::VecDeque;
use std::num::NonZero;
use std::ops::{Range, RangeInclusive};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, available_parallelism};

use kymo_graph::{Step, Store, Vertex};
use kymo_tensor::{Aligned, Pool, Resident};

use super::degrees::Degrees;
use super::features::{Constant, Inputs};
use super::scale::Scales;
use super::stored::{Stored, piece};
use crate::error::Result;

#[cfg(test)]
mod tests;

/// Numbers that another thread is worth: all readers wait for the first segment.
const ENOUGH: usize = 1 << 21;

/// The rows of consecutive steps.
pub struct Segment {
    /// The steps.
    pub steps: Range<Step>,
    /// The rows of all vertices at the first step, and below them those that changed, in the order of steps.
    pub rows: Resident,
    /// Of each step, which row is whose; steps that change nothing share it with the one before.
    index: Vec<Option<Arc<Resident<u32>>>>,
}

impl Segment {
    /// Which row is whose at a step of the segment; `None`: the first ones, in the order of vertices.
    pub fn at(&self, t: Step) -> Option<&Arc<Resident<u32>>> {
        self.index.get(t.checked_sub(self.steps.start)?)?.as_ref()
    }

    /// Bytes of the rows and of the lists.
    pub fn bytes(&self) -> usize {
        let mut lists: Vec<&Arc<Resident<u32>>> = self.index.iter().flatten().collect();
        lists.dedup_by(|one, other| Arc::ptr_eq(one, other));
        size_of::<f32>() * (self.rows.len() + lists.iter().map(|list| list.len()).sum::<usize>())
    }
}

/// How large a segment is beside the rows of its first step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extent {
    /// How many rows change behind the first step.
    pub changed: usize,
    /// How many lists there are.
    pub lists: usize,
}

/// Cuts all steps into segments, by how many rows each of them changes: one goes on as long as what it adds
/// to the rows of its first step takes no more than they do. So none takes more than twice those rows, and no
/// step takes more than it would with rows of its own.
pub fn cut(changed: &[usize], vertices: usize, width: usize) -> (Vec<Range<Step>>, Vec<Extent>) {
    let (mut segments, mut extents) = (Vec::<Range<Step>>::new(), Vec::<Extent>::new());
    for (t, &changed) in changed.iter().enumerate() {
        if let (Some(steps), Some(extent)) = (segments.last_mut(), extents.last_mut()) {
            let next =
                Extent { changed: extent.changed + changed, lists: extent.lists + usize::from(changed > 0) };
            let more = next.changed.saturating_mul(width).saturating_add(next.lists * vertices);
            let is_numbered = vertices + next.changed <= u32::MAX as usize;
            if changed == 0 || (more <= vertices.saturating_mul(width) && is_numbered) {
                (steps.end, *extent) = (t + 1, next);
                continue;
            }
        }
        segments.push(t..t + 1);
        extents.push(Extent { changed: 0, lists: 0 });
    }
    (segments, extents)
}

/// The columns of a step while a segment is read.
enum Columns<'a> {
    Stored(Stored<'a>),
    Degrees(Degrees<'a>),
}

impl<'a> Columns<'a> {
    fn new(store: &'a Store, constant: Constant, steps: Range<Step>) -> Result<Columns<'a>> {
        Ok(match constant {
            Constant::Stored(columns) => Columns::Stored(Stored::new(store, columns, steps)?),
            _ => Columns::Degrees(Degrees::new(store, constant, steps.start)?),
        })
    }

    fn columns(&self) -> usize {
        match self {
            Columns::Stored(stored) => stored.columns,
            Columns::Degrees(degrees) => degrees.constant.columns(),
        }
    }

    /// Writes the rows of the last of these steps, which shows all of them. Returns the vertices whose
    /// columns are others at each of them than at the one before, where that matters. `done` is told of
    /// bytes that have been read.
    fn write_first(
        &mut self,
        steps: RangeInclusive<Step>,
        scales: &Scales,
        (rows, width): (&mut [f32], usize),
        matters: bool,
        done: impl Fn(usize) + Sync,
    ) -> Result<VecDeque<Vec<Vertex>>> {
        let (first, last) = (*steps.start(), *steps.end());
        let (count, columns) = (piece(width), self.columns());
        // Before the first of them, there was nothing.
        let mut changed = VecDeque::from([(0..(rows.len() / width) as Vertex).collect()]);
        match self {
            Columns::Stored(stored) => {
                let (stored, threads) = (&*stored, rows.len() / ENOUGH);
                let pieces = Mutex::new(rows.chunks_mut(count * width).enumerate());
                let write = || {
                    loop {
                        let next = pieces.lock().unwrap_or_else(PoisonError::into_inner).next();
                        let Some((number, rows)) = next else { return };
                        for t in steps.clone() {
                            let places = &mut rows[(last - t) * columns..];
                            stored.write(t, scales, number * count, places, width);
                        }
                        done(size_of_val(rows));
                    }
                };
                // Cores are counted only for many: to ask the system takes longer than to write few.
                let cores = || available_parallelism().map_or(1, NonZero::get);
                let threads = if threads > 1 { threads.min(cores()) } else { 1 };
                std::thread::scope(|scope| {
                    for _ in 1..threads {
                        // Where there is no thread for it, the others do its part.
                        let _ = Builder::new().name("reader".into()).spawn_scoped(scope, write);
                    }
                    write();
                });
                changed.extend(steps.skip(1).filter(|_| matters).map(|t| stored.changed(t)));
            }
            Columns::Degrees(degrees) => {
                for t in steps {
                    if t > first {
                        degrees.advance()?;
                        changed.extend(matters.then(|| degrees.changed()));
                    }
                    let row = |(vertex, row): (usize, &mut [f32])| {
                        degrees.write(scales, vertex as Vertex, &mut row[(last - t) * columns..]);
                    };
                    rows.chunks_exact_mut(width).enumerate().for_each(row);
                }
            }
        }
        Ok(changed)
    }

    /// Goes to step `t`, the one after the current one; the vertices whose columns are others, ascending.
    fn changed(&mut self, t: Step) -> Result<Vec<Vertex>> {
        match self {
            Columns::Stored(stored) => Ok(stored.changed(t)),
            Columns::Degrees(degrees) => {
                degrees.advance()?;
                Ok(degrees.changed())
            }
        }
    }

    /// Writes the rows that some vertices have at the current step `t`; `before` has those of the step
    /// before.
    fn write_changed<'r>(
        &self,
        t: Step,
        scales: &Scales,
        vertices: &[Vertex],
        (rows, width): (&mut [f32], usize),
        before: impl Fn(Vertex) -> &'r [f32],
    ) {
        let (count, columns) = (piece(width), self.columns());
        let pieces = rows.chunks_mut(count * width).zip(vertices.chunks(count));
        pieces.for_each(|(rows, vertices)| {
            for (row, &vertex) in rows.chunks_exact_mut(width).zip(vertices) {
                // What was the current step is the one before it now.
                row[columns..].copy_from_slice(&before(vertex)[..width - columns]);
                if let Columns::Degrees(degrees) = self {
                    degrees.write(scales, vertex, row);
                }
            }
            if let Columns::Stored(stored) = self {
                stored.write_changed(t, scales, vertices, (rows, width), &before);
            }
        });
    }
}

impl Inputs {
    /// Reads a segment into arrays of a pool: what is in memory meanwhile is the segment.
    pub fn read_segment(&self, store: &Store, number: usize, pool: &Pool) -> Result<Segment> {
        let steps = self.segments[number].clone();
        let (width, vertices) = (self.constant_width(), self.vertices);
        if width == 0 || vertices == 0 {
            return Ok(Segment { index: vec![None; steps.len()], rows: Vec::new().into(), steps });
        }
        let begin = (steps.start + 1).saturating_sub(self.lags);
        let mut now = Columns::new(store, self.constant, begin..steps.end)?;
        let mut rows = Aligned::zeros((vertices + self.extents[number].changed) * width, pool);
        // What changed at each of the steps that a row shows. What lies before the first step is the mean.
        let first = (&mut rows[..vertices * width], width);
        // Rows that have been copied need not stay in memory twice.
        let done = |bytes: usize| {
            store.has_read(bytes);
        };
        let mut recent = now.write_first(begin..=steps.start, &self.scales, first, steps.len() > 1, done)?;
        let mut index: Vec<Option<Arc<Resident<u32>>>> = vec![None];
        let mut used = vertices;
        for t in steps.clone().skip(1) {
            recent.push_back(now.changed(t)?);
            if recent.len() > self.lags {
                recent.pop_front();
            }
            let changed = union(&recent);
            let last = index.last().cloned().flatten();
            if changed.is_empty() {
                index.push(last);
                continue;
            }
            let mut list = match last {
                Some(last) => pool.copied(&last),
                None => {
                    let mut list = pool.empty(vertices);
                    list.extend(0..vertices as u32);
                    list
                }
            };
            let (known, new) = rows.split_at_mut(used * width);
            let before = |vertex: Vertex| {
                let row = list[vertex as usize] as usize;
                &known[row * width..(row + 1) * width]
            };
            let new = (&mut new[..changed.len() * width], width);
            now.write_changed(t, &self.scales, &changed, new, before);
            for (row, &vertex) in (used as u32..).zip(&changed) {
                list[vertex as usize] = row;
            }
            used += changed.len();
            index.push(Some(Arc::new(Resident::reusable(list, pool))));
        }
        rows.truncate(used * width);
        Ok(Segment { steps, rows: Resident::aligned(rows, pool), index })
    }
}

/// The vertices in any of these lists, ascending as they are.
fn union(lists: &VecDeque<Vec<Vertex>>) -> Vec<Vertex> {
    let mut all: Vec<Vertex> = lists.iter().flatten().copied().collect();
    if lists.len() > 1 {
        // A stable sort sees the runs, and merges them.
        all.sort();
        all.dedup();
    }
    all
}
