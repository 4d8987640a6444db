//! With reuse: the pairs that save most, then a fold of the rest, then sort and cut.
//!
//! The pairs are an exact matching ([`most_saving`]). Without reuse there are none, and this is `fold`. It
//! takes `O(n log n + n * 2^width * width)`.

use std::time::Instant;

use super::fold::{best_fold, by_cost};
use super::instance::Instance;
use super::matching::most_saving;
use super::timetable::Schedule;
use super::{Limit, Scheduled, Scheduler};
use crate::error::Result;

/// The pairs that save most.
pub(super) struct Matched;

impl Scheduler for Matched {
    fn name(&self) -> &'static str {
        "match"
    }

    fn about(&self) -> &'static str {
        "the pairs of groups that save each other most, the rest folded, bins sorted and cut"
    }

    fn is_immediate(&self) -> bool {
        true
    }

    fn schedule(&self, instance: &Instance, _: &Limit) -> Result<Scheduled> {
        let begun = Instant::now();
        instance.check()?;
        let schedule = Schedule::from_bins(instance, matched(instance));
        Ok(Scheduled::new(instance, schedule, self.name(), begun))
    }
}

/// The bins of this schedule.
pub(super) fn matched(instance: &Instance) -> Vec<Vec<usize>> {
    beside(instance, Vec::new())
}

/// The same beside bins that are settled already.
pub(super) fn beside(instance: &Instance, mut settled: Vec<Vec<usize>>) -> Vec<Vec<usize>> {
    let mut alone = vec![true; instance.groups()];
    settled.iter().flatten().for_each(|&group| alone[group] = false);
    if instance.most >= 2 {
        for (one, other) in most_saving(&instance.reuse.among(&alone), instance.groups()).pairs {
            (alone[one], alone[other]) = (false, false);
            settled.push(vec![one, other]);
        }
    }
    let rest = by_cost(instance, (0..instance.groups()).filter(|&group| alone[group]));
    best_fold(instance, &rest, settled)
}
