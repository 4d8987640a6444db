//! Largest with smallest, then sort and cut.
//!
//! For a number of iterations `m` there are `m * G` bins. Groups are dealt in falling order of cost, each to
//! the lightest bin that has room. With at most two groups per bin this folds the sorted list over: the
//! largest groups lie alone or with the smallest ones. [`Schedule::from_bins`] then makes the best of the
//! bins. Several `m` are tried, and the best is kept. It takes `O(n log n)`.
//!
//! With few iterations it matters that the groups alone are lighter than the pairs: they all end up in the
//! last iteration, beside pairs that are as heavy as any. So folds are tried as well in which the pairs
//! beside them are made of lighter groups ([`light_end`]).

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;
use std::time::Instant;

use super::instance::Instance;
use super::timetable::Schedule;
use super::{Limit, Scheduled, Scheduler};
use crate::error::Result;

/// Largest with smallest.
pub(super) struct Fold;

impl Scheduler for Fold {
    fn name(&self) -> &'static str {
        "fold"
    }

    fn about(&self) -> &'static str {
        "the largest group with the smallest, bins sorted by load and cut into iterations"
    }

    fn is_immediate(&self) -> bool {
        true
    }

    fn schedule(&self, instance: &Instance, _: &Limit) -> Result<Scheduled> {
        let begun = Instant::now();
        instance.check()?;
        let order = by_cost(instance, 0..instance.groups());
        let bins = best_fold(instance, &order, Vec::new());
        Ok(Scheduled::new(instance, Schedule::from_bins(instance, bins), self.name(), begun))
    }
}

/// Groups in falling order of cost; of equal ones the earlier first.
pub(super) fn by_cost(instance: &Instance, groups: impl IntoIterator<Item = usize>) -> Vec<usize> {
    let mut order: Vec<usize> = groups.into_iter().collect();
    order.sort_by(|&one, &other| instance.costs[other].total_cmp(&instance.costs[one]));
    order
}

/// The best fold of these groups beside bins that are settled already.
pub(super) fn best_fold(instance: &Instance, order: &[usize], settled: Vec<Vec<usize>>) -> Vec<Vec<usize>> {
    let settled_loads: Vec<f64> = settled.iter().map(|bin| instance.load(bin)).collect();
    let mut best: Option<(f64, Vec<Vec<usize>>)> = None;
    let counts = bin_counts(instance, order.len(), settled.len()).into_iter();
    let mut folds: Vec<Vec<Vec<usize>>> = counts.map(|bins| fold(instance, order, bins)).collect();
    if settled.is_empty() {
        folds.extend(light_ends(instance, order));
    }
    for folded in folds {
        let mut loads = settled_loads.clone();
        loads.extend(folded.iter().filter(|bin| !bin.is_empty()).map(|bin| instance.load(bin)));
        let seconds = cut_seconds(instance, loads);
        if best.as_ref().is_none_or(|(least, _)| seconds < *least) {
            best = Some((seconds, folded));
        }
    }
    let mut bins = settled;
    bins.extend(best.into_iter().flat_map(|(_, folded)| folded));
    bins
}

/// Numbers of bins worth a try: those that fill iterations together with the settled bins.
fn bin_counts(instance: &Instance, groups: usize, settled: usize) -> Vec<usize> {
    let room = |bins: &usize| bins * instance.most >= groups && *bins <= groups;
    let counts = instance.some_iterations().into_iter();
    let mut counts: Vec<usize> =
        counts.map(|count| (count * instance.workers).saturating_sub(settled)).filter(room).collect();
    counts.extend([groups.div_ceil(instance.most), groups]);
    counts
}

/// Folds with a light last iteration, for the fewest iterations and several weights of it.
pub(super) fn light_ends(instance: &Instance, order: &[usize]) -> Vec<Vec<Vec<usize>>> {
    let slots = instance.iterations().0.saturating_mul(instance.workers).saturating_mul(2);
    let alone = slots.saturating_sub(order.len());
    if instance.most != 2 || alone == 0 || alone >= instance.workers || order.len() < 2 * instance.workers {
        return Vec::new();
    }
    let light = 2 * (instance.workers - alone);
    // Pairs of this run of groups weigh what the heaviest group alone does.
    let half = order.first().map_or(0.0, |&group| instance.costs[group] / 2.0);
    let middle = order[alone..].partition_point(|&group| instance.costs[group] > half);
    let last = order.len() - alone - light;
    let even = (0..WEIGHTS).map(|number| last * number / (WEIGHTS - 1));
    let begins = even.chain([middle.saturating_sub(light / 2).min(last)]);
    begins.map(|begin| light_end(instance, order, alone, begin..begin + light)).collect()
}

/// How many weights of the last iteration are tried.
const WEIGHTS: usize = 17;

/// A fold in which the heaviest groups are alone, and a run of the others is folded by itself.
fn light_end(instance: &Instance, order: &[usize], alone: usize, light: Range<usize>) -> Vec<Vec<usize>> {
    let (singles, others) = order.split_at(alone);
    let run = &others[light.clone()];
    let rest = [&others[..light.start], &others[light.end..]].concat();
    let mut bins: Vec<Vec<usize>> = singles.iter().map(|&group| vec![group]).collect();
    bins.extend(fold(instance, run, run.len() / 2));
    bins.extend(fold(instance, &rest, rest.len() / 2));
    bins
}

/// Seconds of an epoch with bins of these loads, sorted and cut.
pub(super) fn cut_seconds(instance: &Instance, mut loads: Vec<f64>) -> f64 {
    loads.sort_unstable_by(|one, other| other.total_cmp(one));
    let longest: f64 = loads.iter().step_by(instance.workers).sum();
    longest + loads.len().div_ceil(instance.workers) as f64 * instance.overhead
}

/// Deals groups, largest first, to a number of bins: each to the lightest that has room.
pub(super) fn fold(instance: &Instance, order: &[usize], count: usize) -> Vec<Vec<usize>> {
    let mut bins: Vec<Vec<usize>> = order.iter().take(count).map(|&group| vec![group]).collect();
    let rest = order.get(count..).unwrap_or_default();
    if instance.most <= 2 {
        // The lightest bin with room is always the last one that is still alone.
        bins.iter_mut().rev().zip(rest).for_each(|(bin, &group)| bin.push(group));
        return bins;
    }
    let cost = |group: usize| instance.costs[group];
    // Bits of numbers from 0 on are in the order of the numbers.
    let key = |load: f64, bin: usize| Reverse((load.max(0.0).to_bits(), Reverse(bin)));
    let mut open: BinaryHeap<_> = bins.iter().enumerate().map(|(at, bin)| key(cost(bin[0]), at)).collect();
    for &group in rest {
        let Some(Reverse((load, Reverse(at)))) = open.pop() else { break };
        bins[at].push(group);
        if bins[at].len() < instance.most {
            open.push(key(f64::from_bits(load) + cost(group), at));
        }
    }
    // Neighbours in time save most next to each other.
    bins.iter_mut().for_each(|bin| bin.sort_unstable());
    bins
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_lie_alone_or_with_the_smallest() {
        let instance = Instance::new(vec![5.0, 1.0, 4.0, 2.0, 3.0], 2);
        let order = by_cost(&instance, 0..5);
        assert_eq!(order, [0, 2, 4, 3, 1]);
        assert_eq!(fold(&instance, &order, 3), [vec![0], vec![2, 1], vec![4, 3]]);
        let three = Instance { most: 3, ..instance };
        assert_eq!(fold(&three, &order, 2), [vec![0, 3], vec![1, 2, 4]]);
    }
}
