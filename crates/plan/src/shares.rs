//! Who has what in every window: the one place where ownership and the routes between owners come from.
//!
//! A window goes through two phases. While structure is encoded, the cells of a step belong to the owners that the partition
//! gives them. When rows are worked out (time encoders, heads, losses), a vertex is best at one place for the whole window:
//! where the partition says so, where it stays in any case, or, for models that hand nothing over, where it is at the last step.
//! Otherwise states go with their vertices from step to step.

use std::ops::Range;
use std::sync::Arc;

use kymo_graph::{Snapshot, Step, Vertex};

use crate::layout::{Layout, Owners};
use crate::partition::Partition;
use crate::route::{Halo, Route};

/// How windows are cut into cells.
#[derive(Clone)]
pub enum Cut {
    /// The same in all windows.
    Fixed(Partition),
    /// The snapshots of each window are dealt out anew, in runs of about equal length.
    PerWindow,
}

/// What a model asks of those who share a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Habits {
    /// Whether vertices look along their edges in both directions.
    pub both: bool,
    /// Whether it hands the state of a vertex from step to step; where not, a vertex has to be in one place.
    pub hands_over: bool,
}

/// Windows cut into cells.
#[derive(Clone)]
pub struct Shares {
    cut: Cut,
    habits: Habits,
    workers: usize,
    vertices: usize,
    everyone: Arc<Vec<Vertex>>,
}

/// Who owns the vertices at a place of a window.
#[derive(Clone)]
pub enum Place {
    /// One worker.
    One(usize),
    /// As a layout has it at a step.
    At(Layout, Step),
}

impl Place {
    /// Who owns them.
    pub fn owners(&self) -> Owners<'_> {
        match self {
            Place::One(worker) => Owners::One(*worker),
            Place::At(layout, step) => layout.owners(*step),
        }
    }

    /// A number that is the same where the owners are.
    pub fn key(&self) -> usize {
        match self.owners() {
            Owners::One(worker) => worker,
            Owners::Each(owners) => owners.as_ptr() as usize,
        }
    }
}

impl Shares {
    /// Windows of a graph of so many vertices, shared by so many workers, at least one.
    pub fn new(cut: Cut, habits: Habits, workers: usize, vertices: usize) -> Shares {
        let everyone = Arc::new((0..vertices as Vertex).collect());
        Shares { cut, habits, workers, vertices, everyone }
    }

    /// How many vertices there are.
    pub fn vertices(&self) -> usize {
        self.vertices
    }

    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// What the model asks.
    pub fn habits(&self) -> Habits {
        self.habits
    }

    /// Who owns the vertices at a step while the structure of a window is encoded.
    pub fn structure(&self, window: &Range<Step>, step: Step) -> Place {
        match &self.cut {
            Cut::Fixed(partition) => Place::At(partition.structure.clone(), step),
            Cut::PerWindow => {
                let place = step.saturating_sub(window.start);
                Place::One((place * self.workers / window.len().max(1)).min(self.workers - 1))
            }
        }
    }

    /// Who owns the vertices at a step when the rows of a window are worked out.
    pub fn rows(&self, window: &Range<Step>, step: Step) -> Place {
        if let Cut::Fixed(Partition { time: Some(time), .. }) = &self.cut {
            return Place::At(time.clone(), step);
        }
        let step = if self.habits.hands_over { step } else { window.end.saturating_sub(1) };
        self.structure(window, step)
    }

    /// Whether vertices change their owners within a window when its rows are worked out: the same answer at every worker.
    pub fn moves(&self, window: &Range<Step>) -> bool {
        window.clone().skip(1).any(|t| self.rows(window, t).key() != self.rows(window, t - 1).key())
    }

    /// The vertices of a worker at a place, ascending.
    pub fn own(&self, place: &Place, worker: usize) -> Arc<Vec<Vertex>> {
        match place {
            Place::One(owner) if *owner == worker => self.everyone.clone(),
            Place::One(_) => Arc::default(),
            Place::At(layout, step) => layout.own(worker, *step),
        }
    }

    /// What a worker has to know of a snapshot.
    pub fn halo(&self, snapshot: &Snapshot<'_>, place: &Place, rank: usize) -> Halo {
        match place {
            Place::At(layout, step) => Halo::at(snapshot, layout, *step, rank, self.habits.both),
            Place::One(_) => {
                Halo::of(snapshot, place.owners(), self.vertices, self.workers, rank, self.habits.both)
            }
        }
    }

    /// The route of a worker from the owners at one place to those at another; `None` where they are the same.
    pub fn route(&self, from: &Place, to: &Place, rank: usize) -> Option<Route> {
        (from.key() != to.key())
            .then(|| Route::between(from.owners(), to.owners(), self.vertices, self.workers, rank))
    }
}
