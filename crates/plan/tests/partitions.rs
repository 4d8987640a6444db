//! What holds for every partitioner of the registry, and what each promises about balance and cut.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::Path;

use kymo_graph::generate::{self, Params};
use kymo_graph::store::{Plan, Writer};
use kymo_graph::{Edge, Ids, Presence, Progress, Snapshot, StepData, StepEdges, Store};
use kymo_plan::cut::{edge_cut, loads, step_loads, vertex_loads};
use kymo_plan::partition::Effort;
use kymo_plan::partition::{ALL, find};
use kymo_plan::{Ask, Layout, Partition, Result};
use proptest::prelude::*;

fn partition(name: &str, ask: &Ask<'_>) -> Result<Partition> {
    find(name)?.partition(ask)
}

fn layout(name: &str, store: &Store, workers: usize) -> Layout {
    partition(name, &Ask::all_of(store, workers, 1)).unwrap().structure
}

fn write(path: &Path, vertices: usize, steps: &[Vec<(u32, u32)>]) -> Store {
    let mut writer = Writer::create(path, false).unwrap();
    writer.plan(Plan { directed: true, ..Plan::default() });
    writer.add_vertices(&Ids::Number((0..vertices as u64).collect())).unwrap();
    for (step, edges) in steps.iter().enumerate() {
        let edges = edges.iter().map(|&(u, v)| Edge::new(u, v)).collect();
        let (begin, end) = (step as f64, step as f64 + 1.0);
        let edges = StepEdges::All(Snapshot::from_edges(edges));
        writer.push(StepData { begin, end, edges, ..StepData::default() }).unwrap();
    }
    writer.finish().unwrap()
}

fn generated(kind: &str, folder: &Path) -> Store {
    let params = Params { vertices: 2000, edges: 20_000, steps: 6, features: 0, ..Params::GENERIC };
    let kind = generate::find(kind).unwrap();
    generate::write(kind, &params, &folder.join(kind.name()), false, &Progress::default()).unwrap()
}

