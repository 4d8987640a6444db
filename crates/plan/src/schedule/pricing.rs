//! Given a price for every group, the iterations that are worth more than they take: the pricing step of
//! `columns.rs`.
//!
//! An iteration is led by its slowest bin and has at most `G - 1` other bins, none slower, all disjoint. For
//! every bin as the leader, a search in falling order of value finds the others; it turns back where even the
//! next value, taken for every bin still to come, is not enough, nor are the dearest groups that are left,
//! two for every bin. A search that takes too long is given up, and what could at most have been found counts
//! instead, so that what is said of *all* iterations is true in any case.

use super::instance::Instance;

/// No group.
const NONE: usize = usize::MAX;
/// Bins that one search may look at. With good prices few are needed, and with bad ones the answer is of no
/// use.
pub(super) const PATIENCE: usize = 10_000;

/// What a worker may run in an iteration: a group or a pair.
struct Bin {
    groups: [usize; 2],
    load: f64,
}

impl Bin {
    fn groups(&self) -> impl Iterator<Item = usize> {
        self.groups.into_iter().filter(|&group| group != NONE)
    }
}

/// What all workers run before they take a step together.
#[derive(Clone, Debug)]
pub(super) struct Iteration {
    /// Seconds of the slowest bin, and the overhead.
    pub(super) seconds: f64,
    /// What each worker runs; none is empty.
    pub(super) bins: Vec<Vec<usize>>,
}

/// What prices say about iterations.
pub(super) struct Priced {
    /// No iteration takes less than the prices of its groups and this.
    pub(super) least: f64,
    /// Iterations that take less than their groups' prices and what was asked for, the best for each leader.
    pub(super) iterations: Vec<Iteration>,
    /// Bins that were looked at.
    pub(super) looked: usize,
}

/// What iterations are made of.
pub(super) struct Pricer<'a> {
    instance: &'a Instance,
    bins: Vec<Bin>,
    patience: usize,
}

impl<'a> Pricer<'a> {
    /// All groups and all pairs; a search looks at a limited number of them.
    pub(super) fn new(instance: &'a Instance, patience: usize) -> Self {
        let mut bins = Vec::new();
        for one in 0..instance.groups() {
            bins.push(Bin { groups: [one, NONE], load: instance.costs[one] });
            let others = if instance.most >= 2 { one + 1..instance.groups() } else { 0..0 };
            bins.extend(others.map(|other| Bin { groups: [one, other], load: instance.load(&[one, other]) }));
        }
        Pricer { instance, bins, patience }
    }

    /// How many bins there are.
    pub(super) fn bins(&self) -> usize {
        self.bins.len()
    }

    /// Looks for iterations that take less than the `prices` of their groups, which are not negative, and
    /// `rest` and `margin`.
    ///
    /// Iterations that fall short by `slack` or less may be overlooked, but are counted in.
    pub(super) fn price(&self, prices: &[f64], rest: f64, margin: f64, slack: f64) -> Priced {
        let overhead = self.instance.overhead;
        let value = |bin: &Bin| bin.groups().map(|group| prices[group]).sum::<f64>();
        let mut bins: Vec<(f64, &Bin)> = self.bins.iter().map(|bin| (value(bin), bin)).collect();
        bins.sort_by(|one, other| other.0.total_cmp(&one.0));
        let tops = tops(&bins);
        let mut dearest: Vec<usize> = (0..prices.len()).collect();
        dearest.sort_by(|&one, &other| prices[other].total_cmp(&prices[one]));
        let others = self.instance.workers - 1;
        let mut priced = Priced { least: rest + margin, iterations: Vec::new(), looked: 0 };
        for &(value, leader) in &bins {
            // What the others must be worth for the iteration to be of interest.
            let wanted = leader.load + overhead - rest - margin + slack - value;
            let top = tops[tops.partition_point(|(load, _)| *load <= leader.load) - 1].1;
            if others as f64 * top <= wanted {
                continue;
            }
            let least = wanted - others.saturating_sub(1) as f64 * top;
            let fits = |bin: &Bin| {
                bin.load <= leader.load && bin.groups().all(|group| !leader.groups.contains(&group))
            };
            let worth = bins.iter().take_while(|(value, _)| *value > 0.0 && *value >= least);
            let beside: Vec<(f64, &Bin)> = worth.filter(|(_, bin)| fits(bin)).copied().collect();
            let mut search = Search {
                beside: &beside,
                dearest: &dearest,
                prices,
                best: wanted,
                found: None,
                chosen: Vec::new(),
                used: self.instance.costs.iter().map(|&cost| cost > leader.load).collect(),
                looked: 0,
                patience: self.patience,
            };
            leader.groups().for_each(|group| search.used[group] = true);
            let ceiling = search.ceiling(others);
            search.choose(0, others, 0.0);
            priced.looked += search.looked;
            let mut most = search.best;
            if search.looked > self.patience {
                // It was given up: no bin beside this leader is worth more than the first, and none holds
                // more than two groups.
                let first = beside.first().map_or(0.0, |(first, _)| *first);
                most = most.max(ceiling.min(others as f64 * first));
            }
            priced.least = priced.least.min(leader.load + overhead - value - most);
            if let Some(found) = search.found {
                let beside = found.iter().map(|&at| beside[at].1);
                let bins = std::iter::once(leader).chain(beside).map(|bin| bin.groups().collect()).collect();
                priced.iterations.push(Iteration { seconds: leader.load + overhead, bins });
            }
        }
        priced.least -= slack;
        priced
    }
}

