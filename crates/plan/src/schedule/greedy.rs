//! The greedy schedulers of the papers: DyGNeX-G (Algorithm 2) and REAL-G (Algorithm 1), which also counts
//! what pairs save.
//!
//! While more than `G` groups are left, the costliest one is paired with each other one, or with none, and
//! gives a target. For each target, pairs near it are looked for with two pointers from both ends of the
//! sorted list. The target whose iteration wastes least is taken (DyGNeX equation 9, REAL equation 15). The
//! last `G` groups run alone.
//!
//! As printed, chosen groups stay in the list, so one pair would be found `G - 1` times: here they leave it,
//! and only the group of no cost may be used again. REAL's line 8 leaves the target's own pair out of the
//! sum: equation 15 has it, and so do we.
//!
//! As printed it takes `O(n^3)`: `n / G` iterations of `n` targets with `G` searches of length `n`. Two
//! departures make that `O(n^2 / G)` with a factor of [`TARGETS`]:
//! - *one search* serves all workers: it keeps every pair it passes (of more than `16 G` the `8 G` nearest),
//!   and the nearest disjoint ones are taken; only if they are too few does it search again among the groups
//!   left. A second search in the shorter list may pass pairs that the first did not, so from three workers
//!   on the pairs may differ from the paper's;
//! - *sampled targets*: if more than [`TARGETS`] groups are left, at most that number, evenly spaced in the
//!   sorted list, give targets, since neighbours in a long list give nearly the same one. With reuse they do
//!   not: the few groups that share with the costliest one may be left out.
//!
//! `tests/papers` has the algorithms line by line as printed. The schedules are the same for one or two
//! workers and up to [`TARGETS`] groups, and everywhere once the transcription makes these departures too.
//! REAL-G gains little from reuse either way: on windows that share a quarter, the printed algorithm is as
//! far from the bound as this one, to within 1 %. It chooses the iteration that wastes least, not the one
//! that saves most: pairs that save nothing but are equally long waste nothing.

use std::time::Instant;

use super::fold::{best_fold, by_cost};
use super::instance::Instance;
use super::timetable::Schedule;
use super::{Limit, Scheduled, Scheduler};
use crate::error::Result;

/// DyGNeX-G.
pub(super) const DYGNEX: Greedy = Greedy {
    name: "dygnex-g",
    about: "DyGNeX's greedy: iteration by iteration, pairs near the target that wastes least",
    reuse: false,
};

/// REAL-G.
pub(super) const REAL: Greedy = Greedy {
    name: "real-g",
    about: "REAL's greedy: as DyGNeX's, and pairs count with what they save each other",
    reuse: true,
};

/// The most targets tried for an iteration.
const TARGETS: usize = 64;

/// A greedy scheduler.
pub(super) struct Greedy {
    name: &'static str,
    about: &'static str,
    reuse: bool,
}

impl Scheduler for Greedy {
    fn name(&self) -> &'static str {
        self.name
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn schedule(&self, instance: &Instance, limit: &Limit) -> Result<Scheduled> {
        let begun = Instant::now();
        instance.check()?;
        let mut groups = by_cost(instance, 0..instance.groups());
        groups.reverse();
        let mut iterations = Vec::new();
        // Pairs are all it knows: with one group per worker there is nothing to choose.
        while groups.len() > instance.workers && instance.most >= 2 {
            let in_time = || !limit.is_over(begun, 1.0);
            let Some(pairs) = Search::new(instance, &groups, self.reuse).iteration(in_time) else { break };
            let mut left = vec![true; groups.len() + 1];
            let mut iteration = vec![Vec::new(); instance.workers];
            for (bin, pair) in iteration.iter_mut().zip(&pairs) {
                (left[pair.high], left[pair.low]) = (false, false);
                bin.push(groups[pair.high - 1]);
                bin.extend(pair.low.checked_sub(1).map(|low| groups[low]));
            }
            iterations.push(iteration);
            let mut left = left.into_iter().skip(1);
            groups.retain(|_| left.next().unwrap_or(true));
        }
        let complete = groups.len() <= instance.workers || instance.most < 2;
        groups.reverse();
        let rest = if complete {
            groups.iter().map(|&group| vec![group]).collect()
        } else {
            best_fold(instance, &groups, Vec::new())
        };
        iterations.extend(Schedule::from_bins(instance, rest).iterations);
        let scheduled = Scheduled::new(instance, Schedule { iterations }, self.name, begun);
        Ok(Scheduled { complete, ..scheduled })
    }
}

/// Two places in the sorted list; place 0 is the group of no cost.
#[derive(Clone, Copy)]
struct Pair {
    load: f64,
    low: usize,
    high: usize,
}

/// The search for one iteration.
struct Search<'a> {
    instance: &'a Instance,
    /// Groups left, in rising order of cost: place `p` is `groups[p - 1]`.
    groups: &'a [usize],
    /// The cost at each place, place 0 included.
    costs: Vec<f64>,
    reuse: bool,
    /// For each place the last target that used it.
    used: Vec<usize>,
    /// Pairs passed by the pointers, with their distance to the target.
    passed: Vec<(f64, Pair)>,
}

