//! Memory that is estimated before it is taken.

use std::sync::Arc;

use kymo_graph::Progress;
use kymo_graph::generate::{self, Params};
use kymo_model::zoo;
use kymo_plan::Assignment;
use kymo_plan::price::Rates;
use kymo_run::config::machine::Need;
use kymo_run::schedule::{Division, Question};
use kymo_run::step::needs;
use kymo_run::{RunContext, Worker, task};

use super::fixture::{Sketch, practise, settings};

/// What a worker holds that may keep nothing is what was estimated, for every model and task: neither is a
/// run refused that would fit, nor is one begun that does not.
#[test]
fn estimates_are_what_is_taken() {
    two_threads(check_estimates);
}

/// Each thread holds buffers of its own: on a machine of many, small graphs like these take nothing else.
fn two_threads(check: fn()) {
    rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap().install(check);
}

fn check_estimates() {
    let folder = tempfile::tempdir().unwrap();
    let stores = Sketch::random(5, 3000, 12).write_both(&folder.path().join("store"));
    for recipe in zoo::ALL {
        for task in task::ALL {
            let store = stores.of(task.name());
            for (hidden, layers, blocks) in [(32, 1, 1), (64, 2, 1), (32, 1, 2)] {
                let mut settings = settings(store.path(), task.name(), recipe.name);
                (settings.model.hidden, settings.model.layers) = (hidden, layers);
                settings.model.blocks = blocks;
                settings.run.memory = "1kB".into();
                let mut worker = Worker::open(settings, store.clone()).unwrap();
                practise(&mut worker, 1);
                // What the task holds for all workers is not the worker's.
                let mut needs = needs(&worker.context, 1).unwrap();
                needs.retain(|need| need.lower != "task.labels");
                // Beside what the worker holds between two windows, something is on its way in, and
                // something is judged.
                let sizes = worker.context.sizes().unwrap();
                let meanwhile = 2 * sizes.step + sizes.reader + 8 * 3000 * worker.context.model.width();
                let (held, estimated) = (worker.held_bytes() + meanwhile, Need::total(&needs));
                let ratio = estimated as f64 / held as f64;
                let what = format!("{} {} {hidden} x {layers} x {blocks}", recipe.name, task.name());
                assert!(
                    (0.75..2.0).contains(&ratio),
                    "{what}: {held} held, {estimated} estimated: {needs:?}"
                );
            }
        }
    }
}

/// What a batch of some vertices takes is what was estimated from a sample of batches: the vertices and edges
/// that the largest one sees, and the bytes that a worker holds, on a graph whose vertices have few
/// neighbours or many.
#[test]
fn batches_take_what_was_estimated() {
    let folder = tempfile::tempdir().unwrap();
    let thread = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let mut ratios = Vec::new();
    for (number, (kind, edges)) in [("uniform", 6_000), ("power-law", 24_000)].into_iter().enumerate() {
        let path = folder.path().join(number.to_string());
        let params = Params { vertices: 12_000, edges, steps: 14, features: 4, ..Params::GENERIC };
        let kind = generate::find(kind).unwrap();
        let store = Arc::new(generate::write(kind, &params, &path, false, &Progress::silent()).unwrap());
        for (model, layers, batch) in
            [("t-gcn", 1, 1200), ("gcn-gru", 2, 600), ("gat-lstm", 1, 3000), ("graphsage-linear", 2, 2000)]
        {
            let mut settings = settings(&path, "node-regression", model);
            (settings.model.hidden, settings.model.layers) = (32, layers);
            (settings.train.batch, settings.run.memory) = (batch, "1kB".into());
            let mut worker = Worker::open(settings, store.clone()).unwrap();
            let context = worker.context.clone();
            let epochs = context.trained_epochs(1, Assignment::InTurns(1));
            let rate = worker.settings().train.learning_rate as f32;
            // Of several threads it is a matter of chance which of them take blocks, and so hold buffers.
            let needs = thread.install(|| {
                for iteration in epochs.plan(0).iterations {
                    worker.iterate(&iteration, rate, false).unwrap();
                }
                needs(&context, 1).unwrap()
            });
            let of = |what: &str| needs.iter().find(|need| need.what == what).unwrap().bytes;
            let outputs = 8 * (context.model.width() * store.vertices()) as u64;
            let estimated = of("what a batch sees") + of("rows of a window") - outputs;
            let ratio = estimated as f64 / worker.buffer_bytes() as f64;
            // Of two layers, the estimate is coarser.
            let within = if layers == 1 { 0.2 } else { 0.3 };
            ratios.push((ratio, within, format!("{} {model} {layers} {batch}", kind.name())));
        }
    }
    let is_off = |(ratio, within, _): &(f64, f64, String)| (ratio - 1.0).abs() > *within;
    assert!(!ratios.iter().any(is_off), "{ratios:?}");
}

