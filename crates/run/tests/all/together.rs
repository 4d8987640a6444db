//! Windows of an iteration that are run together: the same training as one after the other, to rounding,
//! whatever the model, task and number of windows; the same bits every time, and when it goes on after an
//! interruption; and the memory that was said beforehand.

use std::sync::Arc;

use kymo_graph::Store;
use kymo_model::zoo;
use kymo_run::config::{Features, OptimiserName, Order};
use kymo_run::data::Part;
use kymo_run::schedule::Division;
use kymo_run::{Settings, Worker, task};

use super::fixture::{Sketch, iterations, outputs, rate, run, settings};
use super::resume::{left_behind, run_in_pieces};

/// The losses of all iterations, and the parameters in the end.
type Trained = (Vec<f64>, Vec<Vec<f32>>);

/// The same training, to rounding.
pub fn assert_close(what: &str, (losses, params): &Trained, (expected, others): &Trained) {
    assert_eq!(losses.len(), expected.len(), "{what}");
    for (found, expected) in losses.iter().zip(expected) {
        assert!((found - expected).abs() <= 1e-4 * expected.abs(), "{what}: {found}, {expected}");
    }
    for (found, expected) in params.iter().flatten().zip(others.iter().flatten()) {
        assert!((found - expected).abs() <= 1e-5, "{what}: {found}, {expected}");
    }
}

/// Trains for two epochs.
pub fn practise(settings: &Settings, store: &Arc<Store>) -> Trained {
    let mut worker = Worker::open(settings.clone(), store.clone()).unwrap();
    let mut losses = Vec::new();
    for epoch in 0..2 {
        worker.begin_epoch(epoch, true);
        let all = iterations(&worker.context, &Division::Groups, epoch);
        worker.look_ahead(&all, Vec::new());
        for iteration in &all {
            losses.push(worker.iterate(iteration, rate(settings), false).unwrap().loss);
        }
    }
    (losses, worker.replica.params.values.clone())
}

/// Settings whose updates show gradients as they are.
pub fn plain(store: &Store, task: &str, model: &str) -> Settings {
    let mut settings = settings(store.path(), task, model);
    settings.train.optimiser = OptimiserName::Sgd;
    settings.train.clip = 0.0;
    settings.train.learning_rate = 0.02;
    settings
}

#[test]
fn windows_together_train_as_one_after_the_other() {
    let folder = tempfile::tempdir().unwrap();
    let stores = Sketch::random(3, 13, 16).write_both(&folder.path().join("store"));
    let sparse = Sketch::random(4, 13, 16).sparse().write_both(&folder.path().join("sparse"));
    let mut turn = 0;
    for task in task::ALL {
        for recipe in zoo::ALL {
            let store = if turn % 4 == 3 { &sparse } else { &stores }.of(task.name());
            let mut settings = plain(store, task.name(), recipe.name);
            settings.parallel.windows = 2 + turn % 7;
            settings.parallel.order = if turn % 3 == 2 { Order::Random } else { Order::Runs };
            settings.model.dropout = if turn % 2 == 0 { 0.3 } else { 0.0 };
            settings.data.features = if turn % 3 == 1 { Features::Both } else { Features::Auto };
            (settings.model.layers, settings.model.blocks) = (1 + turn % 2, 1 + usize::from(turn % 5 == 0));
            turn += 1;
            let what = format!("{}, {}, turn {turn}", recipe.name, task.name());
            let found = practise(&settings, store);
            assert_eq!(found, practise(&settings, store), "{what}");
            settings.parallel.share = false;
            assert_close(&what, &found, &practise(&settings, store));
        }
    }
}

/// Windows of samples that follow each other are evaluated together as well, and come out in their order.
#[test]
fn windows_together_are_evaluated_as_one_after_the_other() {
    let folder = tempfile::tempdir().unwrap();
    let stores = Sketch::random(7, 13, 24).write_both(&folder.path().join("store"));
    for (turn, recipe) in zoo::ALL.iter().enumerate() {
        let task = task::ALL[turn % task::ALL.len()].name();
        let store = stores.of(task);
        let mut settings = plain(store, task, recipe.name);
        (settings.model.layers, settings.parallel.windows) = (1 + turn % 2, 2 + turn % 4);
        let mut all = Vec::new();
        for share in [true, false] {
            settings.parallel.share = share;
            let mut worker = Worker::open(settings.clone(), store.clone()).unwrap();
            // Runs of samples begin and end anywhere.
            let end = worker.split().samples(Part::Test).end;
            all.push(outputs(&mut worker, 1..end));
        }
        let [found, expected] = &all[..] else { unreachable!() };
        assert_eq!(found.len(), expected.len(), "{}", recipe.name);
        for (sample, (found, expected)) in found.iter().zip(expected).enumerate() {
            assert_eq!(found.len(), expected.len(), "{}, sample {sample}", recipe.name);
            let most = expected.iter().fold(1e-3_f32, |most, value| most.max(value.abs()));
            for (found, expected) in found.iter().zip(expected) {
                let off = (found - expected).abs() / most;
                assert!(off <= 1e-5, "{}, {task}, sample {sample}: {found}, {expected}", recipe.name);
            }
        }
    }
}

/// One worker is told what it needs; what it holds of buffers then is no more.
#[test]
fn memory_is_that_of_all_windows_together() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sketch::random(5, 3000, 16).write(&folder.path().join("store"));
    for model in ["t-gcn", "gat-lstm", "mpnn-lstm", "evolvegcn-o"] {
        for task in ["node-regression", "link-prediction"] {
            let mut settings = plain(&store, task, model);
            (settings.model.hidden, settings.model.layers) = (32, 2);
            let mut held = Vec::new();
            for windows in [1, 6] {
                settings.parallel.windows = windows;
                settings.parallel.order = Order::Runs;
                let mut worker = Worker::open(settings.clone(), store.clone()).unwrap();
                let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
                pool.install(|| {
                    for iteration in iterations(&worker.context, &Division::Groups, 0).iter().take(2) {
                        worker.iterate(iteration, rate(&settings), false).unwrap();
                    }
                    let [row, blocks] = worker.context.buffers().unwrap();
                    let (said, taken) = (3000 * row + blocks, worker.buffer_bytes() as u64);
                    let what = format!("{model}, {task}, {windows} windows: {said} said, {taken} taken");
                    assert!(taken <= said + said / 10, "{what}");
                    // Edges of attention and pairs of links are not counted by vertices alone.
                    assert!(taken >= said / 3, "{what}");
                    held.push(taken);
                });
            }
            assert!(held[0] < held[1], "{model}, {task}: {held:?}");
        }
    }
}

#[test]
fn a_run_that_goes_on_has_the_bits_of_one_that_was_never_interrupted() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sketch::random(6, 30, 16).write(&folder.path().join("store"));
    for (number, order) in [Order::Runs, Order::Random].into_iter().enumerate() {
        let mut settings = plain(&store, "node-regression", "wd-gcn");
        (settings.parallel.windows, settings.parallel.order) = (3, order);
        (settings.model.dropout, settings.run.checkpoint_windows) = (0.3, 1);
        let [whole, parts] = ["whole", "parts"].map(|name| folder.path().join(format!("{name}{number}")));
        run(&settings, &whole);
        run_in_pieces(&settings, &parts, &[1, 2]);
        assert!(left_behind(&whole) == left_behind(&parts), "{order:?}");
    }
}
