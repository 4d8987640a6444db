//! Snapshots in memory: kept as far as the memory of the run allows, read ahead of those who need them.
//!
//! Training goes round and round, and a cache that throws out the oldest of a circle throws out the one that
//! is needed next: so those that are read first are kept, and the others pass through, each as long as the
//! windows around it. The one who trains says which windows come next ([`Snapshots::look_ahead`]); readers
//! prepare their steps meanwhile ([`super::ahead`]).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use kymo_graph::{Step, Store, Vertex};
use kymo_model::{Budget, Graph, Nearby, ReuseSlots};
use kymo_plan::price::part_lists;
use kymo_plan::shares::OwnersKey;
use kymo_plan::{Neighbourhood, Ownership};
use kymo_tensor::Device;
use kymo_trace::Recorder;

use super::ahead::Readers;
use super::room::Room;
use super::segment::Segment;
use super::source::{Piece, SnapshotSource, StepRows};
use crate::error::Result;
use crate::halo::{Cells, Neighbours};

/// A snapshot in memory.
pub struct Loaded {
    /// Its step.
    pub step: Step,
    /// Its edges.
    pub graph: Graph,
    /// The constant columns of its vertices, and below them those of their neighbours elsewhere.
    pub rows: StepRows,
    /// The vertices of those rows, where they are not all.
    pub vertices: Option<Arc<Vec<Vertex>>>,
    /// What is kept of its products.
    pub slots: ReuseSlots,
    /// What is elsewhere, where not all of it is here.
    pub neighbours: Option<Arc<Neighbours>>,
}

impl Loaded {
    /// Bytes of what is its own.
    fn bytes(&self) -> usize {
        let own = match &self.rows {
            StepRows::Own(rows) => 4 * rows.len(),
            StepRows::Shared(_) => 0,
        };
        let lists = self.vertices.as_ref().zip(self.neighbours.as_ref()).map(|(vertices, neighbours)| {
            let route = &neighbours.route;
            let moved = (route.rows_sent() + route.rows_received()) as u64;
            part_lists(vertices.len() as u64, moved) + neighbours.bytes()
        });
        own + self.graph.bytes() as usize + lists.unwrap_or(0) as usize
    }

    /// What it shares with other steps.
    fn segment(&self) -> Option<&Arc<Segment>> {
        match &self.rows {
            StepRows::Own(_) => None,
            StepRows::Shared(segment) => Some(segment),
        }
    }
}

/// A step, and who owns its vertices where they are not all here.
pub(super) type Key = (Step, Option<OwnersKey>);

/// Steps whose products may share rows.
const NEARBY: usize = 64;

/// The snapshots of a run.
pub struct Snapshots {
    shared: Arc<Shared>,
    readers: Readers,
}

/// What snapshots are read for.
pub struct Surroundings {
    /// Who owns what, where not everything is here.
    pub cells: Option<Arc<Cells>>,
    /// Where the time goes.
    pub recorder: Arc<Recorder>,
    /// Where they are needed, if not in the memory of the host.
    pub device: Option<Device>,
}

/// What those who train and those who read ahead have in common.
pub(super) struct Shared {
    pub(super) store: Arc<Store>,
    source: Arc<dyn SnapshotSource>,
    pub(super) cells: Option<Arc<Cells>>,
    /// For snapshots and features.
    pub(super) budget: Arc<Budget>,
    /// For products, beside what all snapshots take.
    products: Arc<Budget>,
    pub(super) room: Room,
    pub(super) recorder: Arc<Recorder>,
    device: Option<Device>,
    /// Of each step, the nearest one before that is stored whole.
    pub(super) beginning: OnceLock<Vec<Step>>,
    pub(super) state: Mutex<State>,
    /// Something was read, is wanted, or is no longer.
    pub(super) changed: Condvar,
    /// Nanoseconds that reading took, at all who read, and that others waited for it.
    spent: [AtomicU64; 2],
}

#[derive(Default)]
pub(super) struct State {
    pub(super) kept: BTreeMap<Key, Arc<Loaded>>,
    passing: BTreeMap<Key, Arc<Loaded>>,
    segments: BTreeMap<Step, Arc<Segment>>,
    /// Products of steps that are near each other.
    nearby: BTreeMap<Key, Arc<Nearby>>,
    /// Whether a step did not fit: then others pass through as well.
    pub(super) is_full: bool,
    /// Those that somebody is reading.
    pub(super) reading: BTreeSet<Key>,
    /// Those of the window that is being worked on.
    pub(super) now: BTreeSet<Key>,
    /// The windows that come next.
    pub(super) next: VecDeque<Range<Step>>,
    /// Those whose steps a reader is going through.
    pub(super) taken: Vec<Range<Step>>,
    /// Steps that are good to begin at, in the order in which what follows them is needed.
    pub(super) beginnings: VecDeque<Step>,
    pub(super) ended: bool,
}

