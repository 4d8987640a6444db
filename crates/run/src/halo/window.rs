//! A window at one worker, and the names of the exchanges that happen in it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use kymo_graph::{Step, Vertex};
use kymo_model::Halo;
use kymo_plan::Ownership;

use crate::workers::{RowTag, WorkerGroup};

/// What a forward pass is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pass {
    /// The epoch it belongs to.
    pub epoch: usize,
    /// Whether it is trained on; evaluated otherwise.
    pub trains: bool,
}

/// Names the exchanges at a step of a window, one after the other.
///
/// Every worker runs the same model, so all of them ask for the same exchanges in the same order.
pub struct Exchanges {
    step: Step,
    pass: Pass,
    next: AtomicU16,
}

impl Exchanges {
    /// Before the first exchange at a step.
    pub fn new(step: Step, pass: Pass) -> Exchanges {
        Exchanges { step, pass, next: AtomicU16::new(0) }
    }

    /// The step.
    pub fn step(&self) -> Step {
        self.step
    }

    /// Whether it is trained on; evaluated otherwise.
    pub fn trains(&self) -> bool {
        self.pass.trains
    }

    /// The name of the next exchange.
    pub fn next(&self) -> RowTag {
        let layer = self.next.fetch_add(1, Ordering::Relaxed);
        let (epoch, step) = (self.pass.epoch as u32, self.step as u32);
        RowTag { epoch, step, layer, backward: false, evaluates: !self.pass.trains }
    }
}

/// A window at one worker.
pub struct Window {
    /// The worker among others.
    pub group: Arc<WorkerGroup>,
    /// The way to the rows of others at each step.
    pub steps: Vec<Box<dyn Halo>>,
    /// Whether vertices change their owners when rows are computed: then rows are computed step by step.
    pub moves: bool,
    /// The vertices that are here when the rows of each step are computed.
    pub own: Vec<Arc<Vec<Vertex>>>,
    /// Who has which, then.
    pub owners: Vec<Ownership>,
    /// The names of the exchanges at each step.
    pub(super) exchanges: Vec<Arc<Exchanges>>,
}

impl Window {
    /// The name of the next exchange at a place of the window.
    pub fn tag(&self, place: usize) -> RowTag {
        self.exchanges[place].next()
    }
}
