//! Label propagation over cells (DGC section 4.1, equations 1 and 2).
//!
//! Every cell begins with a label of its own and takes the one that most bytes come from, of all its
//! neighbours in space and time. Run as printed, all cells at once, labels swap for ever across bipartite
//! parts. So cells are visited one by one in a fixed random order and see the newest labels; ties go to the
//! label that a cell has, then to the smallest; a label whose cells have a load at the cap is not adopted. It
//! ends when hardly a label changes.
//!
//! Even steps go first and odd ones follow: a step sees its neighbours in time, which stand still meanwhile,
//! and the newest labels of its own cells, so steps of one parity go side by side and the chunks are the same
//! for any number of threads. The room that labels have is looked up as it was before such a group of steps;
//! changes are then applied in the order of the steps, and those that would go beyond the cap are refused. A
//! cell is visited again when something around it has changed.
//!
//! Where vertices come and go, cells without a load are absent: they are not visited, and nobody takes their
//! labels.

use kymo_graph::random::Random;
use kymo_graph::{Edge, Vertex};
use rayon::prelude::*;

use super::cells::{Cells, Neighbours};
use super::sums::Sums;
use crate::error::Result;

/// Chunks a worker, if all were as large as they may be: enough to even out loads.
const CHUNKS_A_WORKER: u64 = 64;
/// The least load that a chunk may have: below it, chunks would be single cells.
const LEAST_CAP: u64 = 16;
/// Rounds after which it ends in any case.
const ROUNDS: usize = 10;
/// It ends when less than one cell in this many took another label in a round.
const SETTLED: usize = 200;
/// Steps of one parity whose changes are applied together. Constant, so that threads do not matter.
const TOGETHER: usize = 32;

/// The label of every cell.
pub(super) struct Labels {
    /// Of each step, those of all vertices.
    pub by_step: Vec<Vec<u32>>,
    /// How many rounds it took.
    pub rounds: usize,
}

/// The most that the cells of a chunk may load a worker with; a cell above it is a chunk by itself.
pub fn cap(loads: &[Vec<u32>], workers: usize) -> u64 {
    let total: u64 = loads.iter().flatten().map(|&load| u64::from(load)).sum();
    (total / (workers as u64 * CHUNKS_A_WORKER)).clamp(LEAST_CAP, u64::from(u32::MAX))
}

/// Propagates labels until they settle.
pub(super) fn propagate(cells: &Cells<'_>, loads: &[Vec<u32>], cap: u64, seed: u64) -> Result<Labels> {
    let mut run = Propagation::new(cells, loads, cap, seed);
    let present = loads.iter().flatten().filter(|load| **load > 0).count();
    let mut rounds = 0;
    while rounds < ROUNDS {
        let changed = run.round(rounds as u64)?;
        rounds += 1;
        if changed * SETTLED < present {
            break;
        }
    }
    Ok(Labels { by_step: run.labels, rounds })
}

struct Propagation<'a> {
    cells: &'a Cells<'a>,
    loads: &'a [Vec<u32>],
    cap: u64,
    random: Random,
    labels: Vec<Vec<u32>>,
    /// The load of all cells with a label.
    sizes: Vec<u32>,
    /// Of each step a bit for every vertex: whether something around it changed since it was visited, or a
    /// label had no room for it.
    waiting: Vec<Vec<u64>>,
}

/// What came of a visit to a step: the labels that cells want to have, in the order in which they were
/// visited, and the cells that are to be visited again.
struct Visit {
    wanted: Vec<(Vertex, u32)>,
    waiting: Vec<u64>,
}

fn set(bits: &mut [u64], vertex: usize) {
    bits[vertex / 64] |= 1 << (vertex % 64);
}

/// What a thread works in.
#[derive(Default)]
struct Scratch {
    neighbours: Neighbours,
    now: Vec<u32>,
    taken: Vec<u32>,
    sums: Sums,
}

