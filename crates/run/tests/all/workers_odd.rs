//! Workers that have nothing to do, and workers that fail: nobody waits for ever, and what is said is what
//! went wrong.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use kymo_graph::Progress;
use kymo_run::config::Mode;
use kymo_run::train::{Ending, Observer};
use kymo_run::{Result, Session, Settings, task};
use kymo_trace::schema::EpochRecord;

use crate::fixture::{MODES, Onlooker, Sketch, cuts_windows, settings, strategies};
use crate::workers::{plain, shared};

/// Does something in a thread of its own, and fails where it does not come to an end.
fn within_time<T: Send + 'static>(
    what: &str,
    act: impl FnOnce() -> T + Send + 'static,
) -> std::thread::Result<T> {
    let (tell, told) = channel();
    let thread = std::thread::spawn(move || {
        let done = act();
        // The receiver may have given up.
        let _ = tell.send(());
        done
    });
    // Far more than it takes: only a run that hangs gets there.
    match told.recv_timeout(Duration::from_secs(120)) {
        Err(RecvTimeoutError::Timeout) => panic!("{what} hangs"),
        Ok(()) | Err(RecvTimeoutError::Disconnected) => thread.join(),
    }
}

/// How a run ended that was begun and trained.
fn trained(
    settings: &Settings,
    path: &Path,
    mut watch: impl Observer + 'static,
    what: &str,
) -> Result<Ending> {
    let (settings, path) = (settings.clone(), path.to_path_buf());
    let act = move || Session::begin(settings, &path, &Progress::silent())?.train(&mut watch);
    within_time(what, act).unwrap_or_else(|_| panic!("{what} panicked"))
}

/// Data of which little is left.
fn sketches() -> Vec<(&'static str, Sketch)> {
    let mut lonely = Sketch::random(2, 9, 13);
    for (step, moment) in lonely.moments.iter_mut().enumerate() {
        if step != 4 {
            moment.edges = BTreeSet::new();
        }
    }
    let mut silent = Sketch::random(3, 9, 13);
    for moment in &mut silent.moments[1..7] {
        (moment.targets, moment.labels) = (Vec::new(), Vec::new());
    }
    vec![
        ("one vertex", Sketch::random(1, 1, 13)),
        ("two vertices", Sketch::random(1, 2, 13)),
        ("one step with edges", lonely),
        ("steps without truth", silent),
    ]
}

#[test]
fn workers_without_work_change_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut turn = 0;
    for (name, sketch) in sketches() {
        let stores = sketch.write_both(&folder.path().join(format!("store{turn}")));
        for strategy in strategies() {
            let (mode, task) = (MODES[turn % 3], task::ALL[turn / 3 % task::ALL.len()].name());
            turn += 1;
            let mode = if cuts_windows(strategy) { mode } else { Mode::Windows };
            let mut settings =
                plain(stores.of(task).path(), task, ["t-gcn", "evolvegcn-h", "gat-lstm"][turn % 3]);
            (settings.train.mode, settings.train.epochs) = (mode, 1);
            // More than vertices, and more than windows of an epoch.
            let workers = 5 + turn % 6;
            let what = format!("{name}, {}, {mode:?}, {task}, {workers} workers", strategy.name);
            let path = |who: &str| folder.path().join(format!("{who}{turn}"));
            let run = |settings: &Settings, who: &str| match trained(
                settings,
                &path(who),
                Onlooker::default(),
                &what,
            ) {
                Ok(Ending::Finished(summary)) => Ok(summary),
                Ok(Ending::Stopped) => panic!("{what}: nobody asked to stop"),
                Err(error) => Err(error.to_string()),
            };
            match (run(&settings, "alone"), run(&shared(&settings, strategy.name, workers), "together")) {
                (Ok(alone), Ok(together)) => {
                    assert_eq!(together.workers.unwrap().workers.len(), workers, "{what}");
                    assert!(alone.validation.keys().eq(together.validation.keys()), "{what}");
                    for (metric, expected) in &alone.validation {
                        let found = together.validation[metric];
                        assert!(
                            (found - expected).abs() <= 1e-3 * expected.abs().max(1e-2),
                            "{what}: {metric}"
                        );
                    }
                }
                (alone, together) => assert_eq!(alone.err(), together.err(), "{what}"),
            }
        }
    }
}

