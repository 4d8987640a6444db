//! What a plan holds in memory: the snapshots of a window, what is computed with them, and what may stay.

use std::collections::BTreeSet;
use std::ops::Range;

use kymo_graph::Step;

use super::{Parts, Pricing, WHOLE};
use crate::batch::Window;
use crate::parts::Part;
use crate::plan::SnapshotBytes;
use crate::shares::OwnersKey;
use crate::work::Work;

/// Bytes of an edge and of a vertex in the matrices of a snapshot: both orders, values, and where rows start.
const EDGE_BYTES: u64 = 36;
const VERTEX_BYTES: u64 = 60;

/// Bytes of a snapshot in memory, with this many vertices, edges and columns of features.
pub fn snapshot_bytes(vertices: u64, edges: u64, columns: u64) -> u64 {
    let rows = vertices.saturating_mul(columns.saturating_mul(4).saturating_add(VERTEX_BYTES));
    edges.saturating_mul(EDGE_BYTES).saturating_add(rows)
}

/// Bytes of a part of a snapshot as the model has it held.
fn snapshot(work: &Work, part: &Part) -> u64 {
    let (vertices, features) = (part.own + part.beyond, work.features as u64);
    let held = match work.held {
        Some([edge, vertex]) => edge * part.edges + (vertex + 4 * features) * vertices,
        None => snapshot_bytes(vertices, part.edges, features),
    };
    held + if part.rows == [0; 2] { 0 } else { part_lists(vertices, part.rows.iter().sum()) }
}

/// Bytes of what there is to a part beside edges and features: which vertices it has, twice, their degrees,
/// and the rows that go to others and come from them.
pub fn part_lists(vertices: u64, moved: u64) -> u64 {
    12 * vertices + 4 * moved
}

/// Bytes that a reader works in that goes through the edges at some vertices of this many in all: those edges
/// before and after a step is taken, changes that are put together, as they come in and as they go out, the
/// rows that a part is made from, and what is known of each vertex: by the reader, and while it is looked for
/// who needs which and where rows begin.
pub fn reader_bytes(vertices: u64, edges: u64) -> u64 {
    let (twice, changes, rows, each) = (2 * 8, 2 * 10, 4, 24 + 28);
    edges.saturating_mul(twice + changes + rows).saturating_add(vertices.saturating_mul(each))
}

impl Pricing<'_> {
    /// What is needed at once: the snapshots of a window and of the next one, which is read meanwhile, its
    /// reader, what the window computes, and parameters. Snapshots of other windows, and products, are kept
    /// while there is room.
    pub(super) fn memory(&mut self, parts: &Parts) {
        let mut most = vec![0; self.job.workers];
        for (worker, most) in most.iter_mut().enumerate() {
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
                    *most = (*most).max(self.at_once(parts, window, next, worker));
                }
            }
        }
        let (work, vertices) = (self.job.work, self.job.store.vertices() as u64);
        for (worker, (share, window)) in self.workers.iter_mut().zip(most).enumerate() {
            let mine = || parts.values().filter_map(|all| all.get(worker).or(all.first()));
            let largest = |bytes: &dyn Fn(&Part) -> u64| mine().map(bytes).max().unwrap_or(0);
            share.snapshots = SnapshotBytes {
                all: mine().map(|part| snapshot(work, part)).sum(),
                largest: largest(&|part| snapshot(work, part)),
                reader: largest(&|part| reader_bytes(vertices, part.edges + part.leaving)),
            };
            let beside = share.snapshots.reader + work.replicated as u64;
            let products: u64 = mine().map(|part| part.own * work.reused).sum();
            let [for_each, for_all] = work.buffers;
            let buffers = largest(&|part| part.own * for_each) + for_all;
            share.memory = window + beside;
            share.most = share.memory.max(share.snapshots.all + products + buffers + beside);
        }
    }

    /// Bytes of a window at a worker while it is trained on and the next one is read.
    pub(super) fn at_once(
        &self,
        parts: &Parts,
        window: &Range<Step>,
        next: Option<&Range<Step>>,
        worker: usize,
    ) -> u64 {
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
        held.iter().map(|key| snapshot(work, &part(key))).sum::<u64>() + rows * for_each + for_all
    }
}
