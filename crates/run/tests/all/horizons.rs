//! Regression: several horizons at once, and past values that a prediction is made of.

use std::path::Path;

use kymo_graph::Progress;
use kymo_run::config::Errors;
use kymo_run::random::Random;
use kymo_run::task::Says;
use kymo_run::train::evaluate;
use kymo_run::{Part, Session, Settings, Worker};

use crate::fixture::{Sketch, outputs, practise, run, settings};

/// Values of vertices that go slowly up and down, each in its own way, and features that say nothing of them.
fn wandering(vertices: usize, steps: usize) -> Sketch {
    let mut sketch = Sketch::random(5, vertices, steps);
    let random = Random::new(8);
    let mut values = vec![0.0f32; vertices];
    for (t, moment) in sketch.moments.iter_mut().enumerate() {
        for (vertex, value) in values.iter_mut().enumerate() {
            *value = 0.95 * *value + 0.3 * random.stream(t as u64).normal(vertex as u64) as f32;
        }
        moment.targets = (0..).zip(values.iter().map(|value| 10.0 + value)).collect();
    }
    sketch
}

fn regression(store: &Path, past: &str) -> Settings {
    let mut settings = settings(store, "node-regression", "gcn");
    (settings.task.past, settings.train.epochs) = (past.into(), 15);
    settings
}

/// The noise has a variance of 0.09, the values one of about 0.9.
#[test]
fn past_values_are_learnt_from_where_features_do_not_have_them() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    wandering(60, 60).write(&store);
    let mse = |past: &str| run(&regression(&store, past), &folder.path().join(past)).1.test.metrics["mse"];
    let (with, without) = (mse("auto"), mse("0"));
    assert!(with < 0.15 && without > 0.4, "{with} {without}");
}

/// Before anything was learnt, a model says what linear autoregression says, whose weights are fitted alike.
#[test]
fn a_model_begins_as_good_as_autoregression() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = wandering(60, 60).write(&path);
    let mut settings = regression(&path, "8");
    settings.task.horizons = "1..3".into();
    let mut worker = Worker::open(settings.clone(), store.clone()).unwrap();
    let begun = evaluate(&mut worker, Part::Test).unwrap();
    for slice in &begun.slices {
        let [model, baseline] = [&slice.metrics, &slice.baselines["autoregression"]].map(|all| all["mse"]);
        assert!((model / baseline - 1.0).abs() < 0.05, "{}: {model} {baseline}", slice.name);
    }
    // Without known values it knows nothing.
    settings.task.past = "0".into();
    let blank = evaluate(&mut Worker::open(settings, store).unwrap(), Part::Test).unwrap();
    assert!(blank.metrics["mse"] > 1.5 * begun.metrics["mse"]);
}

/// Values that come back every seven steps, each vertex with its own: the past ones are too few to see it.
#[test]
fn values_of_a_season_ago_are_known_where_there_is_a_season() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let mut sketch = wandering(30, 70);
    let random = Random::new(9);
    for (step, moment) in sketch.moments.iter_mut().enumerate() {
        for (vertex, value) in &mut moment.targets {
            let of_season = random.stream(u64::from(*vertex)).share((step % 7) as u64);
            let noise = random.stream(1000 + step as u64).share(u64::from(*vertex));
            *value = (10.0 * of_season + 0.1 * noise) as f32;
        }
    }
    let store = sketch.write(&path);
    let mut settings = regression(&path, "2");
    settings.task.horizons = "1..2".into();
    let mut worker = Worker::open(settings.clone(), store).unwrap();
    // The last two; a season before each that is predicted; what is usual at the step, and at each.
    assert_eq!(worker.replica.params.get("head.past").unwrap().len(), (2 + 2 + 3) * 2);
    let begun = evaluate(&mut worker, Part::Test).unwrap();
    assert!(begun.metrics["mse"] < 0.01, "{:?}", begun.metrics);
    assert!(begun.baselines["last-value"]["mse"] > 5.0);
    let (_, summary) = run(&settings, &folder.path().join("run"));
    // What is noise in training is learnt, too.
    assert!(summary.test.metrics["mse"] < 0.5, "{:?}", summary.test.metrics);
}

/// Most values are 0 and some are 10: the mean is 2, and the middle is 0.
#[test]
fn absolute_errors_lead_to_the_middle_and_squared_ones_to_the_mean() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let mut sketch = wandering(50, 40);
    let random = Random::new(10);
    for (step, moment) in sketch.moments.iter_mut().enumerate() {
        for (vertex, value) in &mut moment.targets {
            let is_high = random.stream(step as u64).share(u64::from(*vertex)) < 0.2;
            *value = if is_high { 10.0 } else { 0.0 };
        }
    }
    sketch.write(&path);
    let test = |name: &str, change: &dyn Fn(&mut Settings)| {
        let mut settings = regression(&path, "0");
        (settings.train.epochs, settings.train.learning_rate) = (30, 0.02);
        settings.task.metrics = ["mse", "mae"].map(String::from).to_vec();
        change(&mut settings);
        run(&settings, &folder.path().join(name)).1.test.metrics
    };
    let mean = test("mean", &|_| ());
    let middle = test("middle", &|settings| settings.task.errors = Errors::Absolute);
    let decided = test("decided", &|settings| settings.task.metrics.reverse());
    let told = test("told", &|settings| {
        settings.task.metrics.reverse();
        settings.task.errors = Errors::Squared;
    });
    assert!(middle["mae"] < 0.85 * mean["mae"] && middle["mse"] > mean["mse"], "{middle:?} {mean:?}");
    assert!(decided["mae"] < 0.85 * mean["mae"], "{decided:?} {mean:?}");
    assert!(told["mae"] > 1.1 * middle["mae"], "{told:?} {middle:?}");
}

