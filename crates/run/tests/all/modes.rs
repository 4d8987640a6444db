//! Every model learns every task in every mode, and the numbers depend on nothing they should not depend on.

use std::ops::Range;
use std::sync::Arc;

use kymo_graph::Store;
use kymo_model::zoo;
use kymo_run::config::{Features, Mode};
use kymo_run::train::measure;
use kymo_run::{Part, Settings, Worker, task};
use kymo_trace::schema::Metrics;

use crate::fixture::{Both, MODES, Sketch, outputs, practise, settings};

/// Losses, parameters, outputs and metrics of a worker.
type Learnt = (Vec<f32>, Vec<Vec<f32>>, Vec<Vec<f32>>, Vec<Metrics>);

/// Trains epoch by epoch, evaluated after each, on this many threads.
fn learn(settings: &Settings, store: &Arc<Store>, threads: usize) -> (Learnt, Worker) {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    pool.install(|| {
        let mut worker = Worker::open(settings.clone(), store.clone()).unwrap();
        let (mut losses, mut metrics) = (Vec::new(), Vec::new());
        for _ in 0..2 {
            losses.extend(practise(&mut worker, 1));
            metrics.extend(
                [Part::Train, Part::Validation, Part::Test].map(|part| measure(&mut worker, part).unwrap()),
            );
        }
        let last = worker.split().samples(Part::Test).end;
        let outputs = outputs(&mut worker, 0..last);
        ((losses, worker.replica.params.values.clone(), outputs, metrics), worker)
    })
}

/// Models with attention over a window, which hand nothing over.
const ATTENTIVE: [&str; 2] = ["a3t-gcn", "dysat"];

/// Does something for every model, task and mode that go together.
fn for_all(stores: &Both, mut act: impl FnMut(Settings, &Arc<Store>, &str)) {
    for recipe in zoo::ALL {
        for task in task::ALL {
            let store = stores.of(task.name());
            for mode in MODES {
                let mut settings = settings(store.path(), task.name(), recipe.name);
                (settings.train.mode, settings.model.dropout) = (mode, 0.2);
                act(settings, store, &format!("{} {} {mode:?}", recipe.name, task.name()));
            }
        }
    }
}

#[test]
fn every_model_learns_every_task_in_every_mode_within_any_memory() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let stores = Sketch::random(1, 30, 12).write_both(&path);
    let mut refused = Vec::new();
    for_all(&stores, |mut settings, store, name| {
        if let Err(error) = Worker::open(settings.clone(), store.clone()) {
            let error = error.to_string();
            assert!(error.starts_with("train.mode: ") && error.contains("choose windows"), "{name}: {error}");
            return refused.push((settings.model.name, settings.train.mode));
        }
        let ((losses, parameters, outputs, metrics), roomy) = learn(&settings, store, 1);
        assert!(losses.len() >= 2 && losses.iter().all(|loss| loss.is_finite()), "{name}: {losses:?}");
        assert!(parameters.iter().chain(&outputs).flatten().all(|value| value.is_finite()), "{name}");
        assert!(metrics.iter().all(|metrics| metrics.values().all(|value| value.is_finite())), "{name}");
        assert!(
            roomy.snapshots().left().iter().sum::<usize>() < kymo_run::config::memory("auto").unwrap(),
            "{name}: something is kept"
        );
        settings.run.memory = "1kB".into();
        let (tight, worker) = learn(&settings, store, 1);
        assert!(tight == (losses, parameters, outputs, metrics), "{name}: memory changes the numbers");
        assert_eq!(worker.snapshots().left()[1], 0, "{name}");
    });
    let of_windows = ATTENTIVE.map(|model| vec![(model.to_owned(), Mode::Truncated); task::ALL.len()]);
    assert_eq!(refused, of_windows.concat());
}

