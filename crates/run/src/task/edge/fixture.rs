//! Small stores with weights for the tests of this folder, and random steps to fill them with.

use std::collections::BTreeMap;
use std::path::Path;

use kymo_graph::snapshot::{Edge, Snapshot, Vertex};
use kymo_graph::store::{Plan, Writer};
use kymo_graph::{Ids, StepData, StepEdges, Store};
use proptest::prelude::*;

use super::super::{Goal, Says, Task};
use crate::config::Settings;

/// Vertices of every store here: few, so that pairs come back.
pub(super) const VERTICES: usize = 6;

/// The weights of the edges of each step, by source and target.
pub(super) type Weighted = Vec<BTreeMap<(Vertex, Vertex), f32>>;

/// This many steps with random edges whose weights are few and of both signs.
pub(super) fn weighted(count: std::ops::Range<usize>) -> impl Strategy<Value = Weighted> {
    let pair = (0..VERTICES as Vertex, 0..VERTICES as Vertex);
    let weight = (-6i8..=6).prop_map(|number| f32::from(number) / 2.0);
    prop::collection::vec(prop::collection::btree_map(pair, weight, 0..14), count)
}

/// A store with these steps; in an undirected one every edge must come with its opposite.
pub(super) fn store(folder: &Path, steps: &Weighted, directed: bool) -> Store {
    let mut writer = Writer::create(&folder.join("store"), false).unwrap();
    writer.plan(Plan { directed, ..Plan::default() });
    writer.add_vertices(&Ids::Number((0..VERTICES as u64).collect())).unwrap();
    for step in steps {
        let list = step.iter().map(|(&(source, target), &weight)| (Edge::new(source, target), weight));
        let edges = StepEdges::All(Snapshot::from_weighted(list.collect()));
        writer.push(StepData { edges, ..StepData::default() }).unwrap();
    }
    writer.finish().unwrap()
}

/// Eleven steps of which step 3 is asked about: it has a pair with a past, one of a target with a past, one
/// of a source with a past, and strangers.
pub(super) fn by_hand() -> Weighted {
    let mut steps = vec![
        BTreeMap::from([((0, 1), -2.0)]),
        BTreeMap::from([((0, 1), 4.0), ((2, 1), -1.0)]),
        BTreeMap::from([((2, 3), 5.0)]),
        BTreeMap::from([((0, 1), 1.0), ((4, 1), 1.0), ((2, 5), 1.0), ((5, 4), 1.0)]),
    ];
    steps.extend((4..11).map(|_| BTreeMap::from([((4, 5), 1.0)])));
    steps
}

/// The settings of these tests: seven samples for training.
pub(super) fn settings() -> Settings {
    let mut settings = Settings::default();
    settings.train.window = 1;
    settings
}

/// What is written at a sample about each edge of the next step.
pub(super) fn said(
    goal: &dyn Goal,
    sample: usize,
    baseline: &'static str,
) -> BTreeMap<(Vertex, Vertex), String> {
    let table = goal.table(sample, Says::Baseline(baseline), 1).unwrap();
    let rows = table.vertices.iter().zip(&table.values);
    rows.map(|(pair, values)| ((pair[0], pair[1]), values[0].clone())).collect()
}

/// A task on these steps.
pub(super) fn open(
    task: &dyn Task,
    steps: &Weighted,
    settings: &Settings,
) -> crate::error::Result<Box<dyn Goal>> {
    let folder = tempfile::tempdir().unwrap();
    task.open(&std::sync::Arc::new(store(folder.path(), steps, true)), settings)
}

/// What is said of a task that is refused on these steps.
pub(super) fn refused(task: &dyn Task, steps: &Weighted, settings: &Settings) -> String {
    open(task, steps, settings).err().unwrap().to_string()
}
