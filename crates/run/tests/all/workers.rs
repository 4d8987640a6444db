//! Whole runs with several workers are the run of one: what is logged, what is left behind, and what was sent
//! for it.

use std::path::Path;

use kymo_graph::Progress;
use kymo_run::artifact::Folder;
use kymo_run::config::{Mode, OptimiserName};
use kymo_run::{Session, Settings, task};
use kymo_trace::schema::{EpochRecord, Metrics, RunSummary};
use serde_json::Value;

use crate::fixture::{MODES, Sketch, cuts_windows, run, settings, strategies};
use crate::resume::{left_behind, run_in_pieces, vary};

/// Models that hand something over, one of each kind: states of structure, of rows, matrices, rows that all
/// look at.
const MODELS: [&str; 4] = ["t-gcn", "gcn-gru", "evolvegcn-h", "dcrnn"];

/// Tasks whose movements follow from the graph alone; those of links follow from the pairs that are drawn.
const OF_VERTICES: [&str; 2] = ["node-regression", "node-classification"];

/// Settings whose updates do not let rounding grow.
pub fn plain(store: &Path, task: &str, model: &str) -> Settings {
    let mut settings = settings(store, task, model);
    (settings.train.optimiser, settings.train.learning_rate) = (OptimiserName::Sgd, 0.01);
    settings.train.epochs = 2;
    settings
}

/// The same with several workers; as many windows make a step of the optimiser as with one.
pub fn shared(settings: &Settings, strategy: &str, workers: usize) -> Settings {
    let mut settings = settings.clone();
    (settings.parallel.workers, settings.parallel.strategy) = (workers, strategy.into());
    settings.parallel.windows = settings.parallel.windows.max(1);
    settings
}

