//! From measured windows to a schedule while training goes on: the epoch from which a schedule is followed,
//! runs that are resumed before and after it, and the stages in the timeline.
//!
//! How long a search takes is the machine's affair. So these tests say when a schedule is ready: by the epoch
//! in `schedule.json`, which a run that is resumed from before it goes by.

use std::path::{Path, PathBuf};

use kymo_graph::Progress;
use kymo_run::artifact::{Checkpoint, Folder};
use kymo_run::train::Ending;
use kymo_run::{RunContext, Session, Settings};
use kymo_trace::schema::{RunFolder, RunSummary, ScheduleRecord};
use kymo_trace::{Kind, Span};

use super::fixture::{Onlooker, Sketch, run, settings};
use super::resume::{left_behind, resume};

/// Two workers by measured costs; the checkpoint is written where a run ends or is stopped.
fn measured(store: &Path, strategy: &str, profile_epochs: usize, epochs: usize) -> Settings {
    let mut settings = settings(store, "node-regression", "t-gcn");
    (settings.parallel.workers, settings.parallel.strategy) = (2, strategy.into());
    (settings.parallel.profile_epochs, settings.train.epochs) = (profile_epochs, epochs);
    settings.run.checkpoint_epochs = 100;
    settings
}

fn schedule(path: &Path) -> ScheduleRecord {
    RunFolder::open(path).unwrap().schedule().unwrap().unwrap()
}

/// Goes on to the end, or until it has made this number of iterations.
fn go_on(path: &Path, iterations: Option<usize>) -> Option<RunSummary> {
    let mut onlooker = iterations.map_or_else(Onlooker::default, Onlooker::until);
    match resume(path, &[]).unwrap().train(&mut onlooker).unwrap() {
        Ending::Finished(summary) => Some(*summary),
        Ending::Stopped => None,
    }
}

/// A run that was stopped in its first epoch, and a copy of its checkpoint from then.
fn stopped_early(settings: &Settings, path: PathBuf) -> (PathBuf, PathBuf) {
    let session = Session::begin(settings.clone(), &path, &Progress::silent()).unwrap();
    assert!(matches!(session.train(&mut Onlooker::until(1)).unwrap(), Ending::Stopped));
    let early = path.with_extension("early");
    std::fs::copy(Folder::checkpoint_of(&path), &early).unwrap();
    (path, early)
}

/// As if the run had been killed with no other checkpoint than an early one.
fn back_to(path: &Path, early: &Path) {
    std::fs::copy(early, Folder::checkpoint_of(path)).unwrap();
}

/// Iterations of all epochs, by what all workers sent for gradients.
fn iterations(path: &Path, summary: &RunSummary) -> u64 {
    let report = summary.workers.as_ref().unwrap();
    let sent: u64 = report.workers.iter().flat_map(|worker| worker.sent).sum();
    let plan = RunFolder::open(path).unwrap().plan().unwrap().unwrap();
    assert_eq!(sent * plan.iterations as u64 % report.planned, 0);
    sent * plan.iterations as u64 / report.planned
}

/// Guards runs by measured costs that are killed: times are never the same twice, and the schedule of what
/// was lost is followed again, from the same epoch on and to the same bits.
#[test]
fn a_run_resumed_from_before_its_schedule_follows_the_one_that_it_left() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sketch::random(51, 14, 20).write(&folder.path().join("store"));
    for (strategy, profile_epochs) in [("dygnex", 1), ("real", 2)] {
        let settings = measured(store.path(), strategy, profile_epochs, 4);
        let (path, early) = stopped_early(&settings, folder.path().join(strategy));
        go_on(&path, None).unwrap();
        let (expected, found) = (left_behind(&path), schedule(&path));
        // An epoch takes milliseconds here: the search ends within the time that is waited for it.
        assert_eq!(found.epoch, Some(profile_epochs), "{strategy}");
        let profile = std::fs::read(path.join("profile.json")).unwrap();
        back_to(&path, &early);
        go_on(&path, None).unwrap();
        assert!(left_behind(&path) == expected, "{strategy}: the bits are others");
        let again = schedule(&path);
        assert_eq!((again.epoch, &again.iterations), (found.epoch, &found.iterations), "{strategy}");
        assert_eq!(std::fs::read(path.join("profile.json")).unwrap(), profile, "{strategy}");
    }
}

