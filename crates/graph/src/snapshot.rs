//! One step of a dynamic graph: its edges, sorted, and the compressed rows that kernels want.

use std::borrow::Cow;

use bytemuck::{Pod, Zeroable};

/// A vertex, numbered densely from 0 in a store.
pub type Vertex = u32;

/// A step, numbered from 0.
pub type Step = usize;

/// A directed edge packed into eight bytes, ordered by target and then by source.
///
/// The order makes a sorted list of edges a list of in-neighbourhoods, which is what aggregation reads. On a
/// little-endian machine the bytes are the two `u32` (source, target): a stored array of edges is an `[n, 2]`
/// array.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Pod, Zeroable)]
#[repr(transparent)]
pub struct Edge(u64);

impl Edge {
    /// The edge from `source` to `target`.
    #[inline]
    pub const fn new(source: Vertex, target: Vertex) -> Self {
        Self((target as u64) << 32 | source as u64)
    }

    /// Whether it ends where it starts.
    #[inline]
    pub const fn is_loop(&self) -> bool {
        self.source() == self.target()
    }

    /// Where the edge starts.
    #[inline]
    pub const fn source(self) -> Vertex {
        self.0 as u32
    }

    /// Where the edge ends.
    #[inline]
    pub const fn target(self) -> Vertex {
        (self.0 >> 32) as u32
    }

    /// The same edge in the other direction.
    #[inline]
    pub const fn reversed(self) -> Self {
        Self(self.0.rotate_left(32))
    }

    /// Whether both ends are the same vertex.
    #[inline]
    pub const fn is_self_loop(self) -> bool {
        self.source() == self.target()
    }

    /// The packed form: it orders as the edge does.
    #[inline]
    pub const fn key(self) -> u64 {
        self.0
    }

    /// The edge packed in `key`.
    #[inline]
    pub const fn from_key(key: u64) -> Self {
        Self(key)
    }
}

impl std::fmt::Debug for Edge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}->{}", self.source(), self.target())
    }
}

/// The graph at one step: sorted, distinct edges and, unless all of them are 1, their weights.
#[derive(Clone, Debug, Default)]
pub struct Snapshot<'a> {
    /// The edges in order.
    pub edges: Cow<'a, [Edge]>,
    /// The weight of each edge; absent when every weight is 1.
    pub weights: Option<Cow<'a, [f32]>>,
}

impl PartialEq for Snapshot<'_> {
    /// Equal edges with the same bits for weights; absent weights equal a list of ones.
    fn eq(&self, other: &Self) -> bool {
        self.edges == other.edges
            && match (&self.weights, &other.weights) {
                (None, None) => true,
                (Some(a), Some(b)) => a.iter().zip(b.iter()).all(|(a, b)| a.to_bits() == b.to_bits()),
                (Some(one), None) | (None, Some(one)) => one.iter().all(|&w| w == 1.0),
            }
    }
}

