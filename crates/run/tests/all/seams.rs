//! Each seam of a worker with a second implementation in the place of the usual one: what comes out is the
//! same where it must be.

use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use kymo_comm::{Comm, threads};
use kymo_graph::{Progress, Snapshot, Step, Store};
use kymo_model::{Graph, Halo, Matrix};
use kymo_plan::{Assignment, Batch, Iteration, Neighbourhood, Ownership, Targets, Window};
use kymo_run::artifact::Folder;
use kymo_run::config::OptimiserName;
use kymo_run::data::{Piece, SnapshotSource, WholeSteps};
use kymo_run::halo::{Cells, Exact, HaloPolicy, StepCells};
use kymo_run::launch::Launcher;
use kymo_run::merge::{GradientSum, Merge, Merged};
use kymo_run::replica::Replica;
use kymo_run::schedule::Division;
use kymo_run::step::Seams;
use kymo_run::train::{Ending, Silent};
use kymo_run::workers::WorkerGroup;
use kymo_run::{Custom, Result, RunContext, Session, Settings, Worker};
use kymo_tensor::{Shape, Tape, Var};

use super::fixture::{Sketch, rate, run, settings};

/// The losses of all iterations, and the parameters in the end.
type Seen = (Vec<f64>, Vec<Vec<f32>>);

/// What two workers of a strategy see in some epochs, with some seams replaced.
fn together(
    settings: &Settings,
    store: &Arc<Store>,
    epochs: usize,
    seams: impl Fn(&Arc<RunContext>, Option<Arc<Cells>>) -> Seams + Sync,
) -> Vec<Seen> {
    let mut settings = settings.clone();
    settings.parallel.workers = 2;
    let strategy = settings.parallel.strategy.clone();
    let context = RunContext::open(settings, store.clone()).unwrap();
    let division = Division::new(&context, &strategy, 2).unwrap();
    let plans = context.epochs(2, division.assignment(&context.settings));
    let work = |group: Arc<WorkerGroup>| {
        let cells = division
            .shares()
            .map(|shares| Arc::new(Cells::new(group.clone(), shares.clone(), Arc::new(Exact))));
        let seams = seams(&context, cells);
        let mut worker = Worker::with(context.clone(), group, division.shares(), seams).unwrap();
        let mut losses = Vec::new();
        for epoch in 0..epochs {
            worker.begin_epoch(epoch, true);
            for iteration in plans.plan(epoch).iterations {
                losses.push(worker.iterate(&iteration, rate(worker.settings()), false).unwrap().loss);
            }
        }
        (losses, worker.replica.params.values.clone())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            WorkerGroup::in_process(2).into_iter().map(|group| scope.spawn(|| work(group))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

fn close(found: &Seen, expected: &Seen, what: &str) {
    for (found, expected) in found.0.iter().zip(&expected.0) {
        assert!(
            (found - expected).abs() <= 1e-5 * expected.abs().max(1e-2),
            "{what}: {found} and {expected}"
        );
    }
    for (found, expected) in found.1.iter().flatten().zip(expected.1.iter().flatten()) {
        assert!(
            (found - expected).abs() <= 1e-5 * expected.abs().max(1e-1),
            "{what}: {found} and {expected}"
        );
    }
}

/// Every worker follows its own gradient; parameters are averaged after some steps (DynaHB, Algorithm 2).
struct Averaging {
    every: usize,
    steps: usize,
}

impl Merge for Averaging {
    fn gradients(&mut self, sum: &mut GradientSum, group: &WorkerGroup) -> Result<Merged> {
        let mut facts = sum.facts().to_vec();
        let mine = sum.mean();
        group.all_reduce(&mut facts)?;
        Ok(Merged { loss: f64::from(facts[0]), losses: facts[1] as usize, stop: facts[2] > 0.0, ..mine })
    }

    fn parameters(&mut self, replica: &mut Replica, group: &WorkerGroup) -> Result<()> {
        self.steps += 1;
        if self.steps.is_multiple_of(self.every) {
            for values in &mut replica.params.values {
                group.all_reduce(values)?;
                values.iter_mut().for_each(|value| *value /= group.size() as f32);
            }
        }
        Ok(())
    }
}

#[test]
fn averaging_after_every_step_is_an_all_reduce_of_gradients() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sketch::random(21, 16, 16).write(&folder.path().join("store"));
    let mut settings = settings(store.path(), "node-regression", "gcn-gru");
    // Where steps are linear in gradients, their mean and the mean of parameters are the same.
    (settings.train.optimiser, settings.train.learning_rate) = (OptimiserName::Sgd, 0.05);
    (settings.train.clip, settings.train.stride) = (0.0, 1);
    let windows = RunContext::open(settings.clone(), store.clone()).unwrap().windows().len();
    // Every worker has a window in every iteration.
    settings.train.stride = if windows.is_multiple_of(2) { 1 } else { 2 };
    let windows = RunContext::open(settings.clone(), store.clone()).unwrap().windows().len();
    assert_eq!(windows % 2, 0, "{windows}");
    let expected = together(&settings, &store, 2, |_, _| Seams::default());
    let average = |every: usize| {
        let merge = move || Box::new(Averaging { every, steps: 0 });
        together(&settings, &store, 2, |_, _| Seams { merge: merge(), ..Seams::default() })
    };
    let found = average(1);
    for (found, expected) in found.iter().zip(&expected) {
        close(found, expected, "averaged after every step");
    }
    // Replicas go their own ways in between.
    let rarely = average(windows);
    assert_eq!(rarely[0].1, rarely[1].1, "the last step was averaged");
    assert_ne!(rarely[0].1, found[0].1);
}

/// Snapshots that are made of the first one and the changes since, instead of being read whole.
struct FromDeltas {
    whole: WholeSteps,
    store: Arc<Store>,
    reads: Arc<AtomicUsize>,
}

impl SnapshotSource for FromDeltas {
    fn read(&self, t: Step, owners: Option<&Ownership>) -> Result<Piece> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let mut snapshot: Snapshot<'_> = self.store.snapshot(0)?;
        for step in 1..=t {
            snapshot = self.store.delta(step)?.apply(&snapshot).unwrap();
        }
        self.whole.cut(t, &snapshot, owners)
    }

    fn check(&self, neighbourhood: &Neighbourhood) -> Result<()> {
        self.whole.check(neighbourhood)
    }
}

#[test]
fn snapshots_may_come_from_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sketch::random(22, 16, 14).write(&folder.path().join("store"));
    for strategy in ["psg", "pts", "vertex-metis-layer"] {
        let mut settings = settings(store.path(), "link-prediction", "t-gcn");
        settings.parallel.strategy = strategy.into();
        settings.model.layers = 2;
        let expected = together(&settings, &store, 2, |_, _| Seams::default());
        let reads = Arc::new(AtomicUsize::new(0));
        let found = together(&settings, &store, 2, |context, cells| {
            let (store, inputs) = (context.store.clone(), context.inputs.clone());
            let whole = WholeSteps::new(store, inputs, context.asked().unwrap(), cells);
            let source = FromDeltas { whole, store: context.store.clone(), reads: reads.clone() };
            Seams { source: Some(Arc::new(source)), ..Seams::default() }
        });
        assert!(found == expected, "{strategy}: the same bits");
        assert!(reads.load(Ordering::Relaxed) > 0);
    }
}

