//! Scheduled runs that can be repeated: by costs that are told beforehand the same bits come out again, and a
//! run that is interrupted while windows are measured goes on with what it has measured.

use std::path::{Path, PathBuf};

use kymo_graph::Progress;
use kymo_plan::strategy::Scheme;
use kymo_run::artifact::{Checkpoint, Folder};
use kymo_run::train::Ending;
use kymo_run::{Session, Settings};
use kymo_trace::schema::{RunFolder, STAGES};

use super::fixture::{Onlooker, Sketch, run, settings, strategies};
use super::resume::{left_behind, resume, run_in_pieces};

/// Two workers whose windows are scheduled by these costs, for this many epochs.
fn scheduled(store: &Path, strategy: &str, costs: &str, epochs: usize) -> Settings {
    let mut settings = settings(store, "node-regression", "gcn");
    (settings.parallel.workers, settings.parallel.strategy) = (2, strategy.into());
    (settings.parallel.costs, settings.train.epochs) = (costs.into(), epochs);
    settings.model.dropout = 0.2;
    settings
}

fn schedulers() -> impl Iterator<Item = &'static str> {
    let is_scheduled = |scheme: Scheme| matches!(scheme, Scheme::Scheduled(_));
    strategies().filter(move |strategy| is_scheduled(strategy.scheme)).map(|strategy| strategy.name)
}

/// Stops a run of these settings at each of its iterations, and compares what it leaves when it goes on.
fn is_whole_wherever_it_stops(settings: &Settings, whole: &Path, iterations: usize, what: &str) {
    let expected = left_behind(whole);
    let mut stopped = 0;
    for number in 0..iterations {
        let path = whole.with_extension(format!("{number}"));
        let session = Session::begin(settings.clone(), &path, &Progress::silent()).unwrap();
        // All hear of the wish one iteration later: the last one is the end.
        if let Ending::Stopped = session.train(&mut Onlooker::until(number)).unwrap() {
            stopped += 1;
            resume(&path, &[]).unwrap().train(&mut Onlooker::default()).unwrap();
        }
        let found = left_behind(&path);
        assert_eq!(found.1, expected.1, "{what}, stopped after {number}");
        assert!(found.0 == expected.0, "{what}: the checkpoints differ, stopped after {number}");
    }
    assert!(stopped + 2 >= iterations, "{what}: {stopped} of {iterations} stops");
}

/// Guards `parallel.costs = "edges"`: for every scheduler the same bits, again and wherever it was stopped.
#[test]
fn by_edges_the_same_bits_come_out_again_wherever_a_run_is_interrupted() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sketch::random(41, 14, 16).write(&folder.path().join("store"));
    for strategy in schedulers() {
        let mut settings = scheduled(store.path(), strategy, "edges", 2);
        settings.run.checkpoint_windows = 3;
        let [one, other] = ["one", "other"].map(|name| folder.path().join(format!("{name}-{strategy}")));
        let (_, summary) = run(&settings, &one);
        assert_eq!(summary.costs.as_deref(), Some("edges"), "{strategy}");
        let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
        pool.install(|| run(&settings, &other));
        assert!(left_behind(&one) == left_behind(&other), "{strategy}: two runs differ");
        // From the first epoch on, and nothing is measured.
        let files = RunFolder::open(&one).unwrap();
        assert!(files.profile().unwrap().is_none(), "{strategy}");
        let schedule = files.schedule().unwrap().unwrap();
        assert!(schedule.calibration.is_some(), "{strategy}");
        let iterations = 2 * schedule.iterations.len();
        let report = summary.workers.unwrap();
        let sent: u64 = report.workers.iter().flat_map(|worker| worker.sent).sum();
        assert_eq!(sent, 2 * report.planned, "{strategy}: the plan is what was run");
        is_whole_wherever_it_stops(&settings, &one, iterations, strategy);
    }
}