/// Loads in rising order, and the highest value up to each.
fn tops(bins: &[(f64, &Bin)]) -> Vec<(f64, f64)> {
    let mut tops: Vec<(f64, f64)> = bins.iter().map(|(value, bin)| (bin.load, *value)).collect();
    tops.sort_by(|one, other| one.0.total_cmp(&other.0));
    let mut highest = 0.0;
    for (_, value) in &mut tops {
        highest = f64::max(highest, *value);
        *value = highest;
    }
    tops
}

/// A search for disjoint bins that are worth more than `best`.
struct Search<'a> {
    beside: &'a [(f64, &'a Bin)],
    /// Groups in falling order of price.
    dearest: &'a [usize],
    prices: &'a [f64],
    best: f64,
    found: Option<Vec<usize>>,
    chosen: Vec<usize>,
    /// Groups that are in a chosen bin, or too costly.
    used: Vec<bool>,
    looked: usize,
    patience: usize,
}

impl Search<'_> {
    /// What a number of bins of the groups that are left are worth at most.
    fn ceiling(&self, bins: usize) -> f64 {
        let left = self.dearest.iter().filter(|&&group| !self.used[group]);
        left.take(2 * bins).map(|&group| self.prices[group]).sum()
    }

    fn choose(&mut self, from: usize, left: usize, sum: f64) {
        if sum > self.best {
            self.best = sum;
            self.found = Some(self.chosen.clone());
        }
        if left == 0 || sum + self.ceiling(left) <= self.best {
            return;
        }
        for at in from..self.beside.len() {
            let (value, bin) = self.beside[at];
            self.looked += 1;
            if self.looked > self.patience || sum + left as f64 * value <= self.best {
                return;
            }
            if bin.groups().any(|group| self.used[group]) {
                continue;
            }
            bin.groups().for_each(|group| self.used[group] = true);
            self.chosen.push(at);
            self.choose(at + 1, left - 1, sum + value);
            self.chosen.pop();
            bin.groups().for_each(|group| self.used[group] = false);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::schedule::{Reuse, exact};

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

        #[test]
        fn no_prices_promise_more_than_the_fastest_takes(
            costs in prop::collection::vec(0.0..4.0_f64, 2..8),
            prices in prop::collection::vec(0.0..2.0_f64, 8),
            (workers, most) in (2..4_usize, 1..3_usize),
            (overhead, ratio) in (0.0..1.0_f64, 0.0..1.0_f64),
            (rest, margin) in (-1.0..1.0_f64, 0.0..1.0_f64),
            patience in prop_oneof![Just(3_usize), Just(PATIENCE)],
        ) {
            let windows: Vec<_> = (0..costs.len()).map(|start| start..start + 3).collect();
            let reuse = Reuse::from_ratio(ratio, &windows, &costs).unwrap();
            let instance = Instance { most, overhead, reuse, ..Instance::new(costs, workers) };
            let fastest = exact::fastest(&instance).unwrap();
            let prices = &prices[..instance.groups()];
            let priced = Pricer::new(&instance, patience).price(prices, rest, margin, 0.0);
            let promised = prices.iter().sum::<f64>() + priced.least * fastest.optimiser_steps() as f64;
            let seconds = fastest.seconds(&instance);
            prop_assert!(promised <= seconds + 1e-9, "{promised} of {seconds}");
            for iteration in &priced.iterations {
                let worth: f64 = iteration.bins.iter().flatten().map(|&group| prices[group]).sum();
                prop_assert!(iteration.seconds < worth + rest + margin + 1e-9);
                let slowest = iteration.bins.iter().map(|bin| instance.load(bin)).fold(0.0, f64::max);
                prop_assert!((slowest + overhead - iteration.seconds).abs() < 1e-9);
                prop_assert!(iteration.bins.len() <= workers);
                let mut groups = iteration.bins.concat();
                groups.sort_unstable();
                prop_assert!(groups.is_sorted_by(|one, other| one < other));
            }
        }
    }
}