impl State {
    pub(super) fn get(&self, key: &Key) -> Option<&Arc<Loaded>> {
        self.kept.get(key).or_else(|| self.passing.get(key))
    }
}

/// Where the time for snapshots went, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reading {
    /// Spent on reading and preparing them, at all readers together.
    pub spent: f64,
    /// That those who needed one waited for it.
    pub waited: f64,
}

impl Snapshots {
    /// Snapshots from `source` in this room.
    pub fn new(
        store: Arc<Store>,
        source: Arc<dyn SnapshotSource>,
        room: Room,
        Surroundings { cells, recorder, device }: Surroundings,
    ) -> Snapshots {
        let budget = Budget::new(room.snapshots);
        source.read_by(room.readers);
        let shared = Shared {
            store,
            source,
            cells,
            products: room.products.map_or(budget.clone(), Budget::new),
            budget,
            room,
            recorder,
            device,
            beginning: OnceLock::new(),
            state: Mutex::default(),
            changed: Condvar::new(),
            spent: Default::default(),
        };
        Snapshots { shared: Arc::new(shared), readers: Readers::default() }
    }

    /// The store.
    pub fn store(&self) -> &Store {
        &self.shared.store
    }

    /// Bytes that nothing has taken yet: of those for snapshots, and of those for products.
    pub fn left(&self) -> [usize; 2] {
        [self.shared.budget.left(), self.shared.products.left()]
    }

    /// Fails unless batches can have this neighbourhood.
    pub fn check(&self, neighbourhood: &Neighbourhood) -> Result<()> {
        self.shared.source.check(neighbourhood)
    }

    /// How many snapshots there is room for, of those of the store.
    pub fn fitting(&self) -> usize {
        let room = &self.shared.room;
        (room.snapshots / room.step.max(1)).min(self.store().steps())
    }

    /// Bytes of the snapshots in memory, of their features, and of what is kept of their products.
    pub fn held_bytes(&self) -> usize {
        let state = self.shared.state();
        bytes(state.kept.values().chain(state.passing.values()), |_| true)
    }

    /// How many snapshots are in memory.
    pub fn held_steps(&self) -> usize {
        let state = self.shared.state();
        state.kept.len() + state.passing.len()
    }

    /// Where the time went so far.
    pub fn reading(&self) -> Reading {
        let [spent, waited] =
            [0, 1].map(|place: usize| self.shared.spent[place].load(Ordering::Relaxed) as f64 * 1e-9);
        Reading { spent, waited }
    }

    /// Whether all steps stay once they have been read.
    pub fn holds_all(&self) -> bool {
        self.shared.room.holds_all
    }

    /// Says which windows come next, in order; what was said before is forgotten.
    pub fn look_ahead(&self, windows: Vec<Range<Step>>) {
        let mut state = self.shared.state();
        let missing = |window: &Range<Step>| {
            window.clone().any(|t| !state.kept.contains_key(&self.shared.key(t, window).0))
        };
        // Those whose steps are all there would only be in the way.
        state.next = windows.into_iter().filter(missing).collect();
        if !state.next.is_empty() {
            state.beginnings = self.shared.beginnings(&state);
            self.readers.wake(&self.shared);
            self.shared.changed.notify_all();
        }
    }

    /// The snapshots of a window, and the seconds that each was waited for.
    pub fn window(&self, window: &Range<Step>) -> Result<(Vec<Arc<Loaded>>, Vec<f64>)> {
        self.shared.begin(window);
        let one = |t: Step| {
            let begun = Instant::now();
            let loaded = self.shared.get(t, window)?;
            let waited = begun.elapsed();
            self.shared.spend(1, waited);
            Ok((loaded, waited.as_secs_f64()))
        };
        let read = window.clone().map(one).collect::<Result<Vec<_>>>()?;
        Ok(read.into_iter().unzip())
    }
}

