//! Workers that train on vertices of their own and compute what these see by themselves (DynaHB and its
//! baselines): together they come to what one worker does, they send gradients alone, and they take the
//! memory that was planned.

use std::sync::Arc;

use kymo_graph::generate::{self, Params};
use kymo_graph::{Progress, Store};
use kymo_model::zoo;
use kymo_plan::price::Rates;
use kymo_plan::strategy::{self, Scheme, Strategy};
use kymo_plan::{Assignment, EpochPlan, Iteration, Targets};
use kymo_run::config::machine::Need;
use kymo_run::config::{Features, LossAt, Mode, Order};
use kymo_run::schedule::{Division, Question, is_possible};
use kymo_run::step::needs;
use kymo_run::workers::WorkerGroup;
use kymo_run::{Part, RunContext, Session, Settings, Worker};
use proptest::prelude::*;

use super::batches::plain;
use super::fixture::{Sketch, outputs, rate, run, settings};
use super::resume::{left_behind, run_in_pieces};

/// The tasks of vertices, which batches of some of them go with.
const TASKS: [&str; 2] = ["node-regression", "node-classification"];

fn ways() -> impl Iterator<Item = &'static Strategy> {
    strategy::ALL.iter().filter(|strategy| strategy.scheme == Scheme::Targets)
}

/// What one worker saw: losses, parameters in the end, what the model says of the validation, bytes sent.
struct Seen {
    losses: Vec<f64>,
    params: Vec<Vec<f32>>,
    outputs: Vec<Vec<f32>>,
    sent: [u64; 3],
}

fn practise(mut worker: Worker, plans: &[EpochPlan]) -> Seen {
    let mut losses = Vec::new();
    for (epoch, plan) in plans.iter().enumerate() {
        worker.begin_epoch(epoch, true);
        for iteration in &plan.iterations {
            let done = worker.iterate(iteration, rate(worker.settings()), false).unwrap();
            losses.push(done.loss / done.losses.max(1) as f64);
        }
    }
    let sent = worker.trained.sent;
    let samples = worker.split().samples(Part::Validation);
    let outputs = outputs(&mut worker, samples);
    let sent = [sent.messages, sent.all_reduce, sent.collectives];
    Seen { losses, params: worker.replica.params.values.clone(), outputs, sent }
}

fn shared(settings: &Settings, strategy: &str, workers: usize) -> Settings {
    let mut settings = settings.clone();
    (settings.parallel.strategy, settings.parallel.workers) = (strategy.into(), workers);
    settings
}

