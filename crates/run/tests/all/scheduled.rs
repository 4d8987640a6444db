//! Runs by a schedule: what is said before there is one, what they send, learning rates along the way, and
//! the plan of an epoch that was interrupted.

use std::path::Path;

use kymo_graph::Progress;
use kymo_plan::schedule::Reuse;
use kymo_plan::strategy::Scheme;
use kymo_run::artifact::Checkpoint;
use kymo_run::artifact::Folder;
use kymo_run::config::{OptimiserName, RateName};
use kymo_run::schedule::ask;
use kymo_run::train::{Ending, Observer};
use kymo_run::{RunContext, Session, Settings};
use kymo_trace::schema::{ProfileRecord, RunFolder};

use super::fixture::{Onlooker, Sketch, run, settings, strategies};

/// Three epochs of two workers, the first of which is measured.
fn scheduled(store: &Path, strategy: &str) -> Settings {
    let mut settings = settings(store, "node-regression", "t-gcn");
    (settings.parallel.workers, settings.parallel.strategy) = (2, strategy.into());
    (settings.parallel.profile_epochs, settings.train.epochs) = (1, 3);
    settings
}

#[test]
fn every_scheduled_strategy_sends_what_its_schedule_has_iterations_for() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sketch::random(31, 14, 16).write(&folder.path().join("store"));
    for strategy in strategies().filter(|strategy| matches!(strategy.scheme, Scheme::Scheduled(_))) {
        let settings = scheduled(store.path(), strategy.name);
        let path = folder.path().join(strategy.name);
        let (lines, summary) = run(&settings, &path);
        assert_eq!(lines.len(), 3, "{}", strategy.name);
        let files = RunFolder::open(&path).unwrap();
        let (plan, schedule) = (files.plan().unwrap().unwrap(), files.schedule().unwrap().unwrap());
        assert_eq!(schedule.strategy, strategy.name);
        assert!(!schedule.by.is_empty());
        // Two epochs by the schedule, after one in turns.
        let in_turns = RunContext::open(settings, store.clone()).unwrap().windows().len().div_ceil(2);
        let iterations = (in_turns + 2 * schedule.iterations.len()) as u64;
        let report = summary.workers.unwrap();
        let sent: u64 = report.workers.iter().flat_map(|worker| worker.sent).sum();
        assert_eq!(sent * plan.iterations as u64, report.planned * iterations, "{}", strategy.name);
        assert!(sent > 0);
    }
}

/// Keeps what it is told.
#[derive(Default)]
struct Listener(Vec<String>);

impl Observer for Listener {
    fn note(&mut self, note: &str) {
        self.0.push(note.to_owned());
    }
}

fn notes(settings: &Settings, path: &Path) -> Vec<String> {
    let mut listener = Listener::default();
    Session::begin(settings.clone(), path, &Progress::silent()).unwrap().train(&mut listener).unwrap();
    listener.0
}

#[test]
fn epochs_without_a_schedule_are_announced() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sketch::random(32, 12, 14).write(&folder.path().join("store"));
    let mut settings = scheduled(store.path(), "dygnex-g");
    let told = notes(&settings, &folder.path().join("enough"));
    assert!(
        told[0].contains("the first 1 epochs are measured and assign windows in turns, like psg"),
        "{told:?}"
    );
    settings.parallel.profile_epochs = 3;
    let told = notes(&settings, &folder.path().join("few"));
    assert!(
        told[0].contains("dygnex-g makes no schedule in this run: all 3 epochs are measured"),
        "{told:?}"
    );
    assert!(told[0].contains("lower parallel.profile_epochs (now 3)"), "{told:?}");
    settings.parallel.strategy = "psg".into();
    assert!(notes(&settings, &folder.path().join("psg")).is_empty());
}

#[test]
fn rates_reach_the_last_epoch_though_measured_ones_have_more_steps() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sketch::random(33, 12, 20).write(&folder.path().join("store"));
    let mut settings = scheduled(store.path(), "dygnex");
    settings.train.schedule = RateName::Cosine;
    (settings.parallel.profile_epochs, settings.train.epochs) = (4, 6);
    let (lines, _) = run(&settings, &folder.path().join("run"));
    let rates: Vec<f32> = lines.iter().map(|line| line.learning_rate).collect();
    // Half a wave over the epochs, as without a schedule.
    let first = settings.train.learning_rate;
    for (epoch, rate) in (1..).zip(&rates) {
        let done = std::f64::consts::PI * f64::from(epoch) / 6.0;
        let expected = first * 0.5 * (1.0 + done.cos());
        assert!((f64::from(*rate) - expected).abs() < 1e-3 * first, "epoch {epoch}: {rates:?}");
    }
}

