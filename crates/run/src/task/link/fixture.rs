//! Small stores for the tests of this folder, and random steps to fill them with.

use std::collections::BTreeSet;
use std::path::Path;

use kymo_graph::snapshot::{Edge, Snapshot, Vertex};
use kymo_graph::store::{Plan, Writer};
use kymo_graph::{Ids, StepData, StepEdges, Store};
use proptest::prelude::*;

use super::History;

/// Vertices of every store here: few, so that pairs come back.
pub(super) const VERTICES: usize = 6;

/// The pairs of each step, source first.
pub(super) type Steps = Vec<BTreeSet<(Vertex, Vertex)>>;

/// This many steps with random pairs.
pub(super) fn steps(count: std::ops::Range<usize>) -> impl Strategy<Value = Steps> {
    let pair = (0..VERTICES as Vertex, 0..VERTICES as Vertex);
    prop::collection::vec(prop::collection::btree_set(pair, 0..14), count)
}

/// Every edge with its opposite.
pub(super) fn mirrored(steps: &Steps) -> Steps {
    let both = |&(source, target): &(Vertex, Vertex)| [(source, target), (target, source)];
    steps.iter().map(|step| step.iter().flat_map(both).collect()).collect()
}

/// The edges of a step, in order.
pub(super) fn edges(step: &BTreeSet<(Vertex, Vertex)>) -> Vec<Edge> {
    let mut edges: Vec<Edge> = step.iter().map(|&(source, target)| Edge::new(source, target)).collect();
    edges.sort_unstable();
    edges
}

/// A store with these steps; in an undirected one every edge must come with its opposite.
pub(super) fn store(folder: &Path, steps: &Steps, directed: bool) -> Store {
    store_of(folder, VERTICES, steps, directed)
}

/// The same with another number of vertices.
pub(super) fn store_of(folder: &Path, vertices: usize, steps: &Steps, directed: bool) -> Store {
    let mut writer = Writer::create(&folder.join("store"), false).unwrap();
    writer.plan(Plan { directed, ..Plan::default() });
    writer.add_vertices(&Ids::Number((0..vertices as u64).collect())).unwrap();
    for step in steps {
        let edges = StepEdges::All(Snapshot::from_edges(edges(step)));
        writer.push(StepData { edges, events: step.len() as u64, ..StepData::default() }).unwrap();
    }
    writer.finish().unwrap()
}

/// The history of a store with these steps.
pub(super) fn history(steps: &Steps) -> History {
    history_of(VERTICES, steps)
}

/// The same with another number of vertices.
pub(super) fn history_of(vertices: usize, steps: &Steps) -> History {
    let folder = tempfile::tempdir().unwrap();
    History::new(&store_of(folder.path(), vertices, steps, true)).unwrap()
}