/// There are as many past values as a window has steps, within bounds, unless it is told.
#[test]
fn past_values_are_those_of_a_window() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let sketch = wandering(30, 30);
    let rows = |past: &str, window: usize| {
        let mut settings = regression(&path, past);
        settings.train.window = window;
        let worker = Worker::open(settings, sketch.write(&path)).unwrap();
        let slots = worker.replica.params.slots().iter();
        slots.filter(|slot| slot.name == "head.past").map(|slot| slot.shape.rows).sum::<usize>()
    };
    assert_eq!([rows("auto", 2), rows("auto", 9), rows("auto", 20)], [8, 9, 16]);
    assert_eq!([rows("0", 9), rows("5", 9)], [0, 5]);
}

/// What is written of several horizons is what each of them would have alone, and metrics are those of the
/// parts.
#[test]
fn several_horizons_are_judged_together_and_apart() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    wandering(40, 50).write(&store);
    let mut several = regression(&store, "4");
    several.task.horizons = "1,2,6".into();
    several.task.metrics = ["mse", "mae", "mape"].map(String::from).to_vec();
    let (_, summary) = run(&several, &folder.path().join("several"));
    let test = &summary.test;
    let names: Vec<&str> = test.slices.iter().map(|slice| slice.name.as_str()).collect();
    assert_eq!(names, ["horizon 1", "horizon 2", "horizon 6"]);
    for metric in ["mse", "mae", "mape"] {
        let parts = test.slices.iter().map(|slice| slice.metrics[metric]).sum::<f64>() / 3.0;
        assert!((parts - test.metrics[metric]).abs() < 1e-9, "{metric}");
        for (name, values) in &test.baselines {
            let parts = test.slices.iter().map(|slice| slice.baselines[name][metric]).sum::<f64>() / 3.0;
            assert!((parts - values[metric]).abs() < 1e-9, "{metric} of {name}");
        }
    }
    let mse = |horizon: usize| test.slices[horizon].metrics["mse"];
    assert!(mse(0) < mse(1) && mse(1) < mse(2), "what lies further ahead is harder");
    assert!(mse(0) < 0.2, "{}", mse(0));
    // The same split as that of the furthest alone.
    let mut alone = several.clone();
    (alone.task.horizon, alone.task.horizons) = (6, String::new());
    let (_, single) = run(&alone, &folder.path().join("alone"));
    assert!(single.test.slices.is_empty());
    for name in ["last-value", "vertex-mean", "seasonal"] {
        assert_eq!(test.slices[2].baselines[name], single.test.baselines[name], "{name}");
    }
    assert!((mse(2) / single.test.metrics["mse"] - 1.0).abs() < 0.25, "{} {:?}", mse(2), single.test.metrics);
}

/// One horizon as a list is what it is as a number, to the bit; and where some vertices have no value at one
/// of the horizons, the others still count.
#[test]
fn one_of_a_list_is_one_and_gaps_are_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sketch::random(3, 30, 16).write(&folder.path().join("store"));
    let losses = |change: &dyn Fn(&mut Settings)| {
        let mut settings = regression(store.path(), "2");
        change(&mut settings);
        let mut worker = Worker::open(settings, store.clone()).unwrap();
        (practise(&mut worker, 2), outputs(&mut worker, 3..4))
    };
    assert_eq!(losses(&|s| s.task.horizon = 2), losses(&|s| s.task.horizons = "2".into()));
    let (both, said) = losses(&|s| s.task.horizons = "1..2".into());
    assert!(both.iter().all(|loss| loss.is_finite()) && said[0].len() == 60);
}

/// Predictions of a part come with what came true, which is what the store has.
#[test]
fn tables_have_a_row_for_each_vertex_and_horizon_and_truths_are_those_of_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sketch::random(3, 30, 18).write(&folder.path().join("store"));
    let mut settings = regression(store.path(), "2");
    settings.task.horizons = "1,3".into();
    let mut worker = Worker::open(settings, store.clone()).unwrap();
    let sample = worker.split().samples(Part::Test).start;
    let outputs = outputs(&mut worker, sample..sample + 1).pop().unwrap();
    let goal = worker.goal();
    let table = goal.table(sample, Says::Model(&outputs, &worker.replica.params), 1).unwrap();
    let truths = goal.truth_of(Part::Test, sample, &table).unwrap().unwrap();
    assert_eq!((table.vertices.len(), truths.len(), goal.horizon()), (60, 60, 3));
    for (number, horizon) in [1, 3].into_iter().enumerate() {
        let (vertices, values) = store.targets(sample + horizon).unwrap();
        for vertex in 0..30 {
            let row = number * 30 + vertex as usize;
            assert_eq!((&table.vertices[row][..], table.horizons[row]), (&[vertex][..], horizon));
            let at = vertices.binary_search(&vertex).ok();
            assert_eq!(truths[row], at.map(|at| values[at].to_string()));
        }
    }
}

#[test]
fn horizons_that_make_no_sense_are_refused_where_they_are_set() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    Sketch::random(3, 30, 14).write(&store);
    let refused = |task: &str, horizons: &str| {
        let mut settings = settings(&store, task, "gcn");
        settings.task.horizons = horizons.into();
        let path = folder.path().join("run");
        Session::begin(settings, &path, &Progress::silent()).err().unwrap().to_string()
    };
    for task in ["node-classification", "link-prediction"] {
        assert!(refused(task, "1..3").starts_with("task.horizons: found \"1..3\", but"), "{task}");
    }
    assert!(refused("node-regression", "3..1").starts_with("task.horizons: found"));
    assert!(refused("node-regression", "1..14").starts_with("split: "), "more than there are steps");
}