/// What the workers of these settings see in two epochs, and the plans of those.
fn together(settings: &Settings, store: &Arc<Store>) -> (Vec<Seen>, Vec<EpochPlan>) {
    let context = RunContext::open(settings.clone(), store.clone()).unwrap();
    let (strategy, workers) = (&settings.parallel.strategy, settings.parallel.workers);
    let division = Division::new(&context, strategy, workers).unwrap();
    let epochs = context.trained_epochs(workers, division.assignment(settings));
    let plans: Vec<EpochPlan> = (0..2).map(|epoch| epochs.plan(epoch)).collect();
    plans.iter().for_each(|plan| plan.check(&epochs.windows, workers).unwrap());
    let question = Question { strategy, workers, reuse: None, sample: None, rates: Rates::default() };
    let planned = division.plan(&context, &question).unwrap();
    assert_eq!(planned.epoch, plans[0], "the plan is what is run");
    let seen: Vec<Seen> = std::thread::scope(|scope| {
        let work = |group| {
            let (context, plans) = (context.clone(), &plans);
            scope.spawn(move || practise(Worker::join(context, group, None).unwrap(), plans))
        };
        let threads: Vec<_> = WorkerGroup::in_process(workers).into_iter().map(work).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for (rank, seen) in seen.iter().enumerate() {
        let sent = planned.workers[rank].sent;
        let all = [sent.rows(), sent.gradients * plans.len() as u64, sent.named];
        assert_eq!((seen.sent, sent.rows()), (all, 0), "{strategy}: gradients alone, as planned");
    }
    (seen, plans)
}

/// What one worker sees that runs the batches of all.
fn one_for_all(settings: &Settings, store: &Arc<Store>, plans: &[EpochPlan]) -> Seen {
    let one = |iteration: &Iteration| Iteration { workers: vec![iteration.workers.concat()] };
    let merged = |plan: &EpochPlan| EpochPlan {
        iterations: plan.iterations.iter().map(one).collect(),
        ..plan.clone()
    };
    let plans: Vec<EpochPlan> = plans.iter().map(merged).collect();
    let context = RunContext::open(settings.clone(), store.clone()).unwrap();
    practise(Worker::join(context, WorkerGroup::alone(), None).unwrap(), &plans)
}

/// What one worker sees with whole windows or batches of settings alone, this many in an iteration.
fn alone(settings: &Settings, store: &Arc<Store>, at_once: usize) -> Seen {
    let context = RunContext::open(shared(settings, "psg", 1), store.clone()).unwrap();
    let epochs = context.trained_epochs(1, Assignment::InTurns(at_once));
    let plans: Vec<EpochPlan> = (0..2).map(|epoch| epochs.plan(epoch)).collect();
    practise(Worker::join(context, WorkerGroup::alone(), None).unwrap(), &plans)
}

fn assert_close(found: &Seen, expected: &Seen, what: &str) {
    assert_eq!(found.losses.len(), expected.losses.len(), "{what}");
    for (found, expected) in found.losses.iter().zip(&expected.losses) {
        assert!((found - expected).abs() <= 1e-5 * expected.abs().max(1e-2), "{what}: {found}, {expected}");
    }
    for (found, expected) in [(&found.params, &expected.params), (&found.outputs, &expected.outputs)] {
        let (found, expected) = (found.concat(), expected.concat());
        assert_eq!(found.len(), expected.len(), "{what}");
        for (found, expected) in found.iter().zip(&expected) {
            let allowed = 1e-4 * expected.abs().max(0.1);
            assert!((found - expected).abs() <= allowed, "{what}: {found}, {expected}");
        }
    }
}

/// Fails unless all workers come to what is expected, with the same bits; the first has the outputs of all.
fn assert_all_close(seen: Vec<Seen>, expected: &Seen, what: &str) {
    let params = seen[0].params.clone();
    for (rank, seen) in seen.into_iter().enumerate() {
        assert_eq!(seen.params, params, "{what}, worker {rank}: all workers have the same bits");
        let outputs = if rank == 0 { seen.outputs } else { expected.outputs.clone() };
        assert_close(&Seen { outputs, ..seen }, expected, &format!("{what}, worker {rank}"));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    /// Guards the sum over workers: the batches of an iteration come to the same wherever they are run.
    #[test]
    fn owners_come_to_what_one_worker_does(
        seed in 0u64..1000,
        vertices in 2usize..30,
        workers in 2usize..6,
        batch in 0usize..12,
        (batch_windows, stride) in (1usize..4, 1usize..3),
        (layers, blocks) in prop_oneof![Just((1, 1)), Just((2, 1)), Just((1, 2))],
        (is_weighted, at_all) in any::<(bool, bool)>(),
        features in prop_oneof![Just(Features::Auto), Just(Features::Learnt), Just(Features::Both)],
        model in 0..zoo::ALL.len(),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let sketch = Sketch::random(seed, vertices, 12);
        let sketch = if is_weighted { sketch.weighted(seed) } else { sketch };
        let stores = sketch.write_both(&folder.path().join("store"));
        for (way, task) in ways().flat_map(|way| TASKS.map(|task| (way, task))) {
            let store = stores.of(task);
            let mut settings = plain(store, task, zoo::ALL[model].name);
            (settings.model.layers, settings.model.blocks) = (layers, blocks);
            (settings.data.features, settings.train.stride) = (features, stride);
            // Many steps on few vertices each, neither clipped nor adapted: a usual rate diverges.
            settings.train.learning_rate = 0.002;
            settings.train.loss = if at_all { LossAt::All } else { LossAt::Last };
            let context = RunContext::open(settings.clone(), store.clone()).unwrap();
            if context.model.hops().is_none() {
                continue;
            }
            if !["pyd", "dbos"].contains(&way.name) {
                settings.train.batch = batch;
            }
            if ["dbos", "dynahb"].contains(&way.name) {
                settings.train.batch_windows = batch_windows;
            }
            let settings = shared(&settings, way.name, workers);
            let what = format!("{} of {} workers, {} {task}", way.name, workers, settings.model.name);
            let (seen, plans) = together(&settings, store);
            let expected = one_for_all(&settings, store, &plans);
            assert_all_close(seen, &expected, &what);
        }
    }

    /// Full batches and batches of snapshots are those of one worker with whole windows; the mean gradient of
    /// all batches of some vertices, taken with the same parameters, is the full one.
    #[test]
    fn batches_of_owners_are_those_of_whole_windows(
        seed in 0u64..1000,
        vertices in 8usize..30,
        workers in 2usize..5,
        batch in 1usize..12,
        batch_windows in 1usize..4,
        task in 0usize..2,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let stores = Sketch::random(seed, vertices, 12).write_both(&folder.path().join("store"));
        let store = stores.of(TASKS[task]);
        let settings = plain(store, TASKS[task], ["t-gcn", "gat-lstm"][task]);
        let windows = RunContext::open(settings.clone(), store.clone()).unwrap().windows().len();
        let full = alone(&settings, store, windows);
        assert_all_close(together(&shared(&settings, "pyd", workers), store).0, &full, "pyd");
        let mut snapshots = settings.clone();
        snapshots.train.batch_windows = batch_windows;
        let expected = alone(&snapshots, store, 1);
        assert_all_close(together(&shared(&snapshots, "dbos", workers), store).0, &expected, "dbos");
        for way in ["dbov", "bvr", "dynahb"] {
            let mut settings = shared(&settings, way, workers);
            settings.train.batch = batch;
            if way == "dynahb" {
                settings.train.batch_windows = batch_windows;
            }
            settings.parallel.windows = 10_000;
            assert_all_close(together(&settings, store).0, &full, way);
        }
    }
}

#[test]
fn strategies_have_the_batches_of_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sketch::random(36, 60, 14).write(&folder.path().join("store"));
    let batches = |strategy: &str, workers: usize, batch: usize, batch_windows: usize| {
        let mut settings = shared(&plain(&store, "node-regression", "t-gcn"), strategy, workers);
        (settings.train.batch, settings.train.batch_windows) = (batch, batch_windows);
        let context = RunContext::open(settings.clone(), store.clone()).unwrap();
        let assignment = if workers == 1 { Assignment::InTurns(1) } else { Assignment::Together(1) };
        (context.windows().len(), context.trained_epochs(workers, assignment).plan(0))
    };
    for workers in [1, 3] {
        let (windows, full) = batches("pyd", workers, 0, 1);
        assert_eq!((full.iterations.len(), full.windows()), (1, windows));
        assert_eq!(batches("dbos", workers, 0, 2).1.iterations.len(), windows.div_ceil(2));
        assert_eq!(batches("dbov", workers, 15, 1).1.iterations.len(), 4);
        assert_eq!(batches("dynahb", workers, 15, 2).1.iterations.len(), 4 * windows.div_ceil(2));
        // A twentieth of the vertices where nobody says.
        assert_eq!(batches("bvr", workers, 0, 1).1.iterations.len(), 20);
        // No batch has a vertex of another owner, and all owners together have all of them.
        let (_, plan) = batches("dynahb", workers, 15, 2);
        for batch in plan.iterations.iter().flat_map(|iteration| &iteration.workers).flatten() {
            assert!(matches!(batch.targets, Targets::Portion(portion) if portion.owners == workers));
        }
    }
    assert_eq!(batches("pyd", 1, 0, 1).1.iterations[0].workers[0][0].targets, Targets::All);
}

#[test]
fn whole_runs_are_repeated_and_resumed_to_the_bit() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sketch::random(33, 30, 13).write(&folder.path().join("store"));
    for (number, way) in ways().enumerate() {
        let mut settings = shared(&settings(store.path(), TASKS[number % 2], "gcn-gru"), way.name, 3);
        (settings.model.dropout, settings.run.checkpoint_windows) = (0.3, 3);
        let path = |name: &str| folder.path().join(format!("{}-{name}", way.name));
        let (_, summary) = run(&settings, &path("whole"));
        run(&settings, &path("again"));
        // All hear of the wish one iteration later; a full batch is an epoch.
        let pieces: &[usize] = if way.name == "pyd" { &[0] } else { &[0, 1, 2] };
        run_in_pieces(&settings, &path("parts"), pieces);
        let whole = left_behind(&path("whole"));
        assert!(whole == left_behind(&path("again")), "{}: two runs differ", way.name);
        let parts = left_behind(&path("parts"));
        assert_eq!(whole.1, parts.1, "{}", way.name);
        assert!(whole.0 == parts.0, "the checkpoints differ: {}", way.name);
        let report = summary.workers.unwrap();
        let sent: u64 = report.workers.iter().flat_map(|worker| worker.sent).sum();
        assert_eq!(sent, settings.train.epochs as u64 * report.planned, "{}: what was planned", way.name);
    }
}

/// The runs of several workers judge what one worker judges.
#[test]
fn full_runs_of_several_workers_are_those_of_one() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sketch::random(34, 30, 13).write(&folder.path().join("store"));
    for way in ["pyd", "dbos"] {
        let mut settings = plain(&store, "node-regression", "t-gcn");
        (settings.train.batch_windows, settings.parallel.order) =
            (if way == "dbos" { 2 } else { 1 }, Order::Random);
        let logs = [1, 3].map(|workers| {
            let path = folder.path().join(format!("{way}{workers}"));
            run(&shared(&settings, way, workers), &path).0
        });
        for (one, several) in logs[0].iter().zip(&logs[1]) {
            assert!((one.loss - several.loss).abs() <= 1e-4 * one.loss.abs(), "{way}");
            for (metric, value) in &one.validation {
                let found = several.validation[metric];
                assert!((found - value).abs() <= 1e-3 * value.abs().max(1e-3), "{way} {metric}");
            }
        }
    }
}

