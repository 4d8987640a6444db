//! A bound that knows that the bins of an iteration are disjoint, and a start for annealing: column
//! generation.
//!
//! The bounds of `bound.rs` let every iteration have `G` equal bins. Pairs that save most are few and of all
//! loads, so with reuse that is too good to be true. Here a column is a whole iteration: at most `G` disjoint
//! bins of one or two groups, which takes as long as its slowest bin and the overhead. A schedule of `m`
//! iterations is a choice of `m` columns that cover every group.
//!
//! Bound: give every group a price `u >= 0`, and let `w` be a number such that every column takes at least
//! the prices of its groups plus `w`. Summed over the iterations of a schedule, each group being in one of
//! them, its time is at least `sum(u) + m * w`. A schedule that wastes nothing has between
//! `ceil(n / (G * L))` and `ceil(n / G)` iterations, so `sum(u) + min(fewest * w, most * w)` is a bound,
//! whatever the prices. (Every other schedule becomes such a one by sorting and cutting, which makes it no
//! slower.) `pricing.rs` finds `w`, and does so without rounding in its favour: `slack` is taken off it.
//!
//! Which prices are good is asked of a linear program (`simplex.rs`): the cheapest fractional choice of the
//! columns known so far. Its prices lead to columns that it should have known, these to other prices, and so
//! on (Gilmore and Gomory 1961). Its prices swing wildly at first; those that are tried lie between them and
//! the best so far (Wentges 1997).
//!
//! Start: columns that the program takes most of are iterations that go well together. As many as are
//! disjoint are kept, and what they leave is matched and folded.

use std::time::Instant;

use super::Limit;
use super::instance::Instance;
use super::pricing::{Iteration, PATIENCE, Pricer};
use super::simplex::{Column, Cover};
use super::timetable::Schedule;

/// The most groups and workers: pivots take the square of the groups, and searches for columns grow with the
/// workers.
const GROUPS: usize = 160;
const WORKERS: usize = 8;
/// Rounds after which it is enough, and work in all of them for each second of the limit and in all: about
/// half of the time.
///
/// Work is counted in bins that are looked at, so that the answer does not depend on the clock.
const ROUNDS: usize = 60;
const WORK: f64 = 25_000_000.0;
/// What bringing a bin into order, and a number of the program's in a pivot, count as.
const ORDERED: usize = 20;
const PIVOTED: usize = 15;
/// Pivots of a round.
const PIVOTS: usize = 1000;
/// Columns for each group of the first round, which may fall short of their prices by a part of an iteration,
/// and of each later one.
const FIRST: usize = 30;
const MARGIN: f64 = 0.06;
const LATER: usize = 8;
/// How much of the best prices is in those that are tried.
const STAY: f64 = 0.8;
/// What is given away for a quicker search, and what is near enough to the program's own value.
const SLACK: f64 = 1e-4;
const ENOUGH: f64 = 3e-4;

/// What came of it.
pub(super) struct Found {
    /// Seconds that no schedule can beat.
    pub(super) bound: f64,
    /// Bins of iterations that go well together; they may leave out groups.
    pub(super) bins: Vec<Vec<usize>>,
    /// Whether it ended by itself and not by the clock.
    pub(super) complete: bool,
}

/// Whether an instance is small enough, and has no bins of more than two groups.
pub(super) fn fits(instance: &Instance) -> bool {
    instance.most <= 2
        && (2..=WORKERS).contains(&instance.workers)
        && (2..=GROUPS).contains(&instance.groups())
}

/// Looks for a bound and for iterations; what is known so far are a schedule and a bound.
pub(super) fn search(instance: &Instance, known: &Schedule, limit: &Limit, begun: Instant) -> Found {
    let (groups, (fewest, most)) = (instance.groups(), instance.iterations());
    let alone: Vec<f64> = instance.costs.iter().map(|cost| cost + instance.overhead).collect();
    let mut cover = Cover::new(&alone, fewest as f64);
    let mut all: Vec<Iteration> =
        (0..groups).map(|group| Iteration { seconds: alone[group], bins: vec![vec![group]] }).collect();
    all.extend(known.iterations.iter().filter_map(|workers| iteration(instance, workers)));
    all[groups..].iter().for_each(|iteration| cover.add(column(iteration, groups)));
    let pricer = Pricer::new(instance, PATIENCE);
    // Per iteration.
    let mean = known.seconds(instance) / fewest as f64;
    let mut best = first_prices(instance);
    let mut best_bound = 0.0;
    let (mut stay, mut work, mut complete) = (1.0, 0, true);
    let enough = (WORK * limit.time.as_secs_f64().min(1.0)) as usize;
    for round in 0..ROUNDS {
        let first = round == 0;
        let wanted = if first { best.clone() } else { cover.solve(PIVOTS) };
        let mixed = wanted.iter().zip(&best).map(|(wanted, best)| (1.0 - stay) * wanted + stay * best);
        let prices: Vec<f64> = mixed.map(|price| price.max(0.0)).collect();
        let margin = if first { MARGIN * mean } else { 0.0 };
        let priced = pricer.price(&prices[..groups], prices[groups], margin, SLACK * mean);
        work += priced.looked + ORDERED * pricer.bins();
        let count = if priced.least >= 0.0 { fewest } else { most };
        let bound = prices[..groups].iter().sum::<f64>() + count as f64 * priced.least;
        if bound > best_bound {
            (best, best_bound) = (prices, bound);
        }
        let mut iterations: Vec<(f64, Iteration)> =
            priced.iterations.into_iter().map(|found| (dear(&found, &wanted), found)).collect();
        iterations.sort_by(|one, other| one.0.total_cmp(&other.0));
        // Where nothing new was learnt, the program's own prices are listened to more.
        let learnt = iterations.first().is_some_and(|(dear, _)| *dear < 0.0);
        stay = if learnt || first { STAY } else { stay / 2.0 };
        for iteration in some_for_each(iterations, groups, if first { FIRST } else { LATER }) {
            cover.add(column(&iteration, groups));
            all.push(iteration);
        }
        let near = !first && cover.cost() <= best_bound * (1.0 + ENOUGH);
        if near
            || work + PIVOTED * groups * cover.pivots() > enough
            || known.seconds(instance) <= best_bound * (1.0 + limit.gap)
        {
            break;
        }
        if limit.is_over(begun, 0.7) {
            complete = false;
            break;
        }
    }
    Found { bound: best_bound, bins: disjoint(&cover, &all, groups), complete }
}