impl<'a> Snapshot<'a> {
    /// The graph of these weighted edges, in any order; of a repeated edge the last weight stands.
    pub fn from_weighted(mut list: Vec<(Edge, f32)>) -> Snapshot<'static> {
        list.sort_by_key(|&(edge, _)| edge);
        list.reverse();
        list.dedup_by_key(|&mut (edge, _)| edge);
        list.reverse();
        let weights = list.iter().any(|&(_, w)| w != 1.0).then(|| list.iter().map(|&(_, w)| w).collect());
        Snapshot { edges: list.into_iter().map(|(edge, _)| edge).collect(), weights: weights.map(Cow::Owned) }
    }

    /// The unweighted graph of these edges, in any order.
    pub fn from_edges(mut edges: Vec<Edge>) -> Snapshot<'static> {
        edges.sort_unstable();
        edges.dedup();
        Snapshot { edges: Cow::Owned(edges), weights: None }
    }

    /// How many edges there are.
    pub fn len(&self) -> usize {
        self.edges.len()
    }

    /// Whether there is no edge.
    pub fn is_empty(&self) -> bool {
        self.edges.is_empty()
    }

    /// The weight of the edge at `index`.
    #[inline]
    pub fn weight(&self, index: usize) -> f32 {
        self.weights.as_ref().map_or(1.0, |weights| weights[index])
    }

    /// The same snapshot, owning its arrays.
    pub fn into_owned(self) -> Snapshot<'static> {
        Snapshot {
            edges: Cow::Owned(self.edges.into_owned()),
            weights: self.weights.map(|weights| Cow::Owned(weights.into_owned())),
        }
    }

    /// A view that borrows this one's arrays.
    pub fn view(&self) -> Snapshot<'_> {
        Snapshot {
            edges: Cow::Borrowed(&self.edges),
            weights: self.weights.as_ref().map(|weights| Cow::Borrowed(&**weights)),
        }
    }

    /// How many edges join a vertex to itself.
    pub fn self_loops(&self) -> usize {
        self.edges.iter().filter(|edge| edge.is_self_loop()).count()
    }

    /// Edges as a person counts them: in an undirected graph a pair of opposite edges is one.
    pub fn count(&self, directed: bool) -> usize {
        if directed { self.len() } else { (self.len() + self.self_loops()) / 2 }
    }

    /// Rows by target: row `v` lists the in-neighbours of `v`.
    ///
    /// Every end of every edge must be below `vertices`.
    pub fn by_target(&self, vertices: usize) -> Csr {
        let columns = self.edges.iter().map(|edge| edge.source()).collect();
        let weights = self.weights.as_ref().map(|weights| weights.to_vec());
        Csr { starts: starts(vertices, self.edges.iter().map(|edge| edge.target())), columns, weights }
    }

    /// Rows by source: row `v` lists the out-neighbours of `v`.
    ///
    /// Every end of every edge must be below `vertices`.
    pub fn by_source(&self, vertices: usize) -> Csr {
        let starts = starts(vertices, self.edges.iter().map(|edge| edge.source()));
        let mut next = starts.clone();
        let mut columns = vec![0; self.len()];
        let mut weights = self.weights.as_ref().map(|_| vec![0.0; self.len()]);
        for (index, edge) in self.edges.iter().enumerate() {
            let slot = &mut next[edge.source() as usize];
            columns[*slot as usize] = edge.target();
            if let Some(weights) = &mut weights {
                weights[*slot as usize] = self.weight(index);
            }
            *slot += 1;
        }
        Csr { starts, columns, weights }
    }

    /// In- and out-degrees of the first `vertices` vertices.
    pub fn degrees(&self, vertices: usize) -> (Vec<u32>, Vec<u32>) {
        let (mut inward, mut outward) = (vec![0; vertices], vec![0; vertices]);
        for edge in self.edges.iter() {
            inward[edge.target() as usize] += 1;
            outward[edge.source() as usize] += 1;
        }
        (inward, outward)
    }
}

fn starts(vertices: usize, rows: impl Iterator<Item = Vertex>) -> Vec<u64> {
    let mut starts = vec![0u64; vertices + 1];
    for row in rows {
        starts[row as usize + 1] += 1;
    }
    for row in 0..vertices {
        starts[row + 1] += starts[row];
    }
    starts
}

/// Compressed sparse rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Csr {
    /// Row `v` is `starts[v]..starts[v + 1]` of the other arrays.
    pub starts: Vec<u64>,
    /// The neighbours, ascending within a row.
    pub columns: Vec<Vertex>,
    /// Their weights; absent when all are 1.
    pub weights: Option<Vec<f32>>,
}

impl Csr {
    /// The neighbours of `v`.
    pub fn row(&self, v: Vertex) -> &[Vertex] {
        &self.columns[self.starts[v as usize] as usize..self.starts[v as usize + 1] as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_order_by_target_then_source_and_reverse() {
        let edge = Edge::new(7, 3);
        assert_eq!((edge.source(), edge.target()), (7, 3));
        assert_eq!(edge.reversed(), Edge::new(3, 7));
        assert!(Edge::new(9, 1) < Edge::new(0, 2));
        assert!(Edge::new(0, 2) < Edge::new(1, 2));
        assert_eq!(bytemuck::bytes_of(&edge), &[7, 0, 0, 0, 3, 0, 0, 0]);
    }

    #[test]
    fn rows_by_target_and_by_source_list_the_same_edges() {
        let list = vec![
            (Edge::new(0, 1), 2.0),
            (Edge::new(2, 1), 3.0),
            (Edge::new(1, 0), 4.0),
            (Edge::new(2, 2), 5.0),
        ];
        let snapshot = Snapshot::from_weighted(list);
        let (inward, outward) = (snapshot.by_target(4), snapshot.by_source(4));
        assert_eq!(inward.row(1), &[0, 2]);
        assert_eq!(inward.row(3), &[] as &[u32]);
        assert_eq!(outward.row(2), &[1, 2]);
        assert_eq!(outward.weights, Some(vec![2.0, 4.0, 3.0, 5.0]));
        assert_eq!(snapshot.degrees(4), (vec![1, 2, 1, 0], vec![1, 1, 2, 0]));
    }

    #[test]
    fn the_last_weight_of_a_repeated_edge_stands() {
        let edge = Edge::new(1, 2);
        let snapshot = Snapshot::from_weighted(vec![(edge, 1.0), (edge, 3.0), (edge, 2.0)]);
        assert_eq!((snapshot.len(), snapshot.weight(0)), (1, 2.0));
    }
}
