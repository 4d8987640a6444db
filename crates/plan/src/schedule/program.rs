//! The integer programs of the papers, DyGNeX-L and REAL-L, where HiGHS was built in (the feature `ilp`).
//!
//! DyGNeX-L does not know of reuse: it solves the instance as if nothing were shared. Both start from an annealed schedule,
//! without which the solver hardly finds one by itself, and prove a bound. The program itself is in `solver.rs`.

use std::time::Instant;

use super::instance::Instance;
use super::reuse::Reuse;
use super::{Limit, Scheduled, Scheduler, anneal};
use crate::error::{Error, Result};

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
            let found = run(instance, limit, self.name)?;
            return Ok(Scheduled { took: begun.elapsed(), ..found });
        }
        let found = run(&Instance { reuse: Reuse::None, ..instance.clone() }, limit, self.name)?;
        // What was proven about the instance without reuse says nothing about this one.
        let scheduled = Scheduled::new(instance, found.schedule, self.name, begun);
        Ok(Scheduled { complete: found.complete, ..scheduled })
    }
}

fn run(instance: &Instance, limit: &Limit, name: &'static str) -> Result<Scheduled> {
    let begun = Instant::now();
    if instance.most > 2 && instance.reuse != Reuse::None {
        let problem =
            format!("'{name}' knows reuse with at most 2 groups, found {}; use 'real'", instance.most);
        return Err(Error::settings("groups per worker", problem));
    }
    let start = anneal::anneal(instance, limit, begun)?;
    if start.gap() <= limit.gap {
        return Ok(Scheduled { by: name, ..start });
    }
    let rest = Limit { time: limit.time.saturating_sub(begun.elapsed()), ..limit.clone() };
    let found = solve(instance, &start.schedule, &rest, name)?;
    Ok(Scheduled { complete: found.complete && start.complete, ..found })
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
pub(super) fn solve(_: &Instance, _: &super::Schedule, _: &Limit, name: &'static str) -> Result<Scheduled> {
    Err(no_solver(name))
}

#[cfg(not(feature = "ilp"))]
fn possible(name: &'static str) -> Result<()> {
    Err(no_solver(name))
}

#[cfg(not(feature = "ilp"))]
fn no_solver(name: &str) -> Error {
    let problem = format!(
        "'{name}' needs the solver HiGHS, which is not in this program; build with `--features ilp` (this takes cmake, \
         a C++ compiler and libclang), or use 'dygnex' or 'real'"
    );
    Error::settings("scheduler", problem)
}