/// An iteration of a schedule, if it runs something.
fn iteration(instance: &Instance, workers: &[Vec<usize>]) -> Option<Iteration> {
    let slowest = workers.iter().map(|bin| instance.load(bin)).fold(0.0, f64::max);
    let bins: Vec<Vec<usize>> = workers.iter().filter(|bin| !bin.is_empty()).cloned().collect();
    (!bins.is_empty()).then_some(Iteration { seconds: slowest + instance.overhead, bins })
}

/// Its column: a row for each group, and the last row, which counts iterations.
fn column(iteration: &Iteration, groups: usize) -> Column {
    let rows = iteration.bins.iter().flatten().copied().chain([groups]).collect();
    Column { cost: iteration.seconds, rows }
}

/// The first of these iterations, up to a number for each group.
fn some_for_each(iterations: Vec<(f64, Iteration)>, groups: usize, count: usize) -> Vec<Iteration> {
    let mut wanted = vec![count; groups];
    let mut some = Vec::new();
    for (_, iteration) in iterations {
        if iteration.bins.iter().flatten().any(|&group| wanted[group] > 0) {
            iteration
                .bins
                .iter()
                .flatten()
                .for_each(|&group| wanted[group] = wanted[group].saturating_sub(1));
            some.push(iteration);
        }
    }
    some
}

/// What an iteration takes more than its prices.
fn dear(iteration: &Iteration, prices: &[f64]) -> f64 {
    let groups = iteration.bins.iter().flatten();
    iteration.seconds - groups.map(|&group| prices[group]).sum::<f64>() - prices[prices.len() - 1]
}

/// Prices that are too low, but not by much: an even part of what a group costs when it saves what it can.
fn first_prices(instance: &Instance) -> Vec<f64> {
    let saved = instance.reuse.best(instance.groups());
    let price = |(cost, saved): (&f64, f64)| (cost - saved / 2.0).max(0.0) / instance.workers as f64;
    instance.costs.iter().zip(saved).map(price).chain([instance.overhead]).collect()
}

/// The bins of the iterations that are taken most of, as long as they are disjoint.
fn disjoint(cover: &Cover, all: &[Iteration], groups: usize) -> Vec<Vec<usize>> {
    let mut taken: Vec<(usize, f64)> = cover.taken().collect();
    taken.sort_by(|one, other| other.1.total_cmp(&one.1));
    let mut used = vec![false; groups];
    let mut kept = Vec::new();
    for (number, _) in taken {
        let bins = &all[number].bins;
        if bins.iter().flatten().all(|&group| !used[group]) {
            bins.iter().flatten().for_each(|&group| used[group] = true);
            kept.extend(bins.iter().cloned());
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::schedule::{Reuse, Scheduler, exact, fold};

    fn instances(groups: std::ops::Range<usize>) -> impl Strategy<Value = Instance> {
        let costs = prop_oneof![
            prop::collection::vec(0.0..10.0_f64, groups.clone()),
            prop::collection::vec((0..3_u8).prop_map(f64::from), groups.clone()),
            prop::collection::vec((0.01..1.0_f64).prop_map(|x| 1.0 / x), groups),
        ];
        let overhead = prop_oneof![Just(0.0), 0.0..5.0_f64];
        let shared = (1..5_usize, prop_oneof![Just(0.0), Just(0.3), 0.0..1.0_f64]);
        (costs, 2..5_usize, 1..3_usize, overhead, shared).prop_map(
            |(costs, workers, most, overhead, (overlap, ratio))| {
                let windows: Vec<_> = (0..costs.len()).map(|start| start..start + overlap + 1).collect();
                let reuse = Reuse::from_ratio(ratio, &windows, &costs).unwrap();
                Instance { most, overhead, reuse, ..Instance::new(costs, workers) }
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

        #[test]
        fn the_bound_is_below_the_optimum(instance in instances(2..9)) {
            prop_assert!(fits(&instance));
            let limit = Limit::default();
            let known = fold::Fold.schedule(&instance, &limit).unwrap().schedule;
            let found = search(&instance, &known, &limit, Instant::now());
            let optimum = exact::fastest(&instance).unwrap().seconds(&instance);
            prop_assert!(found.bound <= optimum + 1e-9 * (1.0 + optimum), "{} of {optimum}", found.bound);
            let mut groups = found.bins.concat();
            groups.sort_unstable();
            prop_assert!(groups.is_sorted_by(|one, other| one < other), "a group twice: {:?}", found.bins);
            prop_assert!(found.bins.iter().all(|bin| bin.len() <= instance.most));
        }
    }
}