fn arrays(path: &Path) -> Vec<(String, Vec<f32>)> {
    let checkpoint = Checkpoint::read(&Folder::checkpoint_of(path)).unwrap();
    checkpoint.arrays.into_iter().map(|(name, array)| (name, array.values)).collect()
}

#[test]
fn a_scaled_rate_is_the_rate_times_the_windows_and_is_logged_so() {
    let folder = tempfile::tempdir().unwrap();
    // As many windows as two workers divide evenly.
    let store = Sketch::random(34, 12, 17).write(&folder.path().join("store"));
    let mut settings = settings(store.path(), "node-regression", "gcn-gru");
    settings.parallel.workers = 2;
    (settings.train.optimiser, settings.train.clip) = (OptimiserName::Sgd, 0.0);
    let windows = RunContext::open(settings.clone(), store.clone()).unwrap().windows().len();
    settings.train.stride = if windows.is_multiple_of(2) { 1 } else { windows - 1 };
    settings.train.learning_rate = 0.02;
    let (expected, _) = run(&settings, &folder.path().join("twice"));
    settings.train.learning_rate = 0.01;
    let (plain, _) = run(&settings, &folder.path().join("once"));
    settings.parallel.scale_rate = true;
    let (found, _) = run(&settings, &folder.path().join("scaled"));
    let rates = |lines: &[kymo_trace::schema::EpochRecord]| -> Vec<f32> {
        lines.iter().map(|line| line.learning_rate).collect()
    };
    assert_eq!((rates(&found), rates(&plain)), (rates(&expected), vec![0.01; 3]));
    let [twice, once, scaled] = ["twice", "once", "scaled"].map(|name| arrays(&folder.path().join(name)));
    assert!(scaled == twice && scaled != once);
}

#[test]
fn an_interrupted_epoch_goes_on_with_the_plan_it_was_begun_with() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sketch::random(35, 12, 16).write(&folder.path().join("store"));
    let mut settings = settings(store.path(), "node-regression", "t-gcn");
    settings.train.epochs = 1;
    let [whole, parts, other] = ["whole", "parts", "other"].map(|name| folder.path().join(name));
    run(&settings, &whole);
    for path in [&parts, &other] {
        let session = Session::begin(settings.clone(), path, &Progress::silent()).unwrap();
        assert!(matches!(session.train(&mut Onlooker::until(2)).unwrap(), Ending::Stopped));
    }
    // Of the second, the iterations that are still to come are turned around.
    let path = Folder::checkpoint_of(&other);
    let mut checkpoint = Checkpoint::read(&path).unwrap();
    let done = checkpoint.facts["position"]["window"].as_u64().unwrap() as usize;
    let iterations = checkpoint.facts["plan"]["iterations"].as_array_mut().unwrap();
    assert!(done >= 2 && iterations.len() > done + 1);
    iterations[done..].reverse();
    checkpoint.write(&path).unwrap();
    for path in [&parts, &other] {
        let session = Session::resume(path, &[], &Progress::silent()).unwrap();
        assert!(matches!(session.train(&mut Onlooker::default()).unwrap(), Ending::Finished(_)));
        // A run that is between epochs has no plan under way.
        assert!(Checkpoint::read(&Folder::checkpoint_of(path)).unwrap().facts["plan"].is_null());
    }
    assert_eq!(arrays(&parts), arrays(&whole));
    assert_ne!(arrays(&other), arrays(&whole));
    // A plan that is not of this run is refused.
    let broken = folder.path().join("broken");
    let session = Session::begin(settings, &broken, &Progress::silent()).unwrap();
    assert!(matches!(session.train(&mut Onlooker::until(2)).unwrap(), Ending::Stopped));
    let path = Folder::checkpoint_of(&broken);
    let mut checkpoint = Checkpoint::read(&path).unwrap();
    checkpoint.facts["plan"]["iterations"].as_array_mut().unwrap().pop();
    checkpoint.write(&path).unwrap();
    let session = Session::resume(&broken, &[], &Progress::silent()).unwrap();
    let error = session.train(&mut Onlooker::default()).err().unwrap().to_string();
    assert!(error.contains("is run 0 times, expected once"), "{error}");
}

