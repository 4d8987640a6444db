//! What a layout is expected to cost, by the numbers that chunks are assigned by: so that layouts made in
//! other ways can be compared with chunks.
//!
//! All workers train a window together, so what counts is the slowest of each window. Rows of neighbours are
//! counted as they will move; vertices that change owner within a window cost their state or rows, and, where
//! states are carried, the computation of rows goes step by step, each waiting for the slowest worker.

use std::ops::Range;

use kymo_graph::{Step, Vertex};
use rayon::prelude::*;

use super::cells::Cells;
use crate::error::{Error, Result};
use crate::layout::{Layout, Owners};
use crate::partition::{Ask, Partition};
use crate::parts::{Part, parts, present_of_each};

/// Seconds that the windows which are looked at, one after the other, are expected to take with a partition:
/// of each those of the slowest worker, to compute and to send and receive.
pub fn expected_seconds(ask: &Ask<'_>, partition: &Partition) -> Result<f64> {
    let cells = Cells::new(ask)?;
    for layout in [Some(&partition.structure), partition.time.as_ref()].into_iter().flatten() {
        let found = (layout.workers(), layout.vertices(), layout.steps());
        let expected = (ask.workers, ask.store.vertices(), ask.store.steps());
        if found != expected {
            let problem = format!(
                "the layout is for {found:?} workers, vertices and steps, asked about are {expected:?}; make \
                 the layout anew"
            );
            return Err(Error::settings("layout", problem));
        }
    }
    let places: Vec<usize> = (0..cells.steps.len()).collect();
    let windows: Vec<Range<usize>> =
        places.chunks(cells.window).map(|window| window[0]..window[0] + window.len()).collect();
    let window = |window: &Range<usize>| Window { cells: &cells, ask, partition }.seconds(window.clone());
    // Added up in the order of windows: the same for any number of threads.
    Ok(windows.par_iter().map(window).collect::<Result<Vec<f64>>>()?.iter().sum())
}

struct Window<'a> {
    cells: &'a Cells<'a>,
    ask: &'a Ask<'a>,
    partition: &'a Partition,
}

impl Window<'_> {
    fn seconds(&self, window: Range<usize>) -> Result<f64> {
        let (workers, traffic) = (self.ask.workers, &self.cells.traffic);
        let steps = &self.cells.steps[window.clone()];
        let structure = &self.partition.structure;
        let rows = self.partition.time.as_ref().unwrap_or(structure);
        let carries = traffic.needs.carries_state || self.partition.time.is_some();
        let last = steps.last().copied().unwrap_or(0);
        let row_at = |step: Step| if carries { step } else { last };
        let moving = steps.windows(2).any(|pair| !same(rows, row_at(pair[0]), rows, row_at(pair[1])));
        let (mut busy, mut one_after_the_other) = (vec![0.0; workers], 0.0);
        let mut bytes = vec![0; workers];
        for (index, &step) in steps.iter().enumerate() {
            let here = self.parts(window.start + index, step)?;
            for (worker, part) in here.iter().enumerate() {
                busy[worker] +=
                    part.present as f64 * traffic.cell_seconds + part.edges as f64 * traffic.edge_seconds;
                bytes[worker] += traffic.spatial * (part.rows[0] + part.rows[1]);
            }
            let owned = self.owned(rows, row_at(step), step);
            let mut slowest: f64 = 0.0;
            for (busy, owned) in busy.iter_mut().zip(owned) {
                let seconds = owned as f64 * traffic.row_seconds;
                match moving {
                    true => slowest = slowest.max(seconds),
                    false => *busy += seconds,
                }
            }
            one_after_the_other += slowest;
            if let Some(before) = index.checked_sub(1).map(|before| steps[before])
                && traffic.needs.carries_state
            {
                self.moved((structure, before), (structure, step), traffic.carried, &mut bytes);
                self.moved((rows, before), (rows, step), traffic.handed, &mut bytes);
            }
            self.moved((structure, step), (rows, row_at(step)), traffic.shuffled, &mut bytes);
        }
        let wire = |bytes: u64| bytes as f64 * traffic.byte_seconds / 2.0;
        let busy = busy.into_iter().zip(bytes).map(|(busy, bytes)| busy + wire(bytes));
        Ok(busy.fold(0.0, f64::max) + one_after_the_other)
    }

    /// What every worker has of a step while structure is encoded.
    fn parts(&self, place: usize, step: Step) -> Result<Vec<Part>> {
        let (workers, vertices) = (self.ask.workers, self.ask.store.vertices());
        match self.partition.structure.owners(step) {
            Owners::One(worker) => {
                let mut parts = vec![Part::default(); workers];
                let edges = self.ask.store.edges(step)? as u64;
                parts[worker] = Part::whole(vertices, edges, (self.ask.presence, step));
                Ok(parts)
            }
            owners => {
                let both = self.cells.traffic.needs.out_edges;
                let when = (self.ask.presence, step);
                let all = |edges: &[_]| parts(edges.iter().copied(), owners, vertices, workers, both, when).0;
                self.cells.with_edges(place, all)
            }
        }
    }

    /// How many vertices each worker has of those that are present at a step, by the owners at another.
    fn owned(&self, layout: &Layout, owners_at: Step, step: Step) -> Vec<u64> {
        let (workers, vertices) = (self.ask.workers, self.ask.store.vertices());
        present_of_each(layout.owners(owners_at), vertices, workers, (self.ask.presence, step))
    }

    /// Adds what vertices cost whose owners differ, to those who send and those who receive.
    fn moved(&self, from: (&Layout, Step), to: (&Layout, Step), each: u64, bytes: &mut [u64]) {
        if !same(from.0, from.1, to.0, to.1) {
            let [from, to] = [from, to].map(|(layout, step)| layout.owners(step));
            for vertex in 0..self.ask.store.vertices() as Vertex {
                let (from, to) = (from.of(vertex), to.of(vertex));
                if from != to {
                    bytes[from] += each;
                    bytes[to] += each;
                }
            }
        }
    }
}

/// Whether it is known without a look at the vertices that owners are the same.
fn same(one: &Layout, step: Step, other: &Layout, then: Step) -> bool {
    match (one.owners(step), other.owners(then)) {
        (Owners::One(a), Owners::One(b)) => a == b,
        (Owners::Each(a), Owners::Each(b)) => std::ptr::eq(a, b),
        _ => false,
    }
}
