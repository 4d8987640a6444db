//! The laws of the store over random sequences of steps: what was written is what is read, in any order, from
//! any number of readers, whether written at once or appended piece by piece.
#![allow(clippy::unwrap_used)]

#[path = "store/cursor.rs"]
mod cursor;

use kymo_graph::store::{Cursor, FeatureFacts, FeatureKind, FeatureWindow, Manifest, Plan, Writer};
use kymo_graph::{Delta, Edge, FeatureChange, Ids, Snapshot, StepData, StepEdges, Store};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

const VERTICES: usize = 9;
const WIDTH: usize = 5;

/// A step as the oracle keeps it: everything whole.
#[derive(Clone, Debug)]
struct Whole {
    snapshot: Snapshot<'static>,
    features: Vec<f32>,
    targets: Vec<(u32, f32)>,
    labels: Vec<(u32, u32)>,
}

/// What a random step does: edges toggled, or replaced altogether; feature cells set; vertices listed.
type Change =
    (Result<Vec<(u32, u32, f32)>, Vec<(u32, u32, f32)>>, Vec<(usize, usize, i8)>, BTreeMap<u32, u32>);

/// Steps that change a little, or entirely, or not at all, or become empty.
fn sequences() -> impl Strategy<Value = Vec<Whole>> {
    let edge = (
        0..VERTICES as u32,
        0..VERTICES as u32,
        prop_oneof![3 => Just(1.0f32), 1 => Just(0.25), 1 => Just(-3.0)],
    );
    let change = prop_oneof![
        4 => prop::collection::vec(edge.clone(), 0..4).prop_map(Ok),
        1 => prop::collection::vec(edge, 0..30).prop_map(Err),
    ];
    let features = prop::collection::vec((0..VERTICES, 0..WIDTH, -2i8..3), 0..5);
    let listed = prop::collection::btree_map(0..VERTICES as u32, 0u32..3, 0..4);
    prop::collection::vec((change, features, listed), 1..25).prop_map(|steps| {
        let (mut edges, mut rows) = (BTreeMap::new(), vec![0.5; VERTICES * WIDTH]);
        let whole = |(change, features, listed): Change| {
            let toggled = change.unwrap_or_else(|all| {
                edges.clear();
                all
            });
            for (u, v, weight) in toggled {
                let edge = Edge::new(u, v);
                if edges.insert(edge, weight) == Some(weight) {
                    edges.remove(&edge);
                }
            }
            for (v, column, value) in features {
                rows[v * WIDTH + column] = value.into();
            }
            Whole {
                snapshot: Snapshot::from_weighted(edges.iter().map(|(&e, &w)| (e, w)).collect()),
                features: rows.clone(),
                targets: listed.iter().map(|(&v, &class)| (v, class as f32 - 0.5)).collect(),
                labels: listed.into_iter().collect(),
            }
        };
        steps.into_iter().map(whole).collect()
    })
}

fn data(step: usize, steps: &[Whole], as_delta: bool) -> StepData {
    let whole = &steps[step];
    let before = step.checked_sub(1).map(|before| &steps[before]);
    let edges = if as_delta {
        let empty = Snapshot::default();
        StepEdges::Delta(Delta::between(before.map_or(&empty, |before| &before.snapshot), &whole.snapshot))
    } else {
        StepEdges::All(whole.snapshot.clone())
    };
    StepData {
        begin: step as f64,
        end: step as f64 + 1.0,
        events: 3,
        edges,
        features: FeatureChange::All(whole.features.clone()),
        targets: whole.targets.clone(),
        labels: whole.labels.clone(),
    }
}

fn write(path: &Path, steps: &[Whole], cuts: &[usize], part_bytes: usize) -> Store {
    let mut writer = Writer::create(path, false).unwrap();
    let features = FeatureFacts { kind: FeatureKind::Dense, width: WIDTH as u64, segments: 2 };
    writer.plan(Plan { directed: true, features, classes: vec!["a".into()], part_bytes, ..Plan::default() });
    writer.add_vertices(&Ids::Number((10..10 + VERTICES as u64).collect())).unwrap();
    for step in 0..steps.len() {
        if cuts.contains(&step) {
            writer.finish().unwrap();
            writer = Writer::append(path).unwrap();
        }
        writer.push(data(step, steps, step % 2 == 0)).unwrap();
    }
    writer.finish().unwrap()
}

