//! The statistics against a slow computation straight from their definitions.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use proptest::prelude::*;

use super::*;
use crate::generate;
use crate::ids::Ids;
use crate::snapshot::{Edge, Snapshot, Vertex};
use crate::step::{FeatureChange, StepData, StepEdges};
use crate::store::{Fixed, Plan, Writer};

const VERTICES: Vertex = 10;

/// The weights of the edges of a step, as a person would write them down.
type Graph = BTreeMap<(Vertex, Vertex), f32>;

/// A store of these steps in a folder that lives as long as the result.
fn store(steps: Vec<StepData>, plan: Plan, vertices: usize, fixed: &Fixed) -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = Writer::create(&folder.path().join("store"), false).unwrap();
    writer.plan(plan);
    writer.add_vertices(&Ids::Number((0..vertices as u64).collect())).unwrap();
    writer.fixed(fixed).unwrap();
    for step in steps {
        writer.push(step).unwrap();
    }
    let store = writer.finish().unwrap();
    (folder, store)
}

fn data(t: usize, graph: &Graph) -> StepData {
    let list = graph.iter().map(|(&(u, v), &weight)| (Edge::new(u, v), weight)).collect();
    let edges = StepEdges::All(Snapshot::from_weighted(list));
    StepData { begin: t as f64, end: t as f64 + 1.0, events: 2 * t as u64, edges, ..StepData::default() }
}

/// Every figure from its definition; the graphs are directed, or each edge has its opposite.
fn from_scratch(graphs: &[Graph], directed: bool) -> Vec<StepStats> {
    let all = || 0..VERTICES;
    let share = |of: usize, to: usize| (to > 0).then(|| of as f64 / to as f64);
    let count = |edges: &mut dyn Iterator<Item = &(Vertex, Vertex)>| {
        edges.filter(|(u, v)| directed || u <= v).count()
    };
    let inward = |graph: &Graph, of: Vertex| -> BTreeMap<Vertex, f32> {
        graph.iter().filter(|((_, v), _)| *v == of).map(|(&(u, _), &w)| (u, w)).collect()
    };
    let outward = |graph: &Graph, of: Vertex| -> BTreeMap<Vertex, f32> {
        graph.iter().filter(|((u, _), _)| *u == of).map(|(&(_, v), &w)| (v, w)).collect()
    };
    let active = |graph: &Graph| graph.keys().flat_map(|&(u, v)| [u, v]).collect::<BTreeSet<_>>();
    let mut result = Vec::new();
    for (t, graph) in graphs.iter().enumerate() {
        let none = Graph::new();
        let before = if t == 0 { &none } else { &graphs[t - 1] };
        let (is, was) = (active(graph), active(before));
        let added = count(&mut graph.keys().filter(|edge| !before.contains_key(edge)));
        let removed = count(&mut before.keys().filter(|edge| !graph.contains_key(edge)));
        let common = count(&mut graph.keys().filter(|edge| before.contains_key(edge)));
        let union = count(&mut graph.keys().chain(before.keys()).collect::<BTreeSet<_>>().into_iter());
        let differs = |edge: &&(Vertex, Vertex)| before.get(edge).is_some_and(|w| *w != graph[edge]);
        let degrees: Vec<f64> = is.iter().map(|&v| inward(graph, v).len() as f64).collect();
        let apart: f64 = degrees.iter().flat_map(|a| degrees.iter().map(move |b| (a - b).abs())).sum();
        let weighted = graph.values().any(|&w| w != 1.0);
        let weights = || graph.values().copied().filter(|_| weighted);
        let later = t > 0;
        let reached: BTreeSet<Vertex> =
            graphs[..t].iter().flat_map(|graph| graph.keys().map(|&(_, v)| v)).collect();
        result.push(StepStats {
            step: t,
            begin: t as f64,
            end: t as f64 + 1.0,
            events: 2 * t as u64,
            edges: count(&mut graph.keys()) as u64,
            self_loops: graph.keys().filter(|(u, v)| u == v).count() as u64,
            active: is.len() as u64,
            present: lives(graphs).iter().filter(|life| life.contains(&t)).count() as u64,
            added: added as u64,
            removed: removed as u64,
            reweighted: count(&mut graph.keys().filter(differs)) as u64,
            change: share(added + removed, count(&mut before.keys())).filter(|_| later),
            overlap: share(common, union).filter(|_| later),
            appeared: is.difference(&was).count() as u64,
            disappeared: was.difference(&is).count() as u64,
            turnover: share(is.symmetric_difference(&was).count(), is.union(&was).count()).filter(|_| later),
            new_targets: share(graph.keys().filter(|(_, v)| !reached.contains(v)).count(), graph.len())
                .filter(|_| later),
            inward: all().filter(|&v| inward(graph, v) != inward(before, v)).count() as u64,
            outward: all().filter(|&v| outward(graph, v) != outward(before, v)).count() as u64,
            in_degree_changed: all().filter(|&v| inward(graph, v).len() != inward(before, v).len()).count()
                as u64,
            out_degree_changed: all().filter(|&v| outward(graph, v).len() != outward(before, v).len()).count()
                as u64,
            max_in_degree: all().map(|v| inward(graph, v).len() as u32).max().unwrap(),
            max_out_degree: all().map(|v| outward(graph, v).len() as u32).max().unwrap(),
            mean_degree: share(graph.len(), is.len()),
            degree_skew: (!graph.is_empty()).then(|| apart / (2.0 * (is.len() * graph.len()) as f64)),
            weight_min: weights().reduce(f32::min),
            weight_max: weights().reduce(f32::max),
            targets: 0,
            labels: 0,
        });
    }
    result
}

