//! Snapshots that are read before their turn: the right ones, within their room, whatever goes wrong.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kymo_graph::{Step, Store};
use kymo_model::zoo;
use kymo_model::{Asked, Graph};
use kymo_plan::{Neighbourhood, Ownership};
use kymo_run::data::{Piece, Room, SnapshotSource, Snapshots, StepRows, Surroundings};
use kymo_run::{Error, Result, Worker, task};
use kymo_trace::{Kind, Recorder};

use super::fixture::{Sketch, settings};

/// Steps whose one feature is their number, and what was asked for so far.
#[derive(Default)]
struct Numbers {
    reads: Mutex<Vec<Step>>,
    fails_at: Option<Step>,
    panics: AtomicBool,
}

impl SnapshotSource for Numbers {
    fn read(&self, t: Step, _: Option<&Ownership>) -> Result<Piece> {
        self.reads.lock().unwrap().push(t);
        std::thread::sleep(Duration::from_micros(200));
        if self.fails_at == Some(t) {
            return Err(Error::settings("store", format!("step {t} is damaged")));
        }
        let main = std::thread::current().name() != Some("reader");
        if !main && self.panics.swap(false, Ordering::SeqCst) {
            panic!("a reader breaks down");
        }
        let graph = Graph::from_edges(3, &[(0, 1, 1.0)]).unwrap().reduced(Asked::default()).unwrap();
        let rows = StepRows::Own(vec![t as f32; 25].into());
        Ok(Piece { graph, rows, vertices: None, neighbours: None })
    }

    fn check(&self, _: &Neighbourhood) -> Result<()> {
        Ok(())
    }
}

fn store(folder: &tempfile::TempDir) -> Arc<Store> {
    Sketch::random(3, 6, 40).write(&folder.path().join("store"))
}

fn snapshots(store: &Arc<Store>, source: Arc<Numbers>, room: Room) -> (Snapshots, Arc<Recorder>) {
    let recorder = Arc::new(Recorder::new(0));
    let around = Surroundings { cells: None, recorder: recorder.clone(), device: None };
    (Snapshots::new(store.clone(), source, room, around), recorder)
}

/// Windows of an epoch in some order.
fn windows(seed: usize) -> Vec<Range<Step>> {
    (0..37).map(|place| (place * 11 + seed) % 37).map(|start| start..start + 4).collect()
}

fn number(rows: &StepRows) -> f32 {
    match rows {
        StepRows::Own(rows) => rows[0],
        StepRows::Shared(_) => f32::NAN,
    }
}

const ROOM: Room = Room {
    whole_products: false,
    snapshots: 0,
    products: Some(0),
    ahead: 3,
    windows: 16,
    readers: 2,
    holds_all: false,
    step: 100,
    passing: 0,
    releases: true,
};

#[test]
fn every_window_gets_its_steps_however_little_room_there_is() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder);
    for (kept, ahead, readers, holds_all) in [
        (0, 1, 1, false),
        (0, 3, 2, false),
        (1_000, 3, 2, false),
        (100_000, 4, 3, false),
        (100_000, 4, 3, true),
    ] {
        let source = Arc::new(Numbers::default());
        let room = Room { snapshots: kept, ahead, readers, holds_all, ..ROOM };
        let (snapshots, recorder) = snapshots(&store, source.clone(), room);
        for epoch in 0..3 {
            snapshots.look_ahead(windows(epoch));
            for window in windows(epoch) {
                let (loaded, waited) = snapshots.window(&window).unwrap();
                let steps: Vec<Step> = loaded.iter().map(|loaded| loaded.step).collect();
                assert_eq!((steps, waited.len()), (window.clone().collect(), 4));
                assert!(loaded.iter().all(|loaded| number(&loaded.rows) == loaded.step as f32));
                // Those of the window, those ahead, those that are being read, and those that are kept.
                let most = 4 + ahead + readers + kept / 100;
                // Readers go on meanwhile, and nothing goes before the next window.
                let (before, bytes) = (snapshots.held_steps(), snapshots.held_bytes());
                let after = snapshots.held_steps();
                assert!(after <= most, "{after} of {most}");
                assert!((100 * before..=100 * after).contains(&bytes), "{before} {bytes} {after}");
            }
        }
        let reads = source.reads.lock().unwrap().clone();
        let distinct: BTreeSet<Step> = reads.iter().copied().collect();
        assert_eq!(distinct.len(), 40);
        assert_eq!(reads.len() == 40, kept == 100_000, "what is kept is read once, and only that");
        assert!(recorder.totals().of(Kind::Prepare).count > 0, "nobody read ahead");
        let reading = snapshots.reading();
        assert!(reading.spent > 0.0 && reading.waited > 0.0, "{reading:?}");
        assert_eq!(snapshots.left()[0], kept.saturating_sub(4_000).max(kept % 100), "{kept}");
    }
}