fn check(store: &Store, steps: &[Whole]) {
    assert_eq!(store.steps(), steps.len());
    let pairs = |(vertices, values): (&[u32], &[f32])| -> Vec<(u32, f32)> {
        vertices.iter().copied().zip(values.iter().copied()).collect()
    };
    // Backwards, so that no step profits from the one before.
    for (t, whole) in steps.iter().enumerate().rev() {
        assert_eq!(store.snapshot(t).unwrap(), whole.snapshot, "step {t}");
        assert_eq!(store.edges(t).unwrap(), whole.snapshot.len(), "step {t}");
        let before = if t == 0 { Snapshot::default() } else { steps[t - 1].snapshot.view() };
        assert_eq!(store.delta(t).unwrap(), Delta::between(&before, &whole.snapshot), "step {t}");
        assert_eq!(store.delta(t).unwrap().apply(&before).unwrap(), whole.snapshot);
        assert_eq!(&*store.features(t).unwrap(), whole.features, "step {t}");
        for v in 0..VERTICES {
            assert_eq!(
                store.feature_row(t, v as u32).unwrap(),
                whole.features[v * WIDTH..][..WIDTH],
                "step {t}"
            );
        }
        assert_eq!(pairs(store.targets(t).unwrap()), whole.targets);
        let (vertices, classes) = store.labels(t).unwrap();
        assert_eq!(vertices.iter().copied().zip(classes.iter().copied()).collect::<Vec<_>>(), whole.labels);
        assert_eq!(store.time(t).unwrap(), [t as f64, t as f64 + 1.0]);
    }
    let mut walk = store.walk();
    for (t, whole) in steps.iter().enumerate() {
        let stop = walk.step().unwrap().unwrap();
        assert_eq!((stop.step, stop.snapshot), (t, &whole.snapshot));
        assert_eq!(stop.delta, store.delta(t).unwrap());
    }
    assert!(walk.step().unwrap().is_none());
    store.verify().unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_store_gives_back_every_step(
        steps in sequences(),
        part_bytes in prop_oneof![Just(1usize), Just(400), Just(1 << 20)],
    ) {
        let folder = tempfile::tempdir().unwrap();
        let store = write(&folder.path().join("s"), &steps, &[], part_bytes);
        check(&store, &steps);
        let edges: usize = steps.iter().map(|whole| whole.snapshot.len()).sum();
        prop_assert_eq!(store.manifest().edges, edges as u64);
        prop_assert_eq!(store.manifest().events, 3 * steps.len() as u64);
    }

    #[test]
    fn appended_is_written_at_once(steps in sequences(), cuts in prop::collection::vec(1usize..20, 0..5)) {
        let folder = tempfile::tempdir().unwrap();
        let store = write(&folder.path().join("s"), &steps, &cuts, 1 << 20);
        check(&store, &steps);
    }

    #[test]
    fn a_feature_window_is_the_features_of_each_step(steps in sequences(), length in 1usize..6) {
        let folder = tempfile::tempdir().unwrap();
        let store = write(&folder.path().join("s"), &steps, &[], 1 << 20);
        let mut window = FeatureWindow::new(&store, length, 0).unwrap();
        for last in 0..steps.len() {
            if last > 0 {
                window.advance().unwrap();
            }
            prop_assert_eq!(window.last(), last);
            prop_assert!(window.last() - window.first() < length);
            // Steps before the window are read from disk, those in it from memory: both must be right.
            for (t, whole) in steps.iter().enumerate().take(last + 1) {
                for v in 0..VERTICES {
                    prop_assert_eq!(
                        &window.row(t, v as u32).unwrap()[..],
                        &whole.features[v * WIDTH..][..WIDTH]
                    );
                }
            }
            let fresh = FeatureWindow::new(&store, length, last).unwrap();
            prop_assert_eq!(fresh.row(last, 3).unwrap(), window.row(last, 3).unwrap());
        }
    }
}