impl<'a> Propagation<'a> {
    fn new(cells: &'a Cells<'a>, loads: &'a [Vec<u32>], cap: u64, seed: u64) -> Propagation<'a> {
        let vertices = cells.vertices();
        let own = |place: usize| (0..vertices).map(|vertex| (place * vertices + vertex) as u32).collect();
        Propagation {
            cells,
            loads,
            cap,
            random: Random::new(seed).stream(STREAM),
            labels: (0..cells.steps.len()).map(own).collect(),
            sizes: loads.concat(),
            waiting: vec![vec![u64::MAX; vertices.div_ceil(64)]; cells.steps.len()],
        }
    }

    /// Visits every cell once; how many took another label.
    fn round(&mut self, round: u64) -> Result<usize> {
        let mut changed = 0;
        for parity in 0..2 {
            let places: Vec<usize> = (parity..self.cells.steps.len()).step_by(2).collect();
            for group in places.chunks(TOGETHER) {
                let random = self.random.stream(round);
                let visit = |scratch: &mut Scratch, &place: &usize| {
                    self.cells.with_edges(place, |edges| {
                        scratch.neighbours.fill(edges, self.cells.vertices());
                        self.visit(place, edges, random.stream(place as u64), scratch)
                    })
                };
                let visits: Vec<Visit> =
                    group.par_iter().map_init(Scratch::default, visit).collect::<Result<_>>()?;
                for (&place, visit) in group.iter().zip(visits) {
                    changed += self.apply(place, visit);
                }
            }
        }
        Ok(changed)
    }

    /// Visits those cells of a step that wait for it.
    fn visit(&self, place: usize, edges: &[Edge], random: Random, scratch: &mut Scratch) -> Visit {
        let (vertices, traffic) = (self.cells.vertices(), &self.cells.traffic);
        let (spatial, temporal) = (traffic.edge(), traffic.temporal(self.cells.window));
        let Scratch { neighbours, now, taken, sums } = scratch;
        now.clone_from(&self.labels[place]);
        taken.clear();
        taken.resize(vertices, 0);
        let around = [place.checked_sub(1), Some(place + 1)].into_iter().flatten();
        let around: Vec<(&[u32], &[u32])> =
            around.filter_map(|at| Some((&self.labels.get(at)?[..], &self.loads[at][..]))).collect();
        let loads = &self.loads[place];
        let (mut wanted, mut waiting) = (Vec::new(), self.waiting[place].clone());
        for vertex in order(vertices, random) {
            if waiting[vertex / 64] & 1 << (vertex % 64) == 0 || loads[vertex] == 0 {
                continue;
            }
            waiting[vertex / 64] &= !(1 << (vertex % 64));
            sums.begin(neighbours.count(vertex) + around.len());
            let is_other = |&other: &Vertex| other as usize != vertex && loads[other as usize] > 0;
            for other in neighbours.of(edges, vertex).filter(is_other) {
                sums.add(now[other as usize], spatial);
            }
            for (labels, _) in around.iter().filter(|(_, loads)| loads[vertex] > 0) {
                sums.add(labels[vertex], temporal);
            }
            let (current, load) = (now[vertex], loads[vertex]);
            // Two labels that began at the same vertex share what was taken of their room in this step, so
            // that a list is enough; at worst one of them is adopted a round later.
            let first = |label: u32| label as usize % vertices;
            let has_room = |label: u32| {
                let size = u64::from(self.sizes[label as usize]) + u64::from(taken[first(label)]);
                size + u64::from(load) <= self.cap
            };
            let (best, is_first) = sums.best(current, has_room);
            if !is_first {
                set(&mut waiting, vertex);
            }
            if best != current {
                now[vertex] = best;
                taken[first(best)] = taken[first(best)].saturating_add(load);
                wanted.push((vertex as Vertex, best));
                neighbours.of(edges, vertex).for_each(|other| set(&mut waiting, other as usize));
            }
        }
        Visit { wanted, waiting }
    }

    /// Gives cells the labels that they want, as far as there is room.
    fn apply(&mut self, place: usize, visit: Visit) -> usize {
        let mut changed = 0;
        self.waiting[place] = visit.waiting;
        for (vertex, label) in visit.wanted {
            let (load, vertex) = (self.loads[place][vertex as usize], vertex as usize);
            if u64::from(self.sizes[label as usize]) + u64::from(load) > self.cap {
                set(&mut self.waiting[place], vertex);
                continue;
            }
            let before = std::mem::replace(&mut self.labels[place][vertex], label);
            self.sizes[before as usize] -= load;
            self.sizes[label as usize] += load;
            changed += 1;
            for other in [place.checked_sub(1), Some(place + 1)].into_iter().flatten() {
                if let Some(waiting) = self.waiting.get_mut(other) {
                    set(waiting, vertex);
                }
            }
        }
        changed
    }
}

/// The stream of random numbers that orders are drawn from.
const STREAM: u64 = 0xc4u64;

/// All vertices in a random order that takes no memory: blocks that fill a line of the cache, and those in
/// each, in steps of a random width that has no divisor in common with their number.
fn order(vertices: usize, random: Random) -> impl Iterator<Item = usize> {
    const BLOCK: usize = 16;
    let within = random.stream(1);
    strides(vertices.div_ceil(BLOCK), random).flat_map(move |block| {
        let first = block * BLOCK;
        let size = BLOCK.min(vertices - first);
        strides(size, within.stream(block as u64)).map(move |place| first + place)
    })
}

/// The numbers below a bound in steps of a random width.
fn strides(bound: usize, random: Random) -> impl Iterator<Item = usize> {
    let divisor = |mut a: usize, mut b: usize| {
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    let mut width = 1 + random.below(bound, 0);
    while bound > 0 && divisor(width, bound) != 1 {
        width += 1;
    }
    let (mut next, width) = (random.below(bound, 1), width % bound.max(1));
    (0..bound).map(move |_| {
        let this = next;
        next += width;
        if next >= bound {
            next -= bound;
        }
        this
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_vertex_has_its_turn_once() {
        for vertices in [0, 1, 2, 3, 10, 64, 97, 210] {
            for round in 0..20 {
                let mut all: Vec<usize> = order(vertices, Random::new(round)).collect();
                all.sort_unstable();
                assert_eq!(all, (0..vertices).collect::<Vec<_>>());
            }
        }
    }
}
