//! A cursor stands at what the store says of a step, whatever way it came.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use kymo_graph::store::{Cursor, EdgeChange, EdgesAround, Manifest, Plan, SharedRows, Writer};
use kymo_graph::{Csr, Edge, Ids, Snapshot, StepData, StepEdges, Store};
use proptest::prelude::*;

use super::{VERTICES, sequences};

/// Writes these graphs; before each cut the store is finished and opened again with two vertices more. Edges
/// at vertices not known yet are left out.
fn write(path: &Path, graphs: &[Snapshot<'_>], vertices: usize, cuts: &[usize], part_bytes: usize) -> Store {
    let mut writer = Writer::create(path, false).unwrap();
    writer.plan(Plan { directed: true, part_bytes, ..Plan::default() });
    let first = vertices.saturating_sub(2 * cuts.len()).max(1);
    writer.add_vertices(&Ids::Number((0..first as u64).collect())).unwrap();
    for (step, graph) in graphs.iter().enumerate() {
        if cuts.contains(&step) {
            writer.finish().unwrap();
            writer = Writer::append(path).unwrap();
            writer.add_vertices(&Ids::Number(vec![100 + step as u64, 200 + step as u64])).unwrap();
        }
        let known = |edge: &Edge| (edge.source().max(edge.target()) as usize) < writer.vertices();
        let list = (0..graph.len()).map(|index| (graph.edges[index], graph.weight(index)));
        let edges = StepEdges::All(Snapshot::from_weighted(list.filter(|(edge, _)| known(edge)).collect()));
        writer.push(StepData { edges, ..StepData::default() }).unwrap();
    }
    writer.finish().unwrap()
}

/// The same rows, to the bits of their weights.
pub fn same(a: &SharedRows, b: &Csr) -> bool {
    let bits = |weights: &Option<Vec<f32>>| {
        weights.as_ref().map(|weights| weights.iter().map(|weight| weight.to_bits()).collect::<Vec<_>>())
    };
    *a.starts == b.starts && *a.columns == b.columns && bits(&a.weights) == bits(&b.weights)
}

/// Goes to these steps, and asks for the degrees where that is said.
fn visit(store: &Arc<Store>, stops: &[(usize, bool, bool)]) {
    let mut cursor = Cursor::new(store.clone());
    assert!(cursor.at().is_none() && cursor.outward().is_empty());
    let mut with_loops = (!store.has_weights().unwrap()).then(|| Cursor::with_loops(store.clone()));
    let own: Vec<u32> = (0..store.vertices() as u32).filter(|vertex| vertex % 3 == 1).collect();
    let mut around = EdgesAround::new(store.clone(), &own).unwrap();
    let is_weighted = store.has_weights().unwrap();
    let mut kept = Vec::new();
    for &(stop, count, release) in stops {
        let (t, vertices) = (stop % store.steps(), store.vertices());
        let snapshot = store.snapshot(t).unwrap();
        let rows = cursor.go_to(t).unwrap();
        assert!(same(rows, &snapshot.by_target(vertices)), "step {t} of {stops:?}");
        let (inward, outward) = snapshot.degrees(vertices);
        assert!(rows.starts.windows(2).map(|pair| (pair[1] - pair[0]) as u32).eq(inward.iter().copied()));
        if count {
            assert_eq!(cursor.outward(), outward, "step {t} of {stops:?}");
        }
        around.go_to(t).unwrap();
        assert_eq!(around.degrees(), (&inward[..], &outward[..]), "step {t} of {stops:?}");
        let held = around.snapshot();
        match is_weighted {
            true => assert_eq!(held, snapshot, "step {t} of {stops:?}"),
            false => {
                let is_near = |edge: &&Edge| {
                    edge.is_loop() || own.contains(&edge.source()) || own.contains(&edge.target())
                };
                let near: Vec<Edge> = snapshot.edges.iter().filter(is_near).copied().collect();
                assert_eq!(*held.edges, near[..], "step {t} of {stops:?}");
            }
        }
        assert_eq!(cursor.at(), Some(t));
        if let Some(cursor) = &mut with_loops {
            let loops = (0..vertices as u32).map(|vertex| Edge::new(vertex, vertex));
            let edges = snapshot.edges.iter().copied().chain(loops).collect();
            let (rows, expected) =
                (cursor.go_to(t).unwrap(), Snapshot::from_edges(edges).by_target(vertices));
            assert!(same(rows, &expected), "step {t} of {stops:?}, with loops");
            // One in two is kept by somebody.
            if count {
                kept.push((rows.clone(), expected));
            }
        }
        if release {
            store.release(t);
        }
    }
    assert!(kept.iter().all(|(rows, expected)| same(rows, expected)), "rows that are kept do not change");
}

fn stops() -> impl Strategy<Value = Vec<(usize, bool, bool)>> {
    // Near the last one mostly: those are the ways over changes, forward and backward.
    let near = (0usize..5, any::<bool>(), prop::bool::weighted(0.1));
    let far = (0usize..40, any::<bool>(), prop::bool::weighted(0.1));
    prop::collection::vec(prop_oneof![3 => near, 1 => far], 1..40).prop_map(|moves| {
        let mut t = 20usize;
        let stop = |(step, count, release): (usize, bool, bool)| {
            t = if step < 5 { (t + step).saturating_sub(2) } else { step };
            (t, count, release)
        };
        moves.into_iter().map(stop).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_cursor_has_the_rows_and_degrees_of_every_step(
        steps in sequences(),
        plain in any::<bool>(),
        cuts in prop::collection::btree_set(1usize..20, 0..3),
        part_bytes in prop_oneof![Just(1usize), Just(400), Just(1 << 20)],
        stops in stops(),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let mut graphs: Vec<Snapshot<'_>> = steps.iter().map(|step| step.snapshot.view()).collect();
        if plain {
            graphs.iter_mut().for_each(|graph| graph.weights = None);
        }
        let cuts: Vec<usize> = cuts.into_iter().filter(|&cut| cut < graphs.len()).collect();
        let store = write(&folder.path().join("s"), &graphs, VERTICES, &cuts, part_bytes);
        visit(&Arc::new(store), &stops);
    }

    /// Rows longer than what is looked at or copied at once, and many changes between whole steps.
    #[test]
    fn long_rows_and_long_runs(seed in any::<u64>(), weighted in any::<bool>(), stops in stops()) {
        let mut state = seed | 1;
        let mut random = |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 20) % below
        };
        let mut edges = std::collections::BTreeMap::new();
        let mut graphs = Vec::new();
        for _ in 0..40 {
            let changes = if graphs.is_empty() { 3000 } else { 1 + random(60) };
            for _ in 0..changes {
                // One row in four is of few vertices, so that it is long.
                let target = if random(4) == 0 { random(2) * 299 } else { random(300) };
                let edge = Edge::new(random(300) as u32, target as u32);
                let weight = if weighted { random(3) as f32 } else { 1.0 };
                if edges.insert(edge, weight).is_some() && random(2) == 0 {
                    edges.remove(&edge);
                }
            }
            graphs.push(Snapshot::from_weighted(edges.iter().map(|(&e, &w)| (e, w)).collect()));
        }
        let folder = tempfile::tempdir().unwrap();
        let store = write(&folder.path().join("s"), &graphs, 300, &[], 1 << 20);
        let is_change = |t| !matches!(store.edge_change(t), Ok(EdgeChange::Whole(_)));
        prop_assert!((1..4).all(is_change));
        visit(&Arc::new(store), &stops);
    }
}

/// Nine vertices whose first step is stored whole and the others as changes, one in a part.
fn small(path: PathBuf, graphs: [Vec<(u32, u32, f32)>; 4]) -> (PathBuf, Manifest) {
    let base = (0..8u32).flat_map(|u| (0..8).map(move |v| (Edge::new(u, v), 1.0)));
    let graphs = graphs.map(|more| {
        let more = more.iter().map(|&(u, v, weight)| (Edge::new(u, v), weight));
        Snapshot::from_weighted(base.clone().chain(more).collect())
    });
    write(&path, &graphs, 9, &[], 1);
    let manifest = Manifest::read(&path).unwrap();
    (path, manifest)
}

/// A change that leads from another graph is refused by name, wherever the cursor comes from, and the other
/// steps stand.
#[test]
fn a_change_that_does_not_fit_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let edge = |weight| vec![(8, 8, weight)];
    // Step 2 of the second store in the place of that of the first: it adds what is there, removes what is
    // not there, or knows other weights.
    let cases = [
        ("adds", [vec![], edge(1.0), edge(2.0), vec![]], [vec![], vec![], edge(1.0), vec![]]),
        ("removes", [vec![], vec![], edge(1.0), vec![]], [vec![], edge(1.0), vec![], vec![]]),
        (
            "removes at another weight",
            [vec![], edge(2.0), vec![], vec![]],
            [vec![], edge(1.0), vec![], vec![]],
        ),
        ("reweights", [vec![], vec![], edge(1.0), vec![]], [vec![], edge(2.0), edge(3.0), vec![]]),
        (
            "reweights from another",
            [vec![], edge(1.0), vec![], vec![]],
            [vec![], edge(2.0), edge(3.0), vec![]],
        ),
    ];
    for (case, (what, good, other)) in cases.into_iter().enumerate() {
        let (path, mut manifest) = small(folder.path().join(format!("good-{case}")), good);
        let (strange, entries) = small(folder.path().join(format!("other-{case}")), other);
        let mut entry = entries.parts[2].clone();
        std::fs::copy(strange.join(&entry.file.name), path.join(&manifest.parts[2].file.name)).unwrap();
        entry.file.name = manifest.parts[2].file.name.clone();
        manifest.parts[2] = entry;
        manifest.write(&path).unwrap();
        let store = Arc::new(Store::open(&path).unwrap());
        assert!(store.snapshot(2).is_err(), "{what}");
        for from in [None, Some(0), Some(1)] {
            let mut cursor = Cursor::new(store.clone());
            if let Some(from) = from {
                cursor.go_to(from).unwrap();
                cursor.outward();
            }
            let error = cursor.go_to(2).unwrap_err().to_string();
            assert!(error.contains("damaged at step 2") && error.contains("8->8"), "{what}: {error}");
            assert_eq!(cursor.at(), None, "{what}");
            let rows = cursor.go_to(1).unwrap();
            assert!(same(rows, &store.snapshot(1).unwrap().by_target(9)), "{what}");
            assert_eq!(cursor.outward(), store.snapshot(1).unwrap().degrees(9).1, "{what}");
        }
    }
}

