//! Annealing: groups change places between bins, at first even where that costs a little.
//!
//! It starts from the best folds, from the matching and from runs, or from bins that the caller has. The
//! state is a fixed number of bins in iterations; a move exchanges two places, of which one may be empty. The
//! time of an iteration is kept with its slowest bin, so that a move looks at two iterations only. Now and
//! then bins are sorted and cut anew, which never costs anything ([`Schedule::from_bins`]).
//!
//! The number of moves follows from the numbers of groups and workers and from the limit as it was set, not
//! from the clock, and the temperature from the number of moves made: the same question gets the same
//! schedule. The clock only cuts it short, and then [`Scheduled::complete`] is false.

use std::time::Instant;

use super::fold::{by_cost, cut_seconds, fold, light_ends};
use super::instance::Instance;
use super::matched::matched;
use super::moves::State;
use super::random::Random;
use super::reuse::Reuse;
use super::runs::best_runs;
use super::timetable::Schedule;
use super::{Limit, Scheduled, Scheduler};
use crate::error::Result;

/// Moves for each group, and the most for each second of the limit on a small number of workers.
///
/// Even a slow machine makes this number in less than its second, so the clock is there for the unforeseen.
const MOVES_PER_GROUP: f64 = 40_000.0;
const MOVES_PER_SECOND: f64 = 5_000_000.0;
/// With this number of workers a move takes twice as long: the slowest of them must be found.
const WORKERS_PER_MOVE: f64 = 128.0;
/// How many starts are looked into before the best one gets the rest of the moves.
const STARTS: usize = 3;

/// Annealing.
pub(super) struct Anneal;

impl Scheduler for Anneal {
    fn name(&self) -> &'static str {
        "anneal"
    }

    fn about(&self) -> &'static str {
        "starts from 'fold', 'match' and 'runs' and exchanges groups between bins while that helps"
    }

    fn schedule(&self, instance: &Instance, limit: &Limit) -> Result<Scheduled> {
        anneal(instance, limit, Instant::now())
    }
}

/// Anneals; the time of the limit runs since `begun`.
pub(super) fn anneal(instance: &Instance, limit: &Limit, begun: Instant) -> Result<Scheduled> {
    instance.check()?;
    let bound = instance.lower_bound();
    let mut starts = starts(instance);
    starts.truncate(STARTS);
    let moves = moves(instance, limit);
    let clock = Clock { begun, limit, enough: bound * (1.0 + limit.gap.max(1e-12)) };
    let random = |number: usize| Random::new(limit.seed.wrapping_mul(1009).wrapping_add(number as u64));
    let mut complete = true;
    // Half of the moves tell which start is worth the other half.
    let share = moves / 2 / starts.len().max(1);
    for (number, start) in starts.iter_mut().enumerate() {
        complete &= improve(instance, start, share, 1.0, &clock, &mut random(number));
    }
    starts.sort_by(|one, other| one.seconds.total_cmp(&other.seconds));
    if let Some(start) = starts.first_mut() {
        complete &= improve(instance, start, moves / 2, 0.5, &clock, &mut random(STARTS));
    }
    let bins = starts.into_iter().next().map(|start| start.bins).unwrap_or_default();
    let schedule = Schedule::from_bins(instance, bins);
    let scheduled = Scheduled::bounded(instance, schedule, bound, Anneal.name(), begun);
    Ok(Scheduled { complete, ..scheduled })
}

/// Anneals these bins, about which a bound is known.
pub(super) fn anneal_from(
    instance: &Instance,
    bins: Vec<Vec<usize>>,
    bound: f64,
    limit: &Limit,
    begun: Instant,
) -> Scheduled {
    let clock = Clock { begun, limit, enough: bound * (1.0 + limit.gap.max(1e-12)) };
    let mut start = Start::new(instance, bins);
    let mut random = Random::new(limit.seed.wrapping_mul(1009).wrapping_add(STARTS as u64 + 1));
    let complete = improve(instance, &mut start, moves(instance, limit), 1.0, &clock, &mut random);
    let schedule = Schedule::from_bins(instance, start.bins);
    Scheduled { complete, ..Scheduled::bounded(instance, schedule, bound, Anneal.name(), begun) }
}

/// How many moves an instance gets.
fn moves(instance: &Instance, limit: &Limit) -> usize {
    let rate = MOVES_PER_SECOND / (1.0 + instance.workers as f64 / WORKERS_PER_MOVE);
    (instance.groups() as f64 * MOVES_PER_GROUP).min(limit.time.as_secs_f64() * rate) as usize
}

/// When to stop early.
struct Clock<'a> {
    begun: Instant,
    limit: &'a Limit,
    /// Seconds that need no improvement.
    enough: f64,
}

/// Bins and what they take, sorted and cut.
struct Start {
    bins: Vec<Vec<usize>>,
    seconds: f64,
}

impl Start {
    fn new(instance: &Instance, bins: Vec<Vec<usize>>) -> Self {
        let seconds = cut_seconds(instance, bins.iter().map(|bin| instance.load(bin)).collect());
        Start { bins, seconds }
    }
}

/// Folds into different numbers of iterations, the matching, and runs; the fastest first.
fn starts(instance: &Instance) -> Vec<Start> {
    let order = by_cost(instance, 0..instance.groups());
    let mut all = Vec::new();
    for iterations in instance.some_iterations() {
        all.push(fold(instance, &order, iterations.saturating_mul(instance.workers)));
    }
    let start = |bins| Start::new(instance, bins);
    let lights = light_ends(instance, &order).into_iter().map(start);
    // Of these one is enough: they differ little.
    let light = lights.min_by(|one, other| one.seconds.total_cmp(&other.seconds));
    if instance.reuse != Reuse::None {
        all.splice(0..0, [matched(instance), best_runs(instance)]);
    }
    let mut starts: Vec<Start> = all.into_iter().map(start).chain(light).collect();
    starts.sort_by(|one, other| one.seconds.total_cmp(&other.seconds));
    starts
}

/// Improves a start with this number of moves; false if the clock cut it short.
fn improve(
    instance: &Instance,
    start: &mut Start,
    moves: usize,
    heat: f64,
    clock: &Clock<'_>,
    random: &mut Random,
) -> bool {
    let Some(mut state) = State::new(instance, &start.bins) else { return true };
    let hottest = heat * state.temperature();
    let sort_every = 20 * state.bin_count() + 2000;
    let mut best = state.clone();
    let mut complete = true;
    for number in 0..moves {
        if number % 256 == 0 {
            if clock.limit.is_over(clock.begun, 1.0) {
                complete = false;
                break;
            }
            if state.seconds().min(best.seconds()) <= clock.enough {
                break;
            }
        }
        if number % sort_every == 0 {
            state.sort();
        }
        let left = 1.0 - number as f64 / moves as f64;
        let Some((one, other)) = state.propose(random) else { continue };
        let step = state.step(one, other);
        let worse = step.change > 0.0;
        if worse && random.unit() >= (-step.change / (hottest * left * left)).exp() {
            continue;
        }
        // The way down is not recorded, only where it turns.
        if worse && state.total() < best.total() {
            best.clone_from(&state);
        }
        state.take(one, other, &step);
    }
    state.sort();
    if state.total() < best.total() {
        best = state;
    }
    let found = Start::new(instance, best.bins());
    if found.seconds < start.seconds {
        *start = found;
    }
    complete
}
