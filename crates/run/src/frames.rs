//! Snapshots as models see them, loaded from the store when they are first needed.
//!
//! As many as fit into the memory of the run are kept, the first ones that are asked for: training goes round and round, and
//! whoever throws out the oldest of a circle throws out the one that is needed next. Those that do not fit live as long as
//! the windows around them.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use kymo_graph::{Step, Store};
use kymo_model::{Budget, Graph, Kept};

use crate::error::{Error, Result};
use crate::inputs::Inputs;

/// A snapshot in memory.
pub struct Loaded {
    /// Its edges.
    pub graph: Graph,
    /// The constant columns of its vertices.
    pub rows: Vec<f32>,
    /// What is kept of its products.
    pub kept: Kept,
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
    inputs: Inputs,
    budget: Arc<Budget>,
    held: Mutex<Held>,
}

struct Held {
    kept: Vec<Option<Arc<Loaded>>>,
    recent: VecDeque<(Step, Arc<Loaded>)>,
    /// How many recent ones are enough for a window.
    window: usize,
}

/// Bytes of an edge and of a vertex in the matrices of a snapshot: both orders, values, and where rows start.
const EDGE_BYTES: usize = 36;
const VERTEX_BYTES: usize = 60;

impl Frames {
    /// The snapshots of `store`, in windows of `window` steps, within `memory` bytes where that is possible: a window must fit.
    pub fn new(store: Arc<Store>, inputs: Inputs, window: usize, memory: usize) -> Frames {
        let steps = store.steps();
        let edges = (store.manifest().edges as usize).div_ceil(steps.max(1));
        let directions = if store.manifest().directed { 1 } else { 2 };
        let each = frame_bytes(store.vertices(), edges * directions, inputs.constant_width());
        // Where not all fit, those of the window come out of the same memory.
        let reserve = if each.saturating_mul(steps) > memory { each * (window + 1) } else { 0 };
        let held = Held { kept: (0..steps).map(|_| None).collect(), recent: VecDeque::new(), window };
        let budget = Budget::new(memory.saturating_sub(reserve));
        Frames { store, inputs, budget, held: Mutex::new(held) }
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

    fn held(&self) -> MutexGuard<'_, Held> {
        // Nothing is left half done by whoever panicked while holding it.
        self.held.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// The snapshot of step `t`.
    pub fn load(&self, t: Step) -> Result<Arc<Loaded>> {
        {
            let held = self.held();
            let recent = || held.recent.iter().find(|(step, _)| *step == t).map(|(_, loaded)| loaded);
            if let Some(loaded) = held.kept.get(t).and_then(Option::as_ref).or_else(recent) {
                return Ok(loaded.clone());
            }
        }
        let vertices = self.store.vertices();
        let snapshot = self.store.snapshot(t)?;
        let rows = snapshot.by_target(vertices);
        let edges = rows.columns.len();
        let starts = rows.starts.iter().map(|&start| start as usize).collect();
        let graph = Graph::new(starts, rows.columns, rows.weights)?;
        let rows = self.inputs.rows(&self.store, t, &snapshot)?;
        let bytes = frame_bytes(vertices, edges, self.inputs.constant_width());
        let fits = self.budget.take(bytes);
        let loaded = Arc::new(Loaded {
            graph,
            rows,
            kept: Kept::new(self.budget.clone()),
            budget: self.budget.clone(),
            taken: if fits { bytes } else { 0 },
        });
        let mut held = self.held();
        if fits {
            held.kept[t] = Some(loaded.clone());
        } else {
            held.recent.push_back((t, loaded.clone()));
            if held.recent.len() > held.window {
                held.recent.pop_front();
            }
        }
        Ok(loaded)
    }
}

fn frame_bytes(vertices: usize, edges: usize, columns: usize) -> usize {
    edges * EDGE_BYTES + vertices * (VERTEX_BYTES + 4 * columns)
}

/// A number of bytes as it is typed: `2GiB`, `500MB`, `auto` for a quarter of the machine's memory.
pub fn memory(setting: &str) -> Result<usize> {
    if setting == "auto" {
        return Ok(machine_memory().unwrap_or(4 << 30) / 4);
    }
    let wrong =
        || Error::settings("run.memory", format!("found '{setting}', expected a size such as 2GiB or auto"));
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
fn machine_memory() -> Option<usize> {
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
