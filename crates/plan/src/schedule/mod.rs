//! Schedulers: which worker trains which groups of snapshots in which iteration, one file each.
//!
//! An epoch trains `n` groups on `G` workers. In an iteration each worker runs at most `L` groups one after
//! the other; the iteration takes as long as its slowest worker, and an overhead. [`Instance`] is the
//! question, [`Schedule`] the answer, and every answer comes with a proven bound ([`Instance::lower_bound`]).

mod anneal;
mod best;
mod blad;
mod bound;
mod columns;
mod exact;
mod fold;
mod gantt;
mod greedy;
mod instance;
mod matched;
mod matching;
mod moves;
mod overlap;
mod pricing;
mod program;
mod psg;
mod random;
mod reuse;
mod runs;
mod simplex;
#[cfg(feature = "ilp")]
mod solver;
mod targets;
mod timetable;

use std::time::{Duration, Instant};

pub use gantt::{Gantt, WIDTH};
pub use instance::Instance;
pub use reuse::Reuse;
pub use timetable::Schedule;

use crate::error::{Error, Result};

/// How long a scheduler may look, and how good is good enough.
#[derive(Clone, Debug, PartialEq)]
pub struct Limit {
    /// Time it may take; what it has found by then is its answer.
    pub time: Duration,
    /// What all random numbers follow from.
    pub seed: u64,
    /// It may stop when its answer is proven to be within this part of the fastest: 0.01 is one per cent.
    pub gap: f64,
    /// Whether the clock may end a search. Where it may not, `time` says how much is searched and not how
    /// long: the same question gets the same answer, and integer programs, which only the clock can end, are
    /// left out.
    pub clock: bool,
}

impl Default for Limit {
    fn default() -> Self {
        Limit { time: Duration::from_secs(1), seed: 0, gap: 0.0, clock: true }
    }
}

impl Limit {
    /// Whether this part of the time has passed since `begun`, and the clock may end the search.
    fn is_over(&self, begun: Instant, part: f64) -> bool {
        self.clock && begun.elapsed() >= self.time.mul_f64(part)
    }
}

/// A schedule and what is known about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Scheduled {
    /// Who runs what, when.
    pub schedule: Schedule,
    /// Seconds of an epoch.
    pub seconds: f64,
    /// Seconds that no schedule can beat.
    pub bound: f64,
    /// How long it took to find.
    pub took: Duration,
    /// What really made it: the name of a scheduler of [`ALL`], or `exact`. It differs from the scheduler
    /// that was asked where that one chose the answer of another.
    pub by: &'static str,
    /// What the user should know, in one line: why the answer of another scheduler was taken.
    pub note: Option<String>,
    /// Whether the search ended by itself: if the clock ended it, the same seed may give another answer next
    /// time.
    pub complete: bool,
}

impl Scheduled {
    /// What there is to say about a schedule found since `begun`.
    fn new(instance: &Instance, schedule: Schedule, by: &'static str, begun: Instant) -> Self {
        Scheduled::bounded(instance, schedule, instance.lower_bound(), by, begun)
    }

    /// The same with a bound that is known already.
    fn bounded(
        instance: &Instance,
        schedule: Schedule,
        bound: f64,
        by: &'static str,
        begun: Instant,
    ) -> Self {
        let seconds = schedule.seconds(instance);
        // They are sums in different orders: an optimum may fall short of its bound in the last digits.
        let bound = bound.min(seconds);
        Scheduled { schedule, seconds, bound, took: begun.elapsed(), by, note: None, complete: true }
    }

    /// How far it may be from the fastest: 0.01 is one per cent. Proven.
    pub fn gap(&self) -> f64 {
        if self.seconds > self.bound { self.seconds / self.bound - 1.0 } else { 0.0 }
    }
}

/// A way to schedule the groups of an epoch.
pub trait Scheduler: Sync {
    /// What it is called.
    fn name(&self) -> &'static str;
    /// What it does, in one line.
    fn about(&self) -> &'static str;
    /// Whether it was built in: some need something to be installed.
    fn is_there(&self) -> bool {
        true
    }
    /// Whether it answers without a search: in no time, and with no look at the clock.
    fn is_immediate(&self) -> bool {
        false
    }
    /// Schedules the groups.
    fn schedule(&self, instance: &Instance, limit: &Limit) -> Result<Scheduled>;
}

/// Every scheduler, in the order of the help.
pub const ALL: &[&dyn Scheduler] = &[
    &psg::InOrder,
    &blad::Pairs,
    &greedy::DYGNEX,
    &greedy::REAL,
    &fold::Fold,
    &matched::Matched,
    &runs::Runs,
    &anneal::Anneal,
    &program::DYGNEX,
    &program::REAL,
    &best::DYGNEX,
    &best::REAL,
];

/// The scheduler of this name.
pub fn find(name: &str) -> Result<&'static dyn Scheduler> {
    ALL.iter().copied().find(|scheduler| scheduler.name() == name).ok_or_else(|| {
        let names: Vec<&str> = ALL.iter().map(|scheduler| scheduler.name()).collect();
        let problem = format!("there is no scheduler '{name}'; known are {}", names.join(", "));
        Error::settings("scheduler", problem)
    })
}