/// From the first to the last step with an edge, of each vertex.
fn lives(graphs: &[Graph]) -> Vec<Range<usize>> {
    let has = |graph: &Graph, of: Vertex| graph.keys().any(|&(u, v)| u == of || v == of);
    let life = |of: Vertex| {
        let first = graphs.iter().position(|graph| has(graph, of));
        first.map_or(0..0, |first| first..graphs.iter().rposition(|graph| has(graph, of)).unwrap() + 1)
    };
    (0..VERTICES).map(life).collect()
}

fn check(mut graphs: Vec<Graph>, directed: bool) {
    if !directed {
        for graph in &mut graphs {
            *graph = graph.iter().flat_map(|(&(u, v), &w)| [((u, v), w), ((v, u), w)]).collect();
            let symmetric: Graph =
                graph.iter().map(|(&(u, v), _)| ((u, v), graph[&(u.min(v), u.max(v))])).collect();
            *graph = symmetric;
        }
    }
    let steps = graphs.iter().enumerate().map(|(t, graph)| data(t, graph)).collect();
    let plan = Plan { directed, part_bytes: 300, ..Plan::default() };
    let (_folder, store) = store(steps, plan, VERTICES as usize, &Fixed::default());
    let mut found = stats(&store, &Progress::silent()).unwrap();
    let mut expected = from_scratch(&graphs, directed);
    for (found, expected) in found.per_step.iter_mut().zip(&mut expected) {
        // The one figure that is summed in another order.
        match (found.degree_skew.take(), expected.degree_skew.take()) {
            (Some(a), Some(b)) => assert!((a - b).abs() < 1e-12, "{a} {b}"),
            (a, b) => assert_eq!(a, b),
        }
    }
    assert_eq!(found.per_step, expected);
    let mut lengths: Vec<u64> = lives(&graphs).iter().map(|life| life.len() as u64).collect();
    lengths.sort_unstable();
    let as_long = |length: usize| lengths.iter().filter(|&&found| found == length as u64).count() as u64;
    assert_eq!(found.sequences.lengths, (0..=graphs.len()).map(as_long).collect::<Vec<_>>());
    lengths.retain(|&length| length > 0);
    let quartile = |quarters: usize| lengths[(quarters * lengths.len()).div_ceil(4) - 1];
    let quartiles = (!lengths.is_empty()).then(|| [1, 2, 3].map(quartile));
    assert_eq!(found.sequences.quartiles, quartiles);
    assert_eq!(found.sequences.length, Spread::of(lengths.iter().map(|&length| length as f64)));
    assert_eq!(found.edges, store.manifest().edges);
    let distinct: BTreeSet<_> = graphs.iter().flat_map(Graph::keys).collect();
    assert_eq!(found.distinct_edges as usize, distinct.iter().filter(|(u, v)| directed || u <= v).count());
    let weighted = |graph: &Graph| graph.values().any(|&w| w != 1.0);
    assert_eq!(found.weighted, graphs.iter().any(weighted));
    let full = |graph: &Graph| graph.len() as u64 * if weighted(graph) { 12 } else { 8 };
    assert_eq!(found.structure.full, graphs.iter().map(full).sum::<u64>());
    assert!(!serde_json::to_string(&found).unwrap().contains("NaN"));
}

proptest! {
    #[test]
    fn every_figure_is_what_its_definition_says(
        steps in prop::collection::vec(
            prop::collection::btree_map(
                (0..VERTICES, 0..VERTICES),
                prop_oneof![4 => Just(1.0f32), 1 => Just(-0.5), 1 => Just(3.0)],
                0..30,
            ),
            0..8,
        ),
        weighted in any::<bool>(),
        directed in any::<bool>(),
    ) {
        let plain = |graph: Graph| graph.into_keys().map(|edge| (edge, 1.0)).collect();
        check(if weighted { steps } else { steps.into_iter().map(plain).collect() }, directed);
    }
}