/// Guards the profile in the checkpoint: BLAD's schedule is the same whatever windows cost, so only the epoch
/// from which it is followed could differ, and it did where the last measured epoch was interrupted.
#[test]
fn a_run_interrupted_while_it_is_measured_is_scheduled_when_it_would_have_been() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sketch::random(42, 14, 16).write(&folder.path().join("store"));
    for profile_epochs in [1, 3] {
        let mut settings = scheduled(store.path(), "blad", "measured", profile_epochs + 1);
        settings.parallel.profile_epochs = profile_epochs;
        settings.run.checkpoint_windows = 2 * (profile_epochs % 2);
        let path = folder.path().join(format!("blad-{profile_epochs}"));
        let (_, summary) = run(&settings, &path);
        assert_eq!(summary.costs.as_deref(), Some("measured"));
        let windows = RunFolder::open(&path).unwrap().profile().unwrap().unwrap().seconds.len();
        let iterations = profile_epochs * windows.div_ceil(2) + windows.div_ceil(4);
        is_whole_wherever_it_stops(
            &settings,
            &path,
            iterations,
            &format!("{profile_epochs} measured epochs"),
        );
    }
}

/// What the checkpoint has of each measured window: its first step, where it was measured, its seconds.
fn saved_times(path: &Path) -> Vec<(usize, u64, Vec<f64>)> {
    let checkpoint = Checkpoint::read(&Folder::checkpoint_of(path)).unwrap();
    let mut rows = checkpoint.arrays["profile"].values.chunks(STAGES.len());
    let windows = checkpoint.facts["profile"]["windows"].as_array().unwrap().clone();
    let window = |window: &serde_json::Value| {
        let number = |at: usize| window[at].as_u64().unwrap();
        let mut total = vec![0.0; STAGES.len()];
        for row in rows.by_ref().take(number(1) as usize + 1) {
            total.iter_mut().zip(row).for_each(|(total, &seconds)| *total += f64::from(seconds));
        }
        (number(0) as usize, number(2), total)
    };
    windows.iter().map(window).collect::<Vec<_>>()
}

/// Guards what `measured` promises: nothing that was measured before an interruption is lost or counted
/// twice.
#[test]
fn what_was_measured_before_an_interruption_is_in_the_profile() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sketch::random(43, 14, 16).write(&folder.path().join("store"));
    let mut settings = scheduled(store.path(), "dygnex", "measured", 4);
    settings.parallel.profile_epochs = 3;
    let whole = folder.path().join("whole");
    run(&settings, &whole);
    let windows = RunFolder::open(&whole).unwrap().profile().unwrap().unwrap().seconds.len();
    let per_epoch = windows.div_ceil(2);
    // In each epoch that is measured, at its first iteration, within it, and at its last.
    for number in (0..3).flat_map(|epoch| [0, 1, per_epoch - 2].map(|at| epoch * per_epoch + at)) {
        let path = folder.path().join(format!("parts{number}"));
        let session = Session::begin(settings.clone(), &path, &Progress::silent()).unwrap();
        assert!(matches!(session.train(&mut Onlooker::until(number)).unwrap(), Ending::Stopped));
        let saved = saved_times(&path);
        // Every worker has the windows it trained in the epoch under way.
        let done = (number + 1) % per_epoch;
        let under_way = saved.iter().filter(|(_, place, _)| *place > 0).count();
        assert_eq!(under_way, (2 * done).min(windows), "stopped after {number}");
        resume(&path, &[]).unwrap().train(&mut Onlooker::default()).unwrap();
        let profile = RunFolder::open(&path).unwrap().profile().unwrap().unwrap();
        // The first epoch of several is not counted.
        assert!(profile.seconds.iter().all(|times| times.len() == 2), "stopped after {number}");
        let first_epoch = number + 1 < per_epoch;
        for (start, place, total) in saved.iter().filter(|_| !first_epoch) {
            let kept = &profile.seconds[*start];
            let same =
                |times: &Vec<f64>| times.iter().zip(total).all(|(one, other)| (one - other).abs() < 1e-12);
            assert!(
                kept.iter().any(same),
                "stopped after {number}, window {start} at {place}: {kept:?} {total:?}"
            );
        }
        // Once there is a schedule, the checkpoint is without the profile.
        let checkpoint = Checkpoint::read(&Folder::checkpoint_of(&path)).unwrap();
        assert!(checkpoint.facts["profile"].is_null() && !checkpoint.arrays.contains_key("profile"));
    }
}

