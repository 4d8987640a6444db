//! No schedule of an instance is faster than this.
//!
//! Write `c` for the costs in falling order, `e` for the costs less the most that each group can save with
//! one other, in falling order, and `b` for the loads of the bins (what a worker runs in an iteration), in
//! falling order. It is enough to look at schedules that are sorted and cut ([`super::Schedule::from_bins`]):
//! they have at most `ceil(n / G)` iterations, and iteration `k` (from 0) takes `b[k * G]`. With `m`
//! iterations there are `m * G` bins of at most `L` groups.
//!
//! 1. A bin is no lighter than its costliest group, since a group never saves more than it costs. And any `j`
//!    bins hold at most `j * L` groups. So `b[j] >= c[j * L]`.
//! 2. Pigeons: of the `(q - 1) * m * G + j * (L - q + 1) + 1` groups with the largest `e`, more than `j` bins
//!    hold `q` or more. So `b[j] >= q * e[(q - 1) * m * G + j * (L - q + 1)]`.
//! 3. Work: the first `k` iterations hold at most `k * G * L` groups, the others share the rest of the work,
//!    which takes them at least a `G`th of it. So the epoch takes at least `b[0] + ... + b[(k - 1) * G]` by 1
//!    and 2, and `(work - c[0] - ... - c[k * G * L - 1]) / G` besides, for every `k`. Work is the sum of the
//!    costs less the most that can be saved in all ([`most_saved`]).
//! 4. Depth: take the fullest bin of each iteration. They hold `ceil(n / G)` groups or more, all different,
//!    so the epoch takes at least the sum of the `ceil(n / G)` smallest `e`. Leaving out groups makes no
//!    schedule slower if costs are `e`, so the same holds among the groups with the largest `e`, however
//!    many.
//!
//! The bound is the lowest over all `m` of the highest of these, with `m` overheads.

use super::instance::Instance;
use super::matching::{self, most_saving};

impl Instance {
    /// Seconds that no schedule can beat.
    ///
    /// The slowest worker of an iteration takes at least a `G`th of the iteration's work, and at least as
    /// long as its costliest group. The `k` slowest iterations hold at most `k * G * L` groups, so the next
    /// one has a group at least as costly as number `k * G * L + 1`, and all later ones share at least the
    /// work that is not among the `k * G * L` costliest. With `m` iterations, more than `m * G` groups cannot
    /// all be alone. From the work the most that can be saved is taken off: with two groups per worker that
    /// is an exact matching. The whole argument is at the head of `bound.rs`.
    pub fn lower_bound(&self) -> f64 {
        if self.groups() == 0 {
            return 0.0;
        }
        let view = View::of(self);
        let (fewest, most) = self.iterations();
        let depth = view.depth();
        // With more iterations the pigeons have more room: this part never grows with their number.
        let loosest = view.loads(most).max(depth);
        let mut lowest = f64::INFINITY;
        for iterations in fewest..=most {
            let overhead = iterations as f64 * self.overhead;
            if loosest + overhead >= lowest {
                break;
            }
            let loads = if self.overhead > 0.0 { view.loads(iterations).max(depth) } else { loosest };
            lowest = lowest.min(loads + overhead);
        }
        lowest
    }
}

/// The numbers of an instance in the order the bounds need.
struct View {
    workers: usize,
    most: usize,
    /// `c`.
    costs: Vec<f64>,
    /// Prefix sums of `c`.
    cost_sums: Vec<f64>,
    /// `e`.
    rests: Vec<f64>,
    work: f64,
}

impl View {
    fn of(instance: &Instance) -> Self {
        let best = instance.reuse.best(instance.groups());
        let rests = instance.costs.iter().zip(&best).map(|(cost, best)| (cost - best).max(0.0));
        let rests = falling(rests.collect());
        let costs = falling(instance.costs.clone());
        let cost_sums = sums(&costs);
        let work = cost_sums[costs.len()] - most_saved(instance, best);
        View { workers: instance.workers, most: instance.most, costs, cost_sums, rests, work }
    }

    /// Parts 1 to 3 for this many iterations.
    fn loads(&self, iterations: usize) -> f64 {
        let (workers, most, groups) = (self.workers, self.most, self.costs.len());
        let (mut begun, mut highest) = (0.0, self.work / workers as f64);
        for iteration in 0..iterations {
            let bin = iteration.saturating_mul(workers);
            let first = bin.saturating_mul(most);
            let mut load = self.costs.get(first).copied().unwrap_or(0.0);
            for full in 2..=most.min(groups) {
                let bins = iterations.saturating_mul(workers);
                let at = (full - 1).saturating_mul(bins).saturating_add(bin.saturating_mul(most - full + 1));
                // Higher ones lie further back, where there is nothing any more.
                let Some(rest) = self.rests.get(at) else { break };
                load = load.max(full as f64 * rest);
            }
            begun += load;
            let held = first.saturating_add(workers.saturating_mul(most)).min(groups);
            highest = f64::max(highest, begun + (self.work - self.cost_sums[held]).max(0.0) / workers as f64);
        }
        highest
    }

    /// Part 4.
    fn depth(&self) -> f64 {
        let sums = sums(&self.rests);
        let among = |groups: usize| sums[groups] - sums[groups - groups.div_ceil(self.workers)];
        (1..=self.rests.len()).map(among).fold(0.0, f64::max)
    }
}

/// A number of seconds that no schedule saves more than; `best` is the most that each group can save with one
/// other.
///
/// In a bin of `p` groups `p - 1` pairs save. Each pair can be charged to one of its groups such that the
/// group of the bin with the largest `best` is charged nothing: to the one further from it. There are at
/// least `ceil(n / L)` such groups, and the `j`th largest of them has at least the `(j * L)`th largest `best`
/// (from 0), since `j` bins hold at most `j * L` groups. With two groups per worker, a matching that saves
/// most is no more than that, where the band is narrow enough to find it.
fn most_saved(instance: &Instance, best: Vec<f64>) -> f64 {
    let groups = best.len();
    let charged = |(at, best): (usize, f64)| if at % instance.most == 0 { 0.0 } else { best };
    let by_charge: f64 = falling(best).into_iter().enumerate().map(charged).sum();
    if instance.most == 2 && instance.reuse.width() <= matching::EXACT {
        return by_charge.min(most_saving(&instance.reuse, groups).saved);
    }
    by_charge
}

fn falling(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(|one, other| other.total_cmp(one));
    values
}

/// Sums of the first 0, 1, 2 ... values.
fn sums(values: &[f64]) -> Vec<f64> {
    let mut sum = 0.0;
    let rest = values.iter().map(|value| {
        sum += value;
        sum
    });
    std::iter::once(0.0).chain(rest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_argument_counts() {
        let bound = |costs: &[f64], workers, overhead| {
            Instance { overhead, ..Instance::new(costs.to_vec(), workers) }.lower_bound()
        };
        assert_eq!(bound(&[], 2, 1.0), 0.0);
        assert_eq!(bound(&[3.0], 2, 1.0), 4.0);
        // Work.
        assert_eq!(bound(&[1.0, 2.0, 3.0, 2.0], 2, 0.0), 4.0);
        // One giant, then work that is not with it.
        assert_eq!(bound(&[100.0, 1.0, 1.0, 1.0, 1.0, 1.0], 2, 0.0), 101.0);
        // Depth: seven equal groups on two workers.
        assert_eq!(bound(&[1.0; 7], 2, 0.0), 4.0);
        // Pigeons: one iteration with pairs, or two with an overhead each.
        assert_eq!(bound(&[5.0, 5.0, 5.0], 2, 2.0), 12.0);
    }
}
