//! A better assignment of chunks than DGC's Algorithm 1: from several beginnings, among them one with merged
//! chunks, chunks move to other workers and change places, as long as the slowest worker gets faster.
//!
//! What counts is the sum over periods of the longest that any worker takes, to compute and to send and
//! receive; of changes that leave that as it is, those that even out workers or save bytes. A change concerns
//! two workers, so it is looked at in the time of the chunk's links. The order is fixed.

use kymo_graph::random::Random;

use super::assignment::{Problem, by_load, greedy};
use super::coarsening::coarser;
use super::state::{Gain, State};
use crate::layout::Worker;

/// Times that all chunks are gone through, at most.
const PASSES: usize = 12;
/// Of a pass over many chunks at least this part moves, or it was the last.
const STIRRED: usize = 200;
/// Chunks up to which more than one beginning is improved.
const MANY: usize = 20_000;
/// Workers beside the least busy one that a chunk may move to: those with most of its bytes.
const NEAREST: usize = 8;
/// Chunks up to which every pair may change places; of more, those of about the same load and neighbours.
const PAIRED: usize = 128;
/// Chunks a worker up to which a few beginnings at random are worth their time.
const FEW: usize = 16;
/// How many of those there are.
const BEGINNINGS: u64 = 8;
/// Part of a second that is not worth a change.
const TINY: f64 = 1e-12;

/// The best assignment found: never slower than that of [`greedy`], and within memory where any that was
/// looked at is.
pub fn improved(problem: &Problem<'_>) -> Vec<Worker> {
    let printed = greedy(problem);
    if problem.workers == 1 {
        return printed;
    }
    let mut found = vec![from_above(problem)];
    if problem.graph.count <= MANY {
        found.push(from(problem, printed.clone()));
    }
    best_of(problem, std::iter::once(printed).chain(found))
}

/// The assignment that is reached from one of merged chunks; where there is nothing to merge, the best of
/// those from several beginnings.
fn from_above(problem: &Problem<'_>) -> Vec<Worker> {
    if let Some((graph, merged)) = coarser(problem) {
        let above = from_above(&problem.with(&graph));
        return from(problem, merged.iter().map(|&whole| above[whole as usize]).collect());
    }
    let mut beginnings = vec![greedy(problem), by_load(problem)];
    if problem.graph.count <= FEW * problem.workers {
        let random = |beginning| {
            let draw = |chunk| Random::new(beginning).below(problem.workers, chunk as u64) as Worker;
            (0..problem.graph.count).map(draw).collect()
        };
        beginnings.extend((0..BEGINNINGS).map(random));
    }
    best_of(problem, beginnings.into_iter().map(|owners| from(problem, owners)))
}

/// Where changes lead to from an assignment.
fn from(problem: &Problem<'_>, owners: Vec<Worker>) -> Vec<Worker> {
    let mut state = State::new(problem, owners);
    state.improve();
    state.owners
}

/// The assignment with the least beyond the memory, and of those the fastest; of equal ones, the first.
fn best_of(problem: &Problem<'_>, all: impl Iterator<Item = Vec<Worker>>) -> Vec<Worker> {
    let mut best: Option<((f64, f64), Vec<Worker>)> = None;
    for owners in all {
        let beyond = problem.memory.map_or(0.0, |_| State::new(problem, owners.clone()).overflow());
        let worth = (beyond, problem.seconds_of(&owners));
        if best.as_ref().is_none_or(|(best, _)| worth < *best) {
            best = Some((worth, owners));
        }
    }
    best.map(|(_, owners)| owners).unwrap_or_default()
}

/// The changes that are tried.
impl State<'_> {
    fn is_better(&self, gain: Gain) -> bool {
        let least = TINY * self.total;
        gain.seconds > least || gain.seconds >= 0.0 && gain.squares > least * self.total
    }

    fn improve(&mut self) {
        let order = self.problem.order();
        let least = if order.len() > MANY { order.len() / STIRRED } else { 0 };
        for _ in 0..PASSES {
            let moved = order.iter().filter(|&&chunk| self.looks > 0 && self.move_on(chunk)).count();
            let swapped = if moved * 50 <= order.len() { self.swap_all(&order) } else { 0 };
            if moved + swapped <= least {
                break;
            }
        }
    }

    /// Moves a chunk to the worker where it is best, if that is another one.
    fn move_on(&mut self, chunk: usize) -> bool {
        self.gather(chunk);
        let owner = self.owners[chunk] as usize;
        let longest = self.loads(chunk).max_by(|a, b| a.1.0.total_cmp(&b.1.0));
        let Some((period, _)) = longest else { return false };
        let mut wanted: Vec<usize> = self.near.clone();
        if wanted.len() > NEAREST {
            let bytes = |worker: usize| -> f64 {
                (0..self.all_links.len()).map(|p| self.links[p * self.problem.workers + worker]).sum()
            };
            wanted.sort_by(|&a, &b| bytes(b).total_cmp(&bytes(a)).then(a.cmp(&b)));
            wanted.truncate(NEAREST);
        }
        wanted.push(self.ends[period as usize].least);
        if self.problem.workers <= NEAREST {
            wanted = (0..self.problem.workers).collect();
        }
        let mut best: Option<(Gain, usize)> = None;
        for to in wanted.into_iter().filter(|&to| to != owner) {
            let gain = self.gain(chunk, to);
            let is_more = |&(best, _): &(Gain, usize)| {
                gain.seconds.total_cmp(&best.seconds).then(gain.squares.total_cmp(&best.squares)).is_gt()
            };
            if self.is_better(gain) && best.as_ref().is_none_or(is_more) {
                best = Some((gain, to));
            }
        }
        if let Some((_, to)) = best {
            self.give(chunk, to);
        }
        best.is_some()
    }

    /// Lets chunks change places, as far as that is better.
    fn swap_all(&mut self, order: &[usize]) -> usize {
        /// Chunks before and after in the order of loads.
        const AROUND: usize = 4;
        let (count, mut swapped) = (order.len(), 0);
        for (rank, &chunk) in order.iter().enumerate() {
            if self.looks == 0 {
                break;
            }
            if count <= PAIRED {
                swapped += order[rank + 1..].iter().filter(|&&other| self.swap(chunk, other)).count();
                continue;
            }
            // Of many, only those of a worker that the others wait for.
            let owner = self.owners[chunk] as usize;
            if !self.loads(chunk).any(|(period, _)| self.ends[period as usize].most[0] == owner) {
                continue;
            }
            let around = rank.saturating_sub(AROUND)..(rank + AROUND + 1).min(count);
            let linked = self.problem.graph.links.at(chunk).iter().take(AROUND);
            let others: Vec<usize> =
                order[around].iter().copied().chain(linked.map(|link| link.other as usize)).collect();
            swapped += usize::from(others.into_iter().any(|other| self.swap(chunk, other)));
        }
        swapped
    }

    /// Lets two chunks change places, if that is better.
    fn swap(&mut self, chunk: usize, other: usize) -> bool {
        let [from, to] = [chunk, other].map(|chunk| self.owners[chunk] as usize);
        if from == to {
            return false;
        }
        self.gather(chunk);
        let first = self.gain(chunk, to);
        self.give(chunk, to);
        self.gather(other);
        let second = self.gain(other, from);
        let both = Gain { seconds: first.seconds + second.seconds, squares: first.squares + second.squares };
        if self.is_better(both) {
            self.give(other, from);
            return true;
        }
        self.gather(chunk);
        self.give(chunk, from);
        false
    }
}