/// Guards what happens where a search takes longer than an epoch: all workers go on in turns, and change in
/// the same epoch, also where the run is stopped in between.
#[test]
fn workers_go_on_in_turns_until_the_schedule_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sketch::random(52, 14, 20).write(&folder.path().join("store"));
    let settings = measured(store.path(), "dygnex", 1, 5);
    let (path, early) = stopped_early(&settings, folder.path().join("run"));
    go_on(&path, None).unwrap();
    let files = RunFolder::open(&path).unwrap();
    let late = ScheduleRecord { epoch: Some(3), ..schedule(&path) };
    let in_turns = RunContext::open(settings, store).unwrap().windows().len().div_ceil(2);
    files.write_schedule(&late).unwrap();
    back_to(&path, &early);
    let summary = go_on(&path, None).unwrap();
    // Two iterations were made before the first stop.
    let expected = 3 * in_turns - 2 + 2 * late.iterations.len();
    assert_eq!(iterations(&path, &summary), expected as u64);
    let whole = left_behind(&path);
    assert_eq!(schedule(&path).epoch, Some(3));
    // Stopped in the second epoch, in which it would still be looked for.
    files.write_schedule(&late).unwrap();
    back_to(&path, &early);
    assert!(go_on(&path, Some(in_turns)).is_none());
    let checkpoint = Checkpoint::read(&Folder::checkpoint_of(&path)).unwrap();
    assert_eq!(checkpoint.facts["position"]["epoch"], 1);
    assert!(checkpoint.facts["scheduled"].is_null() && !checkpoint.facts["profile"].is_null());
    go_on(&path, None).unwrap();
    assert!(left_behind(&path) == whole);
}

/// A run that is stopped while its schedule is looked for has left a profile: it is looked for again by that,
/// beside the epoch under way, and nothing is measured anew.
#[test]
fn a_search_that_was_interrupted_is_begun_again_by_the_profile() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sketch::random(53, 14, 20).write(&folder.path().join("store"));
    let settings = measured(store.path(), "dygnex", 1, 5);
    let (path, early) = stopped_early(&settings, folder.path().join("run"));
    go_on(&path, None).unwrap();
    let files = RunFolder::open(&path).unwrap();
    files.write_schedule(&ScheduleRecord { epoch: Some(3), ..schedule(&path) }).unwrap();
    back_to(&path, &early);
    let in_turns = RunContext::open(settings, store).unwrap().windows().len().div_ceil(2);
    assert!(go_on(&path, Some(in_turns)).is_none());
    std::fs::remove_file(path.join("schedule.json")).unwrap();
    let profile = std::fs::read(path.join("profile.json")).unwrap();
    go_on(&path, None).unwrap();
    // At the end of the epoch that was interrupted, the second.
    assert_eq!(schedule(&path).epoch, Some(2));
    assert_eq!(std::fs::read(path.join("profile.json")).unwrap(), profile);
}

/// Guards the timeline: the stages of REAL by name, one after the other, at the first worker.
#[test]
fn the_timeline_shows_the_stages() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sketch::random(54, 14, 20).write(&folder.path().join("store"));
    let stages = |settings: &Settings, name: &str| -> Vec<Span> {
        let path = folder.path().join(name);
        run(settings, &path);
        let traces = kymo_trace::merge(&path).unwrap();
        let of = |worker: usize| -> Vec<Span> {
            traces[worker].spans.iter().filter(|span| span.kind == Kind::Stage).cloned().collect()
        };
        assert!(of(1).is_empty());
        let mut spans = of(0);
        spans.sort_by_key(|span| span.start);
        spans
    };
    let found = stages(&measured(store.path(), "dygnex", 2, 4), "measured");
    let names: Vec<&str> = found.iter().map(|span| &*span.name).collect();
    assert_eq!(names, ["cold start", "profiling", "scheduling", "optimised"]);
    let [cold, profiling, scheduling, optimised] = &found[..] else { panic!("{names:?}") };
    assert!(cold.end <= profiling.start && profiling.end <= optimised.start);
    assert!(profiling.start <= scheduling.start && scheduling.end <= profiling.end);
    let mut told = measured(store.path(), "dygnex", 2, 4);
    told.parallel.costs = "edges".into();
    let names: Vec<_> = stages(&told, "told").into_iter().map(|span| span.name).collect();
    assert_eq!(names, ["optimised"]);
    assert!(stages(&measured(store.path(), "psg", 2, 4), "psg").is_empty());
}