/// Rows of neighbours as they were in the epoch before (DGC 5.2, without a limit on their age): no worker
/// waits for what another computes in the same epoch.
struct Stale {
    used: Arc<AtomicUsize>,
}

struct StaleStep {
    exact: StepCells,
    used: Arc<AtomicUsize>,
}

impl HaloPolicy for Stale {
    fn at(&self, exact: StepCells) -> Box<dyn Halo> {
        Box::new(StaleStep { exact, used: self.used.clone() })
    }
}

impl Halo for StaleStep {
    fn product<'a>(
        &'a self,
        tape: &mut Tape<'a>,
        graph: &'a Graph,
        matrix: Matrix,
        x: Var,
    ) -> kymo_tensor::Result<Var> {
        let (tag, route, group) = (self.exact.tag(), self.exact.route(), self.exact.group());
        if tag.evaluates {
            return self.exact.product(tape, graph, matrix, x);
        }
        let columns = tape.shape(x).columns;
        let values = tape.read(x)?.into_owned();
        let gone = |error: kymo_comm::Error| kymo_tensor::Error::Bug(error.to_string());
        let sent = group.send(tag, &route.sends, &values, columns).map_err(gone)?;
        if tag.epoch == 0 {
            return self.exact.product(tape, graph, matrix, x);
        }
        // The first epoch has a second exchange here.
        self.exact.tag();
        self.used.fetch_add(1, Ordering::Relaxed);
        let before = kymo_run::workers::RowTag { epoch: tag.epoch - 1, ..tag };
        let mut rows = vec![0.0; route.rows_out * columns];
        let put = |row: usize, values: &[f32]| rows[row * columns..][..columns].copy_from_slice(values);
        group.receive(before, &route.receives, columns, sent, put).map_err(gone)?;
        let beyond = tape.copied(Shape::new(route.rows_out, columns), &rows)?;
        let all = tape.concatenate_rows(&[x, beyond])?;
        matrix.of(graph)?.times(tape, all)
    }

    fn extend<'a>(&'a self, tape: &mut Tape<'a>, x: Var) -> kymo_tensor::Result<Var> {
        self.exact.extend(tape, x)
    }

    fn carry<'a>(&'a self, tape: &mut Tape<'a>, state: Var) -> kymo_tensor::Result<Var> {
        self.exact.carry(tape, state)
    }

    fn collect<'a>(
        &'a self,
        tape: &mut Tape<'a>,
        x: Var,
        rows: &[u32],
        count: usize,
    ) -> kymo_tensor::Result<Var> {
        self.exact.collect(tape, x, rows, count)
    }

    fn shuffle<'a>(&'a self, tape: &mut Tape<'a>, x: Var) -> kymo_tensor::Result<Var> {
        self.exact.shuffle(tape, x)
    }

    fn hand<'a>(&'a self, tape: &mut Tape<'a>, state: Var) -> kymo_tensor::Result<Var> {
        self.exact.hand(tape, state)
    }

    fn restore<'a>(&'a self, tape: &mut Tape<'a>, x: Var) -> kymo_tensor::Result<Var> {
        self.exact.restore(tape, x)
    }
}

