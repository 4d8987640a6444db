//! Batches of some vertices in some windows (DynaHB): all parts of a window together are the window, and all
//! batches of an epoch all windows, whatever the model, on one worker and on several, in pieces and whole;
//! what they do not go with is refused.

use std::sync::Arc;

use kymo_graph::{Progress, Store};
use kymo_model::zoo;
use kymo_plan::{Assignment, Epochs, Neighbourhood, Targets};
use kymo_run::config::{Features, LossAt, Mode, OptimiserName, Order};
use kymo_run::workers::WorkerGroup;
use kymo_run::{Part, RunContext, Session, Settings, Worker};
use proptest::prelude::*;

use super::fixture::{Sketch, outputs, rate, run, settings};
use super::resume::{left_behind, run_in_pieces};

/// The mean loss of each iteration, the parameters in the end, and what the model says of the validation.
#[derive(Debug)]
struct Seen {
    losses: Vec<f64>,
    params: Vec<Vec<f32>>,
    outputs: Vec<Vec<f32>>,
}

fn practise(mut worker: Worker, epochs: &Epochs) -> Seen {
    let mut losses = Vec::new();
    for epoch in 0..2 {
        worker.begin_epoch(epoch, true);
        for iteration in epochs.plan(epoch).iterations {
            let done = worker.iterate(&iteration, rate(worker.settings()), false).unwrap();
            losses.push(done.loss / done.losses.max(1) as f64);
        }
    }
    let samples = worker.split().samples(Part::Validation);
    let outputs = outputs(&mut worker, samples);
    Seen { losses, params: worker.replica.params.values.clone(), outputs }
}

/// What one worker sees that has this many windows, or parts of them, in an iteration.
fn alone(settings: &Settings, store: &Arc<Store>, at_once: usize) -> Seen {
    let context = RunContext::open(settings.clone(), store.clone()).unwrap();
    let epochs = context.trained_epochs(1, Assignment::InRuns(at_once));
    practise(Worker::join(context, WorkerGroup::alone(), None).unwrap(), &epochs)
}

fn assert_close(found: &Seen, expected: &Seen, what: &str) {
    assert_eq!(found.losses.len(), expected.losses.len(), "{what}");
    for (found, expected) in found.losses.iter().zip(&expected.losses) {
        assert!((found - expected).abs() <= 1e-5 * expected.abs().max(1e-2), "{what}: {found}, {expected}");
    }
    for (found, expected) in [(&found.params, &expected.params), (&found.outputs, &expected.outputs)] {
        let all = |all: &[Vec<f32>]| all.concat();
        let (found, expected) = (all(found), all(expected));
        assert_eq!(found.len(), expected.len(), "{what}");
        for (found, expected) in found.iter().zip(&expected) {
            assert!(
                (found - expected).abs() <= 1e-4 * expected.abs().max(0.1),
                "{what}: {found}, {expected}"
            );
        }
    }
}

/// Fails unless batches of this many vertices come to what whole windows come to.
pub fn check(settings: &Settings, store: &Arc<Store>, batch: usize) {
    let (expected, mut settings) = (alone(settings, store, 1), settings.clone());
    settings.train.batch = batch;
    let found = alone(&settings, store, store.vertices().div_ceil(batch));
    assert_close(&found, &expected, &format!("batches of {batch}"));
}

