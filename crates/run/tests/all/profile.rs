//! What is measured of windows: every snapshot's stages, no more than passed, and nothing that changes what
//! is computed.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use kymo_graph::{Progress, Store};
use kymo_model::zoo;
use kymo_run::schedule::{Division, measured_costs};
use kymo_run::step::WindowTimes;
use kymo_run::train::Ending;
use kymo_run::workers::WorkerGroup;
use kymo_run::{RunContext, Session, Settings, Worker, task};
use kymo_trace::schema::RunFolder;
use kymo_trace::schema::STAGES;

use super::fixture::{
    Both, MODES, Onlooker, Sketch, cuts_windows, iterations, practise, rate, run, settings, strategies,
};

fn store(folder: &Path) -> Arc<Store> {
    Sketch::random(8, 300, 12).write(&folder.join("store"))
}

/// The same, and one with weights.
fn stores(folder: &Path) -> Both {
    Sketch::random(8, 300, 12).write_both(&folder.join("store"))
}

/// Settings of every model, for a task.
fn all_models(store: &Store, task: &str, layers: usize) -> impl Iterator<Item = Settings> {
    let path = store.path().to_path_buf();
    zoo::ALL.iter().map(move |recipe| {
        let mut settings = settings(&path, task, recipe.name);
        settings.model.layers = layers;
        settings
    })
}

fn stage(name: &str) -> usize {
    STAGES.iter().position(|stage| *stage == name).unwrap()
}

/// Steps at the beginning of a window without anything to aggregate: there is no state to be heard of yet.
fn silent(model: &str) -> usize {
    usize::from(model == "gc-lstm")
}

/// Every snapshot has what its model does, and nothing that it does not.
fn has_its_stages(times: &WindowTimes, model: &str, what: &str) {
    let [load, aggregation, products, time, backward, other] =
        ["load", "aggregation", "products", "time encoder", "backward", "other"].map(stage);
    let of_all = |stage: usize| times.steps.iter().all(|stages| stages[stage] > 0.0);
    let aggregates = times.steps.iter().skip(silent(model)).all(|stages| stages[aggregation] > 0.0);
    assert!(of_all(load) && aggregates, "{what}: {times:?}");
    // All products of these are those of their gates.
    assert_eq!(of_all(products), !["dcrnn", "gc-lstm"].contains(&model), "{what}: {times:?}");
    let has_time = zoo::find(model).unwrap().parts[1] != "none";
    assert_eq!(of_all(time), has_time, "{what}: {times:?}");
    assert!(has_time || times.total()[time] == 0.0, "{what}: {times:?}");
    // Where nothing is remembered, a loss at the last snapshot has no gradient for those before it.
    let is_last = times.steps.last().is_some_and(|stages| stages[backward] > 0.0);
    assert!(is_last && (of_all(backward) || !has_time), "{what}: {times:?}");
    // The loss is the window's own, forward and backward, and structure never is.
    let common = times.common;
    assert!(common[products] > 0.0 && common[backward] > 0.0 && common[other] >= 0.0, "{what}: {times:?}");
    assert!(common[aggregation] == 0.0 && common[load] == 0.0, "{what}: {times:?}");
    assert!(times.steps.iter().all(|stages| stages[other] == 0.0), "{what}: {times:?}");
}

#[test]
fn every_snapshot_is_measured_and_stages_take_no_longer_than_the_window() {
    let folder = tempfile::tempdir().unwrap();
    let stores = stores(folder.path());
    for threads in [1, 3] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        for task in task::ALL {
            let store = stores.of(task.name());
            // A second layer is never kept from window to window.
            for mut settings in all_models(store, task.name(), 2) {
                for mode in MODES {
                    settings.train.mode = mode;
                    let Ok(mut worker) = Worker::open(settings.clone(), store.clone()) else { continue };
                    worker.measured = Some(Vec::new());
                    let model = &settings.model.name;
                    let what = format!("{model} on {} in {mode:?}, {threads} threads", task.name());
                    for window in worker.context.windows() {
                        let begun = Instant::now();
                        pool.install(|| worker.step(window.clone(), 0, 0.01)).unwrap();
                        let seconds = begun.elapsed().as_secs_f64();
                        let times = worker.measured.as_mut().unwrap().pop().unwrap();
                        assert_eq!((times.start, times.steps.len()), (window.start, window.len()), "{what}");
                        assert!(worker.measured.as_ref().unwrap().is_empty());
                        let sum: f64 = times.total().iter().sum();
                        assert!(sum <= seconds, "{what}: {sum} of {seconds}");
                        has_its_stages(&times, model, &what);
                    }
                }
            }
        }
    }
}

#[test]
fn measuring_changes_no_bit() {
    let folder = tempfile::tempdir().unwrap();
    let stores = stores(folder.path());
    for task in task::ALL {
        let store = stores.of(task.name());
        for settings in all_models(store, task.name(), 1) {
            let seen = [false, true].map(|measures| {
                let mut worker = Worker::open(settings.clone(), store.clone()).unwrap();
                worker.measured = measures.then(Vec::new);
                let losses = practise(&mut worker, 2);
                assert_eq!(worker.measured.take().is_some_and(|measured| !measured.is_empty()), measures);
                let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
                (
                    bits(&losses),
                    worker.replica.params.values.iter().map(|values| bits(values)).collect::<Vec<_>>(),
                )
            });
            assert!(seen[0] == seen[1], "{} on {}", settings.model.name, task.name());
        }
    }
}