#[test]
fn rows_of_the_epoch_before_are_found_by_their_names() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sketch::random(23, 16, 14).write(&folder.path().join("store"));
    let mut settings = settings(store.path(), "node-regression", "gcn-gru");
    settings.parallel.strategy = "vertex-hash".into();
    settings.model.layers = 3;
    let used = Arc::new(AtomicUsize::new(0));
    let stale = |_: &Arc<RunContext>, _: Option<Arc<Cells>>| Seams {
        halo: Arc::new(Stale { used: used.clone() }),
        ..Seams::default()
    };
    // Where parameters stay the same, rows of the epoch before are those of now.
    settings.train.learning_rate = 1e-30;
    let expected = together(&settings, &store, 3, |_, _| Seams::default());
    let found = together(&settings, &store, 3, stale);
    for (found, expected) in found.iter().zip(&expected) {
        close(found, expected, "parameters that stay");
    }
    assert!(used.load(Ordering::Relaxed) > 0);
    // Where they change, rows are out of date from the second epoch on, and only then.
    settings.train.learning_rate = 0.05;
    let expected = together(&settings, &store, 2, |_, _| Seams::default());
    let found = together(&settings, &store, 2, stale);
    let half = expected[0].0.len() / 2;
    assert_eq!(found[0].0[..half], expected[0].0[..half]);
    assert_ne!(found[0].0[half..], expected[0].0[half..]);
}

/// This process is one worker; the others are elsewhere.
struct Endpoint(Mutex<Option<Arc<dyn Comm>>>);

impl Launcher for Endpoint {
    fn endpoints(&self) -> Result<Vec<Arc<WorkerGroup>>> {
        let comm = self.0.lock().unwrap().take().unwrap();
        Ok(vec![Arc::new(WorkerGroup::new(comm))])
    }
}

fn arrays(path: &Path) -> Vec<(String, Vec<u32>)> {
    let checkpoint = kymo_run::artifact::Checkpoint::read(&Folder::checkpoint_of(path)).unwrap();
    let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect();
    checkpoint.arrays.iter().map(|(name, array)| (name.clone(), bits(&array.values))).collect()
}

