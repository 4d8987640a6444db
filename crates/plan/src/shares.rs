//! Who has what in every window: the one place where ownership and the routes between owners come from.
//!
//! A window goes through two phases. While structure is encoded, the cells of a step belong to the owners
//! that the partition gives them. When rows are computed (time encoders, heads, losses), a vertex is best
//! at one place for the whole window: where the partition says so, where it stays in any case, or, for models
//! that hand nothing over, where it is at the last step. Otherwise states go with their vertices from step to
//! step.

use std::ops::Range;
use std::sync::Arc;

use kymo_graph::{Snapshot, Step, Vertex};

use crate::layout::{Layout, Owners};
use crate::partition::Partition;
use crate::route::{HaloRows, Route};

/// How windows are cut into cells.
#[derive(Clone)]
pub enum Cut {
    /// The same in all windows.
    Fixed(Partition),
    /// The snapshots of each window are assigned anew, in runs of about equal length.
    PerWindow,
}

/// What a model asks of those who share a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelNeeds {
    /// Whether vertices look along their edges in both directions.
    pub out_edges: bool,
    /// Whether it hands the state of a vertex from step to step; where not, a vertex has to be in one place.
    pub carries_state: bool,
}

/// Windows cut into cells.
#[derive(Clone)]
pub struct Shares {
    cut: Cut,
    needs: ModelNeeds,
    workers: usize,
    vertices: usize,
    everyone: Arc<Vec<Vertex>>,
    version: u32,
}

/// Who owns the vertices at a step of a window.
#[derive(Clone)]
pub enum Ownership {
    /// One worker.
    One(usize),
    /// As a layout has it at a step.
    At(Layout, Step, LayoutId),
}

/// Which layout of which partition, so that owners are told apart without comparing them or their addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LayoutId {
    /// How often the graph was partitioned before.
    pub version: u32,
    /// Whether it is the layout of the time encoder.
    pub time: bool,
}

/// What owners are known by: equal keys have equal owners, for as long as a run lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OwnersKey {
    /// One worker owns everything.
    One(usize),
    /// Those of a layout at a run of steps with the same owners, which is known by its first step.
    Run(LayoutId, Step),
}

impl Ownership {
    /// Who owns them.
    pub fn owners(&self) -> Owners<'_> {
        match self {
            Ownership::One(worker) => Owners::One(*worker),
            Ownership::At(layout, step, _) => layout.owners(*step),
        }
    }

    /// What the owners are known by.
    pub fn key(&self) -> OwnersKey {
        match self {
            Ownership::One(worker) => OwnersKey::One(*worker),
            Ownership::At(layout, step, id) => match layout.owners(*step) {
                Owners::One(worker) => OwnersKey::One(worker),
                Owners::Each(_) => OwnersKey::Run(*id, layout.run(*step)),
            },
        }
    }
}

impl Shares {
    /// Windows of a graph with this number of vertices, shared by this number of workers, at least one.
    pub fn new(cut: Cut, needs: ModelNeeds, workers: usize, vertices: usize) -> Shares {
        let everyone = Arc::new((0..vertices as Vertex).collect());
        Shares { cut, needs, workers, vertices, everyone, version: 0 }
    }

    /// The same graph and workers, cut anew: what was known by keys of the cut before is not found under new
    /// ones.
    pub fn repartitioned(&self, cut: Cut) -> Shares {
        Shares { cut, version: self.version + 1, ..self.clone() }
    }

    fn id(&self, time: bool) -> LayoutId {
        LayoutId { version: self.version, time }
    }

    /// Whether one worker has all vertices of a step while structure is encoded, at every step.
    pub fn has_whole_steps(&self) -> bool {
        match &self.cut {
            Cut::Fixed(partition) => partition.structure.is_by_step(),
            Cut::PerWindow => true,
        }
    }

