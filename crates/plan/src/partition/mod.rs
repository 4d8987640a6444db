//! Partitioners: who gets which cells, one file each.
//!
//! Loads are those of [`crate::cut`]: 1 + in-degree for a vertex at a step at which it is present.

mod block;
pub mod chunks;
mod counts;
mod greedy;
mod hash;
mod links;
pub(crate) mod load_aware;
mod metis;
mod metis_layer;
mod multilevel;
mod runs;
mod sequence;
mod snapshot;
mod snapshot_sequence;
mod traffic;

use std::borrow::Cow;
use std::ops::Range;

use kymo_graph::{Presence, Step, Store};

use crate::cut::{check_steps, step_loads, vertex_loads};
use crate::error::{Error, Result};
use crate::layout::{Layout, check_workers};

pub use traffic::Traffic;

/// What a partitioner is asked for.
#[derive(Clone, Debug)]
pub struct Ask<'a> {
    /// The graph.
    pub store: &'a Store,
    /// The steps that loads are balanced over; layouts cover all steps of the store nevertheless.
    pub steps: Range<Step>,
    /// How many steps are trained on together: the length of a window, or of all steps.
    pub window: usize,
    /// How many workers there are.
    pub workers: usize,
    /// What all random numbers follow from.
    pub seed: u64,
    /// How much may be looked at.
    pub effort: Effort<'a>,
    /// What the model moves and computes, for partitioners that weigh one against the other.
    pub traffic: Traffic,
    /// When vertices are present; always where this is nothing. Cells of absent vertices load nobody.
    pub presence: Option<&'a Presence>,
    /// How many edges away a vertex looks, for partitioners that go by its neighbourhood.
    pub layers: usize,
}

/// How much a partitioner may look at: everything, or so much that an answer comes soon.
#[derive(Clone, Copy, Debug)]
pub struct Effort<'a> {
    /// The steps that are looked at, ascending; all where this is nothing. Those between are taken to be like
    /// the one before.
    pub looked: Option<&'a [Step]>,
    /// Links that METIS may be given, over all calls.
    pub metis_links: u64,
    /// The loads of all vertices at the steps that are looked at, where they are known already; of cells that
    /// are present, where it is told which are.
    pub loads: Option<&'a [u64]>,
}

impl Effort<'_> {
    /// Everything is looked at.
    pub const ALL: Effort<'static> = Effort { looked: None, metis_links: u64::MAX, loads: None };
}

impl<'a> Ask<'a> {
    /// All steps of a store in one window, with all of it looked at, for a model of one layer.
    pub fn all_of(store: &'a Store, workers: usize, seed: u64) -> Ask<'a> {
        Ask {
            store,
            steps: 0..store.steps(),
            window: store.steps(),
            workers,
            seed,
            effort: Effort::ALL,
            traffic: Traffic::default(),
            presence: None,
            layers: 1,
        }
    }
}

impl Ask<'_> {
    /// Whether it can be followed; the error says what would do.
    pub fn check(&self) -> Result<()> {
        check_workers(self.workers)?;
        check_steps(self.store, &self.steps)?;
        if self.steps.is_empty() {
            return Err(Error::settings("steps", "found no step to balance over, expected at least one"));
        }
        if let Some(presence) = self.presence.filter(|told| told.vertices() != self.store.vertices()) {
            let (found, expected) = (presence.vertices(), self.store.vertices());
            let problem = format!("found {found} vertices, the store has {expected}; find it out anew");
            return Err(Error::settings("presence", problem));
        }
        Ok(())
    }

    /// Those of the steps that are looked at.
    pub(crate) fn looked(&self) -> Vec<Step> {
        match self.effort.looked {
            Some(looked) => looked.iter().copied().filter(|step| self.steps.contains(step)).collect(),
            None => self.steps.clone().collect(),
        }
    }

    /// The load of each vertex at the steps that are looked at.
    fn vertex_loads(&self) -> Result<Cow<'_, [u64]>> {
        match self.effort.loads {
            Some(loads) if loads.len() == self.store.vertices() => Ok(Cow::Borrowed(loads)),
            _ => Ok(Cow::Owned(vertex_loads(self.store, self.looked(), self.presence)?)),
        }
    }

    /// The load of each of the steps, in order; of those that are not looked at, that of the one before.
    fn step_loads(&self) -> Result<Vec<u64>> {
        let (looked, mut loads) = (self.looked(), Vec::with_capacity(self.steps.len()));
        let of = step_loads(self.store, looked.iter().copied(), self.presence)?;
        let mut next = 0;
        for step in self.steps.clone() {
            next += usize::from(looked.get(next).is_some_and(|&looked| looked <= step));
            loads.push(of.get(next.saturating_sub(1)).copied().unwrap_or(1));
        }
        Ok(loads)
    }

    /// What takes the place of METIS where it would have too many links, in all its calls together: an error
    /// where everything was to be looked at.
    fn instead_of_metis(&self, links: u64) -> Result<Option<Partition>> {
        let most = self.effort.metis_links;
        if links <= most {
            return Ok(None);
        }
        let answer = format!("{links} links are more than the {most} that there is memory or time for");
        if self.effort.looked.is_none() {
            let vertices = self.store.vertices();
            return Err(Error::Metis { vertices, links: links as usize, workers: self.workers, answer });
        }
        let note = format!("METIS was left out ({answer}): vertices are cut into blocks instead");
        Ok(Some(Partition { note: Some(note), ..block::Block.partition(self)? }))
    }
}

/// What a partitioner answers. Every layout covers all vertices and steps of the store.
#[derive(Clone, Debug, PartialEq)]
pub struct Partition {
    /// Where the structure encoder runs.
    pub structure: Layout,
    /// Where the time encoder runs, if elsewhere.
    pub time: Option<Layout>,
    /// Something to know about how it was made.
    pub note: Option<String>,
}

impl From<Layout> for Partition {
    fn from(structure: Layout) -> Self {
        Partition { structure, time: None, note: None }
    }
}

/// A way to assign the cells of a dynamic graph to workers.
///
/// The same question gets the same answer.
pub trait Partitioner: Sync {
    /// What it is called.
    fn name(&self) -> &'static str;
    /// What it does, in one line.
    fn about(&self) -> &'static str;
    /// Whether it goes by the traffic of the model.
    fn weighs_traffic(&self) -> bool {
        false
    }
    /// Assigns the cells.
    fn partition(&self, ask: &Ask<'_>) -> Result<Partition>;
}

/// Every partitioner, in the order of the help.
pub const ALL: &[&dyn Partitioner] = &[
    &snapshot::Snapshots,
    &sequence::Sequences,
    &snapshot_sequence::SnapshotsThenSequences,
    &hash::Hash,
    &block::Block,
    &metis::Metis,
    &metis_layer::MetisLayer,
    &greedy::Greedy,
    &chunks::ByChunks,
    &chunks::ByAlgorithm,
    &counts::CountedSnapshots,
    &counts::CountedSequences,
    &load_aware::LoadAware,
];

/// The partitioner of this name.
pub fn find(name: &str) -> Result<&'static dyn Partitioner> {
    ALL.iter().copied().find(|partitioner| partitioner.name() == name).ok_or_else(|| {
        let names: Vec<&str> = ALL.iter().map(|partitioner| partitioner.name()).collect();
        let problem = format!("there is no partitioner '{name}'; known are {}", names.join(", "));
        Error::settings("partitioner", problem)
    })
}
