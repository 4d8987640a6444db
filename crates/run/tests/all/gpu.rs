//! Training on a GPU against training on the host: losses, parameters and outputs of every task and mode, and
//! runs that move from one to the other. Without a GPU the tests say that they were skipped.

use std::sync::Arc;

use kymo_graph::Store;
use kymo_model::zoo;
use kymo_run::config::{Features, LossAt, OptimiserName, Order};
use kymo_run::schedule::Division;
use kymo_run::step::predicted_bytes;
use kymo_run::{Part, RunContext, Settings, Worker, task};
use kymo_tensor::cuda;

use super::fixture::{MODES, Sketch, iterations, rate, settings};

fn is_there() -> bool {
    if cuda::count() == 0 {
        eprintln!("skipped: there is no GPU, or the program was built without --features cuda");
    }
    cuda::count() > 0
}

/// The losses of two epochs, the parameters then, and what the model says about the validation.
fn practise(settings: &Settings, store: &Arc<Store>, device: [&str; 2]) -> (Vec<f64>, Vec<Vec<f32>>) {
    let on = |device: &str| {
        let mut settings = settings.clone();
        settings.run.device = device.into();
        let mut worker = Worker::open(settings, store.clone()).unwrap();
        // A regression begins with a head that leaves the embedding out, and tasks of edges with such a
        // hidden layer and with the best weights of facts: gradients would be next to nothing, and what Adam
        // makes of them as large as any.
        for name in ["head.weight", "edge.out", "edge.direct"] {
            let weights = worker.replica.params.get_mut(name).into_iter().flatten();
            weights.zip((1u8..=250).cycle()).for_each(|(weight, k)| *weight = f32::from(k).sin());
        }
        worker
    };
    let (mut worker, mut losses) = (on(device[0]), Vec::new());
    for epoch in 0..2 {
        if epoch == 1 && device[0] != device[1] {
            worker.replica.bring_home().unwrap();
            let mut other = on(device[1]);
            other.replica.params.values.clone_from(&worker.replica.params.values);
            other.replica.optimiser.restore(worker.replica.optimiser.state().clone());
            worker = other;
        }
        worker.state = None;
        for iteration in iterations(&worker.context, &Division::Groups, epoch) {
            losses.push(worker.iterate(&iteration, rate(worker.settings()), false).unwrap().loss);
        }
    }
    worker.replica.bring_home().unwrap();
    let mut seen = worker.replica.params.values.clone();
    let samples = worker.split().samples(Part::Validation);
    let each = |_: &mut Worker, _: usize, says: Vec<f32>| {
        seen.push(says);
        Ok(())
    };
    kymo_run::train::outputs(&mut worker, samples, each).unwrap();
    (losses, seen)
}

fn check(settings: &Settings, store: &Arc<Store>) {
    let what = format!(
        "{} of {} layers, {} blocks, {}, {:?}, {:?}, {:?}",
        settings.model.name,
        settings.model.layers,
        settings.model.blocks,
        settings.task.name,
        settings.train.mode,
        settings.data.features,
        settings.train.optimiser
    );
    let (losses, expected) = practise(settings, store, ["cpu", "cpu"]);
    for device in [["cuda", "cuda"], ["cpu", "cuda"], ["cuda", "cpu"]] {
        let (found_losses, found) = practise(settings, store, device);
        for (found, expected) in found_losses.iter().zip(&losses) {
            let allowed = 1e-3 * expected.abs().max(1e-2);
            assert!((found - expected).abs() <= allowed, "{what}, {device:?}: losses {found} and {expected}");
        }
        assert_eq!(found.len(), expected.len(), "{what}");
        for (number, (found, expected)) in found.iter().zip(&expected).enumerate() {
            let largest = expected.iter().fold(0.1f32, |most, value| most.max(value.abs()));
            let worst = found.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0f32, f32::max);
            assert!(
                found.len() == expected.len() && worst <= 2e-3 * largest,
                "{what}, {device:?}: {number} is off by {worst}"
            );
        }
    }
    assert!(
        practise(settings, store, ["cuda", "cuda"]) == practise(settings, store, ["cuda", "cuda"]),
        "{what}: other bits"
    );
}