/// Settings whose updates show gradients as they are.
pub fn plain(store: &Store, task: &str, model: &str) -> Settings {
    let mut settings = settings(store.path(), task, model);
    settings.train.optimiser = OptimiserName::Sgd;
    (settings.train.learning_rate, settings.train.clip) = (0.05, 0.0);
    settings.parallel.order = Order::Runs;
    settings
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10))]

    #[test]
    fn all_parts_of_a_window_are_the_window(
        seed in 0u64..1000,
        vertices in 8usize..30,
        batch in 1usize..12,
        (layers, blocks) in prop_oneof![Just((1, 1)), Just((2, 1)), Just((1, 2))],
        (is_weighted, at_all) in any::<(bool, bool)>(),
        features in prop_oneof![Just(Features::Auto), Just(Features::Learnt), Just(Features::Both)],
    ) {
        let folder = tempfile::tempdir().unwrap();
        let sketch = Sketch::random(seed, vertices, 12);
        let sketch = if is_weighted { sketch.weighted(seed) } else { sketch };
        let stores = sketch.write_both(&folder.path().join("store"));
        for task in ["node-regression", "node-classification"] {
            let store = stores.of(task);
            for recipe in zoo::ALL {
                let mut settings = plain(store, task, recipe.name);
                (settings.model.layers, settings.model.blocks) = (layers, blocks);
                settings.data.features = features;
                settings.train.loss = if at_all { LossAt::All } else { LossAt::Last };
                settings.train.stride = 2;
                let context = RunContext::open(settings.clone(), store.clone()).unwrap();
                if context.model.hops().is_none() {
                    continue;
                }
                let expected = alone(&settings, store, 1);
                settings.train.batch = batch;
                let parts = if batch < vertices { vertices.div_ceil(batch) } else { 1 };
                let found = alone(&settings, store, parts);
                assert_close(&found, &expected, &format!("{} {task} {batch} of {vertices}", recipe.name));
            }
        }
    }

    /// The mean gradient of all hybrid batches of an epoch, taken with the same parameters, is that of all
    /// windows with all vertices: shared, or run one by one.
    #[test]
    fn all_hybrid_batches_are_the_full_batch(
        seed in 0u64..1000,
        vertices in 8usize..30,
        batch in 1usize..12,
        batch_windows in 2usize..5,
        (layers, blocks) in prop_oneof![Just((1, 1)), Just((2, 1)), Just((1, 2))],
        (is_weighted, at_all, share) in any::<(bool, bool, bool)>(),
        stride in 1usize..3,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let sketch = Sketch::random(seed, vertices, 12);
        let sketch = if is_weighted { sketch.weighted(seed) } else { sketch };
        let stores = sketch.write_both(&folder.path().join("store"));
        for task in ["node-regression", "node-classification"] {
            let store = stores.of(task);
            for recipe in zoo::ALL {
                let mut settings = plain(store, task, recipe.name);
                (settings.model.layers, settings.model.blocks) = (layers, blocks);
                settings.train.loss = if at_all { LossAt::All } else { LossAt::Last };
                settings.train.stride = stride;
                let context = RunContext::open(settings.clone(), store.clone()).unwrap();
                if context.model.hops().is_none() {
                    continue;
                }
                let windows = context.windows().len();
                let expected = alone(&settings, store, windows);
                (settings.train.batch, settings.train.batch_windows) = (batch, batch_windows);
                settings.parallel.share = share;
                let batches = RunContext::open(settings.clone(), store.clone()).unwrap();
                let batches = batches.trained_epochs(1, Assignment::InRuns(1)).iterations();
                assert_eq!(batches, windows.div_ceil(batch_windows) * vertices.div_ceil(batch));
                let found = alone(&settings, store, batches);
                let what = format!("{} {task} {batch} of {vertices}, {batch_windows} windows", recipe.name);
                assert_close(&found, &expected, &what);
                // A batch of everything is the full batch.
                (settings.train.batch, settings.train.batch_windows) = (vertices, 0);
                assert_close(&alone(&settings, store, 1), &expected, &what);
            }
        }
    }
}

/// The modes of the paper's section 3: full, some snapshots, some vertices, and hybrid.
#[test]
fn modes_are_settings() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sketch::random(36, 40, 14).write(&folder.path().join("store"));
    let mut settings = plain(&store, "node-regression", "t-gcn");
    settings.train.stride = 1;
    let windows = RunContext::open(settings.clone(), store.clone()).unwrap().windows().len();
    for (batch, batch_windows) in [(0, 0), (0, 2), (10, 0), (10, 2), (10, 1), (0, 1)] {
        (settings.train.batch, settings.train.batch_windows) = (batch, batch_windows);
        let context = RunContext::open(settings.clone(), store.clone()).unwrap();
        let plan = context.trained_epochs(1, Assignment::InTurns(1)).plan(0);
        let parts = if batch == 0 { 1 } else { 4 };
        let each = if batch_windows == 0 { windows } else { batch_windows };
        assert_eq!(plan.iterations.len(), parts * windows.div_ceil(each));
        let largest = plan.iterations.iter().map(|iteration| iteration.windows().len()).max().unwrap();
        assert_eq!((largest, plan.windows()), (each, parts * windows));
        // All windows of a batch are run together, and those of some vertices see one neighbourhood.
        let (window, [most, span]) = (settings.train.window, context.together);
        assert_eq!(most, each);
        match batch {
            0 => assert!(span >= window + each - 1),
            _ => assert_eq!(span, window + each - 1),
        }
    }
    // Pairs of vertices can be in batches of some snapshots.
    let mut settings = plain(&store, "link-prediction", "gcn-gru");
    settings.train.batch_windows = 2;
    let found = alone(&settings, &store, 1);
    settings.train.batch_windows = 1;
    assert_close(&found, &alone(&settings, &store, 2), "batches of snapshots are iterations of windows");
}

/// Two workers that have parts of windows in turns come to what one worker does.
#[test]
fn parts_are_shared_among_workers() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sketch::random(31, 23, 12).write(&folder.path().join("store"));
    let mut settings = plain(&store, "node-regression", "t-gcn");
    settings.train.batch = 6;
    for batch_windows in [1, 3] {
        settings.train.batch_windows = batch_windows;
        settings.parallel.workers = 1;
        let expected = alone(&settings, &store, 4);
        settings.parallel.workers = 2;
        shared_by_two(&settings, &store, &expected);
    }
}

