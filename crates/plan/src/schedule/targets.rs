//! One iteration of a greedy schedule: targets, pairs near each, and the target that wastes least.
//!
//! `greedy.rs` says what the papers print and where this departs from it.

use super::instance::Instance;
use super::overlap::Overlaps;

/// The most targets tried for an iteration.
pub(super) const TARGETS: usize = 64;

/// Two places in the sorted list; place 0 is the group of no cost.
#[derive(Clone, Copy)]
pub(super) struct Pair {
    /// Seconds of both, with what they save taken off.
    load: f64,
    /// What they save.
    saved: f64,
    /// The place of the cheaper one.
    pub(super) low: usize,
    /// The place of the other.
    pub(super) high: usize,
}

/// The search for one iteration.
pub(super) struct Search<'a> {
    instance: &'a Instance,
    /// Groups left, in rising order of cost: place `p` is `groups[p - 1]`.
    groups: &'a [usize],
    /// The cost at each place, place 0 included.
    costs: Vec<f64>,
    /// Pairs that overlap, where what they save counts.
    overlaps: Option<&'a Overlaps>,
    /// Where each group is in the list; 0 where it is not.
    places: Vec<usize>,
    /// For each place the last target that used it.
    used: Vec<usize>,
    /// Pairs passed by the pointers, with their distance to the target.
    passed: Vec<(f64, Pair)>,
}

impl<'a> Search<'a> {
    /// Among these groups, in rising order of cost; with the pairs that overlap what they save counts.
    pub(super) fn new(instance: &'a Instance, groups: &'a [usize], overlaps: Option<&'a Overlaps>) -> Self {
        let costs = std::iter::once(0.0).chain(groups.iter().map(|&group| instance.costs[group]));
        let (costs, used) = (costs.collect(), vec![0; groups.len() + 1]);
        let mut places = vec![0; if overlaps.is_some() { instance.groups() } else { 0 }];
        if overlaps.is_some() {
            (1..).zip(groups).for_each(|(place, &group)| places[group] = place);
        }
        Search { instance, groups, costs, overlaps, places, used, passed: Vec::new() }
    }

    /// The pairs of the iteration that wastes least, unless time runs out.
    pub(super) fn iteration(mut self, in_time: impl Fn() -> bool) -> Option<Vec<Pair>> {
        let last = self.groups.len();
        let step = last.div_ceil(TARGETS).max(1);
        let mut best = (f64::INFINITY, Vec::new());
        for (turn, low) in (0..last).step_by(step).chain(self.neighbours(last)).enumerate() {
            if !in_time() {
                return None;
            }
            let pairs = self.near(self.pair(low, last), turn + 1);
            let longest = pairs.iter().map(|pair| pair.load).fold(0.0, f64::max);
            // What the groups would take alone: what is saved is not wasted.
            let work: f64 = pairs.iter().map(|pair| pair.load + pair.saved).sum();
            let waste = longest * self.instance.workers as f64 - work;
            if waste < best.0 {
                best = (waste, pairs);
            }
        }
        Some(best.1)
    }

    fn pair(&self, low: usize, high: usize) -> Pair {
        let saved = match low.checked_sub(1) {
            Some(low) if self.overlaps.is_some() => {
                self.instance.reuse.saved(self.groups[low], self.groups[high - 1])
            }
            _ => 0.0,
        };
        Pair { load: self.costs[low] + self.costs[high] - saved, saved, low, high }
    }

    /// The places of the groups left that overlap the one at this place, the nearest in time first; of two
    /// the earlier.
    fn neighbours(&self, place: usize) -> Vec<usize> {
        let width = self.overlaps.map_or(0, |_| self.instance.reuse.width());
        let Some(&group) = place.checked_sub(1).and_then(|at| self.groups.get(at)) else { return Vec::new() };
        let sides = (1..=width).flat_map(|apart| [group.checked_sub(apart), Some(group + apart)]);
        let shares = |other: &usize| self.instance.reuse.saved(group, *other) > 0.0;
        let place = |other: usize| self.places.get(other).copied().filter(|&place| place > 0);
        sides.flatten().filter(shares).filter_map(place).take(TARGETS).collect()
    }

    /// The target's pair and up to `G - 1` disjoint ones near it; `turn` marks the places they use.
    fn near(&mut self, target: Pair, turn: usize) -> Vec<Pair> {
        let workers = self.instance.workers;
        let mut pairs = Vec::with_capacity(workers.min(self.groups.len()));
        self.take(target, turn, &mut pairs);
        for overlap in self.overlaps.into_iter().flat_map(|overlaps| overlaps.near(target.load)) {
            if pairs.len() == workers {
                break;
            }
            let [one, other] = overlap.groups.map(|group| self.places[group]);
            self.take(self.pair(one.min(other), one.max(other)), turn, &mut pairs);
        }
        let mut top = self.groups.len();
        while pairs.len() < workers {
            if let Some(pair) = self.short(&mut top, target.load, turn) {
                self.take(pair, turn, &mut pairs);
                continue;
            }
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

    /// The pair that a search would find where all pairs fall short of the target: the pointers would stay at
    /// the costliest group, and pass one pair that can be taken in a walk over the whole list. `top` says
    /// where to look for that group.
    fn short(&self, top: &mut usize, target: f64, turn: usize) -> Option<Pair> {
        while !self.is_free(*top, turn) {
            *top -= 1;
        }
        let mut best: Option<Pair> = None;
        for low in (0..*top).rev().filter(|&low| self.is_free(low, turn)) {
            let most = self.costs[low] + self.costs[*top];
            if most >= target {
                return None;
            }
            if best.is_some_and(|best| most < best.load) {
                break;
            }
            let pair = self.pair(low, *top);
            // Of equal ones the first that the pointers would pass.
            if best.is_none_or(|best| pair.load >= best.load) {
                best = Some(pair);
            }
        }
        best
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
