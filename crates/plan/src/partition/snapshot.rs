//! Whole snapshots: PSS of DGC (section 2.2).
//!
//! The paper gives each worker the same number of snapshots of the sequence that is trained on. Where that is
//! the whole sequence, each worker gets one run of steps, so that a hidden state moves once for each worker
//! and not once for each step; runs are cut by load, because snapshots grow. Where windows are shorter, such
//! runs would leave most windows to a single worker. So the steps go round the workers in runs short enough
//! that every window is spread over all of them.

use super::{Ask, Partition, Partitioner, runs};
use crate::error::Result;
use crate::layout::{Layout, Worker};

/// Runs of whole snapshots.
pub(super) struct Snapshots;

/// The owner of each step where windows of this length are trained on.
fn round_robin(steps: usize, window: usize, workers: usize) -> Vec<Worker> {
    let run = (window / workers).max(1);
    (0..steps).map(|step| (step / run % workers) as Worker).collect()
}

impl Partitioner for Snapshots {
    fn name(&self) -> &'static str {
        "snapshot"
    }

    fn about(&self) -> &'static str {
        "runs of whole snapshots, the heaviest as light as possible"
    }

    fn partition(&self, ask: &Ask<'_>) -> Result<Partition> {
        ask.check()?;
        if ask.window < ask.steps.len() {
            let owners = round_robin(ask.store.steps(), ask.window, ask.workers);
            return Ok(Layout::by_step(ask.workers, ask.store.vertices(), owners)?.into());
        }
        let within = runs::owners(&ask.step_loads()?, ask.workers);
        // What comes after stays where the last run is: no state has to move.
        let last = within.last().copied().unwrap_or(0);
        let after = ask.store.steps() - ask.steps.end;
        let owners: Vec<Worker> = std::iter::repeat_n(0, ask.steps.start)
            .chain(within)
            .chain(std::iter::repeat_n(last, after))
            .collect();
        Ok(Layout::by_step(ask.workers, ask.store.vertices(), owners)?.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_window_is_spread_over_all_workers() {
        for (window, workers) in [(4, 2), (4, 3), (8, 2), (3, 5), (12, 4), (1, 2)] {
            let owners = round_robin(40, window, workers);
            for start in 0..=40 - window {
                let mut counts = vec![0; workers];
                owners[start..start + window].iter().for_each(|&owner| counts[owner as usize] += 1);
                let used = counts.iter().filter(|&&count| count > 0).count();
                assert_eq!(used, workers.min(window), "windows of {window}, {workers} workers: {counts:?}");
                assert!(counts.iter().all(|&count| count <= 2 * window.div_ceil(workers)), "{counts:?}");
            }
        }
        assert_eq!(round_robin(6, 4, 2), [0, 0, 1, 1, 0, 0]);
    }
}
