//! Rows of other workers: what a worker has of a window that is cut into cells (vertex x step), and how the
//! rest arrives. Touches messages, routes and the engine; knows no task and no optimiser.
//!
//! Rows of neighbours are exchanged before each layer of structure; a state goes with its vertex from the
//! owner at one step to the owner at the next; where a partition has owners of its own for the time encoder,
//! rows move there in between. All of it is rows along routes, and gradients go back along the routes
//! reversed, so the result is that of one worker. Who owns what is decided by [`kymo_plan::Shares`]. On
//! request rows of neighbours are those of an earlier pass where they have hardly moved since ([`Stale`]).

mod exchange;
mod moved;
mod product;
mod stale;
mod step;
mod window;

pub use moved::moved;
pub use stale::{Kept, LastRows, RowsKey, Stale, Tally};
pub use step::{Neighbours, StepCells};
pub use window::{Exchanges, Pass, Window};

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use kymo_graph::{Snapshot, Step, Vertex};
use kymo_model::Halo;
use kymo_plan::shares::OwnersKey;
use kymo_plan::{HaloRows, Ownership, Route, Shares};

use crate::workers::WorkerGroup;

/// How rows of neighbours elsewhere arrive at a step, made from the exact way.
pub trait HaloPolicy: Send + Sync {
    /// The way to the rows of others at one step of a window.
    fn at(&self, exact: StepCells) -> Box<dyn Halo>;
}

/// Rows arrive as their owners have them now.
pub struct Exact;

impl HaloPolicy for Exact {
    fn at(&self, exact: StepCells) -> Box<dyn Halo> {
        Box::new(exact)
    }
}

/// The cells of a worker.
pub struct Cells {
    /// The worker among others.
    pub group: Arc<WorkerGroup>,
    /// Who has what.
    pub shares: Shares,
    policy: Arc<dyn HaloPolicy>,
    routes: Mutex<BTreeMap<[OwnersKey; 2], Arc<Route>>>,
}

impl Cells {
    /// The cells of `group`'s worker.
    pub fn new(group: Arc<WorkerGroup>, shares: Shares, policy: Arc<dyn HaloPolicy>) -> Cells {
        Cells { group, shares, policy, routes: Mutex::default() }
    }

    /// What the worker has to know of a snapshot.
    pub fn halo(&self, snapshot: &Snapshot<'_>, owners: &Ownership) -> HaloRows {
        self.shares.halo(snapshot, owners, self.group.rank())
    }

    /// The worker's vertices.
    pub fn own(&self, owners: &Ownership) -> Arc<Vec<Vertex>> {
        self.shares.own(owners, self.group.rank())
    }

    /// The route from some owners to others; `None` where they are the same.
    pub fn route(&self, from: &Ownership, to: &Ownership) -> Option<Arc<Route>> {
        let key = [from.key(), to.key()];
        let mut routes = self.routes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(route) = routes.get(&key) {
            return Some(route.clone());
        }
        let route = Arc::new(self.shares.route(from, to, self.group.rank())?);
        routes.insert(key, route.clone());
        Some(route)
    }

    /// A matrix with a row for every vertex, from the rows of each worker.
    pub fn whole(&self, owners: &Ownership, parts: &[Vec<f32>]) -> Vec<f32> {
        let vertices = self.shares.vertices();
        let width = parts.iter().map(Vec::len).sum::<usize>() / vertices.max(1);
        let mut all = vec![0.0; vertices * width];
        for (worker, part) in parts.iter().enumerate() {
            let rows = part.chunks_exact(width.max(1));
            for (&vertex, row) in self.shares.own(owners, worker).iter().zip(rows) {
                all[vertex as usize * width..][..width].copy_from_slice(row);
            }
        }
        all
    }

    /// A window, ready to be run: `neighbours` are those of its steps.
    pub fn window(&self, window: &Range<Step>, pass: Pass, neighbours: Vec<Arc<Neighbours>>) -> Window {
        let mut made = Window {
            group: self.group.clone(),
            steps: Vec::with_capacity(window.len()),
            moves: self.shares.moves(window),
            own: Vec::new(),
            owners: Vec::new(),
            exchanges: Vec::with_capacity(window.len()),
        };
        let mut before: Option<[Ownership; 2]> = None;
        for (t, neighbours) in window.clone().zip(neighbours) {
            let (structure, rows) = (self.shares.structure(window, t), self.shares.rows(window, t));
            let carry = before.as_ref().and_then(|[before, _]| self.route(before, &structure));
            let hand = before.as_ref().and_then(|[_, before]| self.route(before, &rows));
            let shuffle = self.route(&structure, &rows);
            made.own.push(self.own(&rows));
            made.owners.push(rows.clone());
            let exchanges = Arc::new(Exchanges::new(t, pass));
            made.exchanges.push(exchanges.clone());
            let (group, stale) = (self.group.clone(), None);
            let exact = StepCells { group, neighbours, carry, shuffle, hand, exchanges, stale };
            made.steps.push(self.policy.at(exact));
            before = Some([structure, rows]);
        }
        made
    }
}
