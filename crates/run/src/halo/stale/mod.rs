//! Rows of neighbours that may be those of an earlier pass: adaptive stale aggregation (DGC, section 5.2).
//!
//! A sender keeps, for each receiver, step and exchange of neighbours' rows, the rows that it sent last, and
//! a row is sent again only where its L2 distance to that one is beyond the threshold. The receiver keeps
//! what came last and goes on with it. Distances are to what was sent, so they add up until a row is sent.
//! Windows that have a step in common share what is kept of it. A stale row is a constant of an earlier
//! pass: only for rows that are current do gradients go back. Evaluations are exact and leave no trace here.
//!
//! **The threshold** of an epoch is `f D`: the share `f` by [`StaleRule`], and `D`, the largest distance that
//! any worker measured in the epoch before, in sent rows and others. Workers agree on it at the end of every
//! epoch. In the first epoch it is 0, as nothing was measured and there is no loss to go by: every row that
//! has changed at all is sent. Where no step is in two windows, nothing is measured in that epoch either,
//! and in the second one the threshold is still 0.
//!
//! **Memory.** The rows of a list that are kept, the first of it, are a share of all that is agreed at the
//! beginning: the smallest of what the workers have room for. The others are sent in every pass.

mod kept;
mod rows;
mod rule;

pub use kept::Kept;
pub use rows::{LastRows, RowsKey, Tally};

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kymo_graph::Step;
use kymo_model::Halo;
use kymo_trace::schema::StaleRecord;

use super::{HaloPolicy, StepCells};
use crate::config::StaleRule;
use crate::error::{Error, Result};
use crate::workers::WorkerGroup;

/// Rows arrive as they were sent last, where they have hardly moved since.
pub struct Stale {
    rule: StaleRule,
    memory: Arc<Memory>,
}

/// What a worker keeps, in use by one exchange at a time.
#[derive(Default)]
pub(super) struct Memory(Mutex<State>);

#[derive(Default)]
struct State {
    /// The share of the rows of every list that are kept.
    share: f64,
    /// Whether all workers keep this share.
    agreed: bool,
    /// How far a row may be from what was sent last.
    threshold: f64,
    /// The loss of the first epoch.
    first_loss: Option<f64>,
    sent: LastRows,
    received: LastRows,
    /// What was counted in this epoch, and in all epochs since the worker began.
    epoch: Tally,
    all: Tally,
    /// Whether what an earlier run kept was of no use.
    dropped: bool,
}

impl State {
    /// How many rows of a list are kept.
    fn room(&self, rows: &[u32]) -> usize {
        (self.share * rows.len() as f64) as usize
    }
}

impl Memory {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts gradients that were sent, and those that would have been of exact rows.
    pub(super) fn count(&self, sent: usize, exact: usize) {
        self.lock().epoch.count(sent, exact);
    }

    /// Puts the rows for a worker into a message; those whose gradients come back.
    pub(super) fn compose(
        &self,
        key: RowsKey,
        rows: &[u32],
        values: &[f32],
        message: &mut Vec<f32>,
    ) -> Vec<u32> {
        let mut state = self.lock();
        let (room, threshold) = (state.room(rows), state.threshold);
        let State { sent, epoch, .. } = &mut *state;
        let mut none = Vec::new();
        let last = if room > 0 { sent.entry(key).or_default() } else { &mut none };
        rows::compose(rows, values, key.columns, (last, room), threshold, (epoch, message))
    }

    /// Takes the rows of a message; those whose gradients go back.
    pub(super) fn take(
        &self,
        key: RowsKey,
        rows: &[u32],
        message: &[f32],
        each: &mut dyn FnMut(usize, &[f32]),
    ) -> Result<Vec<u32>, String> {
        let mut state = self.lock();
        let room = state.room(rows);
        let mut none = Vec::new();
        let last = if room > 0 { state.received.entry(key).or_default() } else { &mut none };
        rows::take(rows, message, key.columns, (last, room), each)
    }
}

/// What there is to a step where rows may be stale.
pub(super) struct StaleStep {
    pub(super) memory: Arc<Memory>,
    pub(super) step: Step,
    next: AtomicUsize,
}

impl StaleStep {
    /// The number of the next exchange of neighbours' rows.
    pub(super) fn next(&self) -> usize {
        self.next.fetch_add(1, Ordering::Relaxed)
    }
}

