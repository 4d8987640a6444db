//! Classes from neighbours, without a model: their vote, and labels that spread along edges (Zhu and
//! Ghahramani, "Learning from labeled and unlabeled data with label propagation", 2002).

use kymo_graph::snapshot::{Edge, Step};
use kymo_graph::store::Store;
use rayon::prelude::*;

use crate::error::Result;

/// How often labels are handed on.
const ROUNDS: usize = 30;

/// Every edge that there has been, and the step that it came in first.
pub struct Edges(Vec<(Edge, u32)>);

/// The neighbours of every vertex up to a step, in whichever direction.
pub struct Neighbours {
    /// Those of `v` are `list[starts[v]..starts[v + 1]]`.
    starts: Vec<usize>,
    list: Vec<u32>,
}

impl Edges {
    /// Bytes that edges, neighbours and shares of classes take at most.
    pub fn bytes(store: &Store, classes: usize) -> Result<u64> {
        let edges = store.structure_bytes()? / size_of::<Edge>() as u64;
        let each = size_of::<(Edge, u32)>() + 2 * size_of::<u32>();
        let shares = (store.vertices() as u64).saturating_mul(2 * size_of::<f32>() as u64 * classes as u64);
        Ok(edges.saturating_mul(each as u64).saturating_add(shares))
    }

    /// Those of a whole store.
    pub fn new(store: &Store) -> Result<Edges> {
        let mut edges: Vec<(Edge, u32)> = Vec::new();
        let mut walk = store.walk();
        while let Some(stop) = walk.step()? {
            let step = stop.step as u32;
            let apart = stop.delta.added.iter().filter(|(edge, _)| !edge.is_loop());
            // An undirected one is there once, however it is stored.
            let one_way = |edge: Edge| if edge.source() < edge.target() { edge } else { edge.reversed() };
            edges.extend(apart.map(|&(edge, _)| (one_way(edge), step)));
        }
        edges.par_sort_unstable();
        edges.dedup_by_key(|(edge, _)| *edge);
        Ok(Edges(edges))
    }

    /// The neighbours that vertices have had up to a step.
    pub fn up_to(&self, t: Step, vertices: usize) -> Neighbours {
        let known = || self.0.iter().filter(|(_, since)| *since as usize <= t).map(|(edge, _)| edge);
        let mut starts = vec![0; vertices + 1];
        for edge in known() {
            starts[edge.source() as usize + 1] += 1;
            starts[edge.target() as usize + 1] += 1;
        }
        (0..vertices).for_each(|vertex| starts[vertex + 1] += starts[vertex]);
        let (mut next, mut list) = (starts.clone(), vec![0; starts[vertices]]);
        for edge in known() {
            for (one, other) in [(edge.source(), edge.target()), (edge.target(), edge.source())] {
                list[next[one as usize]] = other;
                next[one as usize] += 1;
            }
        }
        Neighbours { starts, list }
    }
}

impl Neighbours {
    /// Those of undirected edges, for tests.
    #[cfg(test)]
    pub fn of_pairs(edges: impl Iterator<Item = (u32, u32)>, vertices: usize) -> Neighbours {
        Edges(edges.map(|(u, v)| (Edge::new(u, v), 0)).collect()).up_to(0, vertices)
    }

    fn of(&self, vertex: usize) -> &[u32] {
        &self.list[self.starts[vertex]..self.starts[vertex + 1]]
    }

    /// The share of each class among the neighbours of each vertex whose class is known: nothing where none
    /// is.
    pub fn votes(&self, known: &[Option<u32>], classes: usize) -> Vec<f32> {
        let mut shares = vec![0.0; known.len() * classes];
        shares.par_chunks_mut(classes.max(1)).enumerate().for_each(|(vertex, shares)| {
            for class in self.of(vertex).iter().filter_map(|&neighbour| known[neighbour as usize]) {
                shares[class as usize] += 1.0;
            }
            normalise(shares);
        });
        shares
    }

    /// What each vertex is told where everybody tells its neighbours the mean of what it was told itself, and
    /// those whose class is known keep to that: nothing where no word comes to.
    pub fn spread(&self, known: &[Option<u32>], classes: usize) -> Vec<f32> {
        let mut shares = vec![0.0; known.len() * classes];
        for (vertex, class) in known.iter().enumerate() {
            if let Some(class) = class {
                shares[vertex * classes + *class as usize] = 1.0;
            }
        }
        let mut told = shares.clone();
        for _ in 0..ROUNDS {
            told.par_chunks_mut(classes.max(1)).enumerate().for_each(|(vertex, row)| {
                if known[vertex].is_some() {
                    return;
                }
                row.fill(0.0);
                for &neighbour in self.of(vertex) {
                    let theirs = &shares[neighbour as usize * classes..][..classes];
                    row.iter_mut().zip(theirs).for_each(|(sum, share)| *sum += share);
                }
                normalise(row);
            });
            std::mem::swap(&mut shares, &mut told);
        }
        shares
    }
}

fn normalise(row: &mut [f32]) {
    let sum: f32 = row.iter().sum();
    if sum > 0.0 {
        row.iter_mut().for_each(|share| *share /= sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A path 0 - 1 - 2 - 3 - 4, whose last edge comes at step 2, and 5, which has none.
    fn path(t: Step) -> Neighbours {
        let edges = [(0, 1, 0), (1, 2, 0), (2, 3, 1), (3, 4, 2)];
        Edges(edges.iter().map(|&(u, v, t)| (Edge::new(u, v), t)).collect()).up_to(t, 6)
    }

    #[test]
    fn neighbours_vote_with_what_is_known_of_them() {
        let known = [Some(0), None, Some(1), None, Some(1), None];
        let of = |t| path(t).votes(&known, 2);
        assert_eq!(of(2), [0.0, 0.0, 0.5, 0.5, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0]);
        assert_eq!(of(0)[6..8], [0.0, 0.0], "an edge that has not come yet");
    }

    #[test]
    fn labels_spread_to_where_nobody_is_known_nearby() {
        let known = [Some(0), None, None, None, Some(1), None];
        let shares = path(2).spread(&known, 2);
        // The harmonic function of a path: it falls from end to end in equal steps.
        for (vertex, expected) in [1.0, 0.75, 0.5, 0.25, 0.0].into_iter().enumerate() {
            assert!((shares[2 * vertex] - expected).abs() < 1e-3, "{vertex}: {shares:?}");
            assert!((shares[2 * vertex] + shares[2 * vertex + 1] - 1.0).abs() < 1e-6);
        }
        assert_eq!(shares[10..], [0.0, 0.0], "nobody tells it");
        // Before the last edge has come, there is one class to be told of.
        assert_eq!(path(1).spread(&known, 2)[6..8], [1.0, 0.0]);
    }
}
