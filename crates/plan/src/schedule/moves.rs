//! The state of annealing: bins in iterations, and moves that exchange two places.
//!
//! The slowest bin of each iteration is kept, so that a move looks at two bins, and at a whole iteration only
//! if its slowest bin became faster.

use super::fold::by_cost;
use super::instance::Instance;
use super::random::Random;

/// No group.
const NONE: usize = usize::MAX;

/// What a move would do.
pub(super) struct Step {
    /// Bins and their new loads.
    loads: [(usize, f64); 2],
    /// Iterations and their new slowest bins.
    slowest: [(usize, usize); 2],
    /// Seconds more, or less, in all.
    pub(super) change: f64,
}

/// Bins in iterations, and what they take.
#[derive(Clone)]
pub(super) struct State<'a> {
    instance: &'a Instance,
    /// Groups in rising order of cost, and where each one is in that order.
    order: Vec<usize>,
    rank: Vec<usize>,
    /// The groups of each bin, as many places as a worker may run groups.
    places: Vec<usize>,
    /// Where each group is.
    at: Vec<usize>,
    loads: Vec<f64>,
    /// The slowest bin of each iteration.
    slowest: Vec<usize>,
    /// Seconds of all iterations, overhead aside.
    total: f64,
}

impl<'a> State<'a> {
    /// These bins in whole iterations; nothing where there is nothing to move.
    pub(super) fn new(instance: &'a Instance, bins: &[Vec<usize>]) -> Option<Self> {
        let used = bins.iter().filter(|bin| !bin.is_empty());
        let iterations = used.clone().count().div_ceil(instance.workers);
        let count = iterations * instance.workers;
        if count < 2 || instance.groups() < 2 {
            return None;
        }
        let mut order = by_cost(instance, 0..instance.groups());
        order.reverse();
        let mut rank = vec![0; instance.groups()];
        order.iter().enumerate().for_each(|(at, &group)| rank[group] = at);
        let mut places = vec![NONE; count * instance.most];
        for (row, bin) in places.chunks_exact_mut(instance.most).zip(used) {
            row[..bin.len()].copy_from_slice(bin);
        }
        let (at, loads) = (vec![0; instance.groups()], vec![0.0; count]);
        let slowest = vec![0; iterations];
        let mut state = State { instance, order, rank, places, at, loads, slowest, total: 0.0 };
        state.sort();
        Some(state)
    }

    fn row(&self, bin: usize) -> &[usize] {
        &self.places[bin * self.instance.most..(bin + 1) * self.instance.most]
    }

    /// How many bins there are, empty ones included.
    pub(super) fn bin_count(&self) -> usize {
        self.loads.len()
    }

    /// Seconds of all iterations, overhead aside.
    pub(super) fn total(&self) -> f64 {
        self.total
    }

    /// The groups of each bin.
    pub(super) fn bins(&self) -> Vec<Vec<usize>> {
        let bin = |row: &[usize]| row.iter().copied().filter(|&group| group != NONE).collect();
        self.places.chunks_exact(self.instance.most).map(bin).collect()
    }

    /// Seconds of all iterations with their overhead.
    pub(super) fn seconds(&self) -> f64 {
        self.total + self.slowest.len() as f64 * self.instance.overhead
    }

    /// A temperature at which a move that costs a few per cent of an iteration is still taken now and then.
    pub(super) fn temperature(&self) -> f64 {
        let part = if self.instance.groups() <= 60 { 0.1 } else { 0.05 };
        part * self.total / self.slowest.len() as f64 / (self.instance.workers as f64).sqrt()
    }

    /// Sorts bins by load and cuts them; everything kept beside the places is worked out anew, so rounding
    /// cannot build up.
    pub(super) fn sort(&mut self) {
        let mut rows: Vec<(f64, usize)> =
            (0..self.loads.len()).map(|bin| (self.load(bin, NONE, NONE), bin)).collect();
        rows.sort_by(|one, other| other.0.total_cmp(&one.0));
        let mut places = Vec::with_capacity(self.places.len());
        for (new, &(load, old)) in rows.iter().enumerate() {
            places.extend_from_slice(self.row(old));
            self.loads[new] = load;
        }
        self.places = places;
        for (place, &group) in self.places.iter().enumerate().filter(|(_, group)| **group != NONE) {
            self.at[group] = place;
        }
        let workers = self.instance.workers;
        self.slowest.iter_mut().enumerate().for_each(|(iteration, bin)| *bin = iteration * workers);
        self.total = self.slowest.iter().map(|&bin| self.loads[bin]).sum();
    }

    /// The load of a bin if `group` stood at `place`.
    fn load(&self, bin: usize, place: usize, group: usize) -> f64 {
        let begin = bin * self.instance.most;
        let (mut load, mut before) = (0.0, NONE);
        for (offset, &held) in self.row(bin).iter().enumerate() {
            let group = if begin + offset == place { group } else { held };
            if group != NONE {
                load += self.instance.costs[group];
                if before != NONE {
                    load -= self.instance.reuse.saved(before, group);
                }
                before = group;
            }
        }
        load.max(0.0)
    }

