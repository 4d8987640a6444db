//! Chunks to workers: DGC's Algorithm 1 (section 4.2), and what an assignment is worth.
//!
//! As printed, equation 3 gives every worker the score 0 for a chunk without assigned neighbours, and turns
//! the other way for workers above the average load, where much traffic makes a score small. So ties go to
//! the least load, and workers above the average come last, the least loaded first.

use std::collections::BTreeSet;

use super::graph::{ChunkGraph, Lists};
use crate::layout::Worker;
use crate::partition::Traffic;

/// Tells the seconds that cells take, structure and rows: in place of the paper's two perceptrons a linear
/// model of rows and edges, until there is a better one.
pub trait Pace: Sync {
    /// Seconds of this many cells with this many edges that lead to them.
    fn seconds(&self, rows: u64, edges: u64) -> f64;
}

impl Pace for Traffic {
    fn seconds(&self, rows: u64, edges: u64) -> f64 {
        rows as f64 * (self.cell_seconds + self.row_seconds) + edges as f64 * self.edge_seconds
    }
}

/// What is to be assigned.
pub struct Problem<'a> {
    /// Chunks and the bytes between them.
    pub graph: &'a ChunkGraph,
    /// How many workers there are.
    pub workers: usize,
    /// Seconds for a byte between two workers. It is sent by one and received by another, and wires go both
    /// ways at a time, so each of them has half of it.
    pub byte_seconds: f64,
    pace: &'a dyn Pace,
    traffic: &'a Traffic,
    windows: f64,
    /// Seconds of each chunk, in the order of its loads.
    pub(super) seconds: Lists<f64>,
    /// Bytes of each chunk that are held, in the order of its loads.
    pub(super) held: Lists<f64>,
    /// The most that a worker may hold in a period.
    pub(super) memory: Option<f64>,
}

impl<'a> Problem<'a> {
    /// Chunks to be assigned at this pace, with the traffic's wire and memory. A period has this many
    /// windows, one of which is in memory at a time.
    pub fn new(
        graph: &'a ChunkGraph,
        workers: usize,
        pace: &'a dyn Pace,
        traffic: &'a Traffic,
        windows: f64,
    ) -> Problem<'a> {
        let [cell, edge] = traffic.held;
        Problem {
            graph,
            workers,
            byte_seconds: traffic.byte_seconds,
            pace,
            traffic,
            windows,
            seconds: graph.loads.map(|load| pace.seconds(load.rows, load.edges)),
            held: graph.loads.map(|load| (cell * load.rows + edge * load.edges) as f64),
            memory: traffic.memory.map(|bytes| bytes as f64 * windows),
        }
    }

    /// The same for other chunks.
    pub(super) fn with<'b>(&'b self, graph: &'b ChunkGraph) -> Problem<'b> {
        Problem::new(graph, self.workers, self.pace, self.traffic, self.windows)
    }

    /// Seconds of a chunk over all periods.
    pub(super) fn load(&self, chunk: usize) -> f64 {
        self.seconds.at(chunk).iter().sum()
    }

    /// The chunks from the largest load to the smallest.
    pub(super) fn order(&self) -> Vec<usize> {
        let loads: Vec<f64> = (0..self.graph.count).map(|chunk| self.load(chunk)).collect();
        let mut order: Vec<usize> = (0..loads.len()).collect();
        order.sort_by(|&a, &b| loads[b].total_cmp(&loads[a]).then(a.cmp(&b)));
        order
    }

    /// Seconds that all workers together take: of every period those of the worker that takes longest, to
    /// compute and to send and receive.
    pub fn seconds_of(&self, owners: &[Worker]) -> f64 {
        let periods = self.graph.periods;
        let mut busy = vec![0.0; periods * self.workers];
        for (chunk, &owner) in owners.iter().enumerate() {
            let at = |period: u32| period as usize * self.workers + owner as usize;
            for (load, seconds) in self.graph.loads.at(chunk).iter().zip(self.seconds.at(chunk)) {
                busy[at(load.period)] += seconds;
            }
            for link in self.graph.links.at(chunk) {
                if owners[link.other as usize] != owner {
                    busy[at(link.period)] += self.wire(link.bytes);
                }
            }
        }
        busy.chunks(self.workers).map(|busy| busy.iter().copied().fold(0.0, f64::max)).sum()
    }

    /// Seconds that bytes take at either end.
    pub(super) fn wire(&self, bytes: u64) -> f64 {
        bytes as f64 * self.byte_seconds / 2.0
    }
}

/// Workers by their loads, the least first. Loads are not negative, so their bits order as they do.
struct Loads {
    of: Vec<f64>,
    order: BTreeSet<(u64, usize)>,
}

impl Loads {
    fn new(workers: usize) -> Loads {
        Loads { of: vec![0.0; workers], order: (0..workers).map(|worker| (0, worker)).collect() }
    }