/// What each of two workers with a strategy measured in an epoch.
fn together(settings: &Settings, store: &Arc<Store>, strategy: &str) -> Vec<Vec<WindowTimes>> {
    let mut settings = settings.clone();
    (settings.parallel.workers, settings.parallel.strategy) = (2, strategy.into());
    let context = RunContext::open(settings, store.clone()).unwrap();
    let division = Division::new(&context, strategy, 2).unwrap();
    std::thread::scope(|scope| {
        let work = |group| {
            let mut worker = Worker::join(context.clone(), group, division.shares()).unwrap();
            worker.measured = Some(Vec::new());
            let division = division.clone();
            scope.spawn(move || {
                for iteration in iterations(&worker.context, &division, 0) {
                    worker.iterate(&iteration, rate(worker.settings()), false).unwrap();
                }
                worker.measured.unwrap()
            })
        };
        let threads: Vec<_> = WorkerGroup::in_process(2).into_iter().map(work).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn workers_measure_what_they_do_whatever_the_strategy() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    for strategy in strategies() {
        for settings in all_models(&store, "node-regression", 2) {
            let model = &settings.model.name;
            let measured = together(&settings, &store, strategy.name);
            let windows = RunContext::open(settings.clone(), store.clone()).unwrap().windows().len();
            let counts: Vec<usize> = measured.iter().map(Vec::len).collect();
            // Each worker has its own windows, or a part of every one.
            match cuts_windows(strategy) {
                true => assert_eq!(counts, [windows; 2]),
                false => assert_eq!(counts.iter().sum::<usize>(), windows),
            }
            for times in measured.iter().flatten() {
                let what = format!("{model} by {}", strategy.name);
                assert!(times.total().iter().all(|&seconds| seconds >= 0.0), "{what}");
                if !cuts_windows(strategy) {
                    has_its_stages(times, model, &what);
                }
            }
            if cuts_windows(strategy) {
                // Some strategies give whole snapshots to one worker: together they have all.
                for window in 0..windows {
                    let parts: Vec<&WindowTimes> =
                        measured.iter().map(|measured| &measured[window]).collect();
                    let aggregated =
                        |step: usize| parts.iter().any(|part| part.steps[step][stage("aggregation")] > 0.0);
                    assert!(
                        (silent(model)..parts[0].steps.len()).all(aggregated),
                        "{model} by {}",
                        strategy.name
                    );
                }
            }
        }
    }
}

#[test]
fn a_profile_in_a_folder_has_every_snapshot_of_every_window() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    for mut settings in all_models(&store, "node-regression", 1) {
        (settings.parallel.workers, settings.parallel.strategy) = (2, "dygnex".into());
        (settings.parallel.profile_epochs, settings.train.epochs) = (3, 3);
        let path = folder.path().join(&settings.model.name);
        run(&settings, &path);
        let profile = RunFolder::open(&path).unwrap().profile().unwrap().unwrap();
        let windows = RunContext::open(settings.clone(), store.clone()).unwrap().windows();
        assert_eq!(
            (&profile.stages[..], profile.explained.len()),
            (&STAGES.map(String::from)[..], STAGES.len())
        );
        // The first epoch of three is left out.
        assert!(
            profile.seconds.len() == windows.len() && profile.seconds.iter().all(|times| times.len() == 2)
        );
        assert_eq!(profile.common.len(), windows.len());
        let steps: Vec<usize> = profile.snapshots.iter().map(|snapshot| snapshot.step).collect();
        let expected = windows[0].start..windows.iter().map(|window| window.end).max().unwrap();
        assert_eq!(steps, expected.collect::<Vec<_>>(), "{}", settings.model.name);
        let whole = |stages: &[f64]| {
            assert_eq!(stages.len(), STAGES.len());
            stages.iter().all(|seconds| seconds.is_finite() && *seconds >= 0.0)
        };
        assert!(profile.snapshots.iter().all(|snapshot| whole(&snapshot.stages)));
        assert!(profile.common.iter().chain(profile.seconds.iter().flatten()).all(|stages| whole(stages)));
    }
}

#[test]
fn an_epoch_that_was_interrupted_does_not_leave_windows_unmeasured() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let mut settings = settings(&folder.path().join("store"), "node-regression", "t-gcn");
    (settings.parallel.workers, settings.parallel.strategy) = (2, "dygnex".into());
    (settings.parallel.profile_epochs, settings.train.epochs) = (2, 4);
    let context = RunContext::open(settings.clone(), store).unwrap();
    let (windows, iterations) = (context.windows().len(), iterations(&context, &Division::Groups, 0).len());
    assert!(iterations > 2);
    // The second epoch is the one that is measured: it is stopped, and goes on where nothing is known of its
    // beginning.
    let path = folder.path().join("run");
    let session = Session::begin(settings, &path, &Progress::silent()).unwrap();
    let stopped = session.train(&mut Onlooker::until(iterations + 1)).unwrap();
    assert!(matches!(stopped, Ending::Stopped) && !path.join("profile.json").exists());
    let session = Session::resume(&path, &[], &Progress::silent()).unwrap();
    assert!(matches!(session.train(&mut Onlooker::default()).unwrap(), Ending::Finished(_)));
    let costs = measured_costs(&RunFolder::open(&path).unwrap().profile().unwrap().unwrap());
    assert!(costs.len() == windows && costs.iter().all(|&seconds| seconds > 0.0), "{costs:?}");
}