impl HaloPolicy for Stale {
    fn at(&self, exact: StepCells) -> Box<dyn Halo> {
        let (step, trains) = (exact.exchanges.step(), exact.exchanges.trains());
        let memory = self.memory.clone();
        let stale = trains.then(|| StaleStep { memory, step, next: AtomicUsize::new(0) });
        Box::new(StepCells { stale, ..exact })
    }
}

impl Stale {
    /// Before the first epoch, where this share of the rows can be kept.
    pub fn new(rule: StaleRule, share: f64) -> Stale {
        let state = State { share: share.clamp(0.0, 1.0), ..State::default() };
        Stale { rule, memory: Arc::new(Memory(Mutex::new(state))) }
    }

    /// Agrees with all workers on the share of rows that are kept, once. All workers come here together.
    pub fn agree(&self, group: &WorkerGroup) -> Result<()> {
        let (share, agreed) = {
            let state = self.memory.lock();
            (state.share, state.agreed)
        };
        if agreed {
            return Ok(());
        }
        let told = group.all_gather(&share.to_le_bytes())?;
        let mut least = share;
        for (rank, bytes) in told.iter().enumerate() {
            let bytes = bytes[..].try_into().map_err(|_| wrong(rank))?;
            least = least.min(f64::from_le_bytes(bytes));
        }
        let mut state = self.memory.lock();
        (state.share, state.agreed) = (least, true);
        Ok(())
    }

    /// Ends an epoch with this loss: what all workers counted, and the threshold of the next one. All workers
    /// come here together.
    pub fn end_epoch(&self, group: &WorkerGroup, loss: f64) -> Result<StaleRecord> {
        let mine = self.memory.lock().epoch;
        let mut all = Tally::default();
        for (rank, bytes) in group.all_gather(&mine.to_bytes())?.iter().enumerate() {
            all.add(&Tally::from_bytes(bytes).ok_or_else(|| wrong(rank))?);
        }
        let mut state = self.memory.lock();
        let record = StaleRecord {
            sent: all.sent,
            saved: all.saved(),
            error: all.error(),
            threshold: state.threshold,
            distance: all.largest,
        };
        let first = *state.first_loss.get_or_insert(loss);
        state.threshold = self.rule.share(first, loss) * all.largest;
        state.all.add(&mine);
        state.epoch = Tally::default();
        Ok(record)
    }

    /// What this worker counted in all epochs that it was there for.
    pub fn counted(&self) -> Tally {
        self.memory.lock().all
    }

    /// Bytes of the rows that are kept.
    pub fn bytes(&self) -> usize {
        let state = self.memory.lock();
        let all = state.sent.values().chain(state.received.values());
        all.map(|rows| size_of_val(rows.as_slice())).sum()
    }

    /// A word where nothing could be made of what an earlier run kept; said once.
    pub fn note(&self) -> Option<String> {
        let dropped = std::mem::take(&mut self.memory.lock().dropped);
        dropped.then(|| {
            "workers or their strategy are others than before: rows that were sent to those are forgotten, \
             and all rows are sent until thresholds are measured again"
                .into()
        })
    }

    /// What all workers keep, at the first one. All workers come here together.
    pub fn gathered(&self, group: &WorkerGroup) -> Result<Option<Kept>> {
        let mine = {
            let state = self.memory.lock();
            kept::written(&state.epoch, &state.sent)
        };
        let Some(told) = group.gather(&mine)? else { return Ok(None) };
        let mut kept = {
            let state = self.memory.lock();
            Kept { first_loss: state.first_loss, threshold: state.threshold, ..Kept::default() }
        };
        for (rank, bytes) in told.into_iter().enumerate() {
            let (tally, sent) = kept::read(&bytes).ok_or_else(|| wrong(rank))?;
            kept.tallies.push(tally);
            kept.sent.push(sent);
        }
        Ok(Some(kept))
    }

    /// Goes on from what all workers kept, as one of them.
    pub fn restore(&self, kept: &Kept, rank: usize) {
        let mut state = self.memory.lock();
        (state.first_loss, state.threshold) = (kept.first_loss, kept.threshold);
        state.epoch = kept.tallies.get(rank).copied().unwrap_or_default();
        state.sent = kept.sent.get(rank).cloned().unwrap_or_default();
        // What came from another worker is what that one sent.
        state.received = kept.received(rank);
    }

    /// Goes on after others, or after a run that shared the work in another way: what rows they kept is of
    /// no use.
    pub fn begin_anew(&self, kept: &Kept) {
        let mut state = self.memory.lock();
        (state.first_loss, state.dropped) = (kept.first_loss, true);
    }
}

fn wrong(rank: usize) -> Error {
    Error::peer(rank, "sent something that is no account of stale rows")
}
