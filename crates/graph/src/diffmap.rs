//! Which vertices a change reaches: the difference map of REAL, section 4.1.
//!
//! REAL keeps the signed edges alone. An exact incremental aggregation needs more: under symmetric
//! normalisation an added edge changes the weight of every other edge of a vertex whose degree changed. So
//! the map lists the vertices whose in- or out-neighbourhood changed and, of them, those whose degree
//! changed.

use crate::delta::Delta;
use crate::snapshot::{Edge, Snapshot, Vertex};

/// The changed edges between two steps, and the vertices they touch; every list is ascending.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Diffmap {
    /// The changed edges.
    pub delta: Delta,
    /// Vertices with an incoming edge that was added, removed or re-weighted: their aggregation changes.
    pub inward: Vec<Vertex>,
    /// Vertices with an outgoing edge that was added, removed or re-weighted.
    pub outward: Vec<Vertex>,
    /// Vertices whose number of incoming edges changed.
    pub in_degree: Vec<Vertex>,
    /// Vertices whose number of outgoing edges changed.
    pub out_degree: Vec<Vertex>,
}

impl Diffmap {
    /// The map from `earlier` to `later`, over `vertices` vertices.
    pub fn between(earlier: &Snapshot<'_>, later: &Snapshot<'_>, vertices: usize) -> Diffmap {
        Self::of(Delta::between(earlier, later), vertices)
    }

    /// The map of a known delta, over `vertices` vertices.
    pub fn of(delta: Delta, vertices: usize) -> Diffmap {
        let ((inward, in_degree), (outward, out_degree)) = rayon::join(
            || touched(&delta, vertices, Edge::target),
            || touched(&delta, vertices, Edge::source),
        );
        Diffmap { delta, inward, outward, in_degree, out_degree }
    }
}

/// The lowest bit: the bits above hold the change of degree, exact up to a billion edges at one vertex in one
/// step.
const TOUCHED: i32 = 1;

/// The vertices at one end of the changed edges, and those of them whose degree changed.
fn touched(delta: &Delta, vertices: usize, end: impl Fn(Edge) -> Vertex) -> (Vec<Vertex>, Vec<Vertex>) {
    let mut words = vec![0i32; vertices];
    let mut touch = |edge: Edge, by: i32| {
        let word = &mut words[end(edge) as usize];
        *word = word.wrapping_add(2 * by) | TOUCHED;
    };
    delta.added.iter().for_each(|&(edge, _)| touch(edge, 1));
    delta.removed.iter().for_each(|&(edge, _)| touch(edge, -1));
    delta.reweighted.iter().for_each(|change| touch(change.edge, 0));
    (select(&words, |word| word != 0), select(&words, |word| word & !TOUCHED != 0))
}

/// The vertices whose word passes. About half of them do, in no order: a branch would be mispredicted at
/// every other one.
fn select(words: &[i32], passes: impl Fn(i32) -> bool) -> Vec<Vertex> {
    let mut selected = vec![0; words.len()];
    let mut count = 0;
    for (vertex, &word) in (0..).zip(words) {
        selected[count] = vertex;
        count += usize::from(passes(word));
    }
    selected.truncate(count);
    selected
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    const VERTICES: u32 = 10;

    fn graph() -> impl Strategy<Value = Snapshot<'static>> {
        prop::collection::vec((0..VERTICES, 0..VERTICES, 1u8..3), 0..50).prop_map(|list| {
            Snapshot::from_weighted(list.into_iter().map(|(u, v, w)| (Edge::new(u, v), w.into())).collect())
        })
    }

    fn neighbours(graph: &Snapshot<'_>, v: u32, inward: bool) -> BTreeMap<u32, u32> {
        let ends =
            |edge: Edge| if inward { (edge.target(), edge.source()) } else { (edge.source(), edge.target()) };
        (0..graph.len())
            .filter(|&i| ends(graph.edges[i]).0 == v)
            .map(|i| (ends(graph.edges[i]).1, graph.weight(i).to_bits()))
            .collect()
    }

    proptest! {
        #[test]
        fn the_lists_are_those_of_comparing_every_neighbourhood(a in graph(), b in graph()) {
            let map = Diffmap::between(&a, &b, VERTICES as usize);
            for (inward, changed, degree) in
                [(true, &map.inward, &map.in_degree), (false, &map.outward, &map.out_degree)]
            {
                let differs = |v: &u32| neighbours(&a, *v, inward) != neighbours(&b, *v, inward);
                let moved = |v: &u32| neighbours(&a, *v, inward).len() != neighbours(&b, *v, inward).len();
                prop_assert_eq!(changed, &(0..VERTICES).filter(differs).collect::<Vec<_>>());
                prop_assert_eq!(degree, &(0..VERTICES).filter(moved).collect::<Vec<_>>());
            }
        }
    }
}