/// The plan of a worker has the rows of blocks below others in it, which are all held at once: it is no less
/// than what the worker holds in the end, and not many times as much. (A reader, and what comes out, are gone
/// by then.)
#[test]
fn plans_count_what_blocks_hold() {
    two_threads(check_plans);
}

fn check_plans() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sketch::random(5, 3000, 12).write(&folder.path().join("store"));
    for recipe in zoo::ALL {
        let ratio = |blocks: usize| {
            let mut settings = settings(store.path(), "node-regression", recipe.name);
            (settings.model.hidden, settings.model.blocks) = (32, blocks);
            settings.run.memory = "1kB".into();
            let mut worker = Worker::open(settings, store.clone()).unwrap();
            practise(&mut worker, 1);
            let question =
                Question { strategy: "psg", workers: 1, reuse: None, sample: None, rates: Rates::default() };
            let plan = Division::Groups.plan(&worker.context, &question).unwrap();
            plan.memory() as f64 / worker.held_bytes() as f64
        };
        for blocks in [1, 2] {
            let found = ratio(blocks);
            assert!((0.95..5.0).contains(&found), "{}, {blocks}: {found:.2} of what is held", recipe.name);
        }
    }
}

/// Metrics that take hours say so, and what takes less; others are silent.
#[test]
fn hours_of_metrics_are_announced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let (vertices, steps) = (500_000, 9);
    let params = Params { vertices, edges: vertices, steps, features: 0, ..Params::GENERIC };
    let kind = generate::find("uniform").unwrap();
    let store = Arc::new(generate::write(kind, &params, &path, false, &Progress::silent()).unwrap());
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let said = |metric: &str| {
        let mut settings = settings(&path, "link-prediction", "gcn");
        settings.task.metrics = vec![metric.into()];
        let context = RunContext::open_to_plan(settings, store.clone()).unwrap();
        pool.install(|| context.slow_metrics())
    };
    assert_eq!(said("mrr-tgb"), None);
    let said = said("map").unwrap();
    assert!(
        said.starts_with("metrics over all pairs score about ") && said.contains(" h each time"),
        "{said}"
    );
    assert!(said.contains("link.evaluate_negatives"), "{said}");
}

/// A plan of workers that share windows counts what the task has besides, and halves of matrices where a
/// second layer looks at neighbours elsewhere.
#[test]
fn plans_of_parts_count_what_the_task_and_further_layers_have() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sketch::random(5, 200, 12).write(&folder.path().join("store"));
    let plan = |negatives: usize, layers: usize| {
        let mut settings = settings(store.path(), "link-prediction", "gcn-gru");
        (settings.link.negatives, settings.model.layers) = (negatives, layers);
        (settings.parallel.workers, settings.parallel.strategy) = (2, "vertex-hash".into());
        let context = RunContext::open(settings, store.clone()).unwrap();
        let question = Question {
            strategy: "vertex-hash",
            workers: 2,
            reuse: None,
            sample: None,
            rates: Rates::default(),
        };
        let division = Division::new(&context, "vertex-hash", 2).unwrap();
        let share = division.plan(&context, &question).unwrap().workers[0].clone();
        (share, Need::total(&context.goal.needs(context.model.width())) / context.sharing.workers as u64)
    };
    let ((few, few_pairs), (many, many_pairs)) = (plan(1, 1), plan(9, 1));
    assert!(many_pairs > few_pairs);
    assert_eq!(many.memory - few.memory, many_pairs - few_pairs);
    assert_eq!(many.snapshots, few.snapshots);
    // An entry of a half has a place and a value, there and in the transpose.
    let (two, _) = plan(1, 2);
    let edges = two.edges / 12;
    assert!(two.snapshots.largest > few.snapshots.largest + 8 * edges, "{two:?} {few:?}");
}