/// Every strategy in every mode it can do, with a task, a model and a number to vary the rest by.
fn for_all(mut act: impl FnMut(&'static str, Mode, &'static str, &'static str, usize)) {
    let mut turn = 0;
    for strategy in strategies() {
        for mode in MODES {
            if !cuts_windows(strategy) && mode == Mode::Truncated {
                continue;
            }
            let task = task::ALL[turn % task::ALL.len()].name();
            act(strategy.name, mode, task, MODELS[(turn / 3 + turn) % MODELS.len()], turn);
            turn += 1;
        }
    }
}

fn close(found: &Metrics, expected: &Metrics, what: &str) {
    assert!(found.keys().eq(expected.keys()), "{what}: {found:?} and {expected:?}");
    for (name, expected) in expected {
        let allowed = 1e-3 * expected.abs().max(1e-3);
        assert!((found[name] - expected).abs() <= allowed, "{what}: {name} {} and {expected}", found[name]);
    }
}

/// Fails unless two runs logged the same and came to the same.
fn agree(found: &(Vec<EpochRecord>, RunSummary), expected: &(Vec<EpochRecord>, RunSummary), what: &str) {
    assert_eq!(found.0.len(), expected.0.len(), "{what}");
    for (found, expected) in found.0.iter().zip(&expected.0) {
        let loss = |line: &EpochRecord| Metrics::from([("loss".to_owned(), line.loss)]);
        close(&loss(found), &loss(expected), what);
        close(&found.validation, &expected.validation, what);
        assert_eq!((found.epoch, found.learning_rate), (expected.epoch, expected.learning_rate), "{what}");
    }
    let (found, expected) = (&found.1, &expected.1);
    assert_eq!((found.epochs, found.parameters), (expected.epochs, expected.parameters), "{what}");
    close(&found.validation, &expected.validation, what);
    close(&found.test.metrics, &expected.test.metrics, what);
    assert_eq!(found.test.baselines, expected.test.baselines, "{what}");
}

/// Fails unless everything that workers leave behind is there and can be read.
fn left_traces(path: &Path, summary: &RunSummary, strategy: &str, workers: usize, what: &str) {
    let teamwork = summary.workers.as_ref().unwrap_or_else(|| panic!("{what}: nothing about workers"));
    assert_eq!((teamwork.strategy.as_str(), teamwork.workers.len()), (strategy, workers), "{what}");
    assert_eq!(teamwork.summary.workers.len(), workers, "{what}");
    assert!(teamwork.workers.iter().all(|report| report.memory > 0), "{what}");
    let traces = kymo_trace::merge(path).unwrap();
    assert!(traces.iter().map(|trace| trace.worker).eq(0..workers), "{what}");
    assert!(traces.iter().all(|trace| !trace.spans.is_empty() && trace.left_out == 0), "{what}");
    let read =
        |name: &str| -> Value { serde_json::from_slice(&std::fs::read(path.join(name)).unwrap()).unwrap() };
    let events = read("trace.json");
    let events = events["traceEvents"].as_array().or(events.as_array()).unwrap();
    let spans = traces.iter().map(|trace| trace.spans.len()).sum::<usize>();
    assert_eq!(events.iter().filter(|event| event["ph"] == "X").count(), spans, "{what}");
    assert_eq!(read("summary.json")["workers"]["workers"].as_array().unwrap().len(), workers, "{what}");
    assert!(!teamwork.to_string().is_empty());
}

#[test]
fn every_strategy_and_mode_is_the_run_of_one_worker() {
    let folder = tempfile::tempdir().unwrap();
    let stores = Sketch::random(1, 24, 13).write_both(&folder.path().join("store"));
    for_all(|strategy, mode, task, model, turn| {
        let mut settings = plain(stores.of(task).path(), task, model);
        settings.train.mode = mode;
        settings.model.dropout = if turn % 2 == 0 { 0.2 } else { 0.0 };
        settings.parallel.windows = 1 + turn % 4;
        let what = format!("{strategy} {mode:?} {task} {model}");
        let [alone, together] = ["alone", "together"].map(|name| folder.path().join(format!("{name}{turn}")));
        let expected = run(&settings, &alone);
        assert!(expected.1.workers.is_none(), "{what}");
        let found = run(&shared(&settings, strategy, 3), &together);
        agree(&found, &expected, &what);
        left_traces(&together, &found.1, strategy, 3, &what);
    });
}

#[test]
fn training_sends_what_was_planned() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    Sketch::random(2, 24, 13).write(&store);
    for_all(|strategy, mode, _, model, turn| {
        if mode == Mode::Truncated {
            return;
        }
        let mut settings = shared(&plain(&store, OF_VERTICES[turn % 2], model), strategy, 2 + turn % 3);
        // Measured schedules are not the planned ones: `scheduled.rs` looks at those.
        settings.parallel.costs = "edges".into();
        settings.train.mode = mode;
        settings.train.epochs = 1 + turn % 3;
        // What is sent to judge and to write checkpoints is not what is sent to learn.
        settings.run.checkpoint_windows = turn % 2;
        let (_, summary) = run(&settings, &folder.path().join(format!("run{turn}")));
        let teamwork = summary.workers.unwrap();
        let sent: u64 = teamwork.workers.iter().flat_map(|report| report.sent).sum();
        let planned = teamwork.planned * settings.train.epochs as u64;
        assert_eq!(sent, planned, "{strategy} {mode:?} {model}, {} epochs", settings.train.epochs);
        assert!(planned > 0, "{strategy} {mode:?} {model}");
    });
}

#[test]
fn the_same_run_again_has_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let stores = Sketch::random(3, 24, 13).write_both(&folder.path().join("store"));
    for_all(|strategy, mode, task, model, turn| {
        // Whole runs against pieces, below, are the rest.
        if turn % 2 == 1 {
            return;
        }
        let mut settings = shared(&settings(stores.of(task).path(), task, model), strategy, 3);
        (settings.train.mode, settings.train.epochs, settings.model.dropout) = (mode, 1, 0.2);
        settings.parallel.costs = "edges".into();
        let [one, other] = ["one", "other"].map(|name| folder.path().join(format!("{name}{turn}")));
        run(&settings, &one);
        // Threads are divided among workers: on one or on several, the bits are the same.
        let pool = rayon_pool(1 + turn % 5);
        pool.install(|| run(&settings, &other));
        assert!(left_behind(&one) == left_behind(&other), "{strategy} {mode:?} {task} {model}");
    });
}

