//! Snapshots as models see them, loaded from the store when they are first needed.
//!
//! As many as fit into the memory of the run are kept, the first ones that are asked for: training goes round and round, and
//! whoever throws out the oldest of a circle throws out the one that is needed next. Those that do not fit live as long as
//! the windows around them.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use kymo_graph::{Step, Store, Vertex};
use kymo_model::{Budget, Graph, Kept};
use kymo_plan::Place;
use kymo_tensor::Held as Stays;

use crate::cells::{Cells, Neighbours};
use crate::error::{Error, Result};
use crate::inputs::Inputs;

/// A snapshot in memory.
pub struct Loaded {
    /// Its edges.
    pub graph: Graph,
    /// The constant columns of its vertices, and below them those of their neighbours elsewhere.
    pub rows: Stays,
    /// The vertices of those rows, where they are not all.
    pub vertices: Option<Arc<Vec<Vertex>>>,
    /// What is kept of its products.
    pub kept: Kept,
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

/// The snapshots of a store.
pub struct Frames {
    store: Arc<Store>,
    inputs: Arc<Inputs>,
    budget: Arc<Budget>,
    /// The budget at the beginning.
    all: usize,
    cells: Option<Arc<Cells>>,
    held: Mutex<Held>,
}

/// A step, and who owns its vertices.
type Key = (Step, usize);

struct Held {
    kept: BTreeMap<Key, Arc<Loaded>>,
    recent: VecDeque<(Key, Arc<Loaded>)>,
    /// How many recent ones are enough for a window.
    window: usize,
}

/// Bytes of an edge and of a vertex in the matrices of a snapshot: both orders, values, and where rows start.
const EDGE_BYTES: usize = 36;
const VERTEX_BYTES: usize = 60;

impl Frames {
    /// The snapshots of `store`, in windows of `window` steps, within `memory` bytes where that is possible: a window must fit.
    /// A worker with cells loads its part alone.
    pub fn new(
        store: Arc<Store>,
        inputs: Arc<Inputs>,
        window: usize,
        memory: usize,
        cells: Option<Arc<Cells>>,
    ) -> Frames {
        let steps = store.steps();
        let edges = (store.manifest().edges as usize).div_ceil(steps.max(1));
        let directions = if store.manifest().directed { 1 } else { 2 };
        let each = frame_bytes(store.vertices(), edges * directions, inputs.constant_width());
        // Where not all fit, those of the window come out of the same memory.
        let reserve = if each.saturating_mul(steps) > memory { each * (window + 1) } else { 0 };
        let held = Held { kept: BTreeMap::new(), recent: VecDeque::new(), window };
        let all = memory.saturating_sub(reserve);
        Frames { store, inputs, budget: Budget::new(all), all, cells, held: Mutex::new(held) }
    }

    /// The store.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// What is known of the vertices.
    pub fn inputs(&self) -> &Inputs {
        &self.inputs
    }

    /// Bytes of the budget that nothing has taken.
    pub fn left(&self) -> usize {
        self.budget.left()
    }

    /// How many snapshots of the store the budget has room for, if all are like the `loaded` ones so far; the recent ones count, too.
    pub fn fitting(&self, loaded: usize) -> usize {
        let each = (self.all - self.left()).div_ceil(loaded.max(1)).max(1);
        (self.all / each).max(loaded).min(self.store.steps())
    }

