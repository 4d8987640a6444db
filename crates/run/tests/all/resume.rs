//! A run that was stopped and goes on computes the bits of one that was never interrupted.

use std::path::Path;

use kymo_graph::Progress;
use kymo_run::artifact::{Folder, Saved};
use kymo_run::config::{Mode, OptimiserName, RateName};
use kymo_run::train::{Ending, Observer};
use kymo_run::{Session, Settings, Worker, task};
use kymo_trace::schema::EpochRecord;
use serde_json::Value;

use crate::fixture::{MODES, Onlooker, Sketch, run, settings};

const MODELS: [&str; 5] = ["t-gcn", "gcn-gru", "dcrnn", "evolvegcn-o", "graphsage-linear"];

/// What a run leaves behind, without what depends on the time of day, on the machine, and on how often it
/// went on.
pub fn left_behind(path: &Path) -> (Vec<u8>, Vec<Value>) {
    let log = std::fs::read_to_string(path.join("metrics.jsonl")).unwrap();
    let summary = std::fs::read_to_string(path.join("summary.json")).unwrap();
    let mut all: Vec<Value> =
        log.lines().chain([&summary[..]]).map(|text| serde_json::from_str(text).unwrap()).collect();
    for value in &mut all {
        let fields = value.as_object_mut().unwrap();
        for field in ["seconds", "edges_per_second", "memory", "overhead", "snapshots", "workers"] {
            fields.remove(field);
        }
    }
    (std::fs::read(Folder::checkpoint_of(path)).unwrap(), all)
}

fn change(key: &str, value: &str) -> Vec<(String, String, String)> {
    vec![(key.into(), value.into(), "--set".into())]
}

/// Goes on with a run.
pub fn resume(path: &Path, changes: &[(String, String, String)]) -> kymo_run::Result<Session> {
    Session::resume(path, changes, &Progress::silent())
}

/// Trains and stops after some windows, again and again; then to the end.
pub fn run_in_pieces(settings: &Settings, path: &Path, pieces: &[usize]) {
    let mut session = Session::begin(settings.clone(), path, &Progress::silent()).unwrap();
    for &windows in pieces {
        let mut onlooker = Onlooker::until(windows);
        assert!(matches!(session.train(&mut onlooker).unwrap(), Ending::Stopped));
        session = resume(path, &[]).unwrap();
    }
    assert!(matches!(session.train(&mut Onlooker::default()).unwrap(), Ending::Finished(_)));
}

/// Every way to change parameters, with every schedule.
pub fn vary(settings: &mut Settings, number: usize) {
    (settings.train.optimiser, settings.train.schedule) = [
        (OptimiserName::Adam, RateName::Step),
        (OptimiserName::Sgd, RateName::Cosine),
        (OptimiserName::AdamW, RateName::Constant),
    ][number % 3];
    (settings.train.schedule_every, settings.train.weight_decay) = (1, 0.01);
    settings.model.dropout = 0.3;
    (settings.run.checkpoint_windows, settings.run.checkpoint_epochs) = (number % 4, 1 + number % 2);
}

#[test]
fn runs_in_pieces_are_whole_runs() {
    let folder = tempfile::tempdir().unwrap();
    let stores = Sketch::random(1, 30, 13).write_both(&folder.path().join("store"));
    let mut number = 0;
    for task in task::ALL {
        let opened = stores.of(task.name());
        for mode in MODES {
            for model in MODELS {
                number += 1;
                let mut settings = settings(opened.path(), task.name(), model);
                settings.train.mode = mode;
                settings.model.blocks = 1 + number % 2;
                vary(&mut settings, number);
                let worker = Worker::open(settings.clone(), opened.clone()).unwrap();
                let windows = worker.split().windows(&settings).len();
                let (whole, parts) =
                    (folder.path().join(format!("{number}")), folder.path().join(format!("{number}p")));
                run(&settings, &whole);
                // Before the first window, within an epoch, behind the last window of one, several times in a
                // row.
                let pieces: &[usize] = match number % 4 {
                    0 => &[0, 1, 1],
                    1 => &[1],
                    2 => &[windows],
                    _ => &[windows - 1, 1, 0, 0, windows],
                };
                run_in_pieces(&settings, &parts, pieces);
                let name = format!("{} {mode:?} {model} {pieces:?}", task.name());
                let (whole, parts) = (left_behind(&whole), left_behind(&parts));
                assert_eq!(whole.1, parts.1, "{name}");
                assert!(whole.0 == parts.0, "the checkpoints differ: {name}");
            }
        }
    }
}

/// Copies the files of a run at a window, as a kill would leave them.
struct Killed<'a> {
    at: (usize, usize),
    from: &'a Path,
    to: &'a Path,
}

impl Observer for Killed<'_> {
    fn progress(&mut self, progress: &kymo_run::train::EpochProgress) {
        if (progress.epoch, progress.window) == self.at {
            std::fs::create_dir(self.to).unwrap();
            for name in ["checkpoint.safetensors", "metrics.jsonl"] {
                std::fs::copy(self.from.join(name), self.to.join(name)).unwrap();
            }
        }
    }

    fn epoch(&mut self, _: &EpochRecord) {}

    fn stop(&self) -> bool {
        false
    }
}