/// Every cell belongs to exactly one list of own vertices, that of its owner.
fn check(layout: &Layout, store: &Store, workers: usize) {
    let shape = (layout.workers(), layout.vertices(), layout.steps());
    assert_eq!(shape, (workers, store.vertices(), store.steps()));
    for step in 0..store.steps() {
        let mut owners = vec![None; store.vertices()];
        for worker in 0..workers {
            let own = layout.own(worker, step);
            assert!(own.is_sorted_by(|a, b| a < b));
            for &vertex in own.iter() {
                assert_eq!(owners[vertex as usize].replace(worker), None);
                assert_eq!(layout.owner(vertex, step), worker);
            }
        }
        assert!(owners.iter().all(Option::is_some));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_cell_has_one_owner_and_the_same_again(
        vertices in 1usize..40,
        raw in prop::collection::vec(
            prop_oneof![
                1 => Just(Vec::new()),
                3 => prop::collection::vec((0u32..40, 0u32..40), 0..120),
            ],
            1..6),
        (first, last) in (0usize..6, 0usize..6),
        workers in 1usize..=5,
        lives in prop::collection::vec(0usize..7, 40),
        known in 0usize..6,
        seed in any::<u64>(),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let within = |v: u32| v % vertices as u32;
        let steps: Vec<Vec<(u32, u32)>> =
            raw.iter().map(|edges| edges.iter().map(|&(u, v)| (within(u), within(v))).collect()).collect();
        let store = write(&folder.path().join("store"), vertices, &steps);
        let (first, last) = (first.min(last) % steps.len(), first.max(last) % steps.len());
        let steps = first.min(last)..last.max(first) + 1;
        let ask = Ask { window: steps.len(), steps, layers: 2, ..Ask::all_of(&store, workers, seed) };
        for name in ALL.iter().map(|partitioner| partitioner.name()) {
            let made = partition(name, &ask).unwrap();
            check(&made.structure, &store, workers);
            if let Some(time) = &made.time {
                check(time, &store, workers);
                prop_assert!(time.stays(0..store.steps()), "{name}: the time encoder loses its state");
            }
            prop_assert!(made == partition(name, &ask).unwrap(), "{} gives another answer", name);
            // Vertices that are always present are what they are where nothing is told.
            let always = Presence::always(vertices, store.steps());
            let told = Ask { presence: Some(&always), ..ask.clone() };
            prop_assert!(made == partition(name, &told).unwrap(), "{} gives another answer", name);
            // Whatever is told of them, also what cannot be: edges of vertices that are absent.
            let life = |vertex: usize| vertex % 3..lives[vertex].max(vertex % 3);
            let lives = Presence::of(known, &(0..vertices).map(life).collect::<Vec<_>>());
            let by_edges = Presence::by_edges(&store, known, &Progress::silent()).unwrap();
            for presence in [&lives, &by_edges] {
                let told = Ask { presence: Some(presence), ..ask.clone() };
                let made = partition(name, &told).unwrap();
                check(&made.structure, &store, workers);
                prop_assert!(made == partition(name, &told).unwrap(), "{} gives another answer", name);
                let all = 0..store.steps();
                let found = loads(&store, &made.structure, all.clone(), Some(presence)).unwrap();
                let cells = all.clone().flat_map(|step| (0..vertices as u32).map(move |v| (v, step)));
                let present = cells.filter(|&(vertex, step)| presence.has(vertex, step)).count() as u64;
                let edges: u64 = all.clone().map(|step| store.edges(step).unwrap() as u64).sum();
                prop_assert_eq!(found.iter().sum::<u64>(), present + edges);
                let sum = |loads: Result<Vec<u64>>| loads.unwrap().iter().sum::<u64>();
                prop_assert_eq!(sum(vertex_loads(&store, all.clone(), Some(presence))), present + edges);
                prop_assert_eq!(sum(step_loads(&store, all, Some(presence))), present + edges);
            }
        }
    }

    #[test]
    fn runs_of_snapshots_are_as_even_as_they_can_be(
        sizes in prop::collection::vec(0usize..12, 1..7),
        workers in 1usize..=4,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let steps: Vec<Vec<(u32, u32)>> =
            sizes.iter().map(|&size| (0..size as u32).map(|v| (v, v + 1)).collect()).collect();
        let store = write(&folder.path().join("store"), 13, &steps);
        let found = loads(&store, &layout("snapshot", &store, workers), 0..sizes.len(), None).unwrap();
        // Every way to cut: each step begins a run or does not.
        let each = step_loads(&store, 0..sizes.len(), None).unwrap();
        let heaviest = |cuts: u32| {
            let mut runs = vec![0];
            for (step, load) in each.iter().enumerate() {
                if step > 0 && cuts & (1 << step) != 0 {
                    runs.push(0);
                }
                *runs.last_mut().unwrap() += load;
            }
            (runs.len() <= workers).then(|| runs.into_iter().max().unwrap())
        };
        let best = (0..1 << sizes.len()).filter_map(heaviest).min().unwrap();
        prop_assert_eq!(found.into_iter().max().unwrap(), best);
    }
}

/// Twelve vertices at four steps, without an edge: loads are cells. Vertices come one step after the other,
/// three at a time.
#[test]
fn loads_are_those_of_vertices_that_are_present() {
    let folder = tempfile::tempdir().unwrap();
    let store = write(&folder.path().join("store"), 12, &vec![Vec::new(); 4]);
    let lives: Vec<_> = (0..12).map(|vertex| vertex / 3..4).collect();
    let presence = Presence::of(4, &lives);
    let told = Some(&presence);
    assert_eq!(step_loads(&store, 0..4, told).unwrap(), [3, 6, 9, 12]);
    assert_eq!(vertex_loads(&store, 0..4, told).unwrap(), [4, 4, 4, 3, 3, 3, 2, 2, 2, 1, 1, 1]);
    let layout = |name: &str, presence| {
        let ask = Ask { presence, ..Ask::all_of(&store, 2, 1) };
        partition(name, &ask).unwrap().structure
    };
    // Of 30 cells, the last step has 12 and the one before 9; where all count, every step has as many.
    let owners = |layout: Layout| (0..4).map(|step| layout.owner(0, step)).collect::<Vec<_>>();
    assert_eq!(owners(layout("snapshot", told)), [0, 0, 0, 1]);
    assert_eq!(owners(layout("snapshot", None)), [0, 0, 1, 1]);
    // Vertices that come early have longer sequences.
    let owners = |layout: Layout| (0..12).filter(|&vertex| layout.owner(vertex, 0) == 0).count();
    assert_eq!((owners(layout("block", told)), owners(layout("block", None))), (4, 6));
    for name in ["block", "sequence", "metis", "chunks"] {
        let found = loads(&store, &layout(name, told), 0..4, told).unwrap();
        assert!(found.iter().all(|load| (12..=18).contains(load)), "{name}: {found:?}");
    }
    let other = Presence::always(5, 4);
    let refused = find("block").unwrap();
    let ask = Ask { presence: Some(&other), ..Ask::all_of(&store, 2, 1) };
    let problem = refused.partition(&ask).unwrap_err().to_string();
    assert!(problem.contains("found 5 vertices, the store has 12"), "{problem}");
}

#[test]
fn loads_are_balanced_as_promised() {
    let folder = tempfile::tempdir().unwrap();
    for kind in ["uniform", "power-law", "hot"] {
        let store = generated(kind, folder.path());
        let each = vertex_loads(&store, 0..store.steps(), None).unwrap();
        let heaviest = *each.iter().max().unwrap();
        for workers in 2..=5 {
            let mean = each.iter().sum::<u64>() as f64 / workers as f64;
            let most = |name: &str| {
                let found = loads(&store, &layout(name, &store, workers), 0..store.steps(), None).unwrap();
                assert_eq!(found.iter().sum::<u64>(), each.iter().sum::<u64>());
                *found.iter().max().unwrap() as f64
            };
            assert!(most("sequence") <= 1.10 * mean, "{kind}, {workers}: {} of {mean}", most("sequence"));
            assert!(most("block") <= mean + heaviest as f64, "{kind}, {workers}");
            assert!(
                most("metis") <= 1.10 * mean + heaviest as f64,
                "{kind}, {workers}: {} of {mean}",
                most("metis")
            );
            assert!(most("hash") <= 1.5 * mean, "{kind}, {workers}: {} of {mean}", most("hash"));
        }
    }
}

/// Clusters of 50 vertices whose numbers are scattered, with few edges between them, changing at every step.
fn clustered(path: &Path) -> Store {
    let (clusters, size, steps) = (8u32, 50u32, 4u32);
    let mut word = 1u64;
    let mut draw = |bound: u32| {
        word = word.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (word >> 33) as u32 % bound
    };
    let mut all = Vec::new();
    for _ in 0..steps {
        let mut edges = Vec::new();
        for _ in 0..clusters * size * 8 {
            let (from, other) = (draw(clusters), draw(clusters));
            let to = if draw(20) == 0 { other } else { from };
            edges.push((draw(size) * clusters + from, draw(size) * clusters + to));
        }
        all.push(edges);
    }
    write(path, (clusters * size) as usize, &all)
}

#[test]
fn metis_finds_clusters() {
    let folder = tempfile::tempdir().unwrap();
    let store = clustered(&folder.path().join("store"));
    let cuts: BTreeMap<&str, u64> = ["hash", "metis", "metis-layer", "greedy", "sequence"]
        .map(|name| (name, edge_cut(&store, &layout(name, &store, 4), 0..store.steps()).unwrap()))
        .into();
    assert!(cuts["metis"] * 5 < cuts["hash"], "{cuts:?}");
    assert!(cuts["metis-layer"] * 4 < cuts["hash"], "{cuts:?}");
    assert!(cuts["greedy"] * 4 < cuts["hash"], "{cuts:?}");
    assert_eq!(edge_cut(&store, &layout("snapshot", &store, 4), 0..store.steps()).unwrap(), 0);
    assert_eq!(edge_cut(&store, &layout("metis", &store, 1), 0..store.steps()).unwrap(), 0);
}

/// Where METIS would have more links than there is time for, a plan that is to be there soon has blocks and
/// says so; one that looks at everything is refused with the figures.
#[test]
fn metis_is_left_out_where_it_does_not_fit() {
    let folder = tempfile::tempdir().unwrap();
    let store = clustered(&folder.path().join("store"));
    let looked: Vec<usize> = (0..store.steps()).collect();
    let block = layout("block", &store, 4);
    for name in ["metis", "metis-layer", "greedy"] {
        let made = |looked, metis_links| {
            let effort = Effort { looked, metis_links, loads: None };
            let (steps, window) = (0..store.steps(), store.steps());
            partition(name, &Ask { steps, window, effort, ..Ask::all_of(&store, 4, 1) })
        };
        let soon = made(Some(&looked[..]), 3).unwrap();
        let note = soon.note.unwrap_or_default();
        assert!(
            note.starts_with("METIS was left out (") && note.contains("more than the 3"),
            "{name}: {note}"
        );
        assert_eq!(soon.structure, block, "{name}");
        let refused = made(None, 3).unwrap_err().to_string();
        assert!(refused.contains("links are more than the 3 that there is memory"), "{name}: {refused}");
        assert_eq!(made(Some(&looked[..]), u64::MAX).unwrap().note, None, "{name}");
    }
}

#[test]
fn few_vertices_move_when_each_snapshot_is_cut_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let store = clustered(&folder.path().join("store"));
    let made = layout("metis-layer", &store, 8);
    let moves = |step: usize| {
        (0..store.vertices() as u32).filter(|&v| made.owner(v, step) != made.owner(v, step - 1)).count()
    };
    // One cluster a worker: without new names most would move although METIS finds the same parts at every
    // step.
    let most = (1..store.steps()).map(moves).max().unwrap();
    assert!(most * 10 < store.vertices(), "{most} of {} move", store.vertices());
}

