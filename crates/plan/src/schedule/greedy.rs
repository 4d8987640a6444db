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
//! departures make that `O(n^2 / G)` with a factor of [`TARGETS`](super::targets::TARGETS):
//! - *one search* serves all workers: it keeps every pair it passes (of more than `16 G` the `8 G` nearest),
//!   and the nearest disjoint ones are taken; only if they are too few does it search again among the groups
//!   left. A second search in the shorter list may pass pairs that the first did not, so from three workers
//!   on the pairs may differ from the paper's;
//! - *sampled targets*: if more than `TARGETS` groups are left, at most that number, evenly spaced in the
//!   sorted list, give targets, since neighbours in a long list give nearly the same one.
//!
//! As printed REAL-G gains next to nothing from reuse. Its pointers pass a few of the pairs that overlap by
//! chance, and it takes the iteration that wastes least, not the one that saves most: pairs that save nothing
//! but are equally long waste nothing. So with reuse there are three more departures:
//! - *neighbours are targets*: the costliest group is also paired with every group left that it overlaps;
//! - *neighbours first*: of the pairs that overlap, those that miss the target by no more than they save are
//!   taken, the nearest first, before the pointers look for the rest (`overlap.rs`);
//! - *savings count*: the iteration is taken that wastes least, less what its pairs save. That is the time
//!   paid for, less the time that its groups would take alone.
//!
//! Where neighbours are many, the pointers have nothing left to do, and an epoch takes nearly linear time.
//! No greedy choice guarantees anything, and pairs are all it knows. So REAL-G also looks at the pairs of
//! DyGNeX-G, at plain pairs of consecutive groups (`blad`), at those that save most (`match`), and at runs of
//! as many consecutive groups as a worker may have (`runs`), sorts each by what they really take and cuts
//! them into iterations ([`Schedule::from_bins`]), and takes the fastest. So it is never behind any of them.
//! [`Scheduled::by`] and a note tell where the groups of another were taken.
//!
//! `tests/papers` has the algorithms line by line as printed. The schedules are the same for one or two
//! workers and up to `TARGETS` groups where there is no reuse, and everywhere once the transcription makes
//! these departures too.

use std::time::Instant;

use super::fold::{best_fold, by_cost};
use super::instance::Instance;
use super::overlap::Overlaps;
use super::reuse::Reuse;
use super::targets::Search;
use super::timetable::Schedule;
use super::{Limit, Scheduled, Scheduler, blad, matched, runs};
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
    about: "REAL's greedy: as DyGNeX's, groups that overlap first, and what pairs save each other counts",
    reuse: true,
};

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
        if !self.reuse || instance.reuse == Reuse::None {
            return Ok(self.choose(instance, limit, begun, 1.0));
        }
        // The rest of the time is for the one that it is compared with.
        let own = self.choose(instance, limit, begun, 0.5);
        let immediate: [&dyn Scheduler; 3] = [&blad::Pairs, &matched::Matched, &runs::Runs];
        let mut others = vec![DYGNEX.choose(instance, limit, begun, 1.0)];
        for other in immediate {
            others.push(other.schedule(instance, limit)?);
        }
        let complete = own.complete && others.iter().all(|other| other.complete);
        let sorted =
            |found: &Scheduled| Schedule::from_bins(instance, found.schedule.bins().cloned().collect());
        let (mut best, mut by) = (sorted(&own), self.name);
        for other in &others {
            let schedule = sorted(other);
            if schedule.seconds(instance) < best.seconds(instance) {
                (best, by) = (schedule, other.by);
            }
        }
        let note = format!("{}: these are the groups of '{by}', which are faster", self.name);
        let note = (by != self.name).then_some(note);
        Ok(Scheduled { complete, note, ..Scheduled::new(instance, best, by, begun) })
    }
}

impl Greedy {
    /// Iteration by iteration, until this part of the time is over.
    fn choose(&self, instance: &Instance, limit: &Limit, begun: Instant, part: f64) -> Scheduled {
        let mut groups = by_cost(instance, 0..instance.groups());
        groups.reverse();
        let shares = self.reuse && instance.reuse != Reuse::None;
        let mut overlaps = shares.then(|| Overlaps::new(instance));
        let mut iterations = Vec::new();
        // Pairs are all it knows: with one group per worker there is nothing to choose.
        while groups.len() > instance.workers && instance.most >= 2 {
            let in_time = || !limit.is_over(begun, part);
            let search = Search::new(instance, &groups, overlaps.as_ref());
            let Some(pairs) = search.iteration(in_time) else { break };
            let mut iteration = vec![Vec::new(); instance.workers];
            let mut gone = vec![false; instance.groups()];
            for (bin, pair) in iteration.iter_mut().zip(&pairs) {
                bin.push(groups[pair.high - 1]);
                bin.extend(pair.low.checked_sub(1).map(|low| groups[low]));
                bin.iter().for_each(|&group| gone[group] = true);
            }
            iterations.push(iteration);
            groups.retain(|&group| !gone[group]);
            overlaps.iter_mut().for_each(|overlaps| overlaps.keep(|group| !gone[group]));
        }
        let complete = groups.len() <= instance.workers || instance.most < 2;
        groups.reverse();
        let rest = if complete {
            groups.iter().map(|&group| vec![group]).collect()
        } else if shares {
            let settled: Vec<Vec<usize>> = iterations.iter().flatten().cloned().collect();
            let count = settled.len();
            matched::beside(instance, settled).split_off(count)
        } else {
            best_fold(instance, &groups, Vec::new())
        };
        iterations.extend(Schedule::from_bins(instance, rest).iterations);
        let scheduled = Scheduled::new(instance, Schedule { iterations }, self.name, begun);
        Scheduled { complete, ..scheduled }
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
