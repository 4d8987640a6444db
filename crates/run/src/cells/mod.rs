//! Full-batch training over a layout: every worker has some cells (vertex x step) of a window.
//!
//! Rows of neighbours are exchanged before each layer of structure; a state goes with its vertex from the owner at one step to
//! the owner at the next; where a partition has owners of its own for the time encoder, rows move there in between. All of it
//! is rows along routes, and gradients go back along the routes reversed, so the result is that of one worker. Who owns what is
//! decided by [`kymo_plan::Shares`].

mod moved;
mod product;
mod step;

pub use moved::moved;
pub use step::{Neighbours, StepCells};

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use kymo_graph::{Snapshot, Step, Vertex};
use kymo_plan::{Halo, Place, Route, Shares};

use crate::team::Team;

/// The cells of a worker.
pub struct Cells {
    /// The worker among others.
    pub team: Arc<Team>,
    /// Who has what.
    pub shares: Shares,
    routes: Mutex<BTreeMap<[usize; 2], Arc<Route>>>,
}

impl Cells {
    /// The cells of `team`'s worker.
    pub fn new(team: Arc<Team>, shares: Shares) -> Cells {
        Cells { team, shares, routes: Mutex::default() }
    }

    /// What the worker has to know of a snapshot.
    pub fn halo(&self, snapshot: &Snapshot<'_>, place: &Place) -> Halo {
        self.shares.halo(snapshot, place, self.team.rank())
    }

    /// The worker's vertices at a place.
    pub fn own(&self, place: &Place) -> Arc<Vec<Vertex>> {
        self.shares.own(place, self.team.rank())
    }

    /// The route from the owners at one place to those at another; `None` where they are the same.
    pub fn route(&self, from: &Place, to: &Place) -> Option<Arc<Route>> {
        let key = [from.key(), to.key()];
        let mut routes = self.routes.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(route) = routes.get(&key) {
            return Some(route.clone());
        }
        let route = Arc::new(self.shares.route(from, to, self.team.rank())?);
        routes.insert(key, route.clone());
        Some(route)
    }

    /// A matrix with a row for every vertex, from the rows of each worker at a place.
    pub fn whole(&self, place: &Place, parts: &[Vec<f32>]) -> Vec<f32> {
        let vertices = self.shares.vertices();
        let width = parts.iter().map(Vec::len).sum::<usize>() / vertices.max(1);
        let mut all = vec![0.0; vertices * width];
        for (worker, part) in parts.iter().enumerate() {
            let rows = part.chunks_exact(width.max(1));
            for (&vertex, row) in self.shares.own(place, worker).iter().zip(rows) {
                all[vertex as usize * width..][..width].copy_from_slice(row);
            }
        }
        all
    }

    /// A window, ready to be run: `neighbours` are those of its steps.
    pub fn window(&self, window: &Range<Step>, neighbours: Vec<Arc<Neighbours>>) -> Window {
        let mut made = Window {
            team: self.team.clone(),
            steps: Vec::with_capacity(window.len()),
            moves: Vec::new(),
            handed: self.shares.moves(window).then(Vec::new),
            own: Vec::new(),
            places: Vec::new(),
        };
        let mut before: Option<[Place; 2]> = None;
        for (t, neighbours) in window.clone().zip(neighbours) {
            let (structure, rows) = (self.shares.structure(window, t), self.shares.rows(window, t));
            let carry = before.as_ref().and_then(|[before, _]| self.route(before, &structure));
            if let Some(handed) = &mut made.handed {
                handed.push(before.as_ref().and_then(|[_, before]| self.route(before, &rows)));
            }
            made.moves.push(self.route(&structure, &rows));
            made.own.push(self.own(&rows));
            made.places.push(rows.clone());
            made.steps.push(StepCells { team: self.team.clone(), neighbours, carry });
            before = Some([structure, rows]);
        }
        made
    }
}

/// A window at one worker.
pub struct Window {
    /// The worker among others.
    pub team: Arc<Team>,
    /// Its steps.
    pub steps: Vec<StepCells>,
    /// How the rows of each step move when their structure is encoded; `None` where they stay.
    pub moves: Vec<Option<Arc<Route>>>,
    /// How states get to each step from the one before, where rows cannot be worked out in one place.
    pub handed: Option<Vec<Option<Arc<Route>>>>,
    /// The vertices that are here when the rows of each step are worked out.
    pub own: Vec<Arc<Vec<Vertex>>>,
    /// Who has which, then.
    pub places: Vec<Place>,
}