#[test]
fn stars_and_more_workers_than_vertices_are_shared_out() {
    let folder = tempfile::tempdir().unwrap();
    for (number, leaves) in [1u32, 2, 5, 30, 200].into_iter().enumerate() {
        let inward: Vec<(u32, u32)> = (1..=leaves).map(|leaf| (leaf, 0)).collect();
        let outward = inward.iter().map(|&(leaf, hub)| (hub, leaf)).collect();
        let store = write(&folder.path().join(number.to_string()), leaves as usize + 3, &[inward, outward]);
        for workers in [1, 2, 7, 16, 64] {
            for partitioner in ALL {
                check(&layout(partitioner.name(), &store, workers), &store, workers);
            }
        }
    }
}

#[test]
fn steps_outside_the_range_follow_the_nearest_run() {
    let folder = tempfile::tempdir().unwrap();
    let store = write(&folder.path().join("store"), 3, &vec![vec![(0, 1)]; 8]);
    let made = partition("snapshot", &Ask { steps: 2..6, window: 4, ..Ask::all_of(&store, 2, 1) }).unwrap();
    let owners: Vec<usize> = (0..8).map(|step| made.structure.owner(0, step)).collect();
    assert_eq!(owners, [0, 0, 0, 0, 1, 1, 1, 1]);
}

#[test]
fn what_cannot_be_followed_is_refused_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let store = write(&folder.path().join("store"), 3, &[vec![(0, 1)], vec![]]);
    for name in ALL.iter().map(|partitioner| partitioner.name()) {
        let refused = |steps: std::ops::Range<usize>, workers: usize| {
            partition(name, &Ask { window: steps.len(), steps, ..Ask::all_of(&store, workers, 1) })
                .unwrap_err()
                .to_string()
        };
        assert!(refused(0..2, 0).starts_with("workers: "), "{name}");
        assert!(refused(0..2, 65536).starts_with("workers: "), "{name}");
        assert!(refused(0..3, 1).contains("0..2"), "{name}");
        assert!(refused(1..1, 1).contains("at least one"), "{name}");
    }
    let error = find("by-luck").err().unwrap().to_string();
    assert!(ALL.iter().all(|partitioner| error.contains(partitioner.name())), "{error}");
    let other = Layout::by_vertex(1, 2, vec![0]).unwrap();
    assert!(edge_cut(&store, &other, 0..2).unwrap_err().to_string().contains("make the layout anew"));
    let refused = loads(&store, &layout("hash", &store, 2), 0..9, None).unwrap_err();
    assert!(refused.to_string().starts_with("steps: "));
}
