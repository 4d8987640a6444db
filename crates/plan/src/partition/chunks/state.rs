//! An assignment of chunks that changes chunk by chunk: how busy workers are, and what a change would gain
//! (the objective of DGC section 4.2, load and traffic, in seconds).

use super::assignment::Problem;
use crate::layout::Worker;

/// Links that are looked at before changes end, or three times all of them where that is more.
const LOOKS: usize = 20_000_000;

/// The busiest three workers of a period and the least busy one.
#[derive(Clone, Copy, Default)]
pub(super) struct Ends {
    pub most: [usize; 3],
    pub least: usize,
}

/// What a change comes to: in seconds that count, and in their squares, by which workers are evened out.
#[derive(Clone, Copy, Default)]
pub(super) struct Gain {
    pub seconds: f64,
    pub squares: f64,
}

pub(super) struct State<'a> {
    pub problem: &'a Problem<'a>,
    pub owners: Vec<Worker>,
    /// Seconds of each worker in each period, worker after worker within a period.
    busy: Vec<f64>,
    /// Bytes held, in the same order.
    held: Vec<f64>,
    pub ends: Vec<Ends>,
    /// What a byte beyond the memory counts in seconds: more than everything else.
    beyond: f64,
    /// Seconds of all chunks.
    pub total: f64,
    /// Of the chunk that is gathered: seconds of links to each worker in each period, and to all of them.
    pub links: Vec<f64>,
    pub all_links: Vec<f64>,
    /// The workers that it has links to.
    pub near: Vec<usize>,
    /// The periods that it has links or loads in, with its seconds and the bytes that it holds.
    touched: Vec<(usize, f64, f64)>,
    /// Links that may still be looked at.
    pub looks: usize,
}

impl<'a> State<'a> {
    pub fn new(problem: &'a Problem<'a>, owners: Vec<Worker>) -> State<'a> {
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
    pub fn loads(&self, chunk: usize) -> impl Iterator<Item = (u32, (f64, f64))> + use<'a> {
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
    pub fn overflow(&self) -> f64 {
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
    pub fn gather(&mut self, chunk: usize) {
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
    pub fn gain(&self, chunk: usize, to: usize) -> Gain {
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
    pub fn give(&mut self, chunk: usize, to: usize) {
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::partition::Traffic;
    use crate::partition::chunks::graph::{ChunkGraph, Load};
    use crate::random::Random;

    /// What a change is said to gain is what the seconds of all workers lose, change after change.
    #[test]
    fn gains_are_what_seconds_lose() {
        let (count, periods, workers) = (30, 3, 4);
        let draw = |bound: usize, at: u64| Random::new(3).below(bound, at);
        let load = |number: u64| {
            let load = Load {
                period: draw(periods, number) as u32,
                rows: 1 + draw(9, 500 + number) as u64,
                edges: 3,
            };
            (number as u32 % count, load)
        };
        let pair = |number: u64| {
            let from = draw(count as usize, 1000 + number) as u32;
            let other = (from + 1 + draw(count as usize - 1, 2000 + number) as u32) % count;
            (from, other, draw(periods, 3000 + number) as u32, 1 + draw(50, 4000 + number) as u64)
        };
        let (loads, pairs) = ((0..60).map(load).collect(), (0..90).map(pair).collect());
        let graph = ChunkGraph::new(count as usize, periods, loads, pairs);
        let traffic = Traffic { byte_seconds: 1e-9, ..Traffic::default() };
        let problem = Problem::new(&graph, workers, &traffic, &traffic, 1.0);
        let mut state = State::new(&problem, vec![0; count as usize]);
        let mut seconds = problem.seconds_of(&state.owners);
        for change in 0..400 {
            let (chunk, to) = (draw(count as usize, 5000 + change), draw(workers, 6000 + change));
            if state.owners[chunk] as usize != to {
                state.gather(chunk);
                let gain = state.gain(chunk, to);
                state.give(chunk, to);
                let now = problem.seconds_of(&state.owners);
                assert!((seconds - now - gain.seconds).abs() < 1e-9 * seconds, "{change}");
                seconds = now;
            }
        }
        let anew = State::new(&problem, state.owners.clone());
        let same = |(a, b): (&f64, &f64)| (a - b).abs() < 1e-9 * seconds;
        assert!(state.busy.iter().zip(&anew.busy).all(same));
    }
}