#[test]
fn schedulers_know_what_windows_need_and_workers_have() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sketch::random(36, 12, 16).write(&folder.path().join("store"));
    let mut settings = scheduled(store.path(), "dygnex");
    settings.run.memory = "64MiB".into();
    let context = RunContext::open(settings, store).unwrap();
    let windows = context.windows().len();
    let instance = ask(&context, vec![1.0; windows], 0.5, Reuse::None).unwrap();
    assert_eq!((instance.workers, instance.most, instance.overhead), (2, 2, 0.5));
    assert_eq!(instance.budget, 32 << 20);
    // At least its three snapshots of 12 vertices with 3 features each.
    assert!(instance.memory.len() == windows && instance.memory.iter().all(|&bytes| bytes > 3 * 12 * 3 * 4));
    instance.check().unwrap();
    assert!(instance.with_memory(vec![9; windows], 8).check().is_err());
}

#[test]
fn schedulers_of_real_know_what_windows_save_and_no_others_do() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sketch::random(37, 12, 16).write(&folder.path().join("store"));
    let asked = |strategy: &str, share: bool| {
        let mut settings = scheduled(store.path(), strategy);
        settings.parallel.share = share;
        let context = RunContext::open(settings, store.clone()).unwrap();
        let windows = context.windows();
        let reuse = Reuse::from_ratio(0.5, &windows, &vec![1.0; windows.len()]).unwrap();
        let instance = ask(&context, vec![1.0; windows.len()], 0.5, reuse.clone()).unwrap();
        (instance.reuse == reuse, instance.reuse == Reuse::None)
    };
    assert_eq!(asked("real", true), (true, false));
    assert_eq!(asked("real-g", true), (true, false));
    for (strategy, share) in [("real", false), ("dygnex", true), ("blad", true)] {
        assert_eq!(asked(strategy, share), (false, true), "{strategy}");
    }
}

/// Windows that begin further apart than they are long share nothing: nothing is measured, no memory is
/// planned for it, and training goes on.
#[test]
fn windows_that_never_overlap_are_scheduled_as_ever() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sketch::random(39, 12, 40).write(&folder.path().join("store"));
    let mut settings = scheduled(store.path(), "real");
    settings.train.stride = settings.train.window + 2;
    let context = RunContext::open(settings.clone(), store.clone()).unwrap();
    assert_eq!(context.together, [1, settings.train.window]);
    let path = folder.path().join("run");
    run(&settings, &path);
    assert_eq!(RunFolder::open(&path).unwrap().profile().unwrap().unwrap().reuse, None);
}

/// What pairs of windows save is measured, told, written down, and taken from there by another run.
#[test]
fn what_windows_save_is_measured_before_they_are_scheduled() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sketch::random(38, 400, 16).write(&folder.path().join("store"));
    let mut settings = scheduled(store.path(), "real");
    let path = folder.path().join("run");
    run(&settings, &path);
    let files = RunFolder::open(&path).unwrap();
    let profile = files.profile().unwrap().unwrap();
    assert!(profile.reuse.is_some_and(|reuse| (0.0..=1.0).contains(&reuse)), "{:?}", profile.reuse);
    let schedule = files.schedule().unwrap().unwrap();
    assert!(schedule.predicted <= schedule.seconds * (1.0 + 1e-9));
    // A ratio that was told is used: where all windows cost the same, most are beside a neighbour.
    let told = folder.path().join("told.json");
    let mut record = ProfileRecord { reuse: Some(0.9), ..profile };
    let stages = record.snapshots.iter_mut().flat_map(|snapshot| &mut snapshot.stages);
    stages.chain(record.seconds.iter_mut().flatten().flatten()).for_each(|seconds| *seconds = 0.5);
    std::fs::write(&told, serde_json::to_vec(&record).unwrap()).unwrap();
    settings.parallel.costs = told.to_string_lossy().into_owned();
    let second = folder.path().join("second");
    run(&settings, &second);
    let schedule = RunFolder::open(&second).unwrap().schedule().unwrap().unwrap();
    let pairs: Vec<&Vec<usize>> = schedule.iterations.iter().flatten().filter(|bin| bin.len() == 2).collect();
    let beside = pairs.iter().filter(|bin| bin[0].abs_diff(bin[1]) == 1).count();
    assert!(beside > 0 && 4 * beside >= 3 * pairs.len(), "{:?}", schedule.iterations);
    // Another scheduler neither measures nor knows it.
    let mut settings = scheduled(store.path(), "dygnex");
    settings.parallel.profile_epochs = 2;
    let third = folder.path().join("third");
    run(&settings, &third);
    assert_eq!(RunFolder::open(&third).unwrap().profile().unwrap().unwrap().reuse, None);
}