#[test]
fn workers_that_share_nothing_but_messages_train_the_same_model() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sketch::random(24, 16, 14).write(&folder.path().join("store"));
    for strategy in ["psg", "pts", "pss-ts"] {
        let mut settings = settings(store.path(), "node-classification", "wd-gcn");
        (settings.parallel.workers, settings.parallel.strategy) = (3, strategy.into());
        let together = folder.path().join(format!("together-{strategy}"));
        let (lines, expected) = run(&settings, &together);
        let apart = folder.path().join(format!("apart-{strategy}"));
        let endings: Vec<Ending> = std::thread::scope(|scope| {
            let work = |comm: Arc<dyn Comm>| {
                let launcher = Endpoint(Mutex::new(Some(comm)));
                let session = Session::begin_with(
                    settings.clone(),
                    &apart,
                    &Progress::silent(),
                    &Custom::default(),
                    &launcher,
                )
                .unwrap();
                session.train(&mut Silent).unwrap()
            };
            let threads: Vec<_> =
                threads(3).into_iter().map(|comm| scope.spawn(move || work(Arc::new(comm)))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(arrays(&apart), arrays(&together), "{strategy}");
        let Ending::Finished(found) = &endings[0] else { panic!("nobody asked to stop") };
        assert_eq!((found.epochs, &found.test), (lines.len(), &expected.test), "{strategy}");
        // Reports of all workers came by messages, and only the first has them.
        let [found, expected] = [&found.workers, &expected.workers].map(|report| report.as_ref().unwrap());
        let sent = |report: &kymo_trace::schema::GroupReport| {
            report.workers.iter().map(|worker| worker.sent).collect::<Vec<_>>()
        };
        assert_eq!(sent(found), sent(expected), "{strategy}");
        assert_eq!(kymo_trace::merge(&apart).unwrap().len(), 3);
        for ending in &endings[1..] {
            assert!(matches!(ending, Ending::Finished(summary) if summary.workers.is_none()));
        }
    }
}

fn loss_of(settings: &Settings, store: &Arc<Store>, steps: Range<Step>, targets: Targets) -> Result<f64> {
    let window = Window { number: 0, steps, salt: 5 };
    let batch = Batch { targets, ..Batch::whole(window) };
    let mut worker = Worker::open(settings.clone(), store.clone()).unwrap();
    Ok(worker.iterate(&Iteration { workers: vec![vec![batch]] }, 0.0, false)?.loss)
}

#[test]
fn batches_of_some_vertices_add_up_to_those_of_all() {
    let folder = tempfile::tempdir().unwrap();
    let sketch = Sketch::random(25, 18, 12);
    let store = sketch.write(&folder.path().join("store"));
    let steps = 2..5;
    for (task, labelled) in [
        (
            "node-regression",
            sketch.moments[5].targets.iter().map(|(vertex, _)| *vertex).collect::<Vec<u32>>(),
        ),
        ("node-classification", sketch.moments[5].labels.iter().map(|(vertex, _)| *vertex).collect()),
    ] {
        let settings = settings(store.path(), task, "gat-lstm");
        let all = loss_of(&settings, &store, steps.clone(), Targets::All).unwrap();
        let mut sum = 0.0;
        for part in 0..3 {
            let vertices: Vec<u32> = (0..18).filter(|vertex| vertex % 3 == part).collect();
            let count = labelled.iter().filter(|vertex| vertices.contains(vertex)).count();
            let loss = loss_of(&settings, &store, steps.clone(), Targets::Some(vertices)).unwrap();
            sum += loss * count as f64 / labelled.len() as f64;
        }
        assert!((sum - all).abs() < 1e-5 * all, "{task}: {sum} and {all}");
    }
    let settings = settings(store.path(), "link-prediction", "t-gcn");
    let everyone = Targets::Some((0..18).collect());
    let [all, listed] = [Targets::All, everyone]
        .map(|targets| loss_of(&settings, &store, steps.clone(), targets).unwrap().to_bits());
    assert_eq!(all, listed);
    let half = loss_of(&settings, &store, steps.clone(), Targets::Some((0..9).collect())).unwrap();
    assert!(half > 0.0 && half.to_bits() != all);
}

#[test]
fn a_neighbourhood_that_the_source_cannot_give_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sketch::random(26, 12, 12).write(&folder.path().join("store"));
    let settings = settings(store.path(), "node-regression", "t-gcn");
    let mut worker = Worker::open(settings.clone(), store.clone()).unwrap();
    let mut plan = worker.context.epochs(1, Assignment::InTurns(1)).plan(0);
    plan.iterations[0].workers[0][0].neighbourhood = Neighbourhood::Sampled(vec![5, 5]);
    let error = worker.iterate(&plan.iterations[0], 0.01, false).unwrap_err().to_string();
    assert!(error.contains("need another source"), "{error}");
}