/// Does something at the third window.
struct AtThird<F>(usize, F);

impl<F: FnMut() + Send> Observer for AtThird<F> {
    fn progress(&mut self, _: &kymo_run::train::EpochProgress) {
        self.0 += 1;
        if self.0 == 3 {
            (self.1)();
        }
    }

    fn epoch(&mut self, _: &EpochRecord) {}

    fn stop(&self) -> bool {
        false
    }
}

fn small(folder: &Path) -> PathBuf {
    let store = folder.join("store");
    Sketch::random(5, 20, 13).write(&store);
    store
}

#[test]
fn what_fails_at_the_first_worker_ends_all() {
    let folder = tempfile::tempdir().unwrap();
    let store = small(folder.path());
    for (number, strategy) in strategies().enumerate() {
        let mut settings = shared(&settings(&store, task::ALL[number % 3].name(), "t-gcn"), strategy.name, 3);
        settings.train.epochs = 1000;
        // Within an epoch, where the others are about to go on, or behind it.
        settings.run.checkpoint_windows = number % 2;
        let path = folder.path().join(format!("run{number}"));
        let gone = path.clone();
        let watch = AtThird(0, move || std::fs::remove_dir_all(&gone).unwrap());
        let error = trained(&settings, &path, watch, strategy.name).err().unwrap().to_string();
        assert!(error.contains("checkpoint.safetensors"), "{}: {error}", strategy.name);
    }
}

#[test]
fn a_panic_at_the_first_worker_ends_all() {
    let folder = tempfile::tempdir().unwrap();
    let store = small(folder.path());
    for strategy in ["psg", "pts", "pss"] {
        let settings = shared(&settings(&store, "node-regression", "t-gcn"), strategy, 3);
        let path = folder.path().join(strategy);
        let panicked = within_time(strategy, move || {
            let session = Session::begin(settings, &path, &Progress::silent()).unwrap();
            session.train(&mut AtThird(0, || std::panic::resume_unwind(Box::new("on purpose")))).map(drop)
        });
        assert_eq!(
            panicked.err().and_then(|cause| cause.downcast::<&str>().ok()).as_deref(),
            Some(&"on purpose")
        );
    }
}

#[test]
fn numbers_that_run_away_end_all_with_the_same_words() {
    let folder = tempfile::tempdir().unwrap();
    let store = small(folder.path());
    for (number, strategy) in strategies().enumerate() {
        let mut settings = shared(&plain(&store, "node-regression", "t-gcn"), strategy.name, 3);
        (settings.train.learning_rate, settings.train.clip, settings.train.epochs) = (1e30, 0.0, 9);
        let path = folder.path().join(format!("run{number}"));
        let error = trained(&settings, &path, Onlooker::default(), strategy.name).err().unwrap().to_string();
        assert!(error.contains(" became ") && error.contains("Lower train.learning_rate"), "{error}");
    }
}

#[test]
fn plans_that_do_not_fit_are_refused_and_leave_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = small(folder.path());
    for strategy in strategies() {
        let mut settings = shared(&settings(&store, "node-regression", "gcn-gru"), strategy.name, 2);
        settings.run.memory = "3KiB".into();
        let path = folder.path().join(strategy.name);
        let refused = |settings: &Settings| {
            Session::begin(settings.clone(), &path, &Progress::silent()).err().unwrap().to_string()
        };
        let error = refused(&settings);
        let expected = format!("run.memory: {} needs ", strategy.name);
        assert!(
            error.starts_with(&expected) && error.contains("more than the 1.5 KiB it may use"),
            "{error}"
        );
        assert!(!path.exists(), "{}", strategy.name);
        // Also where data was made first.
        settings.data.store = String::new();
        if strategy.name == "pts" {
            assert!(refused(&settings).starts_with(&expected));
            assert!(!path.exists());
        }
    }
}