fn some_steps(count: usize) -> Vec<Whole> {
    let step = |t: usize| Whole {
        snapshot: Snapshot::from_edges(
            (0..8).map(|i| Edge::new(i, (i * 3 + (t as u32 / 4) * (i / 7)) % 9)).collect(),
        ),
        features: (0..VERTICES * WIDTH).map(|i| (i / 7 + t / 3) as f32).collect(),
        targets: vec![(1, t as f32)],
        labels: vec![],
    };
    (0..count).map(step).collect()
}

#[test]
fn a_window_holds_less_than_all_its_steps() {
    let folder = tempfile::tempdir().unwrap();
    let mut steps = some_steps(1);
    for t in 1..12 {
        let mut next = steps[t - 1].clone();
        next.features[(t % VERTICES) * WIDTH] += 1.0;
        steps.push(next);
    }
    let store = write(&folder.path().join("s"), &steps, &[], 1 << 20);
    let window = FeatureWindow::new(&store, 4, 9).unwrap();
    // One segment of three columns changes a step: |X| + (w - 1) |dX|.
    assert_eq!(window.held(), VERTICES * WIDTH + 3 * 3);
}

#[test]
fn readers_see_the_store_as_it_was_while_steps_are_appended() {
    let folder = tempfile::tempdir().unwrap();
    let (path, steps) = (folder.path().join("s"), some_steps(10));
    let before = write(&path, &steps[..6], &[], 1 << 20);
    let mut writer = Writer::append(&path).unwrap();
    for t in 6..10 {
        writer.push(data(t, &steps, false)).unwrap();
        assert_eq!(Store::open(&path).unwrap().steps(), 6);
    }
    let second = Writer::append(&path).err().unwrap().to_string();
    let who = format!("process {} on ", std::process::id());
    assert!(second.contains(&who) && second.contains(" is writing there; wait for it"), "{second}");
    // Nor may it be replaced now: what is appended would be lost.
    let replaced = Writer::create(&path, true).err().unwrap().to_string();
    assert!(replaced.contains(&who), "{replaced}");
    writer.finish().unwrap();
    check(&before, &steps[..6]);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| check(&Store::open(&path).unwrap(), &steps));
        }
    });
    let abandoned = || -> Vec<String> {
        let names =
            std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    };
    let files = abandoned();
    let mut writer = Writer::append(&path).unwrap();
    writer.add_vertices(&Ids::Number(vec![99])).unwrap();
    writer.push(data(9, &steps, false)).ok();
    drop(writer);
    assert_eq!(abandoned(), files, "what is not finished is taken away");
    check(&Store::open(&path).unwrap(), &steps);
}

#[test]
fn vertices_can_be_appended() {
    let folder = tempfile::tempdir().unwrap();
    let (path, steps) = (folder.path().join("s"), some_steps(3));
    write(&path, &steps, &[], 1 << 20);
    let mut writer = Writer::append(&path).unwrap();
    let edge = Edge::new(9, 0);
    let beyond = StepData { edges: StepEdges::All(Snapshot::from_edges(vec![edge])), ..StepData::default() };
    assert!(writer.push(beyond.clone()).unwrap_err().to_string().contains("only 9 vertices are known"));
    writer.add_vertices(&Ids::Number(vec![7])).unwrap();
    writer.push(beyond).unwrap();
    let store = writer.finish().unwrap();
    assert_eq!((store.vertices(), store.ids().unwrap().name(9)), (10, "7".to_owned()));
    assert_eq!(&*store.snapshot(3).unwrap().edges, &[edge]);
    assert_eq!(store.features(3).unwrap()[..45], steps[2].features);
    assert_eq!(store.features(3).unwrap()[45..], [0.0; 5]);
    assert_eq!(store.features(1).unwrap().len(), 50);
}

#[test]
fn nothing_is_overwritten_unasked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    write(&path, &some_steps(2), &[], 1 << 20);
    assert!(Writer::create(&path, false).err().unwrap().to_string().contains("exists already"));
    let mine = folder.path().join("mine");
    std::fs::create_dir(&mine).unwrap();
    std::fs::write(mine.join("thesis.tex"), "years of work").unwrap();
    assert!(Writer::create(&mine, true).err().unwrap().to_string().contains("is not a store"));
    let mut writer = Writer::create(&path, true).unwrap();
    writer.plan(Plan::default());
    assert_eq!(Store::open(&path).unwrap().steps(), 2, "the old store stands until the new one is complete");
    assert_eq!(writer.finish().unwrap().steps(), 0);
    let names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
}

