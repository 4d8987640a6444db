//! Snapshots in memory, loaded when they are first needed.
//!
//! As many as fit into the memory of the run are kept, the first ones that are asked for: training goes round
//! and round, and a cache that throws out the oldest of a circle throws out the one that is needed next.
//! Those that do not fit live as long as the windows around them.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kymo_graph::{Step, Store, Vertex};
use kymo_model::{Budget, Graph, ReuseSlots};
use kymo_plan::price::snapshot_bytes;
use kymo_plan::shares::OwnersKey;
use kymo_plan::{Neighbourhood, Ownership};
use kymo_tensor::Resident;

use super::features::Inputs;
use super::source::{Piece, SnapshotSource};
use crate::error::Result;
use crate::halo::{Cells, Neighbours};

/// A snapshot in memory.
pub struct Loaded {
    /// Its edges.
    pub graph: Graph,
    /// The constant columns of its vertices, and below them those of their neighbours elsewhere.
    pub rows: Resident,
    /// The vertices of those rows, where they are not all.
    pub vertices: Option<Arc<Vec<Vertex>>>,
    /// What is kept of its products.
    pub slots: ReuseSlots,
    /// What is elsewhere, where not all of it is here.
    pub neighbours: Option<Arc<Neighbours>>,
    budget: Arc<Budget>,
    taken: usize,
}

impl Drop for Loaded {
    fn drop(&mut self) {
        self.budget.give(self.taken);
    }
}

/// The snapshots of a run.
pub struct Snapshots {
    store: Arc<Store>,
    inputs: Arc<Inputs>,
    source: Arc<dyn SnapshotSource>,
    budget: Arc<Budget>,
    /// The budget at the beginning.
    all: usize,
    cells: Option<Arc<Cells>>,
    held: Mutex<Held>,
}

/// A step, and who owns its vertices where they are not all here.
type Key = (Step, Option<OwnersKey>);

struct Held {
    kept: BTreeMap<Key, Arc<Loaded>>,
    recent: VecDeque<(Key, Arc<Loaded>)>,
    /// How many recent ones are enough for a window.
    window: usize,
}

impl Snapshots {
    /// Snapshots from `source`, in windows of `window` steps, within `memory` bytes where that is possible: a
    /// window must fit.
    pub fn new(
        (store, inputs): (Arc<Store>, Arc<Inputs>),
        source: Arc<dyn SnapshotSource>,
        window: usize,
        memory: usize,
        cells: Option<Arc<Cells>>,
    ) -> Snapshots {
        let steps = store.steps();
        let edges = (store.manifest().edges as usize).div_ceil(steps.max(1));
        let directions = if store.manifest().directed { 1 } else { 2 };
        let each = bytes(store.vertices(), edges * directions, inputs.constant_width());
        // Where not all fit, those of the window come out of the same memory.
        let reserve = if each.saturating_mul(steps) > memory { each.saturating_mul(window + 1) } else { 0 };
        let held = Held { kept: BTreeMap::new(), recent: VecDeque::new(), window };
        let all = memory.saturating_sub(reserve);
        let budget = Budget::new(all);
        Snapshots { store, inputs, source, budget, all, cells, held: Mutex::new(held) }
    }

    /// The store.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Bytes of the budget that nothing has taken.
    pub fn left(&self) -> usize {
        self.budget.left()
    }

    /// Fails unless batches can have this neighbourhood.
    pub fn check(&self, neighbourhood: &Neighbourhood) -> Result<()> {
        self.source.check(neighbourhood)
    }

    /// How many snapshots of the store the budget has room for, if all are like the `loaded` ones so far; the
    /// recent ones count, too.
    pub fn fitting(&self, loaded: usize) -> usize {
        let each = (self.all - self.left()).div_ceil(loaded.max(1)).max(1);
        (self.all / each).max(loaded).min(self.store.steps())
    }

    /// Bytes of the snapshots in memory, and of what is kept of their products.
    pub fn held_bytes(&self) -> usize {
        let held = self.held();
        let columns = self.inputs.constant_width();
        let bytes = |loaded: &Arc<Loaded>| {
            bytes(loaded.graph.columns(), loaded.graph.edges(), columns) + loaded.slots.bytes()
        };
        held.kept.values().map(bytes).sum::<usize>()
            + held.recent.iter().map(|(_, loaded)| bytes(loaded)).sum::<usize>()
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        // A panic while it is held leaves nothing half done.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The snapshot of step `t`, or the part of it that the worker has in this window.
    pub fn load(&self, t: Step, window: &Range<Step>) -> Result<Arc<Loaded>> {
        let owners = self.cells.as_ref().map(|cells| cells.shares.structure(window, t));
        let key = (t, owners.as_ref().map(Ownership::key));
        {
            let held = self.held();
            let recent = || held.recent.iter().find(|(other, _)| *other == key).map(|(_, loaded)| loaded);
            if let Some(loaded) = held.kept.get(&key).or_else(recent) {
                return Ok(loaded.clone());
            }
        }
        let Piece { graph, rows, vertices, neighbours } = self.source.read(t, owners.as_ref())?;
        let bytes = bytes(graph.columns(), graph.edges(), self.inputs.constant_width());
        let fits = self.budget.take(bytes);
        let loaded = Arc::new(Loaded {
            graph,
            rows: rows.into(),
            vertices,
            slots: ReuseSlots::new(self.budget.clone()),
            neighbours,
            budget: self.budget.clone(),
            taken: if fits { bytes } else { 0 },
        });
        let mut held = self.held();
        if fits {
            held.kept.insert(key, loaded.clone());
        } else {
            held.recent.push_back((key, loaded.clone()));
            if held.recent.len() > held.window {
                held.recent.pop_front();
            }
        }
        Ok(loaded)
    }
}

/// Edges of a large step, in both directions where there are two: those of the last or of a step on average,
/// whichever are more. Most graphs grow, and to look at all steps would be to read the whole store.
pub fn largest_step(store: &Store) -> Result<u64> {
    let manifest = store.manifest();
    let directions = if manifest.directed { 1 } else { 2 };
    let mean = manifest.edges.div_ceil(manifest.steps.max(1)).saturating_mul(directions);
    Ok(match store.steps().checked_sub(1) {
        Some(last) => mean.max(store.edges(last)? as u64),
        None => mean,
    })
}

/// Bytes of a snapshot in memory.
fn bytes(vertices: usize, edges: usize, columns: usize) -> usize {
    snapshot_bytes(vertices as u64, edges as u64, columns as u64) as usize
}
