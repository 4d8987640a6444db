//! What a plan holds in memory: the snapshots of a window, what is computed with them, and what may stay.

use std::collections::BTreeSet;
use std::ops::Range;

use kymo_graph::Step;

use super::{Parts, Pricing, WHOLE};
use crate::batch::Window;
use crate::parts::Part;
use crate::plan::{LastRows, SnapshotBytes};
use crate::shares::OwnersKey;
use crate::work::{Movement, Moves, Work};

/// Bytes of an edge and of a vertex in the matrices of a snapshot: both orders, values, and where rows start.
const EDGE_BYTES: u64 = 36;
const VERTEX_BYTES: u64 = 60;

/// Steps that are there beside those of a window: one that was read ahead, and one that is being read.
const READ_AHEAD: u64 = 2;

/// Bytes of a snapshot in memory, with this many vertices, edges and columns of features.
pub fn snapshot_bytes(vertices: u64, edges: u64, columns: u64) -> u64 {
    let rows = vertices.saturating_mul(columns.saturating_mul(4).saturating_add(VERTEX_BYTES));
    edges.saturating_mul(EDGE_BYTES).saturating_add(rows)
}

/// Bytes of a part of a snapshot as the model has it held.
fn snapshot(work: &Work, part: &Part) -> u64 {
    let (vertices, features) = (part.own + part.beyond, work.features as u64);
    let is_part = part.rows != [0; 2];
    let held = match if is_part { work.held_in_part } else { work.held } {
        Some([edge, vertex]) => edge * part.edges + (vertex + 4 * features) * vertices,
        None => snapshot_bytes(vertices, part.edges, features),
    };
    held + if is_part { part_lists(vertices, part.rows.iter().sum()) } else { 0 }
}

/// Bytes of what there is to a part beside edges and features: which vertices it has, twice, their degrees,
/// and the rows that go to others and come from them.
pub fn part_lists(vertices: u64, moved: u64) -> u64 {
    12 * vertices + 4 * moved
}

/// Bytes that a reader works in that goes through the edges at some vertices of this many in all: those edges
/// before and after a step is taken, changes that are put together, as they come in and as they go out, the
/// rows that a part is made from, and what is known of each vertex: by the reader, and while it is looked for
/// who needs which and where rows begin. Where a step is stored whole, the pages of all its edges are in
/// memory while it is read.
pub fn reader_bytes(vertices: u64, edges: u64, stored: u64) -> u64 {
    let (twice, changes, rows, each) = (2 * 8, 2 * 10, 4, 24 + 28);
    let own = edges.saturating_mul(twice + changes + rows).saturating_add(vertices.saturating_mul(each));
    own.saturating_add(stored.saturating_mul(8))
}

impl Pricing<'_> {
    /// What is needed at once: the snapshots of a window and of the next one, as far as it is read meanwhile,
    /// its reader, what the window computes, and parameters. Snapshots of other windows, and products, are
    /// kept while there is room.
    pub(super) fn memory(&mut self, parts: &Parts) {
        let (work, vertices) = (self.job.work, self.job.store.vertices() as u64);
        let edges = |all: &Vec<Part>| all.iter().map(|part| part.edges).sum::<u64>();
        let stored = parts.values().map(edges).max().unwrap_or(0);
        for worker in 0..self.job.workers {
            let mine = || parts.values().filter_map(|all| all.get(worker).or(all.first()));
            let largest = |bytes: &dyn Fn(&Part) -> u64| mine().map(bytes).max().unwrap_or(0);
            let snapshots = SnapshotBytes {
                all: mine().map(|part| snapshot(work, part)).sum(),
                largest: largest(&|part| snapshot(work, part)),
                reader: largest(&|part| reader_bytes(vertices, part.edges + part.leaving, stored)),
            };
            let beside = snapshots.reader + work.replicated as u64;
            let products: u64 = mine().map(|part| part.own * work.reused).sum();
            let moved: u64 = mine().map(|part| part.rows.iter().sum::<u64>()).sum();
            let last_rows = moved * work.bytes_between_neighbours();
            let [for_each, for_all] = work.buffers;
            let buffers = largest(&|part| part.own * for_each) + for_all;
            let memory = self.window_memory(parts, worker, snapshots) + beside;
            let most = memory.max(snapshots.all + products + buffers + beside);
            let share = &mut self.workers[worker];
            (share.snapshots, share.memory, share.most) = (snapshots, memory, most);
            share.last_rows = self.shares.map(|_| LastRows { bytes: last_rows, share: 1.0 });
        }
    }

    /// The most bytes of a window, of what it computes, and of what is read while it is trained on: the next
    /// window where it is known, and in any case a step that is ready and one that is on its way.
    fn window_memory(&self, parts: &Parts, worker: usize, snapshots: SnapshotBytes) -> u64 {
        let mut most = 0;
        for iteration in &self.job.epoch.iterations {
            let known = |window: &&Window| !self.scales() || self.job.looks_at(window.number);
            let windows: Vec<&Range<Step>> = iteration
                .of(worker)
                .iter()
                .flat_map(|batch| &batch.windows)
                .filter(known)
                .map(|window| &window.steps)
                .collect();
            for (place, window) in windows.iter().enumerate() {
                let next = windows.get(place + 1).copied();
                let [held, computed] = self.at_once(parts, window, next, worker);
                let [alone, _] = self.at_once(parts, window, None, worker);
                let passing = (alone + READ_AHEAD * snapshots.largest).min(snapshots.all);
                most = most.max(held.max(passing) + computed);
            }
        }
        most
    }

    /// Bytes of the snapshots of a window at a worker, with those of the next one, and of what the window
    /// computes.
    pub(super) fn at_once(
        &self,
        parts: &Parts,
        window: &Range<Step>,
        next: Option<&Range<Step>>,
        worker: usize,
    ) -> [u64; 2] {
        let work = self.job.work;
        let key = |window: &Range<Step>, t: Step| {
            (t, self.shares.map_or(WHOLE, |shares| shares.structure(window, t).key()))
        };
        let part = |key: &(Step, OwnersKey)| {
            let all = parts.get(key);
            all.and_then(|all| all.get(worker).or(all.first())).cloned().unwrap_or_default()
        };
        let here: BTreeSet<(Step, OwnersKey)> = window.clone().map(|t| key(window, t)).collect();
        let ahead = next.into_iter().flat_map(|next| next.clone().map(|t| key(next, t)));
        let held: BTreeSet<(Step, OwnersKey)> = here.iter().copied().chain(ahead).collect();
        let rows = here.iter().map(|key| part(key).own).max().unwrap_or(0);
        let [for_each, for_all] = work.buffers;
        // Rows of neighbours on their way: those of a step as they go out, those of all as they come.
        let of_neighbours = |movement: &&Movement| movement.moves == Moves::Neighbours;
        let movements = work.steps.iter().flatten().filter(of_neighbours);
        let row = movements.map(|movement| 4 * movement.columns as u64).max().unwrap_or(0);
        let [sent, received] = here
            .iter()
            .map(|key| part(key).rows)
            .fold([0, 0], |[sent, received], rows| [rows[0].max(sent), received + rows[1]]);
        let moved = (sent + received) * row;
        [held.iter().map(|key| snapshot(work, &part(key))).sum(), rows * for_each + for_all + moved]
    }
}