/// Every byte of every file matters: flipped or cut anywhere, the store is refused or, where the damage is in
/// what a reader does not look at, unchanged. It never panics.
#[test]
fn damaged_stores_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (path, steps) = (folder.path().join("s"), some_steps(6));
    write(&path, &steps, &[3], 1 << 20);
    let files: Vec<_> = std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()).collect();
    let verify = || Store::open(&path).and_then(|store| store.verify());
    verify().unwrap();
    for file in &files {
        let whole = std::fs::read(file).unwrap();
        for at in (0..whole.len()).step_by(7) {
            let mut damaged = whole.clone();
            damaged[at] ^= 1 << (at % 8);
            std::fs::write(file, &damaged).unwrap();
            if let Ok(()) = verify() {
                // Blanks between the words of the manifest carry nothing.
                assert!(file.ends_with("manifest.json"), "{} at {at}", file.display());
                check(&Store::open(&path).unwrap(), &steps);
            }
            std::fs::write(file, &whole[..at]).unwrap();
            assert!(verify().is_err(), "{} cut at {at}", file.display());
        }
        std::fs::remove_file(file).unwrap();
        assert!(verify().is_err(), "{} missing", file.display());
        std::fs::write(file, &whole).unwrap();
    }
    verify().unwrap();
}

/// Files changed with valid checksums: whatever they say, reading ends with a result.
#[test]
fn tampered_stores_do_not_panic() {
    let folder = tempfile::tempdir().unwrap();
    let (path, steps) = (folder.path().join("s"), some_steps(6));
    write(&path, &steps, &[3], 1 << 20);
    let manifest = Manifest::read(&path).unwrap();
    let (mut state, mut refused) = (0x2545_F491_4F6C_DD1Du64, 0);
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    };
    for _ in 0..3000 {
        let mut changed = manifest.clone();
        let which = random(changed.parts.len() + changed.ids.len() + 1);
        let entry = match which.checked_sub(changed.parts.len()) {
            None => &mut changed.parts[which].file,
            Some(rest) if rest < changed.ids.len() => &mut changed.ids[rest],
            Some(_) => {
                match random(5) {
                    0 => changed.vertices = random(20) as u64,
                    1 => changed.steps = random(9) as u64,
                    2 => changed.features.width = random(9) as u64,
                    3 => changed.features.segments = random(9) as u64,
                    _ => changed.parts[0].steps = random(9) as u64,
                }
                &mut changed.ids[0]
            }
        };
        let file = path.join(&entry.name);
        let whole = std::fs::read(&file).unwrap();
        let mut bytes = whole.clone();
        for _ in 0..=random(3) {
            let at = random(bytes.len());
            bytes[at] = [0, 1, 0xff, b'9', random(256) as u8][random(5)];
        }
        std::fs::write(&file, &bytes).unwrap();
        entry.crc32 = crc32fast::hash(&bytes);
        changed.write(&path).unwrap();
        refused += usize::from(read_everything(&path).is_err());
        std::fs::write(&file, &whole).unwrap();
    }
    manifest.write(&path).unwrap();
    check(&Store::open(&path).unwrap(), &steps);
    assert!(refused > 1000, "{refused}");
}

/// Everything a store can be asked.
fn read_everything(path: &Path) -> kymo_graph::Result<()> {
    let store = Arc::new(Store::open(path)?);
    let mut cursor = Cursor::new(store.clone());
    // Forward and backward; what a cursor accepts is what the store says.
    for t in (0..store.steps()).chain((0..store.steps()).rev()) {
        if let Ok(rows) = cursor.go_to(t) {
            assert!(cursor::same(rows, &store.snapshot(t).unwrap().by_target(store.vertices())));
            cursor.outward();
        }
    }
    store.verify()?;
    for t in 0..store.steps() {
        store.delta(t)?;
        store.features(t)?;
        store.feature_row(t, store.vertices().saturating_sub(1) as u32)?;
        store.targets(t)?;
        store.labels(t)?;
    }
    FeatureWindow::new(&store, 3, store.steps().saturating_sub(1))?;
    kymo_graph::stats::stats(&store, &kymo_graph::Progress::silent())?;
    Ok(())
}