#[test]
fn runs_in_pieces_with_workers_are_whole_runs() {
    let folder = tempfile::tempdir().unwrap();
    let stores = Sketch::random(4, 24, 13).write_both(&folder.path().join("store"));
    for_all(|strategy, mode, task, model, turn| {
        let mut settings = shared(&settings(stores.of(task).path(), task, model), strategy, 2 + turn % 2);
        vary(&mut settings, turn);
        (settings.train.mode, settings.parallel.costs) = (mode, "edges".into());
        // Between windows, so that states have to be put together and taken apart again.
        settings.run.checkpoint_windows = 1 + turn % 2;
        let [whole, parts] = ["whole", "parts"].map(|name| folder.path().join(format!("{name}{turn}")));
        run(&settings, &whole);
        // All hear of it one iteration later, so a piece of 0 is an iteration; a sequence has one an epoch.
        let pieces: &[usize] = match (mode, turn % 3) {
            (Mode::Sequence, 0) => &[0, 0],
            (Mode::Sequence, _) => &[turn % 2],
            (_, 0) => &[0, 1, 0],
            (_, 1) => &[1],
            _ => &[3, 0],
        };
        run_in_pieces(&settings, &parts, pieces);
        let what = format!("{strategy} {mode:?} {task} {model} {pieces:?}");
        let (whole_left, parts_left) = (left_behind(&whole), left_behind(&parts));
        assert_eq!(whole_left.1, parts_left.1, "{what}");
        assert!(whole_left.0 == parts_left.0, "the checkpoints differ: {what}");
        assert!(Folder::checkpoint_of(&parts).exists() && kymo_trace::merge(&parts).is_ok(), "{what}");
    });
}

/// A pool of threads.
fn rayon_pool(threads: usize) -> rayon::ThreadPool {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap()
}

#[test]
fn windows_are_scheduled_once_they_are_measured() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    Sketch::random(4, 12, 16).write(&store);
    let mut settings = shared(&plain(&store, "node-regression", "t-gcn"), "dygnex", 2);
    (settings.parallel.profile_epochs, settings.train.epochs) = (2, 4);
    let path = folder.path().join("run");
    let (lines, summary) = run(&settings, &path);
    assert_eq!((lines.len(), summary.epochs), (4, 4));
    let read =
        |name: &str| -> Value { serde_json::from_slice(&std::fs::read(path.join(name)).unwrap()).unwrap() };
    let (profile, schedule) = (read("profile.json"), read("schedule.json"));
    let seconds = profile["seconds"].as_array().unwrap();
    assert!(seconds.iter().all(|times| times.as_array().unwrap().len() == 1), "{profile}");
    let stages =
        |times: &Value| times[0].as_array().unwrap().iter().all(|seconds| seconds.as_f64().unwrap() >= 0.0);
    assert!(seconds.iter().all(stages) && profile["stages"].as_array().unwrap().len() == 6, "{profile}");
    assert!(profile["closing"].as_f64().unwrap() >= 0.0 && !profile["machine"].as_str().unwrap().is_empty());
    let iterations: Vec<Vec<Vec<usize>>> = serde_json::from_value(schedule["iterations"].clone()).unwrap();
    let mut groups = iterations.concat().concat();
    groups.sort_unstable();
    assert_eq!(groups, (0..seconds.len()).collect::<Vec<_>>());
    assert!(
        iterations.iter().all(|workers| workers.len() == 2 && workers.iter().all(|groups| groups.len() <= 2))
    );
    assert!(schedule["gap"].as_f64().unwrap() >= 0.0);
    // A run that is resumed keeps the schedule, though the times would be others now.
    std::fs::remove_file(path.join("schedule.json")).unwrap();
    let more = [("train.epochs".into(), "6".into(), "--epochs".into())];
    let session = Session::resume(&path, &more, &Progress::silent()).unwrap();
    let saved = kymo_run::artifact::Saved::read(&Folder::checkpoint_of(&path)).unwrap();
    assert_eq!(saved.schedule().unwrap().iterations, iterations);
    session.train(&mut crate::fixture::Onlooker::default()).unwrap();
    assert!(!path.join("schedule.json").exists());
}
