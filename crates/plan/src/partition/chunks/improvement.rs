//! A better assignment of chunks than DGC's Algorithm 1: from several beginnings, among them one with merged
//! chunks, chunks move to other workers and change places, as long as the slowest worker gets faster.
//!
//! What counts is the sum over periods of the longest that any worker takes, to compute and to send and
//! receive; of changes that leave that as it is, those that even out workers or save bytes. A change concerns
//! two workers, so it is looked at in the time of the chunk's links. The order is fixed, so the answer is, too.

use kymo_graph::random::Random;

use super::assignment::{Problem, by_load, greedy};
use super::coarsening::coarser;
use crate::layout::Worker;

/// Times that all chunks are gone through, at most.
const PASSES: usize = 12;
/// Links that are looked at, at most, where they are so many: else as many times all of them as there are
/// passes, and this number in any case.
const LOOKS: usize = 20_000_000;
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

/// The busiest three workers of a period and the least busy one.
#[derive(Clone, Copy, Default)]
struct Ends {
    most: [usize; 3],
    least: usize,
}

/// What a change comes to: in seconds that count, and in their squares, by which workers are evened out.
#[derive(Clone, Copy, Default)]
struct Gain {
    seconds: f64,
    squares: f64,
}

struct State<'a> {
    problem: &'a Problem<'a>,
    owners: Vec<Worker>,
    /// Seconds of each worker in each period, worker after worker within a period.
    busy: Vec<f64>,
    /// Bytes held, in the same order.
    held: Vec<f64>,
    ends: Vec<Ends>,
    /// What a byte beyond the memory counts in seconds: more than everything else.
    beyond: f64,
    /// Seconds of all chunks.
    total: f64,
    /// Of the chunk that is gathered: seconds of links to each worker in each period, and to all of them.
    links: Vec<f64>,
    all_links: Vec<f64>,
    /// The workers that it has links to.
    near: Vec<usize>,
    /// The periods that it has links or loads in, with its seconds and the bytes that it holds.
    touched: Vec<(usize, f64, f64)>,
    /// Links that may still be looked at.
    looks: usize,
}

