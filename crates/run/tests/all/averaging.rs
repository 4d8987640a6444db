//! Models that are averaged now and then instead of gradients in every step (DynaHB, Algorithm 2): nobody
//! waits, whatever the others do, and what took place can be done again to the bit.

use std::path::Path;
use std::sync::Arc;

use kymo_graph::Progress;
use kymo_model::Slot;
use kymo_run::artifact::{Checkpoint, Folder};
use kymo_run::config::OptimiserName;
use kymo_run::merge::{Averaging, GradientSum, Merge};
use kymo_run::replica::Replica;
use kymo_run::workers::WorkerGroup;
use kymo_run::{Session, Settings};
use kymo_trace::schema::{AveragingRecord, RunFolder};
use proptest::prelude::*;

use super::batches::plain;
use super::fixture::{Sketch, run, settings};
use super::resume::{left_behind, run_in_pieces};

/// A worker that learns by adding a number of its own to all its parameters.
struct Learner {
    group: Arc<WorkerGroup>,
    replica: Replica,
    merge: Averaging,
    sum: GradientSum,
    turns: usize,
}

impl Learner {
    fn new(group: Arc<WorkerGroup>, merge: Averaging) -> Learner {
        let settings = Settings::default();
        let replica = Replica::new(vec![Slot::weight("a", 2, 3), Slot::bias("b", 2)], &settings).unwrap();
        let mut sum = GradientSum::default();
        sum.begin([6, 2].into_iter());
        sum.add_losses(1.0 + group.rank() as f32, 1);
        sum.add_facts(10, group.rank() == 1);
        Learner { group, replica, merge, sum, turns: 0 }
    }

    /// One iteration, which must not wait for anybody.
    fn turn(&mut self) {
        let merged = self.merge.gradients(&mut self.sum, &self.group).unwrap();
        assert!(merged.losses == 1 && !merged.stop);
        self.turns += 1;
        let step = 0.1 * (1.0 + self.group.rank() as f32) / self.turns as f32;
        self.replica.params.values.iter_mut().flatten().for_each(|value| *value += step);
        let mut gradients = [vec![step; 6], vec![step; 2]];
        let slices = gradients.iter_mut().map(|gradient| &mut gradient[..]).collect();
        self.replica.step(slices, 1, 0.01).unwrap();
        self.merge.parameters(&mut self.replica, &self.group).unwrap();
    }

    fn meet(&mut self, window: usize) -> AveragingRecord {
        let place = (0, window);
        let (seen, record) = self.merge.meet(&mut self.replica, &self.group, place).unwrap().unwrap();
        assert!(seen.stop || seen.losses == 0, "the second one wishes to stop, once it has done something");
        record
    }

    fn left(&self) -> (Vec<Vec<f32>>, kymo_tensor::optim::State) {
        (self.replica.params.values.clone(), self.replica.optimiser.state().clone())
    }
}

fn learners(workers: usize, merge: impl Fn() -> Averaging) -> Vec<Learner> {
    WorkerGroup::in_process(workers).into_iter().map(|group| Learner::new(group, merge())).collect()
}

