//! Everything at once: the names DyGNeX and REAL, and the best answer that any scheduler here has.
//!
//! Both names try the same: DyGNeX's problem is REAL's without reuse, and whether groups share anything is
//! said by the instance. Quick ones go first, so that there is an answer whatever the time. The greedy of the
//! paper that knows the instance gets a tenth of the time, which is too little only where it is far behind
//! the others.
//! With reuse a better bound is looked for (`columns.rs`), and what comes up with it is annealed. Annealing
//! makes as many moves as it would by itself, and the integer program, where it was built in, gets what is
//! left. A handful of groups are solved exactly.

use std::time::{Duration, Instant};

use super::instance::Instance;
use super::reuse::Reuse;
use super::{
    Limit, Scheduled, Scheduler, anneal, blad, columns, exact, fold, greedy, matched, program, psg, runs,
};
use crate::error::Result;

/// A gap that is not worth a better bound. Without reuse annealing alone comes to less.
const WORTH: f64 = 0.002;

/// The best of everything, under DyGNeX's name.
pub(super) const DYGNEX: Best = Best {
    name: "dygnex",
    about: "the best of all schedulers within the time limit, for groups that share nothing",
};

/// The best of everything, under REAL's name.
pub(super) const REAL: Best = Best {
    name: "real",
    about: "the best of all schedulers within the time limit, for groups that share snapshots",
};

/// The best of everything.
pub(super) struct Best {
    name: &'static str,
    about: &'static str,
}

impl Scheduler for Best {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn schedule(&self, instance: &Instance, limit: &Limit) -> Result<Scheduled> {
        let begun = Instant::now();
        instance.check()?;
        if let Some(schedule) = exact::fastest(instance) {
            let seconds = schedule.seconds(instance);
            return Ok(Scheduled::bounded(instance, schedule, seconds, "exact", begun));
        }
        let part = Limit { time: limit.time.mul_f64(0.1), ..limit.clone() };
        let mut best = fold::Fold.schedule(instance, limit)?;
        let mut complete = true;
        // With reuse REAL's looks at DyGNeX's, too; without they are the same.
        let greedy = if instance.reuse == Reuse::None { greedy::DYGNEX } else { greedy::REAL };
        let quick: [&dyn Scheduler; 5] =
            [&psg::InOrder, &blad::Pairs, &matched::Matched, &runs::Runs, &greedy];
        for scheduler in quick {
            if best.gap() > limit.gap {
                let found = scheduler.schedule(instance, &part)?;
                complete &= found.complete;
                // Its note is about its own choice, not about this one.
                keep(&mut best, Scheduled { note: None, ..found });
            }
        }
        if instance.reuse != Reuse::None && best.gap() > limit.gap.max(WORTH) && columns::fits(instance) {
            let found = columns::search(instance, &best.schedule, limit, begun);
            complete &= found.complete;
            best.bound = best.bound.max(found.bound).min(best.seconds);
            if best.gap() > limit.gap {
                let bins = matched::beside(instance, found.bins);
                let found = anneal::anneal_from(instance, bins, best.bound, limit, begun);
                complete &= found.complete;
                keep(&mut best, found);
            }
        }
        if best.gap() > limit.gap {
            let found = anneal::anneal(instance, limit, begun)?;
            complete &= found.complete;
            keep(&mut best, found);
        }
        let rest = Limit { time: limit.time.saturating_sub(begun.elapsed()), ..limit.clone() };
        if best.gap() > limit.gap && limit.clock && program::fits(instance) {
            if rest.time == Duration::ZERO {
                complete = false;
            } else if let Some(found) = program::solve(instance, &best.schedule, &rest, program::REAL_NAME)? {
                complete &= found.complete;
                keep(&mut best, found);
            }
        }
        Ok(Scheduled { took: begun.elapsed(), complete, ..best })
    }
}

/// Keeps the faster schedule and the higher bound.
fn keep(best: &mut Scheduled, found: Scheduled) {
    let bound = best.bound.max(found.bound);
    if found.seconds < best.seconds {
        *best = found;
    }
    best.bound = bound.min(best.seconds);
}