/// A change that follows an empty step is not written by Kymo, but it is read.
#[test]
fn a_change_of_an_empty_step() {
    let folder = tempfile::tempdir().unwrap();
    let edge = vec![(8, 8, 2.0)];
    let (strange, entries) = small(folder.path().join("other"), [vec![], edge, vec![], vec![]]);
    let path = folder.path().join("s");
    write(&path, &[Snapshot::default(), Snapshot::default()], 9, &[], 1);
    let mut manifest = Manifest::read(&path).unwrap();
    std::fs::copy(strange.join(&entries.parts[1].file.name), path.join(&manifest.parts[1].file.name))
        .unwrap();
    manifest.parts[1] = entries.parts[1].clone();
    manifest.write(&path).unwrap();
    let store = Arc::new(Store::open(&path).unwrap());
    assert_eq!(&*store.snapshot(1).unwrap().edges, &[Edge::new(8, 8)]);
    visit(&store, &[(0, true, false), (1, true, false), (0, true, false)]);
}

/// A step that is not there is refused with how many there are, and the cursor stays where it is.
#[test]
fn steps_that_are_not_there() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = small(folder.path().join("s"), [vec![], vec![], vec![], vec![]]);
    let store = Arc::new(Store::open(&path).unwrap());
    let mut cursor = Cursor::new(store.clone());
    cursor.go_to(3).unwrap();
    assert!(cursor.go_to(4).unwrap_err().to_string().contains("there is no step 4: the store has 4"));
    assert_eq!(cursor.at(), Some(3));
    store.release(4);
}

/// Guards that small steps do not cost a call each, and that their pages go all the same.
#[test]
fn pages_are_let_go_once_enough_was_read() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _) = small(folder.path().join("s"), [vec![], vec![], vec![], vec![]]);
    let store = Store::open(&path).unwrap();
    let before = store.snapshot(3).unwrap().edges.to_vec();
    assert!(!store.has_read(0) && !store.has_read(1 << 20));
    assert!((0..100).any(|_| store.has_read(1 << 20)), "they never go");
    assert!(!store.has_read(1 << 20), "it begins anew");
    assert!(store.has_read(usize::MAX - (4 << 20)) && !store.has_read(1));
    assert_eq!(store.snapshot(3).unwrap().edges.to_vec(), before);
}