/// Guards what closes an iteration, which is what is left of an epoch: its seconds are those of all pieces.
/// The pieces before are made to have lasted for very long, because how long a piece lasts nobody can tell.
#[test]
fn an_epoch_in_pieces_takes_as_long_as_all_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sketch::random(45, 14, 16).write(&folder.path().join("store"));
    let settings = scheduled(store.path(), "dygnex", "measured", 1);
    let path = folder.path().join("run");
    let mut session = Session::begin(settings, &path, &Progress::silent()).unwrap();
    for iterations in 1..4 {
        assert!(matches!(session.train(&mut Onlooker::until(0)).unwrap(), Ending::Stopped));
        for rank in 1..=2 {
            let saved = saved_times(&path);
            assert_eq!(saved.iter().filter(|(_, place, _)| *place == rank).count(), iterations);
        }
        let file = Folder::checkpoint_of(&path);
        let mut checkpoint = Checkpoint::read(&file).unwrap();
        let seconds = checkpoint.facts["profile"]["seconds"].as_f64().unwrap();
        let before = 1e6 * (iterations - 1) as f64;
        assert!(before < seconds && seconds < before + 1e5, "{seconds} after {iterations}");
        checkpoint.facts["profile"]["seconds"] = (1e6 * iterations as f64).into();
        checkpoint.write(&file).unwrap();
        session = resume(&path, &[]).unwrap();
    }
}

/// A run by measured costs, and its profile.
fn measured(folder: &Path, store: &Path) -> PathBuf {
    let mut settings = scheduled(store, "dygnex", "measured", 2);
    settings.parallel.profile_epochs = 1;
    run(&settings, &folder.join("measured"));
    folder.join("measured/profile.json")
}

/// Guards `parallel.costs = FILE`: what an earlier run measured repeats it, from any folder.
#[test]
fn by_the_profile_of_an_earlier_run_the_same_bits_come_out_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sketch::random(44, 14, 16).write(&folder.path().join("store"));
    let profile = measured(folder.path(), store.path());
    let beside = profile.parent().unwrap().join("../measured/profile.json");
    let settings = scheduled(store.path(), "dygnex", beside.to_str().unwrap(), 2);
    let [one, other] = ["one", "other"].map(|name| folder.path().join(name));
    let (_, summary) = run(&settings, &one);
    let whole = profile.canonicalize().unwrap();
    assert_eq!(summary.costs.as_deref(), whole.to_str(), "the path holds from everywhere");
    run_in_pieces(&settings, &other, &[1, 0]);
    assert!(left_behind(&one) == left_behind(&other));
    // The run has the costs it was scheduled by.
    let [left, given] =
        [&one, profile.parent().unwrap()].map(|path| RunFolder::open(path).unwrap().profile());
    assert_eq!(left.unwrap(), given.unwrap());
    // By other costs the bits are others: they do count.
    let by_edges = folder.path().join("edges");
    let mut heavy = RunFolder::open(&one).unwrap().profile().unwrap().unwrap();
    for (window, times) in heavy.seconds.iter_mut().enumerate() {
        times.iter_mut().flatten().for_each(|seconds| *seconds = (window * window) as f64);
    }
    let path = folder.path().join("heavy.json");
    std::fs::write(&path, serde_json::to_vec(&heavy).unwrap()).unwrap();
    run(&scheduled(store.path(), "dygnex", path.to_str().unwrap(), 2), &by_edges);
    let scheduled = |run: &Path| RunFolder::open(run).unwrap().schedule().unwrap().unwrap().iterations;
    assert_ne!(scheduled(&by_edges), scheduled(&one));
}