    /// Bytes of the snapshots in memory, and of what is kept of their products.
    pub fn held_bytes(&self) -> usize {
        let held = self.held();
        let columns = self.inputs.constant_width();
        let bytes = |loaded: &Arc<Loaded>| {
            frame_bytes(loaded.graph.columns(), loaded.graph.edges(), columns) + loaded.kept.bytes()
        };
        held.kept.values().map(bytes).sum::<usize>()
            + held.recent.iter().map(|(_, loaded)| bytes(loaded)).sum::<usize>()
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        // Nothing is left half done by whoever panicked while holding it.
        self.held.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// The snapshot of step `t`, or the part of it that the worker has in this window.
    pub fn load(&self, t: Step, window: &Range<Step>) -> Result<Arc<Loaded>> {
        let place = self.cells.as_ref().map(|cells| cells.shares.structure(window, t));
        let key = (t, place.as_ref().map_or(0, Place::key));
        {
            let held = self.held();
            let recent = || held.recent.iter().find(|(other, _)| *other == key).map(|(_, loaded)| loaded);
            if let Some(loaded) = held.kept.get(&key).or_else(recent) {
                return Ok(loaded.clone());
            }
        }
        let mut loaded = self.read(t, place)?;
        let columns = self.inputs.constant_width();
        let bytes = frame_bytes(loaded.graph.columns(), loaded.graph.edges(), columns);
        let fits = self.budget.take(bytes);
        loaded.taken = if fits { bytes } else { 0 };
        let loaded = Arc::new(loaded);
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

    /// Reads a snapshot, or the part of it that the worker has at a place. The whole of it is in memory meanwhile.
    fn read(&self, t: Step, place: Option<Place>) -> Result<Loaded> {
        let snapshot = self.store.snapshot(t)?;
        let with = |graph, rows, vertices, neighbours| Loaded {
            graph,
            rows: Vec::into(rows),
            vertices,
            kept: Kept::new(self.budget.clone()),
            neighbours,
            budget: self.budget.clone(),
            taken: 0,
        };
        let whole = || {
            let rows = snapshot.by_target(self.store.vertices());
            let starts = rows.starts.iter().map(|&start| start as usize).collect();
            Graph::new(starts, rows.columns, rows.weights)
        };
        let (Some(cells), Some(place)) = (&self.cells, place) else {
            return Ok(with(whole()?, self.inputs.rows(&self.store, t, &snapshot)?, None, None));
        };
        let (halo, both) = (cells.halo(&snapshot, &place), cells.shares.habits().both);
        let vertices: Vec<Vertex> = halo.own.iter().chain(&halo.beyond).copied().collect();
        // Where a worker has nothing, it need not read anything.
        let (graph, rows) = match vertices.is_empty() {
            true => (Graph::new(vec![0], Vec::new(), None)?.part(&[], &[], both)?, Vec::new()),
            false => {
                let graph = whole()?.part(&halo.own, &halo.beyond, both)?;
                let (all, width) =
                    (self.inputs.rows(&self.store, t, &snapshot)?, self.inputs.constant_width());
                let row = |&vertex: &Vertex| all[vertex as usize * width..][..width].iter().copied();
                (graph, vertices.iter().flat_map(row).collect())
            }
        };
        Ok(with(graph, rows, Some(Arc::new(vertices)), Some(Arc::new(Neighbours::new(halo)))))
    }
}

/// Bytes of a snapshot with so many vertices, edges and constant columns.
pub fn frame_bytes(vertices: usize, edges: usize, columns: usize) -> usize {
    edges * EDGE_BYTES + vertices * (VERTEX_BYTES + 4 * columns)
}

/// A number of bytes as it is typed: `2GiB`, `500MB`, `auto` for a quarter of the machine's memory.
pub fn memory(setting: &str) -> Result<usize> {
    if setting == "auto" {
        return Ok(machine_memory().unwrap_or(4 << 30) / 4);
    }
    size("run.memory", setting)
}

/// A number of bytes as it is typed for a setting.
pub fn size(name: &'static str, setting: &str) -> Result<usize> {
    let wrong = || Error::settings(name, format!("found '{setting}', expected a size such as 2GiB or auto"));
    let end = setting.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(setting.len());
    let number: f64 = setting[..end].parse().map_err(|_| wrong())?;
    let unit = match setting[end..].trim() {
        "" | "B" => 1.0,
        "kB" | "KB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        "KiB" => 1024.0,
        "MiB" => 1024.0 * 1024.0,
        "GiB" => 1024.0 * 1024.0 * 1024.0,
        _ => return Err(wrong()),
    };
    Ok((number * unit) as usize)
}

/// All memory of this machine, where it tells.
pub fn machine_memory() -> Option<usize> {
    field(Path::new("/proc/meminfo"), "MemTotal:")
}

/// Memory that this process holds now, and the most it has held, where the machine tells.
pub fn process_memory() -> Option<(usize, usize)> {
    let status = Path::new("/proc/self/status");
    Some((field(status, "VmRSS:")?, field(status, "VmHWM:")?))
}

fn field(path: &Path, name: &str) -> Option<usize> {
    let facts = std::fs::read_to_string(path).ok()?;
    let line = facts.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix(" kB")?.parse::<usize>().ok().map(|kilobytes| kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_type_them() {
        assert_eq!(memory("2GiB").unwrap(), 2 << 30);
        assert_eq!(memory("1.5 MB").unwrap(), 1_500_000);
        assert_eq!(memory("4096").unwrap(), 4096);
        assert!(memory("auto").unwrap() > 0);
        assert!(memory("lots").unwrap_err().to_string().starts_with("run.memory: found 'lots'"));
        assert!(memory("2 horses").is_err());
    }
}
