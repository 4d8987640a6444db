//! Which vertices a change reaches: the difference map of REAL, section 4.1.
//!
//! REAL keeps the signed edges alone. An exact incremental aggregation needs more: under symmetric normalisation an
//! added edge changes the weight of every other edge of a vertex whose degree changed. So the map lists the
//! vertices whose in- or out-neighbourhood changed and, of them, those whose degree changed.

use crate::delta::Delta;
use crate::snapshot::{Snapshot, Vertex};

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
        let (mut inward, mut outward) = (Touched::new(vertices), Touched::new(vertices));
        for &(edge, _) in &delta.added {
            inward.touch(edge.target(), 1);
            outward.touch(edge.source(), 1);
        }
        for &(edge, _) in &delta.removed {
            inward.touch(edge.target(), -1);
            outward.touch(edge.source(), -1);
        }
        for change in &delta.reweighted {
            inward.touch(change.edge.target(), 0);
            outward.touch(change.edge.source(), 0);
        }
        let ((inward, in_degree), (outward, out_degree)) = (inward.lists(), outward.lists());
        Diffmap { delta, inward, outward, in_degree, out_degree }
    }
}

/// How the degree of each vertex moved, and whether anything about it did: one word a vertex.
struct Touched(Vec<i32>);

/// The lowest bit: the bits above hold the change of degree, exact up to a billion edges at one vertex in one step.
const TOUCHED: i32 = 1;

impl Touched {
    fn new(vertices: usize) -> Self {
        Self(vec![0; vertices])
    }

    #[inline]
    fn touch(&mut self, v: Vertex, by: i32) {
        let word = &mut self.0[v as usize];
        *word = word.wrapping_add(2 * by) | TOUCHED;
    }

    fn lists(self) -> (Vec<Vertex>, Vec<Vertex>) {
        let all = || (0..).zip(&self.0);
        let touched = all().filter(|&(_, &word)| word != 0).map(|(v, _)| v).collect();
        (touched, all().filter(|&(_, &word)| word & !TOUCHED != 0).map(|(v, _)| v).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::Edge;
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
            for (inward, changed, degree) in [(true, &map.inward, &map.in_degree), (false, &map.outward, &map.out_degree)] {
                let differs = |v: &u32| neighbours(&a, *v, inward) != neighbours(&b, *v, inward);
                let moved = |v: &u32| neighbours(&a, *v, inward).len() != neighbours(&b, *v, inward).len();
                prop_assert_eq!(changed, &(0..VERTICES).filter(differs).collect::<Vec<_>>());
                prop_assert_eq!(degree, &(0..VERTICES).filter(moved).collect::<Vec<_>>());
            }
        }
    }
}