#[test]
fn learnt_columns_are_never_taken_from_memory() {
    let folder = tempfile::tempdir().unwrap();
    let [dense, sparse] = ["dense", "sparse"].map(|name| folder.path().join(name));
    for task in task::ALL {
        Sketch::random(2, 30, 12).for_task(task.name()).write(&dense);
        Sketch::random(2, 30, 12).sparse().for_task(task.name()).write(&sparse);
        for (path, features) in
            [(&dense, Features::Both), (&dense, Features::Learnt), (&sparse, Features::Stored)]
        {
            let store = Arc::new(Store::open(path).unwrap());
            for model in ["gcn", "t-gcn", "dcrnn", "graphsage-linear"] {
                let mut settings = settings(path, task.name(), model);
                settings.data.features = features;
                let (roomy, _) = learn(&settings, &store, 1);
                settings.run.memory = "1kB".into();
                let (tight, _) = learn(&settings, &store, 1);
                assert!(roomy == tight, "{} {features:?} {model}", task.name());
            }
        }
    }
}

#[test]
fn threads_do_not_change_the_numbers() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    // More vertices than a block of rows has, so that there is something to share.
    let stores = Sketch::random(3, 300, 8).write_both(&path);
    for_all(&stores, |mut settings, store, name| {
        if ATTENTIVE.contains(&&settings.model.name[..]) && settings.train.mode == Mode::Truncated {
            return;
        }
        settings.train.window = 2;
        assert!(learn(&settings, store, 1).0 == learn(&settings, store, 3).0, "{name}");
    });
}

#[test]
fn features_of_earlier_steps_are_the_same_every_time_and_change_what_is_learnt() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let stores = Sketch::random(4, 30, 12).write_both(&path);
    for task in task::ALL {
        let store = stores.of(task.name());
        let mut settings = settings(store.path(), task.name(), "gcn");
        let (without, narrow) = learn(&settings, store, 1);
        settings.data.lags = 3;
        let (with, wide) = learn(&settings, store, 1);
        assert!(with == learn(&settings, store, 2).0 && with.0 != without.0, "{}", task.name());
        let widths = [&narrow, &wide].map(|worker| worker.context.inputs.width());
        assert_eq!(widths[1], 3 * widths[0]);
    }
}

#[test]
fn a_sample_asked_for_alone_is_the_one_on_the_way_through_all() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let stores = Sketch::random(5, 30, 12).write_both(&path);
    for_all(&stores, |settings, store, name| {
        let Ok(mut worker) = Worker::open(settings, store.clone()) else { return };
        practise(&mut worker, 1);
        let last = worker.split().samples(Part::Test).end;
        let all = outputs(&mut worker, 0..last);
        for sample in [0, 1, last / 2, last - 1] {
            assert!(outputs(&mut worker, sample..sample + 1)[0] == all[sample], "{name} {sample}");
        }
    });
}

#[test]
fn windows_that_are_handed_over_are_one_long_window() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Sketch::random(6, 30, 12).write(&path);
    let open = |mode, window, model: &str| {
        let mut settings = settings(&path, "node-regression", model);
        (settings.train.mode, settings.train.window) = (mode, window);
        // A step of this rate changes nothing, so that only the losses are looked at.
        settings.train.learning_rate = 1e-30;
        Worker::open(settings, store.clone()).unwrap()
    };
    // A state of which all is handed over; graphsage-linear and dysat have parameters for each step of a
    // window.
    for model in ["t-gcn", "gcn-gru", "wd-gcn", "evolvegcn-o", "evolvegcn-h", "dcrnn", "stgcn"] {
        let mut whole = open(Mode::Sequence, 3, model);
        let train: Range<usize> = whole.split().samples(Part::Train);
        let targets = |range: Range<usize>| -> f64 {
            range.map(|sample| store.targets(sample + 1).unwrap().0.len() as f64).sum()
        };
        let expected = f64::from(practise(&mut whole, 1)[0]);
        let mut pieces = open(Mode::Truncated, 3, model);
        let windows = pieces.split().windows(pieces.settings());
        let losses = practise(&mut pieces, 1);
        let sum: f64 =
            losses.iter().zip(windows).map(|(&loss, window)| f64::from(loss) * targets(window)).sum();
        let found = sum / targets(train);
        assert!((found - expected).abs() < 1e-5 * expected, "{model}: {found} and {expected}");
    }
}