/// What a GPU would have to hold is counted without one: more vertices, more bytes; a model of twice the
/// width, about twice as many.
#[test]
fn memory_is_predicted_without_a_gpu() {
    let folder = tempfile::tempdir().unwrap();
    let stores = Sketch::random(5, 400, 12).write_both(&folder.path().join("store"));
    let predicted = |model: &str, hidden: usize, task: &str| {
        let store = stores.of(task);
        let mut settings = settings(store.path(), task, model);
        settings.model.hidden = hidden;
        predicted_bytes(&RunContext::open(settings, store.clone()).unwrap(), 1 << 30).unwrap()
    };
    for recipe in zoo::ALL {
        for task in task::ALL {
            let (narrow, wide) =
                (predicted(recipe.name, 64, task.name()), predicted(recipe.name, 256, task.name()));
            let ratio = wide as f64 / narrow as f64;
            assert!((2.0..8.0).contains(&ratio), "{}, {}: {narrow} and {wide}", recipe.name, task.name());
        }
    }
}

/// What is predicted is what is taken, but for rooms that kernels take for a moment.
#[test]
fn predictions_of_memory_come_true() {
    if !is_there() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let store = Sketch::random(5, 3000, 12).write(&folder.path().join("store"));
    for (recipe, windows) in zoo::ALL.iter().flat_map(|recipe| [(recipe, 1), (recipe, 4)]) {
        let mut settings = settings(store.path(), "node-regression", recipe.name);
        settings.model.hidden = 64;
        (settings.parallel.windows, settings.parallel.order) = (windows, Order::Runs);
        settings.run.device = "cuda".into();
        let mut worker = Worker::open(settings, store.clone()).unwrap();
        for epoch in 0..2 {
            for iteration in iterations(&worker.context, &Division::Groups, epoch) {
                worker.iterate(&iteration, rate(worker.settings()), false).unwrap();
            }
            worker.replica.bring_home().unwrap();
            let samples = 0..worker.split().samples(Part::Test).end;
            kymo_run::train::outputs(&mut worker, samples, |_, _, _| Ok(())).unwrap();
        }
        let device = worker.device().unwrap();
        let (taken, predicted) =
            (device.bytes().1, predicted_bytes(&worker.context, device.budget()).unwrap());
        let ratio = taken as f64 / predicted as f64;
        eprintln!("{}, {windows}: {taken} bytes taken, {predicted} predicted, {ratio:.3}", recipe.name);
        assert!((0.8..1.25).contains(&ratio), "{}: {taken} bytes taken, {predicted} predicted", recipe.name);
    }
}

#[test]
fn every_task_mode_and_model_trains_as_on_the_host() {
    if !is_there() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let stores = Sketch::random(5, 40, 12).write_both(&folder.path().join("store"));
    let sparse = Sketch::random(7, 40, 12).sparse().write_both(&folder.path().join("sparse"));
    for (turn, recipe) in zoo::ALL.iter().enumerate() {
        for (number, task) in task::ALL.iter().enumerate() {
            let turn = turn + number;
            let store = if turn % 4 == 3 { &sparse } else { &stores }.of(task.name());
            let mut settings = settings(store.path(), task.name(), recipe.name);
            settings.train.mode = MODES[turn % 3];
            if settings.train.mode == kymo_run::config::Mode::Truncated
                && Worker::open(settings.clone(), store.clone()).is_err()
            {
                settings.train.mode = MODES[0];
            }
            // Of a score of attention the part of the vertex itself nearly cancels out in the softmax: its
            // gradients are rounding, and what Adam makes of them as large as any.
            let optimisers = [OptimiserName::Sgd, OptimiserName::Adam, OptimiserName::AdamW];
            settings.train.optimiser = optimisers[if recipe.parts[0] == "gat" { 0 } else { turn % 3 }];
            settings.train.learning_rate = 0.01;
            settings.train.clip = if turn % 2 == 0 { 0.5 } else { 0.0 };
            settings.train.loss = LossAt::All;
            (settings.model.layers, settings.model.blocks) = (1 + turn % 2, 1 + number % 2);
            settings.model.dropout = if turn % 2 == 0 { 0.3 } else { 0.0 };
            settings.data.features = if turn % 3 == 1 { Features::Both } else { Features::Auto };
            // Windows that follow each other are run together.
            (settings.parallel.windows, settings.parallel.order) = (1 + turn % 4, Order::Runs);
            check(&settings, store);
        }
    }
}
