//! The integer programs of the papers, DyGNeX-L and REAL-L, where HiGHS was built in (the feature `ilp`).
//!
//! DyGNeX-L does not know of reuse: it solves the instance as if nothing were shared. Both start from an
//! annealed schedule, without which the solver hardly finds one by itself, and prove a bound. The program
//! itself is in `solver.rs`.
//!
//! [`Scheduled::by`] names what made the schedule, and [`Scheduled::note`] says why if it was not the solver:
//! - `anneal`: the annealed schedule is proven within the gap, or the solver found none that is faster;
//! - `dygnex-g`, `real-g`: the program is too large or cannot express the instance, and the greedy of the
//!   same paper is the fallback. DyGNeX falls back by size (section 5.3), REAL when the solver's time is up
//!   (section 5.4): here size decides, since a solver that starts from a schedule always has an answer in
//!   time.

use std::time::Instant;

use super::instance::Instance;
use super::reuse::Reuse;
use super::{Limit, Scheduled, Scheduler, anneal, greedy};
#[cfg(not(feature = "ilp"))]
use crate::error::Error;
use crate::error::Result;

/// The most columns that are worth a try: beyond, the first relaxation alone takes minutes.
pub(super) const COLUMNS: usize = 40_000;

/// What REAL-L is called.
pub(super) const REAL_NAME: &str = "real-l";

/// DyGNeX-L.
pub(super) const DYGNEX: Program = Program {
    name: "dygnex-l",
    about: "DyGNeX's integer program, from an annealed schedule; needs the feature 'ilp'",
    reuse: false,
};

/// REAL-L.
pub(super) const REAL: Program = Program {
    name: REAL_NAME,
    about: "REAL's integer program with reuse, from an annealed schedule; needs the feature 'ilp'",
    reuse: true,
};

/// An integer program.
pub(super) struct Program {
    name: &'static str,
    about: &'static str,
    reuse: bool,
}

impl Scheduler for Program {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn is_there(&self) -> bool {
        cfg!(feature = "ilp")
    }

    fn schedule(&self, instance: &Instance, limit: &Limit) -> Result<Scheduled> {
        let begun = Instant::now();
        instance.check()?;
        possible(self.name)?;
        if self.reuse || instance.reuse == Reuse::None {
            let found = self.run(instance, limit)?;
            return Ok(Scheduled { took: begun.elapsed(), ..found });
        }
        let found = self.run(&Instance { reuse: Reuse::None, ..instance.clone() }, limit)?;
        // What was proven about the instance without reuse says nothing about this one.
        let scheduled = Scheduled::new(instance, found.schedule, found.by, begun);
        Ok(Scheduled { complete: found.complete, note: found.note, ..scheduled })
    }
}

impl Program {
    fn run(&self, instance: &Instance, limit: &Limit) -> Result<Scheduled> {
        let begun = Instant::now();
        if instance.most > 2 && instance.reuse != Reuse::None {
            let why = format!("knows reuse with at most 2 groups per worker, found {}", instance.most);
            return self.fall_back(instance, limit, begun, &why);
        }
        let start = anneal::anneal(instance, limit, begun)?;
        if start.gap() <= limit.gap {
            let note = format!(
                "{}: the annealed schedule is proven within {:.3} % of the fastest, so the integer program \
                 was not needed",
                self.name,
                100.0 * start.gap()
            );
            return Ok(Scheduled { note: Some(note), ..start });
        }
        if !limit.clock {
            let note = format!(
                "{}: this is the annealed schedule; only the clock could end the integer program, and costs \
                 that are told beforehand are scheduled without it",
                self.name
            );
            return Ok(Scheduled { note: Some(note), ..start });
        }
        let rest = Limit { time: limit.time.saturating_sub(begun.elapsed()), ..limit.clone() };
        let Some(found) = solve(instance, &start.schedule, &rest, self.name)? else {
            let (groups, workers) = (instance.groups(), instance.workers);
            let why = format!(
                "has more than {COLUMNS} columns for {groups} groups on {workers} workers, too many to solve"
            );
            return self.fall_back(instance, limit, begun, &why);
        };
        let complete = found.complete && start.complete;
        if found.seconds < start.seconds {
            return Ok(Scheduled { complete, ..found });
        }
        let end =
            if found.complete { "none is faster" } else { "the solver found none that is faster in time" };
        let note = format!("{}: this is the annealed schedule, {end}", self.name);
        Ok(Scheduled { complete, by: start.by, note: Some(note), ..found })
    }

    /// The greedy of the same paper, and why.
    fn fall_back(&self, instance: &Instance, limit: &Limit, begun: Instant, why: &str) -> Result<Scheduled> {
        let (greedy, better) = if self.reuse { (greedy::REAL, "real") } else { (greedy::DYGNEX, "dygnex") };
        // Annealing may have used all the time; as in 'dygnex' and 'real', the greedy gets a tenth of it.
        let left = limit.time.saturating_sub(begun.elapsed());
        let found =
            greedy.schedule(instance, &Limit { time: left.max(limit.time.mul_f64(0.1)), ..limit.clone() })?;
        let note = format!(
            "{}: the integer program {why}; this is the schedule of '{}', '{better}' may find a faster one",
            self.name, found.by
        );
        Ok(Scheduled { note: Some(note), ..found })
    }
}

#[cfg(feature = "ilp")]
pub(super) use super::solver::{fits, solve};

#[cfg(feature = "ilp")]
fn possible(_: &'static str) -> Result<()> {
    Ok(())
}

/// Whether the program of an instance can be solved here: not without a solver.
#[cfg(not(feature = "ilp"))]
pub(super) fn fits(_: &Instance) -> bool {
    false
}

/// Refuses: there is no solver.
#[cfg(not(feature = "ilp"))]
pub(super) fn solve(
    _: &Instance,
    _: &super::Schedule,
    _: &Limit,
    name: &'static str,
) -> Result<Option<Scheduled>> {
    Err(no_solver(name))
}

#[cfg(not(feature = "ilp"))]
fn possible(name: &'static str) -> Result<()> {
    Err(no_solver(name))
}

#[cfg(not(feature = "ilp"))]
fn no_solver(name: &str) -> Error {
    let problem = format!(
        "'{name}' needs the solver HiGHS, which is not in this program; build with `--features ilp` (this \
         takes cmake, a C++ compiler and libclang), or use 'dygnex' or 'real'"
    );
    Error::settings("scheduler", problem)
}