/// Where all steps stay, a reader begins where a step is stored whole and goes on in the order of time; the
/// part that is needed first comes first.
#[test]
fn readers_follow_time_where_all_steps_stay() {
    let folder = tempfile::tempdir().unwrap();
    let (store, source) = (store(&folder), Arc::new(Numbers::default()));
    let whole: Vec<Step> = (0..40).filter(|&t| store.is_whole(t).unwrap()).collect();
    assert!((2..20).contains(&whole.len()), "{whole:?}");
    let room = Room { snapshots: 100_000, readers: 1, holds_all: true, ..ROOM };
    let (snapshots, _) = snapshots(&store, source.clone(), room);
    assert!(snapshots.holds_all());
    snapshots.look_ahead(windows(5));
    while snapshots.held_steps() < 40 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let reads = source.reads.lock().unwrap().clone();
    assert_eq!(reads.len(), 40);
    let first = *whole.iter().rfind(|&&t| t <= windows(5)[0].start).unwrap();
    assert_eq!(reads[0], first);
    for pair in reads.windows(2) {
        assert!(pair[1] == pair[0] + 1 || whole.contains(&pair[1]), "{reads:?}");
    }
}

/// Nobody waits for a step that comes late because a reader took another window first: what was not expected
/// is read at once.
#[test]
fn windows_that_nobody_expected_are_read_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let (snapshots, recorder) = snapshots(&store(&folder), Arc::new(Numbers::default()), ROOM);
    for window in windows(1) {
        assert_eq!(snapshots.window(&window).unwrap().0.len(), 4);
    }
    assert_eq!(recorder.totals().of(Kind::Prepare).count, 0);
}

/// An epoch that goes on in the middle expects windows that never come.
#[test]
fn windows_that_are_passed_over_are_not_read_for_ever() {
    let folder = tempfile::tempdir().unwrap();
    let source = Arc::new(Numbers::default());
    let (snapshots, _) = snapshots(&store(&folder), source.clone(), ROOM);
    snapshots.look_ahead(windows(0));
    let left = &windows(0)[20..];
    for window in left {
        std::thread::sleep(Duration::from_millis(1));
        snapshots.window(window).unwrap();
    }
    let reads = source.reads.lock().unwrap().len();
    // The first windows may have been read before anybody said that they are not needed.
    assert!(reads <= 4 * left.len() + 2 * ROOM.ahead + 4, "{reads}");
}

#[test]
fn an_error_comes_out_where_its_step_is_needed() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(&folder);
    for holds_all in [false, true] {
        let source = Arc::new(Numbers { fails_at: Some(9), ..Numbers::default() });
        let room = Room { snapshots: 100_000 * usize::from(holds_all), ahead: 20, holds_all, ..ROOM };
        let (snapshots, _) = snapshots(&store, source.clone(), room);
        let all: Vec<_> = (0..36).step_by(4).map(|start| start..start + 4).collect();
        snapshots.look_ahead(all.clone());
        for window in all {
            // The reader is far ahead.
            std::thread::sleep(Duration::from_millis(5));
            let read = snapshots.window(&window);
            match window.contains(&9) {
                true => assert_eq!(read.err().unwrap().to_string(), "store: step 9 is damaged"),
                false => assert_eq!(read.unwrap().0.len(), 4),
            }
        }
        let tries = source.reads.lock().unwrap().iter().filter(|&&t| t == 9).count();
        assert!(tries <= 4, "nobody tries again and again: {tries}");
    }
}

#[test]
fn a_reader_that_breaks_down_leaves_nobody_waiting() {
    let folder = tempfile::tempdir().unwrap();
    let source = Arc::new(Numbers { panics: true.into(), ..Numbers::default() });
    let (snapshots, _) = snapshots(&store(&folder), source.clone(), ROOM);
    snapshots.look_ahead(windows(0));
    std::thread::sleep(Duration::from_millis(20));
    for window in windows(0) {
        assert_eq!(snapshots.window(&window).unwrap().0.len(), 4);
    }
    assert!(!source.panics.load(Ordering::SeqCst), "it broke down");
}

/// What all snapshots take is known beforehand, for every model.
#[test]
fn sizes_are_what_is_held() {
    let folder = tempfile::tempdir().unwrap();
    let stores = Sketch::random(5, 3000, 12).write_both(&folder.path().join("store"));
    for recipe in zoo::ALL {
        for task in task::ALL {
            let store = stores.of(task.name());
            for layers in [1, 2] {
                let mut settings = settings(store.path(), task.name(), recipe.name);
                settings.model.layers = layers;
                let worker = Worker::open(settings, store.clone()).unwrap();
                (0..store.steps()).for_each(|t| drop(worker.snapshots().window(&(t..t + 1)).unwrap()));
                assert_eq!(worker.snapshots().held_steps(), store.steps());
                let sizes = worker.context.sizes().unwrap();
                let ratio = sizes.all() as f64 / worker.snapshots().held_bytes() as f64;
                assert!((0.95..1.05).contains(&ratio), "{} {} {ratio}", recipe.name, task.name());
            }
        }
    }
}
