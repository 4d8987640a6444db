//! Which pairs of vertices are linked, and at how many steps: a dynamic graph merged into one that has no
//! direction.

use kymo_graph::{Edge, Snapshot, Step, Store};
use rayon::prelude::*;

use crate::error::Result;

/// Linked pairs. A pair is an edge from the lower to the higher vertex, whichever way it was linked.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Links {
    /// The pairs in order; no vertex is paired with itself.
    pub pairs: Vec<Edge>,
    /// At how many steps each is linked.
    pub weights: Vec<u32>,
}

/// Pairs that wait to be counted before they are: fewer would be merged too often, more would cost memory.
const WAITING: usize = 1 << 22;

impl Links {
    /// The pairs linked at a step.
    pub(super) fn of(snapshot: &Snapshot<'_>) -> Links {
        let pairs = pairs(snapshot);
        Links { weights: vec![1; pairs.len()], pairs }
    }

    /// The pairs linked at any of the steps.
    pub(super) fn over(store: &Store, steps: impl IntoIterator<Item = Step>) -> Result<Links> {
        let (mut links, mut waiting) = (Links::default(), Vec::new());
        for step in steps {
            waiting.extend(pairs(&store.snapshot(step)?));
            // In proportion to what is merged already, so that all merges together cost little more than the
            // last.
            if waiting.len() >= WAITING.max(links.pairs.len()) {
                links = links.with(&mut waiting);
            }
        }
        Ok(links.with(&mut waiting))
    }

    /// These and the waiting pairs, each occurrence of which counts as a step.
    fn with(self, waiting: &mut Vec<Edge>) -> Links {
        waiting.par_sort_unstable();
        let new = waiting.chunk_by(|a, b| a == b).map(|run| (run[0], run.len() as u32));
        let mut old = self.pairs.iter().copied().zip(self.weights.iter().copied()).peekable();
        let mut merged = Links::default();
        for (pair, mut weight) in new {
            while let Some((before, count)) = old.next_if(|&(before, _)| before <= pair) {
                if before == pair {
                    weight += count;
                } else {
                    merged.push(before, count);
                }
            }
            merged.push(pair, weight);
        }
        old.for_each(|(pair, weight)| merged.push(pair, weight));
        waiting.clear();
        merged
    }

    fn push(&mut self, pair: Edge, weight: u32) {
        self.pairs.push(pair);
        self.weights.push(weight);
    }
}

fn pairs(snapshot: &Snapshot<'_>) -> Vec<Edge> {
    let ordered = |edge: &Edge| if edge.source() < edge.target() { *edge } else { edge.reversed() };
    let linking = snapshot.edges.iter().filter(|edge| !edge.is_self_loop());
    let mut pairs: Vec<Edge> = linking.map(ordered).collect();
    pairs.par_sort_unstable();
    pairs.dedup();
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_counts_once_a_step_whichever_way_it_is_linked() {
        let first =
            Snapshot::from_edges(vec![Edge::new(0, 1), Edge::new(1, 0), Edge::new(2, 2), Edge::new(3, 2)]);
        let second = Snapshot::from_edges(vec![Edge::new(1, 0), Edge::new(0, 5)]);
        assert_eq!(pairs(&first), [Edge::new(0, 1), Edge::new(2, 3)]);
        let mut links = Links::of(&first).with(&mut pairs(&second));
        assert_eq!(links.pairs, [Edge::new(0, 1), Edge::new(2, 3), Edge::new(0, 5)]);
        assert_eq!(links.weights, [2, 1, 1]);
        links = links.with(&mut vec![Edge::new(2, 3), Edge::new(0, 5), Edge::new(2, 3), Edge::new(8, 9)]);
        assert_eq!(links.weights, [2, 3, 2, 1]);
    }
}
