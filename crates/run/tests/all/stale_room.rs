//! The memory that rows take which may be stale (DGC, section 5.2): it is planned, and where it is short,
//! rows are sent as they are.

use std::sync::{Arc, Mutex};

use kymo_graph::{Progress, Store};
use kymo_plan::price::Rates;
use kymo_run::artifact::{Checkpoint, Folder};
use kymo_run::config::StaleRule;
use kymo_run::halo::Stale;
use kymo_run::schedule::{Division, Question};
use kymo_run::step::Seams;
use kymo_run::workers::WorkerGroup;
use kymo_run::{RunContext, Session, Settings, Worker};

use crate::fixture::{Sketch, iterations, rate, run};
use crate::stale::{records, shared};

/// What a worker saw: the losses of all iterations, the parameters in the end, the bytes of rows that it
/// keeps and that it sent.
type Seen = (Vec<f64>, Vec<Vec<f32>>, [usize; 2]);

/// What workers see that keep a share of the rows; rows are exact where there is none.
fn limited(settings: &Settings, share: Option<f64>) -> Vec<Seen> {
    let store = Arc::new(Store::open(settings.data.store.as_ref()).unwrap());
    let context = RunContext::open(settings.clone(), store).unwrap();
    let workers = settings.parallel.workers;
    let division = Division::new(&context, &settings.parallel.strategy, workers).unwrap();
    let told = Mutex::new(vec![None; workers]);
    let work = |group: Arc<WorkerGroup>| {
        let stale = share.map(|share| Arc::new(Stale::new(StaleRule::Fraction(0.5), share)));
        let mut seams = Seams::default();
        stale.iter().for_each(|stale| seams.halo = stale.clone());
        let mut worker = Worker::with(context.clone(), group.clone(), division.shares(), seams).unwrap();
        let mut losses = Vec::new();
        for epoch in 0..3 {
            worker.begin_epoch(epoch, true);
            stale.iter().for_each(|stale| stale.agree(&group).unwrap());
            for iteration in iterations(&context, &division, epoch) {
                losses.push(worker.iterate(&iteration, rate(settings), false).unwrap().loss);
            }
            let _ = stale.as_ref().map(|stale| stale.end_epoch(&group, losses[0]).unwrap());
        }
        let sent = worker.trained.sent.messages as usize;
        let kept = stale.map_or(0, |stale| stale.bytes());
        told.lock().unwrap()[group.rank()] =
            Some((losses, worker.replica.params.values.clone(), [kept, sent]));
    };
    std::thread::scope(|scope| {
        WorkerGroup::in_process(workers).into_iter().for_each(|group| drop(scope.spawn(|| work(group))));
    });
    told.into_inner().unwrap().into_iter().map(Option::unwrap).collect()
}

#[test]
fn rows_there_is_no_room_for_are_sent() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    Sketch::random(36, 30, 13).write(&store);
    let mut settings = shared(&store, "dcrnn", "vertex-hash", 3, "off");
    let exact = limited(&settings, None);
    assert!(limited(&settings, Some(0.0)) == exact, "nothing is kept, and everything is as it is now");
    settings.parallel.stale = "0.5".into();
    let path = folder.path().join("run");
    let session = Session::begin(settings.clone(), &path, &Progress::silent()).unwrap();
    let planned: Vec<_> = session.plan().unwrap().workers.iter().map(|one| one.last_rows.unwrap()).collect();
    assert!(planned.iter().all(|rows| rows.bytes > 0 && rows.share == 1.0));
    settings.parallel.stale = "off".into();
    let [some, all] = [0.4, 1.0].map(|share| limited(&settings, Some(share)));
    for (rank, rows) in planned.iter().enumerate() {
        assert_eq!(all[rank].2[0] as u64, rows.bytes, "all rows are kept, as planned");
        let some = some[rank].2[0] as f64;
        assert!(some > 0.0 && some <= 0.4 * rows.bytes as f64, "{some} of {}", rows.bytes);
    }
    let sent = |of: &[Seen]| of.iter().map(|one| one.2[1]).sum::<usize>();
    assert!(sent(&all) < sent(&some) && sent(&some) < sent(&exact));
    assert!(some.iter().all(|one| one.1 == some[0].1) && some[0].1 != exact[0].1);
}

#[test]
fn memory_that_is_short_keeps_fewer_rows() {
    let folder = tempfile::tempdir().unwrap();
    let (store, path) = (folder.path().join("store"), folder.path().join("run"));
    Sketch::random(38, 40, 13).write(&store);
    let settings = |stale: &str| shared(&store, "gcn-gru", "vertex-hash", 2, stale);
    let plan = |settings: Settings| {
        let store = Store::open(&store).unwrap();
        let context = RunContext::open(settings, Arc::new(store)).unwrap();
        let division = Division::new(&context, "vertex-hash", 2).unwrap();
        let rates = Rates::default();
        let question = Question { strategy: "vertex-hash", workers: 2, reuse: None, sample: None, rates };
        division.plan(&context, &question).unwrap()
    };
    let (exact, all) = (plan(settings("off")), plan(settings("0.5")));
    assert!(exact.workers.iter().all(|share| share.last_rows.is_none()) && exact.note.is_none());
    for (exact, all) in exact.workers.iter().zip(&all.workers) {
        let rows = all.last_rows.unwrap();
        assert!(rows.share == 1.0 && rows.bytes > 0);
        assert_eq!([all.memory, all.most], [exact.memory + rows.bytes, exact.most + rows.bytes]);
    }
    let bytes = all.workers.iter().map(|share| share.last_rows.unwrap().bytes).max().unwrap();
    let mut short = settings("0.5");
    short.run.memory = format!("{}B", 2 * (exact.memory() + bytes / 2));
    let shares = plan(short.clone()).workers;
    let kept = shares.iter().map(|share| share.last_rows.unwrap().share).fold(1.0, f64::min);
    assert!(kept > 0.0 && kept < 1.0, "{kept}");
    let (lines, _) = run(&short, &path);
    assert!(records(&lines).iter().map(|record| record.saved).sum::<u64>() > 0);
    let checkpoint = Checkpoint::read(&Folder::checkpoint_of(&path)).unwrap();
    let arrays = checkpoint.arrays.iter().filter(|(name, _)| name.starts_with("stale."));
    let written: usize = arrays.map(|(_, array)| 4 * array.values.len()).sum();
    // What is sent is received: each of two workers keeps both.
    assert!(written > 0 && written as f64 <= kept * bytes as f64, "{written} of {bytes}, {kept}");
}
