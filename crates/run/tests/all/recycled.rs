//! Arrays of snapshots that passed through are used again: nobody who still reads one sees it change, nothing
//! new is taken once the first windows are gone, and what is kept for it stays within its room.

use std::fmt::Write;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use kymo_graph::generate::{self, Params};
use kymo_graph::snapshot::{Edge, Snapshot};
use kymo_graph::store::{FeatureFacts, FeatureKind, Plan, Writer};
use kymo_graph::{FeatureChange, Ids, Progress, Step, StepData, StepEdges, Store};
use kymo_model::graph::Weighted;
use kymo_model::{Graph, Normalisation, zoo};
use kymo_run::RunContext;
use kymo_run::data::{Room, SnapshotSource, Snapshots, StepRows, Surroundings, WholeSteps};
use kymo_run::random::Random;
use kymo_trace::Recorder;
use proptest::prelude::*;

use super::fixture::settings;

const STEPS: usize = 24;

/// Random data whose sizes differ from step to step: with weights or without, and with features of which
/// `changing` in ten rows change, or none.
fn data(path: &Path, seed: u64, weighted: bool, changing: Option<usize>) -> Arc<Store> {
    const VERTICES: usize = 40;
    let random = Random::new(seed);
    let mut writer = Writer::create(path, true).unwrap();
    let kind = if changing.is_some() { FeatureKind::Dense } else { FeatureKind::None };
    let features = FeatureFacts { kind, width: if changing.is_some() { 3 } else { 0 }, segments: 1 };
    writer.plan(Plan { directed: true, features, ..Plan::default() });
    writer.add_vertices(&Ids::Number((0..VERTICES as u64).collect())).unwrap();
    let (mut edges, mut rows) = (std::collections::BTreeMap::new(), vec![0.0; 3 * VERTICES]);
    for step in 0..STEPS as u64 {
        let draws = random.stream(step);
        let drawn = |place: u64| draws.below(VERTICES, place) as u32;
        let changes = if step == 0 { 200 } else { 10 + draws.stream(1).below(90, 0) as u64 };
        for change in 0..changes {
            let edge = Edge::new(drawn(2 * change), drawn(2 * change + 1));
            if edges.remove(&edge).is_none() {
                edges.insert(edge, if weighted { 0.5 + drawn(change) as f32 } else { 1.0 });
            }
        }
        for (vertex, row) in rows.chunks_exact_mut(3).enumerate() {
            if step == 0 || draws.stream(2).below(10, vertex as u64) < changing.unwrap_or(0) {
                row.fill(draws.stream(3).share(vertex as u64) as f32);
            }
        }
        let list = edges.iter().map(|(&edge, &weight)| (edge, weight)).collect();
        let features =
            if changing.is_some() { FeatureChange::All(rows.clone()) } else { FeatureChange::Same };
        let edges = StepEdges::All(Snapshot::from_weighted(list));
        writer.push(StepData { edges, features, ..StepData::default() }).unwrap();
    }
    Arc::new(writer.finish().unwrap())
}

fn context(store: &Arc<Store>, model: &str, layers: usize) -> Arc<RunContext> {
    let mut settings = settings(store.path(), "link-prediction", model);
    settings.model.layers = layers;
    RunContext::open(settings, store.clone()).unwrap()
}

fn source(context: &RunContext) -> Arc<WholeSteps> {
    let (store, inputs) = (context.store.clone(), context.inputs.clone());
    Arc::new(WholeSteps::new(store, inputs, context.asked().unwrap(), None))
}

fn snapshots(store: &Arc<Store>, source: &Arc<WholeSteps>, room: Room) -> Snapshots {
    let around = Surroundings { cells: None, recorder: Arc::new(Recorder::new(0)), device: None };
    Snapshots::new(store.clone(), source.clone(), room, around)
}