/// All of them at a time, each in a thread.
fn each<T: Send>(learners: &mut [Learner], act: impl Fn(&mut Learner) -> T + Sync) -> Vec<T> {
    std::thread::scope(|scope| {
        let act = &act;
        let threads: Vec<_> = learners.iter_mut().map(|learner| scope.spawn(move || act(learner))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Workers take turns in any order on one thread: one that waited for another would wait forever. What
    /// took place is done again by threads, in whatever order those run, to the same bits.
    #[test]
    fn nobody_waits_and_what_took_place_can_be_done_again(
        workers in 2usize..5,
        pieces in prop::collection::vec(prop::collection::vec(0usize..5, 0..40), 1..4),
    ) {
        let mut all = learners(workers, || Averaging::every(0.0, workers));
        let (mut records, mut seen) = (Vec::new(), Vec::new());
        for (number, order) in pieces.iter().enumerate() {
            // As many iterations each, the rest of them at the end.
            let most = order.len() / workers + 1;
            let mut done = vec![0; workers];
            let rest = (0..workers).flat_map(|worker| std::iter::repeat_n(worker, most));
            for worker in order.iter().map(|&worker| worker % workers).chain(rest) {
                if done[worker] < most {
                    (done[worker], _) = (done[worker] + 1, all[worker].turn());
                }
            }
            let met = each(&mut all, |learner| learner.meet(number + 1));
            prop_assert!(met.iter().all(|record| *record == met[0]));
            prop_assert_eq!(met[0].iterations, most as u64);
            records.push(met[0].clone());
            let left: Vec<_> = all.iter().map(Learner::left).collect();
            prop_assert!(left.iter().all(|one| *one == left[0]), "all replicas are the same");
            seen.push(left[0].clone());
        }
        let mut again = learners(workers, || Averaging::again(records.clone(), workers));
        for (number, record) in records.iter().enumerate() {
            let met = each(&mut again, |learner| {
                learner.merge.go_on(0, number, workers).unwrap();
                (0..record.iterations).for_each(|_| learner.turn());
                (learner.meet(number + 1), learner.left())
            });
            for (again, left) in &met {
                prop_assert_eq!(again, record);
                prop_assert!(*left == seen[number], "piece {}", number);
            }
        }
    }
}

#[test]
fn means_are_those_of_all_models_and_what_was_learnt_since_is_kept() {
    let mut all = learners(2, || Averaging::every(0.0, 2));
    let of = |learner: &Learner| learner.replica.params.values[1][0];
    // The second one hands in, and goes on.
    all[1].turn();
    let (handed_in, turn) = (of(&all[1]), |learner: &mut Learner| {
        learner.turn();
        of(learner)
    });
    let before = turn(&mut all[1]);
    // The first one hands in, and has the models of both.
    let mut mirror = learners(2, || Averaging::every(1e5, 2));
    mirror[0].turn();
    let first = of(&mirror[0]);
    let mean = (first + handed_in) / 2.0;
    assert!((turn(&mut all[0]) - mean).abs() < 1e-6);
    // The second one takes the mean, with two steps that it has made since.
    let mut alone = learners(2, || Averaging::every(1e5, 2));
    (0..3).for_each(|_| alone[1].turn());
    let learnt = of(&alone[1]) - handed_in;
    assert!(learnt > before - handed_in);
    assert!((turn(&mut all[1]) - (mean + learnt)).abs() < 1e-5);
}

#[test]
fn a_worker_that_is_lost_is_named() {
    let mut all = learners(3, || Averaging::every(0.0, 3));
    all.iter_mut().for_each(Learner::turn);
    drop(all.remove(2));
    let met = each(&mut all, |learner| {
        learner.merge.meet(&mut learner.replica, &learner.group, (0, 1)).err().unwrap().to_string()
    });
    assert!(met.iter().all(|error| error.contains("worker 2")), "{met:?}");
}

fn averaged(settings: &Settings, strategy: &str, workers: usize) -> Settings {
    let mut settings = settings.clone();
    (settings.parallel.strategy, settings.parallel.workers) = (strategy.into(), workers);
    settings.averaging.seconds = 1e-9;
    settings
}

/// Where every worker makes one step of plain descent between two meetings, the mean of models is a step
/// along the mean of gradients.
#[test]
fn one_step_of_each_is_a_step_of_all() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sketch::random(41, 30, 13).write(&folder.path().join("store"));
    let mut settings = plain(&store, "node-regression", "t-gcn");
    settings.train.optimiser = OptimiserName::Sgd;
    let mut summed = averaged(&settings, "pyd", 3);
    summed.averaging.seconds = 0.0;
    let expected = run(&summed, &folder.path().join("summed")).0;
    let found = run(&averaged(&settings, "pyd", 3), &folder.path().join("averaged")).0;
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(&expected) {
        assert!((found.loss - expected.loss).abs() <= 1e-4 * expected.loss.abs(), "{found:?} {expected:?}");
        for (metric, value) in &expected.validation {
            assert!((found.validation[metric] - value).abs() <= 1e-3 * value.abs(), "{metric}");
        }
    }
}

/// The arrays of a checkpoint, by name: parameters, the best ones, what the optimiser remembers.
fn arrays(path: &Path) -> Vec<(String, Vec<f32>)> {
    let checkpoint = Checkpoint::read(&Folder::checkpoint_of(path)).unwrap();
    checkpoint.arrays.into_iter().map(|(name, array)| (name, array.values)).collect()
}

#[test]
fn runs_are_repeated_by_their_rounds_whole_and_in_pieces() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sketch::random(42, 30, 16).write(&folder.path().join("store"));
    for (strategy, workers) in [("dynahb", 2), ("psg", 3), ("dbov", 3)] {
        let mut live = averaged(&settings(store.path(), "node-regression", "gcn-gru"), strategy, workers);
        (live.model.dropout, live.run.checkpoint_windows, live.train.epochs) = (0.2, 5, 2);
        let path = |name: &str| folder.path().join(format!("{strategy}-{name}"));
        run(&live, &path("live"));
        let rounds = RunFolder::open(path("live")).unwrap().averaging().unwrap();
        // In and at the end of each epoch; rounds took place.
        assert!(rounds.len() > 2 && rounds.iter().any(|record| !record.rounds.is_empty()), "{rounds:?}");
        let mut again = live.clone();
        again.averaging.replay = path("live").join("averaging.jsonl").to_string_lossy().into_owned();
        run(&again, &path("again"));
        assert_eq!(RunFolder::open(path("again")).unwrap().averaging().unwrap(), rounds, "{strategy}");
        assert!(arrays(&path("again")) == arrays(&path("live")), "{strategy}: the bits differ");
        let (live_log, again_log) = (left_behind(&path("live")).1, left_behind(&path("again")).1);
        assert_eq!(live_log, again_log, "{strategy}");
        // Stopped where workers meet, and gone on with.
        run_in_pieces(&again, &path("parts"), &[0, 1]);
        let (whole, parts) = (left_behind(&path("again")), left_behind(&path("parts")));
        assert_eq!(whole.1, parts.1, "{strategy}");
        assert!(whole.0 == parts.0, "the checkpoints differ: {strategy}");
        assert_eq!(RunFolder::open(path("parts")).unwrap().averaging().unwrap(), rounds, "{strategy}");
        // A run that went on by the clock has a record of all of it.
        run_in_pieces(&live, &path("went-on"), &[0, 1]);
        let places = |rounds: &[AveragingRecord]| -> Vec<(usize, usize)> {
            rounds.iter().map(|record| (record.epoch, record.window)).collect()
        };
        let went_on = RunFolder::open(path("went-on")).unwrap().averaging().unwrap();
        assert_eq!(places(&went_on), places(&rounds), "{strategy}");
    }
}

#[test]
fn rounds_of_another_run_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sketch::random(43, 20, 13).write(&folder.path().join("store"));
    let mut live = averaged(&settings(store.path(), "node-regression", "t-gcn"), "psg", 2);
    live.train.epochs = 1;
    run(&live, &folder.path().join("live"));
    let replay = folder.path().join("live").join("averaging.jsonl");
    let refused = |name: &str, change: &dyn Fn(&mut Settings)| {
        let mut settings = live.clone();
        settings.averaging.replay = replay.to_string_lossy().into_owned();
        change(&mut settings);
        let session = Session::begin(settings, &folder.path().join(name), &Progress::silent());
        let trained = session.and_then(|session| session.train(&mut super::fixture::Onlooker::default()));
        trained.err().unwrap().to_string()
    };
    let error = refused("longer", &|settings| settings.train.epochs = 2);
    assert!(error.starts_with("averaging.replay: ") && error.contains("of a shorter run"), "{error}");
    let error = refused("finer", &|settings| settings.run.checkpoint_windows = 2);
    assert!(error.contains("it is of another run"), "{error}");
    let error = refused("missing", &|settings| settings.averaging.replay = "nowhere.jsonl".into());
    assert!(error.contains("there is no file nowhere.jsonl"), "{error}");
    std::fs::write(folder.path().join("empty.jsonl"), "").unwrap();
    let empty = folder.path().join("empty.jsonl").to_string_lossy().into_owned();
    let error = refused("empty", &|settings| settings.averaging.replay = empty.clone());
    assert!(error.contains("empty.jsonl has no rounds"), "{error}");
}

/// Guards replays that are gone on with from another folder, and the learning rate that is told: a worker
/// that takes steps of its own learns from its own windows.
#[test]
fn paths_hold_from_everywhere_and_rates_are_those_of_a_worker() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sketch::random(44, 20, 13).write(&folder.path().join("store"));
    let mut live = averaged(&settings(store.path(), "node-regression", "t-gcn"), "psg", 2);
    (live.train.epochs, live.parallel.scale_rate) = (1, true);
    let (lines, _) = run(&live, &folder.path().join("live"));
    assert_eq!(lines[0].learning_rate, live.train.learning_rate as f32);
    let replay = folder.path().join("live").join("averaging.jsonl");
    let round_about = folder.path().join("live").join("..").join("live").join("averaging.jsonl");
    live.averaging.replay = round_about.to_string_lossy().into_owned();
    let told = live.averaging.absolute().unwrap().replay;
    assert_eq!(told, std::fs::canonicalize(replay).unwrap().to_string_lossy());
}