    /// Something to know about how the cells were made.
    pub fn note(&self) -> Option<&str> {
        match &self.cut {
            Cut::Fixed(partition) => partition.note.as_deref(),
            Cut::PerWindow => None,
        }
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
    pub fn needs(&self) -> ModelNeeds {
        self.needs
    }

    /// Who owns the vertices at a step while the structure of a window is encoded.
    pub fn structure(&self, window: &Range<Step>, step: Step) -> Ownership {
        match &self.cut {
            Cut::Fixed(partition) => Ownership::At(partition.structure.clone(), step, self.id(false)),
            Cut::PerWindow => {
                let place = step.saturating_sub(window.start);
                Ownership::One((place * self.workers / window.len().max(1)).min(self.workers - 1))
            }
        }
    }

    /// Who owns the vertices at a step when the rows of a window are computed.
    pub fn rows(&self, window: &Range<Step>, step: Step) -> Ownership {
        if let Cut::Fixed(Partition { time: Some(time), .. }) = &self.cut {
            return Ownership::At(time.clone(), step, self.id(true));
        }
        let step = if self.needs.carries_state { step } else { window.end.saturating_sub(1) };
        self.structure(window, step)
    }

    /// Whether vertices change their owners within a window when its rows are computed: the same answer at
    /// every worker.
    pub fn moves(&self, window: &Range<Step>) -> bool {
        window.clone().skip(1).any(|t| self.rows(window, t).key() != self.rows(window, t - 1).key())
    }

    /// The vertices of a worker at a place, ascending.
    pub fn own(&self, place: &Ownership, worker: usize) -> Arc<Vec<Vertex>> {
        match place {
            Ownership::One(owner) if *owner == worker => self.everyone.clone(),
            Ownership::One(_) => Arc::default(),
            Ownership::At(layout, step, _) => layout.own(worker, *step),
        }
    }

    /// What a worker has to know of a snapshot.
    pub fn halo(&self, snapshot: &Snapshot<'_>, place: &Ownership, rank: usize) -> HaloRows {
        match place {
            Ownership::At(layout, step, _) => {
                HaloRows::at(snapshot, layout, *step, rank, self.needs.out_edges)
            }
            Ownership::One(_) => HaloRows::of(
                snapshot,
                place.owners(),
                self.vertices,
                self.workers,
                rank,
                self.needs.out_edges,
            ),
        }
    }

    /// The route of a worker from the owners at one place to those at another; `None` where they are the
    /// same.
    pub fn route(&self, from: &Ownership, to: &Ownership, rank: usize) -> Option<Route> {
        (from.key() != to.key())
            .then(|| Route::between(from.owners(), to.owners(), self.vertices, self.workers, rank))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shares(owners: Vec<Vec<u16>>) -> Shares {
        let layout = Layout::by_cell(2, owners).unwrap();
        let needs = ModelNeeds { out_edges: false, carries_state: true };
        Shares::new(Cut::Fixed(layout.into()), needs, 2, 2)
    }

    #[test]
    fn equal_keys_have_equal_owners_also_after_the_graph_was_cut_anew() {
        let shares = shares(vec![vec![0, 1], vec![0, 1], vec![1, 0]]);
        let window = 0..3;
        let key = |shares: &Shares, t: Step| shares.structure(&window, t).key();
        assert_eq!(key(&shares, 0), key(&shares, 1));
        assert_ne!(key(&shares, 1), key(&shares, 2));
        // The same owners at the same addresses are others once a partition has been replaced.
        let again = shares.repartitioned(shares.cut.clone());
        assert_ne!(key(&shares, 0), key(&again, 0));
        assert_eq!(key(&again, 0), key(&again, 1));
    }

    #[test]
    fn whole_steps_are_known_by_their_owner() {
        let layout = Layout::by_step(2, 3, vec![0, 1, 0]).unwrap();
        let needs = ModelNeeds { out_edges: false, carries_state: true };
        let shares = Shares::new(Cut::Fixed(layout.into()), needs, 2, 3);
        let key = |t: Step| shares.structure(&(0..3), t).key();
        assert!(key(0) == key(2) && key(0) == OwnersKey::One(0) && key(1) == OwnersKey::One(1));
        let per_window = Shares::new(Cut::PerWindow, needs, 2, 3);
        assert_eq!(per_window.structure(&(4..8), 5).key(), OwnersKey::One(0));
        assert_eq!(per_window.structure(&(4..8), 6).key(), OwnersKey::One(1));
    }
}