/// All numbers of a snapshot, transposes included.
fn picture(graph: &Graph, rows: &StepRows, t: Step) -> String {
    let mut text = String::new();
    // Values that are products are made here: the picture comes last.
    let mut add = |matrix: Weighted| write!(text, "{:?} {:?}", matrix.pattern, &matrix.values[..]).unwrap();
    Normalisation::ALL.into_iter().filter_map(|kind| graph.normalised(kind).ok()).for_each(&mut add);
    graph.mean().into_iter().chain(graph.diffusion().into_iter().flatten()).for_each(&mut add);
    let patterns = [graph.with_loops(), graph.plain()];
    patterns.into_iter().flatten().for_each(|pattern| write!(text, "{pattern:?}").unwrap());
    match rows {
        StepRows::Own(rows) => write!(text, "{:?}", &rows[..]).unwrap(),
        StepRows::Shared(segment) => {
            let index = segment.at(t).map(|index| index.to_vec());
            write!(text, "{:?} {index:?}", &segment.rows[..]).unwrap();
        }
    }
    text
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// In whatever order steps are read, ahead or not, and however long somebody keeps them, each is what a
    /// fresh read gives.
    #[test]
    fn what_somebody_reads_never_changes(
        (seed, weighted, changing) in (any::<u64>(), any::<bool>(), prop::option::of(0usize..10)),
        (model, layers) in (0..zoo::ALL.len(), 1usize..3),
        (kept, ahead) in (prop_oneof![Just(0usize), Just(20_000)], 1usize..6),
        windows in prop::collection::vec((0usize..STEPS - 4, 1usize..5, any::<bool>(), 0usize..6), 1..25),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let store = data(&folder.path().join("store"), seed, weighted, changing);
        let context = context(&store, zoo::ALL[model].name, layers);
        let fresh = source(&context);
        let expected: Vec<String> = (0..STEPS).map(|t| {
            let piece = fresh.read(t, None).unwrap();
            piece.graph.complete();
            picture(&piece.graph, &piece.rows, t)
        }).collect();
        let room = Room {
            whole_products: false,
            snapshots: kept,
            products: Some(0),
            ahead,
            windows: 16,
            readers: 2,
            holds_all: false,
            step: context.sizes().unwrap().step,
            passing: 1 << 30,
            releases: true,
        };
        let snapshots = snapshots(&store, &source(&context), room);
        let range = |&(start, length, ..): &(usize, usize, bool, usize)| start..start + length;
        let all: Vec<Range<Step>> = windows.iter().map(range).collect();
        let mut held = Vec::new();
        for (place, &(_, _, looks_ahead, until)) in windows.iter().enumerate() {
            if looks_ahead {
                snapshots.look_ahead(all[place..].to_vec());
            }
            let (loaded, _) = snapshots.window(&all[place]).unwrap();
            held.push((place + until, loaded));
            let (done, rest): (Vec<_>, Vec<_>) = held.into_iter().partition(|&(until, _)| until <= place);
            held = rest;
            for step in done.iter().flat_map(|(_, loaded)| loaded) {
                prop_assert_eq!(&picture(&step.graph, &step.rows, step.step), &expected[step.step]);
            }
        }
        for step in held.iter().flat_map(|(_, loaded)| loaded) {
            prop_assert_eq!(&picture(&step.graph, &step.rows, step.step), &expected[step.step]);
        }
    }
}

/// Steps of about one size, as many edges at each.
fn even(path: &Path, features: usize) -> Arc<Store> {
    let kind = generate::find("power-law").unwrap();
    let params = Params {
        vertices: 1000,
        edges: 12_000,
        steps: STEPS,
        edge_change: 0.3,
        feature_change: 0.2,
        features,
        ..kind.defaults()
    };
    Arc::new(generate::write(kind, &params, path, true, &Progress::silent()).unwrap())
}

/// Of a store that does not fit, no step takes new memory once an epoch has gone by, whatever the model asks
/// of it; and those that pass through have, with what is kept to be used again, no more than their room.
#[test]
fn passing_steps_take_nothing_new_after_the_first_windows() {
    let folder = tempfile::tempdir().unwrap();
    for (features, recipe, layers) in [0, 8]
        .into_iter()
        .flat_map(|features| zoo::ALL.iter().map(move |recipe| (features, recipe)))
        .flat_map(|(features, recipe)| [1, 2].map(|layers| (features, recipe, layers)))
    {
        let path = folder.path().join(format!("store-{features}"));
        let store = if path.exists() { Arc::new(Store::open(&path).unwrap()) } else { even(&path, features) };
        let context = context(&store, recipe.name, layers);
        let (sizes, source) = (context.sizes().unwrap(), source(&context));
        let room = Room::new(&sizes, sizes.all() / 4, 4, 1);
        assert!(!room.holds_all && room.passing > 0);
        let snapshots = snapshots(&store, &source, room);
        let (mut after_first, kept) = (None, room.snapshots);
        for epoch in 0..4 {
            // Nobody looks ahead: what is read when does not depend on the clock.
            for window in (0..STEPS - 3).map(|place| (place * 8 + epoch) % (STEPS - 3)) {
                snapshots.window(&(window..window + 4)).unwrap();
                let passing = snapshots.held_bytes().saturating_sub(kept - snapshots.left()[0]);
                let free = source.pool().bytes();
                assert!(
                    passing + free <= room.passing,
                    "{} {layers}: {passing} {free} {room:?}",
                    recipe.name
                );
            }
            let fresh = source.pool().fresh();
            let first = *after_first.get_or_insert(fresh);
            assert_eq!(fresh, first, "{} of {layers} layers, {features} features", recipe.name);
        }
        assert!(after_first > Some(0), "arrays come from the pool");
    }
}
