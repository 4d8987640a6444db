//! PSS and PTS as the paper of DGC has them (section 2.2): every worker gets the same number of snapshots, or
//! of sequences, whatever their loads. Baselines for `snapshot` and `sequence`, which go by loads.

use super::{Ask, Partition, Partitioner, snapshot};
use crate::error::Result;
use crate::layout::{Layout, Worker};

/// Equally many snapshots.
pub(super) struct CountedSnapshots;

/// Equally many sequences.
pub(super) struct CountedSequences;

impl Partitioner for CountedSnapshots {
    fn name(&self) -> &'static str {
        "pss-count"
    }

    fn about(&self) -> &'static str {
        "runs of equally many snapshots"
    }

    fn partition(&self, ask: &Ask<'_>) -> Result<Partition> {
        ask.check()?;
        let (steps, workers, count) = (&ask.steps, ask.workers, ask.steps.len());
        if ask.window < count {
            // The sequence that is trained on is a window, in which runs are of the same length already.
            return snapshot::Snapshots.partition(ask);
        }
        let owner = |step: usize| {
            let place = step.clamp(steps.start, steps.end - 1) - steps.start;
            (place * workers / count.max(workers)) as Worker
        };
        let owners = (0..ask.store.steps()).map(owner).collect();
        Ok(Layout::by_step(workers, ask.store.vertices(), owners)?.into())
    }
}

impl Partitioner for CountedSequences {
    fn name(&self) -> &'static str {
        "pts-count"
    }

    fn about(&self) -> &'static str {
        "equally many whole sequences of vertices, in turns"
    }

    fn partition(&self, ask: &Ask<'_>) -> Result<Partition> {
        ask.check()?;
        let owners = (0..ask.store.vertices()).map(|vertex| (vertex % ask.workers) as Worker).collect();
        Ok(Layout::by_vertex(ask.workers, ask.store.steps(), owners)?.into())
    }
}
