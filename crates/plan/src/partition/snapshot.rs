//! Whole snapshots: PSS of DGC (section 2.2).
//!
//! Each worker gets a run of steps, so that a hidden state is handed over once a worker and not once a step. The paper deals
//! out the same number of snapshots; here runs are cut by load, because snapshots grow.

use super::{Ask, Partition, Partitioner, runs};
use crate::cut::step_loads;
use crate::error::Result;
use crate::layout::{Layout, Worker};

/// Runs of whole snapshots.
pub(super) struct Snapshots;

impl Partitioner for Snapshots {
    fn name(&self) -> &'static str {
        "snapshot"
    }

    fn about(&self) -> &'static str {
        "runs of whole snapshots, the heaviest as light as possible"
    }

    fn partition(&self, ask: &Ask<'_>) -> Result<Partition> {
        ask.check()?;
        let within = runs::owners(&step_loads(ask.store, ask.steps.clone())?, ask.workers);
        // What comes after goes on where the last run is: no state has to move.
        let last = within.last().copied().unwrap_or(0);
        let after = ask.store.steps() - ask.steps.end;
        let owners: Vec<Worker> = std::iter::repeat_n(0, ask.steps.start)
            .chain(within)
            .chain(std::iter::repeat_n(last, after))
            .collect();
        Ok(Layout::by_step(ask.workers, ask.store.vertices(), owners)?.into())
    }
}