impl<'a> State<'a> {
    fn new(problem: &'a Problem<'a>, owners: Vec<Worker>) -> State<'a> {
        let cells = problem.graph.periods * problem.workers;
        let total = (0..owners.len()).map(|chunk| problem.load(chunk)).sum::<f64>();
        let wire: f64 = problem.wire(problem.graph.cut());
        let mut state = State {
            problem,
            owners,
            busy: vec![0.0; cells],
            held: vec![0.0; cells],
            ends: vec![Ends::default(); problem.graph.periods],
            beyond: problem.memory.map_or(0.0, |bytes| 10.0 * (total + 2.0 * wire) / bytes.max(1.0)),
            total,
            links: vec![0.0; cells],
            all_links: vec![0.0; problem.graph.periods],
            near: Vec::new(),
            touched: Vec::new(),
            looks: LOOKS.max(3 * problem.graph.links.count()),
        };
        for chunk in 0..state.owners.len() {
            let owner = state.owners[chunk] as usize;
            for (load, (seconds, held)) in state.loads(chunk) {
                let place = load as usize * problem.workers + owner;
                state.busy[place] += seconds;
                state.held[place] += held;
            }
            for link in problem.graph.links.at(chunk) {
                if state.owners[link.other as usize] as usize != owner {
                    state.busy[link.period as usize * problem.workers + owner] += problem.wire(link.bytes);
                }
            }
        }
        (0..problem.graph.periods).for_each(|period| state.find_ends(period));
        state
    }

    /// The periods of a chunk, with its seconds and the bytes it holds.
    fn loads(&self, chunk: usize) -> impl Iterator<Item = (u32, (f64, f64))> + use<'a> {
        let problem = self.problem;
        let numbers = problem.seconds.at(chunk).iter().copied().zip(problem.held.at(chunk).iter().copied());
        problem.graph.loads.at(chunk).iter().map(|load| load.period).zip(numbers)
    }

    /// The seconds of a worker that is busy and holds so much.
    fn value(&self, busy: f64, held: f64) -> f64 {
        busy + self.beyond * self.problem.memory.map_or(0.0, |most| (held - most).max(0.0))
    }

    fn at(&self, period: usize, worker: usize) -> f64 {
        let place = period * self.problem.workers + worker;
        self.value(self.busy[place], self.held[place])
    }

    /// Bytes beyond the memory of workers.
    fn overflow(&self) -> f64 {
        self.problem.memory.map_or(0.0, |most| self.held.iter().map(|held| (held - most).max(0.0)).sum())
    }

    fn find_ends(&mut self, period: usize) {
        let (mut most, mut least) = ([usize::MAX; 3], 0);
        for worker in 0..self.problem.workers {
            let value = self.at(period, worker);
            let mut new = worker;
            for place in &mut most {
                let is_more = *place == usize::MAX || self.at(period, new) > self.at(period, *place);
                if is_more {
                    std::mem::swap(place, &mut new);
                }
                if new == usize::MAX {
                    break;
                }
            }
            if value < self.at(period, least) {
                least = worker;
            }
        }
        self.ends[period] = Ends { most, least };
    }

    /// Takes the links of a chunk together: seconds by worker and period.
    fn gather(&mut self, chunk: usize) {
        let workers = self.problem.workers;
        for worker in self.near.drain(..) {
            (0..self.all_links.len()).for_each(|period| self.links[period * workers + worker] = 0.0);
        }
        self.all_links.fill(0.0);
        let links = self.problem.graph.links.at(chunk);
        self.looks = self.looks.saturating_sub(1 + links.len());
        for link in links {
            let (period, owner) = (link.period as usize, self.owners[link.other as usize] as usize);
            let seconds = self.problem.wire(link.bytes);
            self.links[period * workers + owner] += seconds;
            self.all_links[period] += seconds;
            self.near.push(owner);
        }
        self.near.sort_unstable();
        self.near.dedup();
        self.touched.clear();
        let mut loads = self.loads(chunk).peekable();
        for period in 0..self.all_links.len() {
            let load = loads.next_if(|load| load.0 as usize == period);
            if load.is_some() || self.all_links[period] > 0.0 {
                let (seconds, held) = load.map_or((0.0, 0.0), |load| load.1);
                self.touched.push((period, seconds, held));
            }
        }
    }

    /// What it changes in a period to give the gathered chunk to another worker: the busy seconds of both.
    fn change(&self, period: usize, seconds: f64, [from, to]: [usize; 2]) -> [f64; 2] {
        let links = |worker: usize| self.links[period * self.problem.workers + worker];
        let all = self.all_links[period];
        // What was between the chunk and others need not move any more, or not from here; what was within now
        // does.
        [2.0 * links(from) - all - seconds, seconds + all - 2.0 * links(to)]
    }

    /// What it would gain to give the gathered chunk to another worker.
    fn gain(&self, chunk: usize, to: usize) -> Gain {
        let (from, workers) = (self.owners[chunk] as usize, self.problem.workers);
        let mut gain = Gain::default();
        for &(period, seconds, held) in &self.touched {
            let changes = self.change(period, seconds, [from, to]);
            let Ends { most, .. } = self.ends[period];
            let others = most.iter().find(|&&worker| worker != from && worker != to && worker < workers);
            let mut slowest = others.map_or(0.0, |&worker| self.at(period, worker));
            for ((worker, change), held) in [from, to].into_iter().zip(changes).zip([-held, held]) {
                let place = period * workers + worker;
                let (busy, held) = (self.busy[place] + change, self.held[place] + held);
                let value = self.value(busy, held);
                slowest = slowest.max(value);
                gain.squares += self.at(period, worker).powi(2) - value.powi(2);
            }
            gain.seconds += self.at(period, most[0]) - slowest;
        }
        gain
    }

    /// Gives the gathered chunk to another worker.
    fn give(&mut self, chunk: usize, to: usize) {
        let (from, workers) = (self.owners[chunk] as usize, self.problem.workers);
        for place in 0..self.touched.len() {
            let (period, seconds, held) = self.touched[place];
            let changes = self.change(period, seconds, [from, to]);
            for ((worker, change), held) in [from, to].into_iter().zip(changes).zip([-held, held]) {
                self.busy[period * workers + worker] += change;
                self.held[period * workers + worker] += held;
            }
            self.find_ends(period);
        }
        self.owners[chunk] = to as Worker;
    }

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
