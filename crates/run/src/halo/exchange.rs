//! One exchange of rows along a route, and of their gradients along the route reversed: of all rows as they
//! are now, or, between neighbours in training, of those that have moved (DGC, section 5.2).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use kymo_graph::Step;
use kymo_plan::Route;
use kymo_tensor::Result;

use super::moved::inside;
use super::stale::{Memory, RowsKey};
use crate::workers::{RowTag, WorkerGroup};

/// An exchange between a worker and the others.
pub(super) struct Exchange {
    pub(super) group: Arc<WorkerGroup>,
    pub(super) route: Arc<Route>,
    tag: RowTag,
    stale: Option<StaleRows>,
}

/// An exchange in which rows may stay as they were.
struct StaleRows {
    memory: Arc<Memory>,
    step: Step,
    number: usize,
    live: Mutex<Live>,
}

/// For each worker, the rows that are current in this pass: their gradients come back, or go back.
#[derive(Default)]
struct Live {
    sent: Vec<Vec<u32>>,
    received: Vec<Vec<u32>>,
}

impl StaleRows {
    fn live(&self) -> MutexGuard<'_, Live> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn key(&self, other: usize, columns: usize) -> RowsKey {
        RowsKey { other, step: self.step, exchange: self.number, columns }
    }
}

impl Exchange {
    /// One in which all rows are sent.
    pub fn exact(group: Arc<WorkerGroup>, route: Arc<Route>, tag: RowTag) -> Exchange {
        Exchange { group, route, tag, stale: None }
    }

    /// The same, where rows may stay as they were in the exchange of this number at this step.
    pub fn stale(self, memory: Arc<Memory>, step: Step, number: usize) -> Exchange {
        let live = Live { sent: vec![Vec::new(); self.group.size()], received: Vec::new() };
        Exchange { stale: Some(StaleRows { memory, step, number, live: Mutex::new(live) }), ..self }
    }

    /// Sends rows of a matrix; when that was.
    pub fn send(&self, values: &[f32], columns: usize) -> Result<Instant> {
        let Some(stale) = &self.stale else {
            return self.group.send(self.tag, &self.route.sends, values, columns).map_err(inside);
        };
        let mut live = stale.live();
        let fill = |to: usize, rows: &[u32], message: &mut Vec<f32>| {
            live.sent[to] = stale.memory.compose(stale.key(to, columns), rows, values, message);
        };
        self.group.send_each(self.tag, &self.route.sends, columns, fill).map_err(inside)
    }

    /// Takes the rows of others: `put` gets the number of each row here, and its values.
    pub fn receive(&self, columns: usize, sent: Instant, mut put: impl FnMut(usize, &[f32])) -> Result<()> {
        let receives = &self.route.receives;
        let Some(stale) = &self.stale else {
            return self.group.receive(self.tag, receives, columns, sent, put).map_err(inside);
        };
        let mut live = stale.live();
        live.received = vec![Vec::new(); receives.len()];
        let take = |from: usize, rows: &[u32], message: &[f32]| {
            live.received[from] = stale.memory.take(stale.key(from, columns), rows, message, &mut put)?;
            Ok(())
        };
        self.group.receive_each(self.tag, receives, sent, take).map_err(inside)
    }

    /// Sends gradients of the rows of others, as far as these are current; when that was.
    pub fn send_back(&self, gradients: &[f32], columns: usize) -> Result<Instant> {
        let (all, tag) = (&self.route.receives, self.tag.back());
        let Some(stale) = &self.stale else {
            return self.group.send(tag, all, gradients, columns).map_err(inside);
        };
        let live = stale.live();
        let me = self.group.rank();
        let count = |lists: &[Vec<u32>]| {
            let others = lists.iter().enumerate().filter(|(worker, _)| *worker != me);
            others.map(|(_, rows)| rows.len() * columns).sum()
        };
        stale.memory.count(count(&live.received), count(all));
        self.group.send(tag, &live.received, gradients, columns).map_err(inside)
    }

    /// Takes the gradients of rows that others have as they are now: `sum` gets the number of each row here.
    pub fn receive_back(&self, columns: usize, sent: Instant, sum: impl FnMut(usize, &[f32])) -> Result<()> {
        let tag = self.tag.back();
        let Some(stale) = &self.stale else {
            return self.group.receive(tag, &self.route.sends, columns, sent, sum).map_err(inside);
        };
        self.group.receive(tag, &stale.live().sent, columns, sent, sum).map_err(inside)
    }
}
