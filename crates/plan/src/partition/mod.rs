//! Partitioners: who gets which cells, one file each.
//!
//! Loads are those of [`crate::cut`]: 1 + in-degree for a vertex at a step.

mod block;
mod greedy;
mod hash;
mod links;
mod metis;
mod metis_layer;
mod multilevel;
mod runs;
mod sequence;
mod snapshot;
mod snapshot_sequence;

use std::ops::Range;

use kymo_graph::{Step, Store};

use crate::cut::check_steps;
use crate::error::{Error, Result};
use crate::layout::{Layout, check_workers};

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
}

impl Ask<'_> {
    /// Whether it can be followed; the error says what would do.
    pub fn check(&self) -> Result<()> {
        check_workers(self.workers)?;
        check_steps(self.store, &self.steps)?;
        if self.steps.is_empty() {
            return Err(Error::settings("steps", "found no step to balance over, expected at least one"));
        }
        Ok(())
    }
}

/// What a partitioner answers. Every layout covers all vertices and steps of the store.
#[derive(Clone, Debug, PartialEq)]
pub struct Partition {
    /// Where the structure encoder runs.
    pub structure: Layout,
    /// Where the time encoder runs, if elsewhere.
    pub time: Option<Layout>,
}

impl From<Layout> for Partition {
    fn from(structure: Layout) -> Self {
        Partition { structure, time: None }
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
];

/// The partitioner of this name.
pub fn find(name: &str) -> Result<&'static dyn Partitioner> {
    ALL.iter().copied().find(|partitioner| partitioner.name() == name).ok_or_else(|| {
        let names: Vec<&str> = ALL.iter().map(|partitioner| partitioner.name()).collect();
        let problem = format!("there is no partitioner '{name}'; known are {}", names.join(", "));
        Error::settings("partitioner", problem)
    })
}
