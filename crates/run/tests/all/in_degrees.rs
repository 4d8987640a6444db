//! A regression of how many edges end at each vertex at the next step, which needs no values in the store
//! (DynaHB, section 6.1).

use std::path::Path;

use kymo_graph::Progress;
use kymo_run::config::overlay::resolve;
use kymo_run::config::{Features, Signal, Target};
use kymo_run::task::Says;
use kymo_run::{Part, Session, Settings, Worker};

use super::fixture::{Sketch, outputs, practise, run, settings};

/// The settings of the paper's regressions, on this store.
fn in_degrees(store: &Path) -> Settings {
    let mut settings = settings(store, "node-regression", "t-gcn");
    (settings.task.signal, settings.task.target) = (Signal::InDegree, Target::Log);
    settings.data.features = Features::Degrees;
    settings
}

/// A sketch without values of its own.
fn sketch(seed: u64) -> Sketch {
    let mut sketch = Sketch::random(seed, 24, 16);
    sketch.moments.iter_mut().for_each(|moment| moment.targets.clear());
    sketch
}

#[test]
fn the_truth_is_the_logarithm_of_the_next_in_degree() {
    let folder = tempfile::tempdir().unwrap();
    let store = sketch(41).write(&folder.path().join("store"));
    let worker = Worker::open(in_degrees(store.path()), store.clone()).unwrap();
    let says = |sample: usize, name| worker.goal().table(sample, Says::Baseline(name), 1000).unwrap();
    for sample in worker.split().samples(Part::Test) {
        let table = says(sample, "last-value");
        let truth = worker.goal().truth_of(Part::Test, sample, &table).unwrap().unwrap();
        let degrees = |t: usize| -> Vec<f32> {
            let mut degrees = vec![0.0f32; store.vertices()];
            store.snapshot(t).unwrap().edges.iter().for_each(|edge| degrees[edge.target() as usize] += 1.0);
            degrees.into_iter().map(f32::ln_1p).collect()
        };
        let numbers = |all: Vec<Option<String>>| -> Vec<f32> {
            all.into_iter().map(|value| value.unwrap().parse().unwrap()).collect()
        };
        assert_eq!(numbers(truth), degrees(sample + 1));
        // What is known is the in-degree of the sample itself.
        let said: Vec<f32> = table.values.iter().map(|row| row[0].parse().unwrap()).collect();
        assert_eq!(said, degrees(sample));
    }
}

/// Neither a model nor a baseline sees an edge that comes later, though what is predicted is made of edges.
#[test]
fn nothing_of_the_next_step_is_known() {
    let folder = tempfile::tempdir().unwrap();
    let sketch = sketch(42);
    let store = sketch.write(&folder.path().join("one"));
    for past in ["0", "3"] {
        let mut settings = in_degrees(store.path());
        settings.task.past = past.into();
        let mut worker = Worker::open(settings.clone(), store.clone()).unwrap();
        practise(&mut worker, 1);
        let seen = worker.split().samples(Part::Train).end + 1;
        for sample in worker.split().samples(Part::Validation) {
            let changed = sketch.with_another_future(seen.max(sample + 1), 5);
            let changed = changed.write(&folder.path().join("other"));
            let mut other = Worker::open(settings.clone(), changed).unwrap();
            other.replica.params.values = worker.replica.params.values.clone();
            let said = [&mut worker, &mut other].map(|worker| {
                let outputs = outputs(worker, sample..sample + 1).pop().unwrap();
                let model = Says::Model(&outputs, &worker.replica.params);
                let mut tables = vec![worker.goal().table(sample, model, 1000).unwrap().values];
                for name in worker.goal().baselines() {
                    tables.push(worker.goal().table(sample, Says::Baseline(name), 1000).unwrap().values);
                }
                tables
            });
            assert_eq!(said[0], said[1], "{past} {sample}");
        }
    }
}

#[test]
fn a_store_without_values_says_what_can_be_predicted() {
    let folder = tempfile::tempdir().unwrap();
    let store = sketch(43).write(&folder.path().join("store"));
    let mut settings = in_degrees(store.path());
    settings.task.signal = Signal::Stored;
    let error = Session::begin(settings, &folder.path().join("run"), &Progress::silent()).err().unwrap();
    assert!(error.to_string().contains("task.signal=in-degree"), "{error}");
}

/// The preset is what can be trained with, in hybrid batches.
#[test]
fn the_preset_of_the_paper_can_be_trained_with() {
    let folder = tempfile::tempdir().unwrap();
    let store = sketch(44).write(&folder.path().join("store"));
    let preset = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/dynahb.toml");
    let told = [("data.store", store.path().to_str().unwrap()), ("train.epochs", "3")];
    let told = told.map(|(key, value)| (key.into(), value.into(), "test".into()));
    let mut settings: Settings = resolve(Some(&preset), &told).unwrap();
    assert_eq!((settings.split.train, settings.train.patience), (0.4, 10));
    assert_eq!((settings.task.signal, settings.task.target), (Signal::InDegree, Target::Log));
    (settings.train.batch, settings.train.batch_windows, settings.train.window) = (6, 2, 2);
    let (lines, _) = run(&settings, &folder.path().join("run"));
    assert_eq!(lines.len(), 3);
    assert!(lines[2].loss.is_finite() && lines[2].loss < lines[0].loss);
    // Several workers have vertices of their own, and average their models by the clock.
    settings.parallel.workers = 3;
    assert!(settings.averages() && settings.parallel.strategy == "dynahb");
    let (lines, summary) = run(&settings, &folder.path().join("shared"));
    assert!(lines.len() == 3 && lines.iter().all(|line| line.loss.is_finite()));
    assert_eq!(summary.workers.map(|report| report.strategy).as_deref(), Some("dynahb"));
}