/// What a worker holds for its batches is what its plan says, to a tenth. One thread takes all blocks of
/// rows: how many of several do is a matter of chance.
#[test]
fn owners_take_what_was_planned() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let params = Params { vertices: 24_000, edges: 12_000, steps: 14, features: 4, ..Params::GENERIC };
    let kind = generate::find("uniform").unwrap();
    let store = Arc::new(generate::write(kind, &params, &path, false, &Progress::silent()).unwrap());
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let mut ratios = Vec::new();
    for (way, model) in ways().flat_map(|way| ["t-gcn", "gcn-gru"].map(|model| (way, model))) {
        let mut settings = shared(&settings(&path, "node-regression", model), way.name, 2);
        (settings.model.hidden, settings.run.memory) = (32, "1kB".into());
        if !["pyd", "dbos"].contains(&way.name) {
            settings.train.batch = 6000;
        }
        if ["dbos", "dynahb"].contains(&way.name) {
            settings.train.batch_windows = 4;
        }
        let ratio = pool.install(|| memory_ratio(&settings, &store));
        ratios.push((ratio, format!("{} {model}", way.name)));
    }
    assert!(ratios.iter().all(|(ratio, _)| (ratio - 1.0).abs() <= 0.1), "{ratios:?}");
}

/// What the plan says of the batches of one of two workers over what it holds in the end.
fn memory_ratio(settings: &Settings, store: &Arc<Store>) -> f64 {
    let context = RunContext::open(settings.clone(), store.clone()).unwrap();
    let plan = context.trained_epochs(2, Assignment::Together(1)).plan(0);
    let mut worker = Worker::join(context.clone(), WorkerGroup::alone(), None).unwrap();
    for iteration in plan.iterations {
        let first = Iteration { workers: iteration.workers.into_iter().take(1).collect() };
        worker.iterate(&first, rate(settings), false).unwrap();
    }
    let needs = needs(&context, 1).unwrap();
    let strategy = &settings.parallel.strategy;
    let division = Division::new(&context, strategy, 2).unwrap();
    let question = Question { strategy, workers: 2, reuse: None, sample: None, rates: Rates::default() };
    let planned = division.plan(&context, &question).unwrap();
    let total = Need::total(&needs);
    assert!(planned.workers.iter().all(|share| share.memory == total), "{strategy}: {needs:?}");
    // What comes out is judged elsewhere, and snapshots are held beside.
    let of = |what: &str| needs.iter().find(|need| need.what == what).unwrap().bytes;
    let outputs = 8 * (context.model.width() * store.vertices() * context.together[0]) as u64;
    let estimated = of("what a batch sees") + of("rows of a window") - outputs;
    estimated as f64 / worker.buffer_bytes() as f64
}