#[test]
fn a_killed_run_goes_on_from_its_last_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    Sketch::random(2, 30, 13).write(&store);
    for (number, mode) in [Mode::Windows, Mode::Truncated].into_iter().enumerate() {
        // One lies behind a checkpoint within an epoch; the other behind a line of the log that no checkpoint
        // knows of.
        for (case, at) in [(1, 3), (2, 1)].into_iter().enumerate() {
            let mut settings = settings(&store, "link-prediction", "t-gcn");
            settings.train.mode = mode;
            settings.model.dropout = 0.2;
            (settings.run.checkpoint_windows, settings.run.checkpoint_epochs) =
                if case == 0 { (2, 1) } else { (0, 2) };
            let (whole, killed) = (format!("whole{number}{case}"), format!("killed{number}{case}"));
            let (whole, killed) = (folder.path().join(whole), folder.path().join(killed));
            let session = Session::begin(settings, &whole, &Progress::silent()).unwrap();
            session.train(&mut Killed { at, from: &whole, to: &killed }).unwrap();
            resume(&killed, &[]).unwrap().train(&mut Onlooker::default()).unwrap();
            assert!(left_behind(&whole) == left_behind(&killed), "{mode:?} {at:?}");
        }
    }
}

#[test]
fn more_epochs_may_be_asked_for_and_nothing_that_was_computed_with() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    Sketch::random(3, 30, 13).write(&store);
    let mut long = settings(&store, "node-regression", "gcn-gru");
    long.model.dropout = 0.1;
    let mut short = long.clone();
    short.train.epochs = 1;
    let (whole, parts) = (folder.path().join("whole"), folder.path().join("parts"));
    run(&long, &whole);
    run(&short, &parts);
    // A run at its end stays as it is.
    let ended = left_behind(&parts);
    resume(&parts, &[]).unwrap().train(&mut Onlooker::default()).unwrap();
    assert!(ended == left_behind(&parts));
    let refused = |key: &str, value: &str| {
        let error = resume(&parts, &change(key, value)).err().unwrap().to_string();
        assert!(
            error.starts_with(&format!("{key}: ")) && error.contains("begun with another value"),
            "{error}"
        );
    };
    refused("train.learning_rate", "0.5");
    refused("model.name", "t-gcn");
    refused("train.seed", "7");
    refused("data.lags", "2");
    // The same value is no change.
    resume(&parts, &change("train.learning_rate", "0.01")).unwrap();
    assert!(ended == left_behind(&parts), "a refused resume leaves everything as it was");
    let more = [change("train.epochs", "3"), change("run.memory", "auto")].concat();
    resume(&parts, &more).unwrap().train(&mut Onlooker::default()).unwrap();
    assert!(left_behind(&whole) == left_behind(&parts));
    // The cosine schedule is another one for another number of epochs.
    let mut cosine = short;
    cosine.train.schedule = RateName::Cosine;
    let path = folder.path().join("cosine");
    run(&cosine, &path);
    let error = resume(&path, &change("train.epochs", "3")).err().unwrap().to_string();
    assert!(error.starts_with("train.epochs: the cosine schedule"), "{error}");
}

#[test]
fn checkpoints_of_other_models_other_data_and_damaged_ones_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let sketch = Sketch::random(4, 30, 13);
    let opened = sketch.write(&store);
    let path = folder.path().join("run");
    let mut settings = settings(&store, "node-classification", "t-gcn");
    settings.train.epochs = 1;
    run(&settings, &path);
    let saved = Saved::read(&Folder::checkpoint_of(&path)).unwrap();
    for (model, hidden, blocks) in [("gcn", 8, 1), ("dcrnn", 8, 1), ("t-gcn", 16, 1), ("t-gcn", 8, 2)] {
        settings.model.name = model.into();
        (settings.model.hidden, settings.model.blocks) = (hidden, blocks);
        let mut worker = Worker::open(settings.clone(), opened.clone()).unwrap();
        let before = worker.replica.params.values.clone();
        let error = saved.restore(&mut worker, &Folder::checkpoint_of(&path)).unwrap_err().to_string();
        assert!(error.contains("it belongs to another model"), "{error}");
        assert_eq!(worker.replica.params.values, before, "nothing of it was taken");
    }
    let refused = || resume(&path, &[]).err().unwrap().to_string();
    let mut other = sketch.clone();
    other.moments[3].edges.insert((1, 29));
    other.moments[3].edges.insert((29, 1));
    other.write(&store);
    assert!(refused().contains("the data has changed since the run began"), "{}", refused());
    // As many vertices, steps and edges as before, but one number differs.
    let mut other = sketch.clone();
    other.moments[5].targets[0].1 += 1.0;
    other.write(&store);
    assert!(refused().contains("the data has changed since the run began"), "{}", refused());
    sketch.write(&store);
    resume(&path, &[]).unwrap();

    let bytes = std::fs::read(Folder::checkpoint_of(&path)).unwrap();
    for at in [0, 9, bytes.len() / 2, bytes.len() - 1] {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        std::fs::write(Folder::checkpoint_of(&path), damaged).unwrap();
        assert!(refused().contains("damaged"), "byte {at}: {}", refused());
    }
    for length in [0, 7, bytes.len() / 2, bytes.len() - 1] {
        std::fs::write(Folder::checkpoint_of(&path), &bytes[..length]).unwrap();
        assert!(refused().contains("damaged"), "{length} bytes: {}", refused());
    }
    std::fs::remove_file(Folder::checkpoint_of(&path)).unwrap();
    assert!(!Session::exists(&path) && resume(&path, &[]).is_err());
}