impl<'a> Search<'a> {
    fn new(instance: &'a Instance, groups: &'a [usize], reuse: bool) -> Self {
        let costs = std::iter::once(0.0).chain(groups.iter().map(|&group| instance.costs[group]));
        let (costs, used) = (costs.collect(), vec![0; groups.len() + 1]);
        Search { instance, groups, costs, reuse, used, passed: Vec::new() }
    }

    /// The pairs of the iteration that wastes least, unless time runs out.
    fn iteration(mut self, in_time: impl Fn() -> bool) -> Option<Vec<Pair>> {
        let last = self.groups.len();
        let step = last.div_ceil(TARGETS).max(1);
        let mut best = (f64::INFINITY, Vec::new());
        for (turn, low) in (0..last).step_by(step).enumerate() {
            if !in_time() {
                return None;
            }
            let pairs = self.near(self.pair(low, last), turn + 1);
            let longest = pairs.iter().map(|pair| pair.load).fold(0.0, f64::max);
            let work: f64 = pairs.iter().map(|pair| pair.load).sum();
            let waste = longest * self.instance.workers as f64 - work;
            if waste < best.0 {
                best = (waste, pairs);
            }
        }
        Some(best.1)
    }

    fn pair(&self, low: usize, high: usize) -> Pair {
        let saved = match low.checked_sub(1) {
            Some(low) if self.reuse => self.instance.reuse.saved(self.groups[low], self.groups[high - 1]),
            _ => 0.0,
        };
        Pair { load: self.costs[low] + self.costs[high] - saved, low, high }
    }

    /// The target's pair and up to `G - 1` disjoint ones near it; `turn` marks the places they use.
    fn near(&mut self, target: Pair, turn: usize) -> Vec<Pair> {
        let workers = self.instance.workers;
        let mut pairs = Vec::with_capacity(workers.min(self.groups.len()));
        self.take(target, turn, &mut pairs);
        while pairs.len() < workers {
            self.pass(target.load, turn);
            let nearest = 8 * workers;
            if self.passed.len() > 2 * nearest {
                self.passed.select_nth_unstable_by(nearest, |one, other| one.0.total_cmp(&other.0));
                self.passed.truncate(nearest);
            }
            self.passed
                .sort_unstable_by(|one, other| one.0.total_cmp(&other.0).then(other.1.high.cmp(&one.1.high)));
            let before = pairs.len();
            for (_, pair) in std::mem::take(&mut self.passed) {
                if pairs.len() < workers {
                    self.take(pair, turn, &mut pairs);
                }
            }
            if pairs.len() == before {
                break;
            }
        }
        pairs
    }

    fn is_free(&self, place: usize, turn: usize) -> bool {
        place == 0 || self.used[place] != turn
    }

    fn take(&mut self, pair: Pair, turn: usize, pairs: &mut Vec<Pair>) {
        if self.is_free(pair.low, turn) && self.is_free(pair.high, turn) {
            (self.used[pair.low], self.used[pair.high]) = (turn, turn);
            pairs.push(pair);
        }
    }

    /// Two pointers from both ends, over the places that are free.
    fn pass(&mut self, target: f64, turn: usize) {
        self.passed.clear();
        let (mut low, mut high) = (0, self.groups.len());
        while low < high {
            if !self.is_free(high, turn) {
                high -= 1;
            } else if !self.is_free(low, turn) {
                low += 1;
            } else {
                let pair = self.pair(low, high);
                self.passed.push(((pair.load - target).abs(), pair));
                if pair.load < target {
                    low += 1;
                } else {
                    high -= 1;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Reuse;

    #[test]
    fn pairs_meet_the_target_that_wastes_nothing() {
        let instance = Instance::new(vec![10.0, 3.0, 9.0, 4.0, 8.0, 5.0], 3);
        let found = DYGNEX.schedule(&instance, &Limit::default()).unwrap();
        found.schedule.check(&instance).unwrap();
        assert_eq!(found.seconds, 13.0);
        assert_eq!(found.schedule.iterations.len(), 1);
    }

    #[test]
    fn real_pairs_what_shares_and_dygnex_does_not_look() {
        let saved = vec![vec![3.0], vec![2.0], vec![3.0], vec![]];
        let reuse = Reuse::Band { width: 1, saved };
        let instance = Instance { reuse, ..Instance::new(vec![9.0, 4.0, 5.0, 8.0], 2) };
        // The target 9 + 4 - 3 is met by 8 + 5 - 3: nothing is wasted. Alone, 9 is nearest to 8.
        let real = REAL.schedule(&instance, &Limit::default()).unwrap();
        assert_eq!(real.schedule.iterations, [[vec![0, 1], vec![3, 2]]]);
        assert_eq!(real.seconds, 10.0);
        // By costs alone, 9 is met by 5 + 4, and 8 is left for an iteration of its own.
        let dygnex = DYGNEX.schedule(&instance, &Limit::default()).unwrap();
        assert_eq!(dygnex.schedule.iterations, [[vec![0], vec![2, 1]], [vec![3], vec![]]]);
    }

    #[test]
    fn out_of_time_the_rest_is_folded() {
        let instance = Instance::new((1..=40).map(f64::from).collect(), 3);
        let limit = Limit { time: std::time::Duration::ZERO, ..Limit::default() };
        let found = REAL.schedule(&instance, &limit).unwrap();
        found.schedule.check(&instance).unwrap();
        assert!(!found.complete);
    }
}