    fn least(&self) -> usize {
        self.order.first().map_or(0, |&(_, worker)| worker)
    }

    fn add(&mut self, worker: usize, load: f64) {
        self.order.remove(&(self.of[worker].to_bits(), worker));
        self.of[worker] += load;
        self.order.insert((self.of[worker].to_bits(), worker));
    }
}

/// Algorithm 1 as corrected: from the largest chunk to the smallest, each to the worker below the average
/// load with the best product of what it lacks and the bytes to what it has.
pub fn greedy(problem: &Problem<'_>) -> Vec<Worker> {
    let order = problem.order();
    let mean = order.iter().map(|&chunk| problem.load(chunk)).sum::<f64>() / problem.workers as f64;
    let mut loads = Loads::new(problem.workers);
    let mut owners: Vec<Option<Worker>> = vec![None; order.len()];
    let (mut bytes, mut near) = (vec![0u64; problem.workers], Vec::new());
    for chunk in order {
        for link in problem.graph.links.at(chunk) {
            if let Some(owner) = owners[link.other as usize] {
                bytes[owner as usize] += link.bytes;
                near.push(owner as usize);
            }
        }
        near.sort_unstable();
        near.dedup();
        // All others score 0, of which the least loaded is taken. It is below the average if any worker is.
        let least = loads.least();
        let score = |worker: usize| (mean - loads.of[worker]) * bytes[worker] as f64;
        let best = near.iter().copied().filter(|&worker| score(worker) > 0.0).max_by(|&a, &b| {
            let by_load = loads.of[b].total_cmp(&loads.of[a]);
            score(a).total_cmp(&score(b)).then(by_load).then(b.cmp(&a))
        });
        let owner = best.unwrap_or(least);
        near.drain(..).for_each(|worker| bytes[worker] = 0);
        loads.add(owner, problem.load(chunk));
        owners[chunk] = Some(owner as Worker);
    }
    owners.into_iter().map(|owner| owner.unwrap_or(0)).collect()
}

/// The largest chunk to the least loaded worker, and so on: balance alone.
pub(super) fn by_load(problem: &Problem<'_>) -> Vec<Worker> {
    let mut loads = Loads::new(problem.workers);
    let mut owners: Vec<Worker> = vec![0; problem.graph.count];
    for chunk in problem.order() {
        let owner = loads.least();
        loads.add(owner, problem.load(chunk));
        owners[chunk] = owner as Worker;
    }
    owners
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::partition::chunks::graph::Load;

    fn graph(rows: &[u64], pairs: &[(u32, u32, u64)]) -> ChunkGraph {
        let loads =
            (0..).zip(rows).map(|(chunk, &rows)| (chunk, Load { period: 0, rows, edges: 0 })).collect();
        let pairs = pairs.iter().map(|&(a, b, bytes)| (a, b, 0, bytes)).collect();
        ChunkGraph::new(rows.len(), 1, loads, pairs)
    }

    fn traffic() -> Traffic {
        Traffic { cell_seconds: 1.0, row_seconds: 0.0, byte_seconds: 1.0, ..Traffic::default() }
    }

    #[test]
    fn chunks_go_where_their_bytes_are_while_there_is_room() {
        let traffic = traffic();
        // Loads 8, 7, 3, 2, 2 of 22: 11 each. The first two go apart, for no neighbour has been assigned. 2
        // goes to its neighbour 0, which fills it; 3 would rather go there too, but the other has room.
        let graph = graph(&[8, 7, 3, 2, 2], &[(0, 2, 5), (0, 3, 9), (1, 4, 1)]);
        assert_eq!(greedy(&Problem::new(&graph, 2, &traffic, &traffic, 1.0)), [0, 1, 0, 1, 1]);
    }

    #[test]
    fn workers_above_the_average_come_last() {
        let traffic = traffic();
        // Worker 0 has 10 of 16 and is above the average of 8; as printed, its score would be negative for a
        // neighbour and 0 for the others.
        let graph = graph(&[10, 3, 3], &[(0, 1, 100), (0, 2, 100)]);
        assert_eq!(greedy(&Problem::new(&graph, 2, &traffic, &traffic, 1.0)), [0, 1, 1]);
    }

    #[test]
    fn seconds_are_those_of_the_slowest_worker() {
        let traffic = traffic();
        let graph = graph(&[4, 2, 1], &[(0, 1, 6), (1, 2, 2)]);
        let problem = Problem::new(&graph, 2, &traffic, &traffic, 1.0);
        // Half of the bytes at either end.
        assert_eq!(problem.seconds_of(&[0, 1, 1]), 4.0 + 3.0);
        assert_eq!(problem.seconds_of(&[0, 0, 1]), 6.0 + 1.0);
        assert_eq!(problem.seconds_of(&[0, 0, 0]), 7.0);
        assert_eq!(by_load(&problem), [0, 1, 1]);
    }
}
