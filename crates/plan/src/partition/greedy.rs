//! METIS once, then to the neighbours: the baseline "Greedy" of DistDy (section 5.1).
//!
//! METIS cuts the first snapshot that has links. A vertex first seen later goes to the worker that owns most
//! of its neighbours in that snapshot; of those that own equally many, to the one with the fewest vertices. A
//! worker keeps the vertices it has, as in a system that learns of the graph while it runs. Loads are not
//! looked at again, so they may drift apart.

use kymo_graph::{Snapshot, Step, Vertex};

use super::links::Links;
use super::{Ask, Partition, Partitioner, multilevel};
use crate::cut::vertex_loads;
use crate::error::Result;
use crate::layout::{Layout, Worker};

/// METIS once, then to the neighbours.
pub(super) struct Greedy;

impl Partitioner for Greedy {
    fn name(&self) -> &'static str {
        "greedy"
    }

    fn about(&self) -> &'static str {
        "METIS on the first snapshot; each new vertex goes where most of its neighbours are"
    }

    fn partition(&self, ask: &Ask<'_>) -> Result<Partition> {
        ask.check()?;
        let store = ask.store;
        let mut settled = Settled { owners: vec![None; store.vertices()], counts: vec![0; ask.workers] };
        let first = first_links(ask)?;
        if let Some(other) =
            ask.instead_of_metis(first.as_ref().map_or(0, |(_, links)| links.pairs.len() as u64))?
        {
            return Ok(other);
        }
        let first = match first {
            Some((step, links)) => {
                multilevel::parts(&links, &vertex_loads(store, [step], ask.presence)?, ask.workers, ask.seed)?
            }
            None => Vec::new(),
        };
        for (vertex, &part) in first.iter().enumerate() {
            if let Some(part) = part {
                settled.settle(vertex as Vertex, part);
            }
        }
        let looked = |step: &Step| ask.effort.looked.is_none_or(|looked| looked.binary_search(step).is_ok());
        for step in (ask.steps.start..store.steps()).filter(looked) {
            settled.welcome(&store.snapshot(step)?);
        }
        let mut turn = (0..ask.workers as Worker).cycle();
        let owners = settled.owners.into_iter().map(|owner| owner.or_else(|| turn.next()).unwrap_or(0));
        Ok(Layout::by_vertex(ask.workers, store.steps(), owners.collect())?.into())
    }
}

/// The first step with links, and those.
fn first_links(ask: &Ask<'_>) -> Result<Option<(Step, Links)>> {
    for step in ask.looked() {
        let links = Links::of(&ask.store.snapshot(step)?);
        if !links.pairs.is_empty() {
            return Ok(Some((step, links)));
        }
    }
    Ok(None)
}

/// Vertices that have an owner already, and how many each worker has.
struct Settled {
    owners: Vec<Option<Worker>>,
    counts: Vec<usize>,
}

impl Settled {
    fn settle(&mut self, vertex: Vertex, worker: Worker) {
        self.owners[vertex as usize] = Some(worker);
        self.counts[worker as usize] += 1;
    }

    /// Gives the new vertices of a step an owner, ascending; those that have just got one count as
    /// neighbours.
    fn welcome(&mut self, snapshot: &Snapshot<'_>) {
        let is_new = |vertex: Vertex| self.owners[vertex as usize].is_none();
        let ends = snapshot.edges.iter().flat_map(|edge| [edge.source(), edge.target()]);
        let mut new: Vec<Vertex> = ends.filter(|&vertex| is_new(vertex)).collect();
        new.sort_unstable();
        new.dedup();
        // Every link of a new vertex, from its side; a pair linked both ways is one neighbour.
        let mut links: Vec<(Vertex, Vertex)> = snapshot
            .edges
            .iter()
            .flat_map(|edge| [(edge.source(), edge.target()), (edge.target(), edge.source())])
            .filter(|&(vertex, other)| vertex != other && is_new(vertex))
            .collect();
        links.sort_unstable();
        links.dedup();
        let mut links = links.as_slice();
        let mut neighbours = vec![0usize; self.counts.len()];
        for vertex in new {
            let (here, later) = links.split_at(links.partition_point(|&(from, _)| from <= vertex));
            links = later;
            for owner in here.iter().filter_map(|&(_, other)| self.owners[other as usize]) {
                neighbours[owner as usize] += 1;
            }
            let rank = |&worker: &usize| (std::cmp::Reverse(neighbours[worker]), self.counts[worker], worker);
            let best = (0..self.counts.len()).min_by_key(rank).unwrap_or(0);
            self.settle(vertex, best as Worker);
            neighbours.fill(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kymo_graph::Edge;

    #[test]
    fn new_vertices_go_to_most_neighbours_then_to_the_emptiest_then_to_the_lowest() {
        let mut settled = Settled { owners: vec![None; 9], counts: vec![0; 3] };
        for (vertex, worker) in [(0, 0), (1, 1), (2, 1), (3, 1)] {
            settled.settle(vertex, worker);
        }
        let edges = [(0, 4), (4, 0), (1, 4), (5, 1), (0, 5), (2, 5), (6, 6), (7, 6), (4, 8)];
        settled.welcome(&Snapshot::from_edges(edges.map(|(u, v)| Edge::new(u, v)).to_vec()));
        // 4: one neighbour each at 0 and 1, of whom 0 has fewer. 5: two at 1. 6: none anywhere, 2 is empty.
        // 7: 6 is at 2. 8: 4 is at 0.
        assert_eq!(settled.owners[4..], [Some(0), Some(1), Some(2), Some(2), Some(0)]);
        assert_eq!(settled.counts, [3, 4, 2]);
    }
}
