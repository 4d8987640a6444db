//! Groups in order, one per worker: the baseline PSG of DyGNeX and REAL.

use std::time::Instant;

use super::instance::Instance;
use super::timetable::Schedule;
use super::{Limit, Scheduled, Scheduler};
use crate::error::Result;

/// Groups in order, one per worker.
pub(super) struct InOrder;

impl Scheduler for InOrder {
    fn name(&self) -> &'static str {
        "psg"
    }

    fn about(&self) -> &'static str {
        "groups in order of time, one per worker and iteration; the baseline of the papers"
    }

    fn is_immediate(&self) -> bool {
        true
    }

    fn schedule(&self, instance: &Instance, _: &Limit) -> Result<Scheduled> {
        let begun = Instant::now();
        instance.check()?;
        Ok(Scheduled::new(instance, in_order(instance), self.name(), begun))
    }
}

/// The schedule of the baseline.
fn in_order(instance: &Instance) -> Schedule {
    let groups: Vec<usize> = (0..instance.groups()).collect();
    let iteration = |groups: &[usize]| {
        let mut bins: Vec<Vec<usize>> = groups.iter().map(|&group| vec![group]).collect();
        bins.resize(instance.workers, Vec::new());
        bins
    };
    Schedule { iterations: groups.chunks(instance.workers).map(iteration).collect() }
}