    /// Two places in different bins whose groups may be exchanged, at least one of them filled.
    pub(super) fn propose(&self, random: &mut Random) -> Option<(usize, usize)> {
        let (workers, most) = (self.instance.workers, self.instance.most);
        let iteration = random.below(self.slowest.len());
        let slow = random.unit() < 0.7;
        let bin = if slow { self.slowest[iteration] } else { iteration * workers + random.below(workers) };
        let one = bin * most + random.below(most);
        let group = self.places[one];
        let dice = random.unit();
        let width = self.instance.reuse.width();
        let other = if group == NONE || dice >= 0.8 {
            random.below(self.places.len())
        } else if dice >= 0.6 && width > 0 && most > 1 {
            // A neighbour in time comes beside the group, to a place of its bin that is not its own.
            let near = neighbour(group, 1 + random.below(width), random, self.at.len())?;
            let beside = bin * most + (one - bin * most + 1 + random.below(most - 1)) % most;
            return self.allowed(beside, self.at[near]);
        } else {
            let rank = neighbour(self.rank[group], 1 + random.below(16), random, self.at.len())?;
            self.at[self.order[rank]]
        };
        self.allowed(one, other)
    }

    fn allowed(&self, one: usize, other: usize) -> Option<(usize, usize)> {
        let apart = one / self.instance.most != other / self.instance.most;
        (apart && self.places[one] != self.places[other]).then_some((one, other))
    }

    /// What exchanging two places would do.
    pub(super) fn step(&self, one: usize, other: usize) -> Step {
        let most = self.instance.most;
        let (first, second) = (one / most, other / most);
        let loads = [
            (first, self.load(first, one, self.places[other])),
            (second, self.load(second, other, self.places[one])),
        ];
        let (here, there) = (first / self.instance.workers, second / self.instance.workers);
        let slowest = [(here, self.slowest_with(here, &loads)), (there, self.slowest_with(there, &loads))];
        let time = |bin: usize| new_load(&loads, bin, self.loads[bin]);
        let before = |iteration: usize| self.loads[self.slowest[iteration]];
        let mut change = time(slowest[0].1) - before(here);
        if here != there {
            change += time(slowest[1].1) - before(there);
        }
        Step { loads, slowest, change }
    }

    /// The slowest bin of an iteration with two loads changed.
    fn slowest_with(&self, iteration: usize, loads: &[(usize, f64); 2]) -> usize {
        let workers = self.instance.workers;
        let old = self.slowest[iteration];
        let top = self.loads[old];
        let mut slowest = old;
        let mut highest = new_load(loads, old, top);
        for &(bin, load) in loads.iter().filter(|(bin, _)| bin / workers == iteration) {
            if load > highest {
                (slowest, highest) = (bin, load);
            }
        }
        if highest >= top {
            return slowest;
        }
        // The slowest bin became faster: any other may be the slowest now.
        for bin in iteration * workers..(iteration + 1) * workers {
            let load = new_load(loads, bin, self.loads[bin]);
            if load > highest {
                (slowest, highest) = (bin, load);
            }
        }
        slowest
    }

    /// Exchanges two places.
    pub(super) fn take(&mut self, one: usize, other: usize, step: &Step) {
        self.places.swap(one, other);
        for place in [one, other] {
            if self.places[place] != NONE {
                self.at[self.places[place]] = place;
            }
        }
        step.loads.iter().for_each(|&(bin, load)| self.loads[bin] = load);
        step.slowest.iter().for_each(|&(iteration, bin)| self.slowest[iteration] = bin);
        self.total += step.change;
    }
}

fn new_load(loads: &[(usize, f64); 2], bin: usize, old: f64) -> f64 {
    loads.iter().find(|(changed, _)| *changed == bin).map_or(old, |&(_, load)| load)
}

/// `apart` to the left or to the right, where there is something.
fn neighbour(at: usize, apart: usize, random: &mut Random, end: usize) -> Option<usize> {
    let found = if random.unit() < 0.6 { at.checked_sub(apart)? } else { at + apart };
    (found < end).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::{Reuse, Schedule};

    #[test]
    fn what_is_kept_beside_the_places_is_what_they_say() {
        let costs: Vec<f64> = (0..23).map(|group| f64::from(group * 7 % 11 + 1)).collect();
        let windows: Vec<_> = (0..23).map(|start| start..start + 3).collect();
        let reuse = Reuse::from_ratio(0.4, &windows, &costs).unwrap();
        let instance = Instance { reuse, overhead: 0.5, most: 3, ..Instance::new(costs, 3) };
        let bins: Vec<Vec<usize>> = (0..23).collect::<Vec<_>>().chunks(2).map(<[_]>::to_vec).collect();
        let mut state = State::new(&instance, &bins).unwrap();
        let mut random = Random::new(1);
        for _ in 0..2000 {
            let Some((one, other)) = state.propose(&mut random) else { continue };
            let step = state.step(one, other);
            state.take(one, other, &step);
            let mut bins = state.bins();
            let iterations = std::iter::from_fn(|| {
                (!bins.is_empty()).then(|| bins.drain(..instance.workers).collect::<Vec<_>>())
            });
            let schedule = Schedule { iterations: iterations.collect() };
            schedule.check(&instance).unwrap();
            let charged = (state.slowest.len() - schedule.optimiser_steps()) as f64 * instance.overhead;
            assert!((schedule.seconds(&instance) + charged - state.seconds()).abs() < 1e-9);
        }
        let before = state.total();
        state.sort();
        assert!(state.total() <= before + 1e-9);
    }
}
