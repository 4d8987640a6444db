//! The cells that are cut into chunks, and their neighbours (DGC section 4.1).
//!
//! A cell is a vertex at a step. Spatial edges are those of its snapshot, seen from both ends, for a row
//! moves along them whichever end is elsewhere; temporal edges join a vertex to itself at the step before and
//! after. Cells are numbered step after step, which are the labels of equation 1. A vertex that is absent at
//! a step has a number there, too, but no load, and it is no neighbour of anything.

use kymo_graph::{Edge, Presence, Step, Store, Vertex};
use rayon::prelude::*;

use crate::cut::present;
use crate::error::{Error, Result};
use crate::partition::{Ask, Traffic};

/// Most cells that are looked at, for which three numbers of four bytes each are held; where there are more,
/// steps are left out evenly.
const MOST: usize = 1 << 28;

/// The cells of the steps that are looked at.
pub struct Cells<'a> {
    store: &'a Store,
    /// The steps, ascending; those between are taken to be like the one before.
    pub steps: Vec<Step>,
    /// What moves along edges.
    pub traffic: Traffic,
    /// Steps that are trained on together.
    pub window: usize,
    /// When vertices are present, where that is not always.
    pub presence: Option<&'a Presence>,
}

impl<'a> Cells<'a> {
    /// The cells that a question is about.
    pub fn new(ask: &Ask<'a>) -> Result<Cells<'a>> {
        ask.check()?;
        let (store, mut steps) = (ask.store, ask.looked());
        if steps.is_empty() {
            let problem = format!("none of {:?} is looked at, expected at least one", ask.steps);
            return Err(Error::settings("steps", problem));
        }
        let most = (MOST / store.vertices().max(1)).max(1);
        if store.vertices() > MOST {
            let problem = format!("found {} vertices, chunks are made of {MOST} at most", store.vertices());
            return Err(Error::settings(
                "vertices",
                format!("{problem}; choose a strategy that owns vertices"),
            ));
        }
        if steps.len() > most {
            steps = (0..most).map(|place| steps[place * steps.len() / most]).collect();
        }
        for &step in &steps {
            let edges = store.edges(step)?;
            if edges >= u32::MAX as usize {
                let problem = format!("step {step} has {edges} edges, more than can be numbered in 32 bits");
                return Err(Error::settings("edges", format!("{problem}; cut the data into more steps")));
            }
        }
        Ok(Cells { store, steps, traffic: ask.traffic, window: ask.window.max(1), presence: ask.presence })
    }

    /// How many vertices there are at each step.
    pub fn vertices(&self) -> usize {
        self.store.vertices()
    }

    /// How many cells there are.
    pub fn count(&self) -> usize {
        self.steps.len() * self.vertices()
    }

    /// The edges of the step at this place of the list.
    pub(super) fn with_edges<T>(&self, place: usize, use_them: impl FnOnce(&[Edge]) -> T) -> Result<T> {
        Ok(use_them(&self.store.snapshot(self.steps[place])?.edges))
    }

    /// Whether a vertex is present at the step at this place of the list.
    pub fn has(&self, place: usize, vertex: Vertex) -> bool {
        self.presence.is_none_or(|presence| presence.has(vertex, self.steps[place]))
    }

    /// The load of every cell, step after step: 1 + its in-degree, and 0 where its vertex is absent.
    pub fn loads(&self) -> Result<Vec<Vec<u32>>> {
        let of = |place: usize| {
            self.with_edges(place, |edges| {
                let mut loads = vec![0u32; self.vertices()];
                let there = present(self.presence, self.vertices(), self.steps[place]);
                there.for_each(|vertex| loads[vertex as usize] = 1);
                edges.iter().for_each(|edge| loads[edge.target() as usize] += 1);
                loads
            })
        };
        (0..self.steps.len()).into_par_iter().map(of).collect()
    }

    /// The number of periods that loads are balanced in: windows one after the other, or runs of windows.
    ///
    /// The paper trains on the whole sequence at a time, which is one period. Where windows are shorter, all
    /// workers train the same window together, so a worker with much to do in other windows waits in this
    /// one.
    pub fn periods(&self) -> usize {
        /// More would make chunks too large beside the load of a period.
        const MOST_PERIODS: usize = 16;
        self.steps.len().div_ceil(self.window).clamp(1, MOST_PERIODS)
    }

    /// The period of the step at this place of the list.
    pub fn period(&self, place: usize) -> usize {
        place * self.periods() / self.steps.len().max(1)
    }
}

/// The neighbours in space of all vertices at a step: those before it along edges as they lie there, those
/// after it sorted out anew. The buffers are used again for the next step.
#[derive(Default)]
pub(super) struct Neighbours {
    inward: Vec<u32>,
    outward: Vec<u32>,
    targets: Vec<Vertex>,
}

impl Neighbours {
    /// Takes in the edges of a step, ascending.
    pub fn fill(&mut self, edges: &[Edge], vertices: usize) {
        self.inward.clear();
        self.inward.resize(vertices + 1, 0);
        // Counted one place further on and filled at the place itself, starts end up where they belong.
        self.outward.clear();
        self.outward.resize(vertices + 2, 0);
        for edge in edges {
            self.inward[edge.target() as usize + 1] += 1;
            self.outward[edge.source() as usize + 2] += 1;
        }
        for vertex in 0..vertices {
            self.inward[vertex + 1] += self.inward[vertex];
            self.outward[vertex + 2] += self.outward[vertex + 1];
        }
        self.targets.resize(edges.len(), 0);
        for edge in edges {
            let next = &mut self.outward[edge.source() as usize + 1];
            self.targets[*next as usize] = edge.target();
            *next += 1;
        }
    }

    /// How many neighbours a vertex has, those linked both ways counted twice.
    pub fn count(&self, vertex: usize) -> usize {
        let ends = |starts: &[u32]| (starts[vertex + 1] - starts[vertex]) as usize;
        ends(&self.inward) + ends(&self.outward)
    }

    /// The neighbours of a vertex: once for each edge; itself where it has a loop.
    pub fn of<'a>(&'a self, edges: &'a [Edge], vertex: usize) -> impl Iterator<Item = Vertex> + 'a {
        let range = |starts: &[u32]| starts[vertex] as usize..starts[vertex + 1] as usize;
        let before = edges[range(&self.inward)].iter().map(|edge| edge.source());
        before.chain(self.targets[range(&self.outward)].iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_seen_from_both_ends() {
        let mut edges: Vec<Edge> =
            [(0, 1), (1, 0), (3, 1), (2, 2), (3, 0)].map(|(u, v)| Edge::new(u, v)).into();
        edges.sort_unstable();
        let mut neighbours = Neighbours::default();
        // The second time in buffers that were used before.
        for _ in 0..2 {
            neighbours.fill(&edges, 5);
            let of = |vertex| {
                let mut list: Vec<Vertex> = neighbours.of(&edges, vertex).collect();
                assert_eq!(list.len(), neighbours.count(vertex));
                list.sort_unstable();
                list
            };
            assert_eq!(
                [0, 1, 2, 3, 4].map(of),
                [vec![1, 1, 3], vec![0, 0, 3], vec![2, 2], vec![0, 1], vec![]]
            );
        }
    }
}