#[test]
fn empty_steps_have_no_ratios() {
    let graph = Graph::from([((0, 1), 1.0), ((1, 2), 2.0)]);
    check(vec![Graph::new(), graph.clone(), Graph::new(), Graph::new(), graph], true);
    let steps = (0..3).map(|t| data(t, &Graph::new())).collect();
    let (_folder, store) = store(steps, Plan::default(), 0, &Fixed::default());
    let found = stats(&store, &Progress::silent()).unwrap();
    assert_eq!((found.averages.change, found.averages.overlap, found.structure.ratio), (None, None, None));
    assert_eq!(found.averages.edges, Some(Spread { min: 0.0, mean: 0.0, max: 0.0 }));
}

#[test]
fn features_targets_and_labels_are_counted_with_their_bytes() {
    let mut steps: Vec<StepData> = (0..4).map(|t| data(t, &Graph::from([((0, 1), 1.0)]))).collect();
    steps[0].features = FeatureChange::All(vec![1.0; 10 * 8]);
    steps[2].features = FeatureChange::Rows(vec![3], vec![2.0; 8]);
    steps[1].targets = vec![(0, 0.5), (4, 1.0)];
    steps[3].labels = vec![(1, 0), (2, 1), (5, 1)];
    let features = FeatureFacts { kind: FeatureKind::Dense, width: 8, segments: 2 };
    let plan =
        Plan { features, classes: vec!["cat".into(), "dog".into()], directed: true, ..Plan::default() };
    let fixed = Fixed {
        classes: vec![-1, 0, 0, 0, 1, 1, -1, -1, -1, -1],
        splits: vec![0, 1, 1, 1, 2, 3, 0, 0, 0, 0],
        sparse: None,
    };
    let (_folder, store) = store(steps, plan, VERTICES as usize, &fixed);
    let found = stats(&store, &Progress::silent()).unwrap();
    assert_eq!((found.targets, found.labels.per_step, found.labels.fixed), (2, 3, 5));
    assert_eq!(
        found.per_step.iter().map(|step| (step.targets, step.labels)).collect::<Vec<_>>(),
        [(0, 0), (2, 0), (0, 0), (0, 3)]
    );
    let classes: Vec<_> = found.labels.classes.iter().map(|c| (&*c.name, c.fixed, c.per_step)).collect();
    assert_eq!(classes, [("cat", 3, 1), ("dog", 2, 2)]);
    assert_eq!(found.splits, Some(SplitStats { train: 3, validation: 1, test: 1 }));
    // All rows once, then two segments of four numbers, each with its vertex and its number.
    let stored = 4 * (10 * 8 + 2 * (4 + 2));
    assert_eq!(found.features.bytes, Sizes { full: 4 * 4 * 80, stored, ratio: Some(1280.0 / stored as f64) });
    // One edge, stored once; the other steps say that nothing changed.
    assert_eq!((found.structure.full, found.structure.stored), (4 * 8, 8));
}

#[test]
fn a_generated_store_is_described_and_the_walk_can_be_stopped() {
    let kind = generate::find("power-law").unwrap();
    let params = generate::Params { steps: 6, ..kind.defaults().scaled(0.05) };
    let steps = generate::generate(kind, &params).unwrap().map(Result::unwrap).collect();
    let features = FeatureFacts { kind: FeatureKind::Dense, width: 32, segments: 4 };
    let plan = Plan { directed: true, features, time_unit: TimeUnit::Step, ..Plan::default() };
    let (_folder, store) = store(steps, plan, params.vertices, &Fixed::default());
    let progress = Progress::silent();
    let found = stats(&store, &progress).unwrap();
    assert_eq!(progress.work(), (6, 6));
    assert_eq!((found.edges, found.steps), (store.manifest().edges, 6));
    assert!((found.averages.change.unwrap().mean - params.edge_change).abs() < 0.01);
    assert!(found.structure.ratio.unwrap() > 1.5);
    let json = serde_json::to_value(&found).unwrap();
    for key in ["vertices", "events", "self_loops", "steps", "edges"] {
        assert!(json[key].is_u64(), "{key}");
    }
    assert_eq!(json["per_step"].as_array().map(Vec::len), Some(6));
    assert_eq!(json["features"]["kind"], "dense");
    progress.stop();
    assert!(matches!(stats(&store, &progress), Err(crate::Error::Interrupted)));
}