/// Batches that are kept are those that would be taken out again: the same bits come of them, whatever there
/// is room for, and they take no more than that.
#[test]
fn batches_that_come_again_are_kept_within_their_room() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sketch::random(37, 200, 14).write(&folder.path().join("store"));
    for way in ways() {
        let comes_again = ["pyd", "dbos", "bvr"].contains(&way.name);
        let seen = |room: &str| {
            let mut settings = shared(&plain(&store, "node-regression", "gat-lstm"), way.name, 2);
            (settings.run.reservoir, settings.model.layers) = (room.into(), 2);
            let context = RunContext::open(settings.clone(), store.clone()).unwrap();
            let epochs = context.trained_epochs(2, Assignment::Together(1));
            let mut worker = Worker::join(context, WorkerGroup::alone(), None).unwrap();
            let mut batches = 0;
            for epoch in 0..3 {
                worker.begin_epoch(epoch, true);
                for iteration in epochs.plan(epoch).iterations {
                    batches += 1;
                    let first = Iteration { workers: iteration.workers.into_iter().take(1).collect() };
                    worker.iterate(&first, rate(&settings), false).unwrap();
                }
            }
            let needs = needs(&worker.context, 1).unwrap();
            let kept = needs.iter().find(|need| need.what == "batches that are kept").unwrap().bytes;
            (worker.replica.params.values.clone(), worker.batches_kept(), batches, kept)
        };
        let (expected, none, batches, _) = seen("0");
        assert_eq!((none.found, none.made, none.bytes), (0, batches, 0), "{}", way.name);
        let (params, all, _, planned) = seen("1GiB");
        assert_eq!(params, expected, "{}", way.name);
        // Training gets the first epoch ready, and takes no batch out after that.
        let made = if comes_again { batches / 3 } else { batches };
        assert_eq!((all.made, all.found), (made, batches - made), "{}", way.name);
        assert_eq!(
            (all.bytes > 0, planned),
            (comes_again, if comes_again { 1 << 30 } else { 0 }),
            "{}",
            way.name
        );
        let (params, some, _, _) = seen(&(all.bytes * 2 / 3).to_string());
        assert_eq!(params, expected, "{}", way.name);
        assert!(some.bytes <= all.bytes * 2 / 3 && some.found <= all.found, "{}", way.name);
        assert!(way.name != "bvr" || some.found > 0 && some.made > made);
    }
}