fn shared_by_two(settings: &Settings, store: &Arc<Store>, expected: &Seen) {
    let context = RunContext::open(settings.clone(), store.clone()).unwrap();
    let epochs = context.trained_epochs(2, Assignment::InRuns(4));
    let seen: Vec<Seen> = std::thread::scope(|scope| {
        let work = |group| {
            let (context, epochs) = (context.clone(), &epochs);
            scope.spawn(move || practise(Worker::join(context, group, None).unwrap(), epochs))
        };
        let threads: Vec<_> = WorkerGroup::in_process(2).into_iter().map(work).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_close(&seen[0], expected, "the first worker, which has what all say");
    let other = Seen { outputs: expected.outputs.clone(), ..seen.into_iter().nth(1).unwrap() };
    assert_close(&other, expected, "the second worker");
}

/// A batch sees a part of the graph, and other parts in every epoch; where it has all vertices, it is a
/// window.
#[test]
fn batches_are_as_large_as_they_are_said_to_be() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sketch::random(32, 40, 12).write(&folder.path().join("store"));
    let mut settings = plain(&store, "node-regression", "t-gcn");
    let plan = |settings: &Settings, epoch: usize| {
        let context = RunContext::open(settings.clone(), store.clone()).unwrap();
        let plan = context.trained_epochs(1, Assignment::InTurns(1)).plan(epoch);
        (context.windows().len(), plan)
    };
    (settings.train.batch, settings.model.layers) = (10, 2);
    let (windows, epoch) = plan(&settings, 0);
    assert_eq!(epoch.iterations.len(), 4 * windows);
    let batch = &epoch.iterations[0].workers[0][0];
    assert_eq!(batch.neighbourhood, Neighbourhood::Hops(2));
    assert!(matches!(batch.targets, Targets::Drawn(drawn) if drawn.parts == 4));
    assert_ne!(plan(&settings, 1).1.iterations[0].workers[0][0].targets, batch.targets);
    for batch in [0, 40, 1000] {
        settings.train.batch = batch;
        let (windows, epoch) = plan(&settings, 0);
        assert_eq!(epoch.iterations.len(), windows);
        assert_eq!(epoch.iterations[0].workers[0][0].targets, Targets::All);
    }
}

#[test]
fn runs_in_pieces_are_whole_runs() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sketch::random(33, 30, 13).write(&folder.path().join("store"));
    for (number, task) in ["node-regression", "node-classification"].into_iter().enumerate() {
        let mut settings = settings(store.path(), task, "gcn-gru");
        (settings.train.batch, settings.model.dropout, settings.run.checkpoint_windows) = (8, 0.3, 3);
        settings.train.batch_windows = 1 + number;
        let [whole, parts] = ["whole", "parts"].map(|name| folder.path().join(format!("{name}{number}")));
        run(&settings, &whole);
        run_in_pieces(&settings, &parts, &[5, 1, 7]);
        let (whole, parts) = (left_behind(&whole), left_behind(&parts));
        assert_eq!(whole.1, parts.1, "{task}");
        assert!(whole.0 == parts.0, "the checkpoints differ: {task}");
    }
}

#[test]
fn what_batches_do_not_go_with_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sketch::random(34, 30, 12).write(&folder.path().join("store"));
    let problem = |task: &str, model: &str, change: &dyn Fn(&mut Settings)| {
        let mut settings = settings(store.path(), task, model);
        settings.train.batch = 10;
        change(&mut settings);
        let path = folder.path().join("run");
        let error = Session::begin(settings, &path, &Progress::silent()).err().unwrap().to_string();
        assert!(!path.exists() && error.starts_with("train.batch: "), "{error}");
        error
    };
    let same = |_: &mut Settings| ();
    for model in ["dcrnn", "evolvegcn-h", "gc-lstm"] {
        assert!(
            problem("node-regression", model, &same).contains(&format!("{model} sees farther")),
            "{model}"
        );
    }
    assert!(problem("link-prediction", "t-gcn", &same).contains("pairs of vertices"));
    for mode in [Mode::Sequence, Mode::Truncated] {
        let error = problem("node-regression", "t-gcn", &|settings| settings.train.mode = mode);
        assert!(error.contains("train.mode=windows"), "{error}");
    }
    let mut settings = settings(store.path(), "node-regression", "t-gcn");
    (settings.train.mode, settings.train.batch_windows) = (Mode::Sequence, 2);
    let error = RunContext::open(settings, store.clone()).err().unwrap().to_string();
    assert!(error.starts_with("train.batch_windows: only sliding windows"), "{error}");
    let error = problem("node-regression", "t-gcn", &|settings| {
        (settings.parallel.workers, settings.parallel.strategy) = (2, "pts".into());
    });
    assert!(error.contains("the strategy pts") && error.contains("choose psg"), "{error}");
}