impl Shared {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        // A panic while it is held leaves nothing half done.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn wait<'s>(&self, state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    fn spend(&self, place: usize, time: Duration) {
        self.spent[place].fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
    }

    /// The name of a step in a window, and who owns its vertices.
    pub(super) fn key(&self, t: Step, window: &Range<Step>) -> (Key, Option<Ownership>) {
        let owners = self.cells.as_ref().map(|cells| cells.shares.structure(window, t));
        ((t, owners.as_ref().map(Ownership::key)), owners)
    }

    /// Turns to a window: what passes through and is not needed soon goes.
    fn begin(&self, window: &Range<Step>) {
        let mut state = self.state();
        // Where all is there, nobody needs to know: to wake readers for nothing would cost more than a small
        // window does.
        if state.next.is_empty() && state.passing.is_empty() {
            return;
        }
        // Those before it were passed over: an epoch may go on where it was interrupted.
        if let Some(place) = state.next.iter().position(|next| next == window) {
            state.next.drain(..=place);
        }
        state.now = window.clone().map(|t| self.key(t, window).0).collect();
        let State { kept, passing, now, next, .. } = &mut *state;
        if !passing.is_empty() {
            let steps = next.iter().flat_map(|window| window.clone().map(move |t| (t, window)));
            let keys = steps.map(|(t, window)| self.key(t, window).0);
            let soon = keys.filter(|key| !kept.contains_key(key) && !now.contains(key)).take(self.room.ahead);
            let soon: BTreeSet<Key> = soon.collect();
            let goes = |key: &&Key| !now.contains(key) && !soon.contains(key);
            let gone: Vec<Key> = passing.keys().filter(goes).copied().collect();
            let gone: Vec<Arc<Loaded>> = gone.iter().filter_map(|key| passing.remove(key)).collect();
            self.keep_rest(&state);
            drop(state);
            // What others still have goes when they are done.
            drop(gone);
        } else if self.follows_time() {
            // Readers go on whichever window it is.
            return;
        } else {
            drop(state);
        }
        self.changed.notify_all();
    }

    /// The snapshot of step `t` of a window: read now, unless it is there or on its way.
    pub(super) fn get(&self, t: Step, window: &Range<Step>) -> Result<Arc<Loaded>> {
        let (key, owners) = self.key(t, window);
        let mut state = self.state();
        loop {
            if let Some(loaded) = state.get(&key) {
                return Ok(loaded.clone());
            }
            if state.reading.insert(key) {
                break;
            }
            state = self.wait(state);
        }
        drop(state);
        // Whatever happens to the reader, others must not wait for it for ever.
        let _reading = Mark { shared: self, key };
        let begun = Instant::now();
        let Piece { graph, rows, vertices, neighbours } = self.source.read(t, owners.as_ref())?;
        match &self.device {
            Some(device) => {
                graph.bring(device)?;
                rows.bring(device, t)?;
            }
            None => graph.complete(),
        }
        if self.room.releases {
            // Features of a segment are those of later steps, too.
            self.store.has_read(self.room.step);
        }
        self.spend(0, begun.elapsed());
        let slots = match self.room.whole_products {
            true => ReuseSlots::new(self.products.clone()),
            false => {
                let nearby = self.state().nearby.entry((t / NEARBY, key.1)).or_default().clone();
                ReuseSlots::near(self.products.clone(), nearby)
            }
        };
        Ok(self.put(key, Loaded { step: t, graph, rows, vertices, slots, neighbours }))
    }

    fn put(&self, key: Key, loaded: Loaded) -> Arc<Loaded> {
        let loaded = Arc::new(loaded);
        let mut state = self.state();
        if let Some(segment) = loaded.segment()
            && !state.segments.contains_key(&segment.steps.start)
            && self.budget.take(segment.bytes())
        {
            state.segments.insert(segment.steps.start, segment.clone());
        }
        // A step that stays keeps its features: there must be room for those as well.
        let is_held = |segment: &Arc<Segment>| state.segments.contains_key(&segment.steps.start);
        let fits = loaded.segment().is_none_or(is_held) && self.budget.take(loaded.bytes());
        let place = if fits { &mut state.kept } else { &mut state.passing };
        place.insert(key, loaded.clone());
        if !fits {
            state.is_full = true;
            self.keep_rest(&state);
        }
        loaded
    }

    /// What passes through takes less than it may: the rest is for what is to be used again.
    fn keep_rest(&self, state: &State) {
        let taken =
            bytes(state.passing.values(), |segment| !state.segments.contains_key(&segment.steps.start));
        self.source.keep_up_to(self.room.passing.saturating_sub(taken));
    }
}

/// Bytes of some snapshots, of what is kept of their products, and of those of their features that count.
fn bytes<'l>(all: impl Iterator<Item = &'l Arc<Loaded>>, counts: impl Fn(&Segment) -> bool) -> usize {
    let (mut bytes, mut segments) = (0, BTreeSet::new());
    for loaded in all {
        bytes += loaded.bytes() + loaded.slots.bytes();
        if let Some(segment) = loaded.segment().filter(|segment| counts(segment))
            && segments.insert(Arc::as_ptr(segment))
        {
            bytes += segment.bytes();
        }
    }
    bytes
}

/// That somebody is reading a step; gone when they are done, or dead.
struct Mark<'s> {
    shared: &'s Shared,
    key: Key,
}

impl Drop for Mark<'_> {
    fn drop(&mut self) {
        self.shared.state().reading.remove(&self.key);
        self.shared.changed.notify_all();
    }
}

impl Drop for Snapshots {
    fn drop(&mut self) {
        self.shared.state().ended = true;
        self.shared.changed.notify_all();
        self.readers.join();
    }
}
