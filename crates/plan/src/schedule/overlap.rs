//! Pairs of groups that save each other something, in order of load: what REAL-G looks at beside the pairs
//! that its two pointers pass.
//!
//! The pointers compare places in a list sorted by cost, and windows that overlap may be anywhere in it. So
//! the pairs that overlap are listed by themselves, once for all iterations: each group with the [`NEAR`]
//! groups after it, since windows share less the further they are apart. That is `O(n log n)` in all, and
//! those near a target are found by bisection.

use super::instance::Instance;
use super::reuse::Reuse;

/// How many groups after it a group is paired with at most.
const NEAR: usize = 10;

/// Two groups, the earlier first, that save something if one runs right after the other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Overlap {
    /// Seconds of both, with what they save taken off.
    pub(super) load: f64,
    /// What they save.
    pub(super) saved: f64,
    /// The groups.
    pub(super) groups: [usize; 2],
}

/// The pairs whose groups are both to be scheduled still, in rising order of load.
pub(super) struct Overlaps {
    pairs: Vec<Overlap>,
    /// The most that a pair saves, as a part of its load.
    most: f64,
}

impl Overlaps {
    /// All pairs of an instance.
    pub(super) fn new(instance: &Instance) -> Self {
        let near = match &instance.reuse {
            Reuse::None => 0,
            Reuse::Band { width, .. } => NEAR.min(*width),
        };
        let mut pairs = Vec::new();
        for first in 0..instance.groups() {
            for second in (first + 1..instance.groups()).take(near) {
                let saved = instance.reuse.saved(first, second);
                let load = instance.costs[first] + instance.costs[second] - saved;
                if saved > 0.0 {
                    pairs.push(Overlap { load, saved, groups: [first, second] });
                }
            }
        }
        // A stable sort: of equal loads the earlier pair comes first.
        pairs.sort_by(|one, other| one.load.total_cmp(&other.load));
        // A little more than that: it must not leave out the very pair that it is of.
        let most = pairs.iter().map(|pair| pair.saved / pair.load).fold(0.0, f64::max) * (1.0 + 1e-9);
        Overlaps { pairs, most }
    }

    /// Leaves the pairs of which both groups are left.
    pub(super) fn keep(&mut self, is_left: impl Fn(usize) -> bool) {
        self.pairs.retain(|pair| pair.groups.iter().all(|&group| is_left(group)));
    }

    /// The pairs that miss a target by no more than they save, the nearest first; of equally near ones those
    /// below it, and of equal ones the later.
    ///
    /// A pair without savings that meets the target exactly gets no more work done than these.
    pub(super) fn near(&self, target: f64) -> impl Iterator<Item = &Overlap> {
        let (below, above) = self.pairs.split_at(self.pairs.partition_point(|pair| pair.load < target));
        let miss = move |pair: &Overlap| (pair.load - target).abs();
        // Beyond the first that is too far off for any savings, all are.
        let can_save = move |pair: &&Overlap| miss(pair) <= self.most * pair.load;
        let mut below = below.iter().rev().take_while(can_save).peekable();
        let mut above = above.iter().take_while(can_save).peekable();
        let nearest = std::iter::from_fn(move || match (below.peek(), above.peek()) {
            (Some(low), Some(high)) if miss(low) <= miss(high) => below.next(),
            (Some(_), None) => below.next(),
            _ => above.next(),
        });
        nearest.filter(move |pair| miss(pair) <= pair.saved)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_near_a_target_come_in_order_and_only_where_they_save_what_they_miss() {
        let saved = vec![vec![3.0, 1.0], vec![2.0, 0.0], vec![3.0], vec![]];
        let reuse = Reuse::Band { width: 2, saved };
        let instance = Instance { reuse, ..Instance::new(vec![9.0, 4.0, 5.0, 8.0], 2) };
        let mut overlaps = Overlaps::new(&instance);
        // Loads: 10 by groups 0 and 1, 13 by 0 and 2, 7 by 1 and 2, 10 by 2 and 3; 1 and 3 save nothing.
        let near = |overlaps: &Overlaps, target: f64| -> Vec<[usize; 2]> {
            overlaps.near(target).map(|pair| pair.groups).collect()
        };
        assert_eq!(near(&overlaps, 10.0), [[0, 1], [2, 3]]);
        assert_eq!(near(&overlaps, 8.5), [[1, 2], [0, 1], [2, 3]]);
        assert_eq!(near(&overlaps, 9.0), [[0, 1], [2, 3], [1, 2]]);
        assert_eq!(near(&overlaps, 12.5), [[0, 2], [2, 3], [0, 1]]);
        assert!(near(&overlaps, 20.0).is_empty());
        overlaps.keep(|group| group != 3);
        assert_eq!(near(&overlaps, 10.0), [[0, 1]]);
        assert!(near(&Overlaps::new(&Instance { reuse: Reuse::None, ..instance }), 10.0).is_empty());
    }
}