#[test]
fn what_owners_do_not_go_with_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sketch::random(34, 30, 12).write(&folder.path().join("store"));
    let problem = |strategy: &str, task: &str, model: &str, change: &dyn Fn(&mut Settings)| {
        let mut settings = shared(&settings(store.path(), task, model), strategy, 2);
        change(&mut settings);
        let path = folder.path().join("run");
        let error = Session::begin(settings, &path, &Progress::silent()).err().unwrap().to_string();
        assert!(!path.exists(), "{error}");
        error
    };
    for way in ways() {
        let refused = |task: &str, model: &str, change: &dyn Fn(&mut Settings), words: &str| {
            let error = problem(way.name, task, model, change);
            assert!(error.starts_with("parallel.strategy: ") && error.contains(words), "{error}");
        };
        refused("node-regression", "dcrnn", &|_| (), "dcrnn sees farther");
        refused("link-prediction", "t-gcn", &|_| (), "pairs of vertices");
        for mode in [Mode::Sequence, Mode::Truncated] {
            refused("node-regression", "t-gcn", &|s| s.train.mode = mode, "choose train.mode=windows");
        }
        // It is left out of a comparison, where it cannot be.
        let context = |task: &str| RunContext::open(settings(store.path(), task, "t-gcn"), store.clone());
        assert!(is_possible(way, &context("node-regression").unwrap(), 2), "{}", way.name);
        assert!(!is_possible(way, &context("link-prediction").unwrap(), 2), "{}", way.name);
    }
    for (way, setting, words) in [
        ("pyd", "train.batch", "pyd has all vertices in a batch, found 10"),
        ("dbos", "train.batch", "dbos has all vertices in a batch, found 10"),
        ("dbov", "train.batch_windows", "dbov has all windows in a batch, found 3; choose 1 or 0"),
        ("pyd", "train.batch_windows", "pyd has all windows in a batch, found 3"),
    ] {
        let error = problem(way, "node-regression", "t-gcn", &|settings| match setting {
            "train.batch" => settings.train.batch = 10,
            _ => settings.train.batch_windows = 3,
        });
        assert!(error.starts_with(&format!("{setting}: {words}")), "{error}");
    }
}
