//! Rows that move between workers: from one layout to another, and to the workers that need a neighbour's
//! row.

use std::sync::Arc;

use kymo_graph::{Snapshot, Step, Vertex};

use crate::layout::{Layout, Owners};

/// Rows that move between workers, as one of them sees it.
///
/// Row `sends[p][i]` of the input goes to worker `p`, where it becomes row `receives[me][i]` of `p`'s output;
/// rows that stay are the entry of oneself. The gradient of a route is the route reversed (sums where a row
/// was sent to several).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Who sees it like this.
    pub rank: usize,
    /// Rows of the input.
    pub rows_in: usize,
    /// Rows of the output.
    pub rows_out: usize,
    /// For each worker, the rows of the input that go there.
    pub sends: Vec<Vec<u32>>,
    /// For each worker, the rows of the output that come from there.
    pub receives: Vec<Vec<u32>>,
}

impl Route {
    /// From the owners at one place to the owners at another: rows are the own vertices, ascending, on both
    /// sides.
    pub fn between(from: Owners<'_>, to: Owners<'_>, vertices: usize, workers: usize, rank: usize) -> Route {
        let (mut sends, mut receives) = (vec![Vec::new(); workers], vec![Vec::new(); workers]);
        let (mut rows_in, mut rows_out) = (0, 0);
        for vertex in 0..vertices as Vertex {
            let (before, after) = (from.of(vertex), to.of(vertex));
            if before == rank {
                sends[after].push(rows_in);
                rows_in += 1;
            }
            if after == rank {
                receives[before].push(rows_out);
                rows_out += 1;
            }
        }
        Route { rank, rows_in: rows_in as usize, rows_out: rows_out as usize, sends, receives }
    }

    /// Whether this worker's output is its input. The others may still move rows between themselves.
    pub fn is_identity(&self) -> bool {
        let same = |rows: &[u32]| rows.iter().copied().eq(0..self.rows_in as u32);
        self.rows_in == self.rows_out
            && self.rows_sent() == 0
            && self.rows_received() == 0
            && same(&self.sends[self.rank])
            && same(&self.receives[self.rank])
    }

    /// The route of the gradients.
    pub fn reversed(&self) -> Route {
        Route {
            rank: self.rank,
            rows_in: self.rows_out,
            rows_out: self.rows_in,
            sends: self.receives.clone(),
            receives: self.sends.clone(),
        }
    }

    /// Rows that leave for other workers.
    pub fn rows_sent(&self) -> usize {
        self.others(&self.sends)
    }

    /// Rows that come from other workers.
    pub fn rows_received(&self) -> usize {
        self.others(&self.receives)
    }

    fn others(&self, lists: &[Vec<u32>]) -> usize {
        lists.iter().enumerate().filter(|(worker, _)| *worker != self.rank).map(|(_, rows)| rows.len()).sum()
    }
}

/// Rows of neighbours that a worker needs at a step to aggregate for its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HaloRows {
    /// The own vertices, ascending.
    pub own: Arc<Vec<Vertex>>,
    /// The neighbours that belong to others, grouped by owner in the order of ranks, ascending in each group.
    pub beyond: Vec<Vertex>,
    /// From the own rows to the rows of `beyond`: nothing is sent to oneself.
    pub route: Route,
}

impl HaloRows {
    /// One pass over the edges: every worker can work out its own without asking the others.
    ///
    /// A vertex needs the source of each edge that leads to it. `both` also counts the targets of own
    /// vertices' edges as neighbours (random walks in both directions).
    pub fn of(
        snapshot: &Snapshot<'_>,
        owners: Owners<'_>,
        vertices: usize,
        workers: usize,
        rank: usize,
        both: bool,
    ) -> HaloRows {
        HaloRows::around(Arc::new(owners.own(rank, vertices)), snapshot, owners, workers, rank, both)
    }

    /// As [`HaloRows::of`], at a step of a layout whose list of own vertices it shares.
    pub fn at(snapshot: &Snapshot<'_>, layout: &Layout, step: Step, rank: usize, both: bool) -> HaloRows {
        HaloRows::around(layout.own(rank, step), snapshot, layout.owners(step), layout.workers(), rank, both)
    }

    fn around(
        own: Arc<Vec<Vertex>>,
        snapshot: &Snapshot<'_>,
        owners: Owners<'_>,
        workers: usize,
        rank: usize,
        both: bool,
    ) -> HaloRows {
        let (mut needs, mut sends) = (vec![Vec::new(); workers], vec![Vec::new(); workers]);
        // Where one worker owns all there is nothing to look for.
        let vertices = if let Owners::Each(owners) = owners { owners.len() } else { 0 };
        // Of each own vertex, who needs its row; of another's, that it is needed, as its owner's bit:
        // sixty-four workers at a time. To mark and collect is cheaper than to sort the ends of edges.
        let mut marks = vec![0u64; vertices];
        for first in (0..workers).step_by(64).filter(|_| vertices > 0) {
            marks.fill(0);
            let bit = |worker: usize| match worker.checked_sub(first) {
                Some(place @ 0..64) => 1u64 << place,
                _ => 0,
            };
            for edge in snapshot.edges.iter() {
                let (source, target) = (owners.of(edge.source()), owners.of(edge.target()));
                if source == target || (source != rank && target != rank) {
                    continue;
                }
                let other = bit(if target == rank { source } else { target });
                marks[edge.source() as usize] |= other;
                if both {
                    marks[edge.target() as usize] |= other;
                }
            }
            for (row, &vertex) in (0..).zip(&own[..]) {
                let mut left = std::mem::take(&mut marks[vertex as usize]);
                while left != 0 {
                    sends[first + left.trailing_zeros() as usize].push(row);
                    left &= left - 1;
                }
            }
            for (vertex, _) in (0..).zip(&marks).filter(|(_, mark)| **mark != 0) {
                needs[owners.of(vertex)].push(vertex);
            }
        }
        // They are kept as long as the step is.
        sends.iter_mut().for_each(Vec::shrink_to_fit);
        let mut next = 0;
        let receives = needs.iter().map(|list| {
            let first = next;
            next += list.len() as u32;
            (first..next).collect()
        });
        let receives: Vec<Vec<u32>> = receives.collect();
        let beyond = needs.concat();
        let route = Route { rank, rows_in: own.len(), rows_out: beyond.len(), sends, receives };
        HaloRows { own, beyond, route }
    }
}
