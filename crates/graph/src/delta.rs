//! What changed between two steps, and the algebra of such changes.
//!
//! The laws, held by property tests over random graphs:
//! `apply(a, between(a, b)) = b`, `between(a, b).inverted() = between(b, a)`,
//! `between(a, b).then(between(b, c)) = between(a, c)`.

use std::borrow::Cow;
use std::ops::Range;

use rayon::prelude::*;

use crate::snapshot::{Edge, Snapshot};

/// An edge of both steps whose weight differs between them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reweighted {
    /// The edge.
    pub edge: Edge,
    /// Its weight in the earlier step.
    pub before: f32,
    /// Its weight in the later step.
    pub after: f32,
}

/// The difference of two snapshots; each list is sorted by edge, and no edge is in two lists.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Delta {
    /// Edges of the later step alone, with their weights.
    pub added: Vec<(Edge, f32)>,
    /// Edges of the earlier step alone, with the weights they had.
    pub removed: Vec<(Edge, f32)>,
    /// Edges of both steps with different weights.
    pub reweighted: Vec<Reweighted>,
}

/// One edge's fate: its weight before and after, `None` where it is absent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// The edge.
    pub edge: Edge,
    /// Its weight in the earlier step.
    pub before: Option<f32>,
    /// Its weight in the later step.
    pub after: Option<f32>,
}

/// A delta was applied to a snapshot it does not start from, or composed with one it does not lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the delta does not follow from this snapshot: they disagree about the edge {0:?}")]
pub struct Mismatch(pub Edge);

/// Edges of one piece of work: small enough to balance over threads, large enough to hide the cost of a task.
/// The pieces depend on the data alone, so the result does not depend on the number of threads.
const PIECE: usize = 1 << 16;

impl Delta {
    /// What turns `earlier` into `later`.
    pub fn between(earlier: &Snapshot<'_>, later: &Snapshot<'_>) -> Delta {
        if earlier.len() + later.len() <= 2 * PIECE {
            return piece(earlier, 0..earlier.len(), later, 0..later.len());
        }
        let longer = if earlier.len() > later.len() { &earlier.edges } else { &later.edges };
        let mut cuts = vec![(0, 0)];
        for edge in longer.iter().skip(PIECE).step_by(PIECE) {
            cuts.push((
                earlier.edges.partition_point(|e| e < edge),
                later.edges.partition_point(|e| e < edge),
            ));
        }
        cuts.push((earlier.len(), later.len()));
        let pieces: Vec<Delta> = cuts
            .par_windows(2)
            .map(|cut| piece(earlier, cut[0].0..cut[1].0, later, cut[0].1..cut[1].1))
            .collect();
        let mut whole = Delta {
            added: Vec::with_capacity(pieces.iter().map(|piece| piece.added.len()).sum()),
            removed: Vec::with_capacity(pieces.iter().map(|piece| piece.removed.len()).sum()),
            reweighted: Vec::with_capacity(pieces.iter().map(|piece| piece.reweighted.len()).sum()),
        };
        for piece in pieces {
            whole.added.extend_from_slice(&piece.added);
            whole.removed.extend_from_slice(&piece.removed);
            whole.reweighted.extend_from_slice(&piece.reweighted);
        }
        whole
    }

    /// How many edges the delta between two snapshots touches, without making it.
    pub fn count_between(earlier: &Snapshot<'_>, later: &Snapshot<'_>) -> usize {
        let (old, new) = (&*earlier.edges, &*later.edges);
        let weighted = earlier.weights.is_some() || later.weights.is_some();
        let (mut i, mut j, mut same) = (0, 0, 0);
        while i < old.len() && j < new.len() {
            let (x, y) = (old[i], new[j]);
            let equal = x == y && (!weighted || earlier.weight(i).to_bits() == later.weight(j).to_bits());
            same += usize::from(x == y) + usize::from(equal);
            i += usize::from(x <= y);
            j += usize::from(y <= x);
        }
        // An edge of both sides was counted twice in the lengths: a re-weighted one is to count once, an
        // equal one never.
        old.len() + new.len() - same
    }

    /// How many edges the delta touches.
    pub fn len(&self) -> usize {
        self.added.len() + self.removed.len() + self.reweighted.len()
    }

    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The delta in the other direction.
    pub fn inverted(self) -> Delta {
        let back = |r: Reweighted| Reweighted { edge: r.edge, before: r.after, after: r.before };
        Delta {
            added: self.removed,
            removed: self.added,
            reweighted: self.reweighted.into_iter().map(back).collect(),
        }
    }

    /// Every change in the order of its edges.
    pub fn changes(&self) -> impl Iterator<Item = Change> + '_ {
        let (mut added, mut removed, mut reweighted) =
            (self.added.as_slice(), self.removed.as_slice(), self.reweighted.as_slice());
        std::iter::from_fn(move || {
            let next = |edge: Option<Edge>| edge.map_or(u128::MAX, |edge| u128::from(edge.key()));
            let a = next(added.first().map(|x| x.0));
            let r = next(removed.first().map(|x| x.0));
            let w = next(reweighted.first().map(|x| x.edge));
            if a < r && a < w {
                let (&(edge, weight), rest) = added.split_first()?;
                added = rest;
                Some(Change { edge, before: None, after: Some(weight) })
            } else if r < w {
                let (&(edge, weight), rest) = removed.split_first()?;
                removed = rest;
                Some(Change { edge, before: Some(weight), after: None })
            } else {
                let (&Reweighted { edge, before, after }, rest) = reweighted.split_first()?;
                reweighted = rest;
                Some(Change { edge, before: Some(before), after: Some(after) })
            }
        })
    }

    fn push(&mut self, Change { edge, before, after }: Change) {
        match (before, after) {
            (None, Some(weight)) => self.added.push((edge, weight)),
            (Some(weight), None) => self.removed.push((edge, weight)),
            (Some(before), Some(after)) if before.to_bits() != after.to_bits() => {
                self.reweighted.push(Reweighted { edge, before, after });
            }
            _ => {}
        }
    }

    /// One delta out of the changes of several steps, given in the order of the steps.
    pub fn merged(mut changes: Vec<Change>) -> Result<Delta, Mismatch> {
        changes.sort_by_key(|change| change.edge);
        let mut whole = Delta::default();
        for fates in changes.chunk_by(|a, b| a.edge == b.edge) {
            if fates.windows(2).any(|pair| !same(pair[0].after, pair[1].before)) {
                return Err(Mismatch(fates[0].edge));
            }
            whole.push(Change {
                edge: fates[0].edge,
                before: fates[0].before,
                after: fates[fates.len() - 1].after,
            });
        }
        Ok(whole)
    }

    /// This delta and then `next` as one delta.
    pub fn then(&self, next: &Delta) -> Result<Delta, Mismatch> {
        Delta::merged(self.changes().chain(next.changes()).collect())
    }

    /// The snapshot after this change.
    ///
    /// The runs between changed edges are copied as blocks, so the cost is that of copying the snapshot.
    pub fn apply(&self, earlier: &Snapshot<'_>) -> Result<Snapshot<'static>, Mismatch> {
        let length = (earlier.len() + self.added.len()).saturating_sub(self.removed.len());
        let weighted = earlier.weights.is_some()
            || self.added.iter().any(|&(_, weight)| weight != 1.0)
            || !self.reweighted.is_empty();
        let mut edges = Vec::with_capacity(length);
        let mut weights = weighted.then(|| Vec::with_capacity(length));
        let mut copy = |edges: &mut Vec<Edge>, range: Range<usize>, then: Option<(Edge, f32)>| {
            edges.extend_from_slice(&earlier.edges[range.clone()]);
            edges.extend(then.map(|(edge, _)| edge));
            if let Some(weights) = &mut weights {
                match &earlier.weights {
                    Some(before) => weights.extend_from_slice(&before[range]),
                    None => weights.extend(range.map(|_| 1.0)),
                }
                weights.extend(then.map(|(_, weight)| weight));
            }
        };
        let mut done = 0;
        for Change { edge, before, after } in self.changes() {
            let at = done + seek(&earlier.edges[done..], edge);
            let found = earlier.edges.get(at) == Some(&edge);
            let held = found.then(|| earlier.weight(at).to_bits());
            if held != before.map(f32::to_bits) {
                return Err(Mismatch(edge));
            }
            copy(&mut edges, done..at, after.map(|weight| (edge, weight)));
            done = at + usize::from(found);
        }
        copy(&mut edges, done..earlier.len(), None);
        let weights = weights.filter(|weights| weights.iter().any(|&weight| weight != 1.0));
        Ok(Snapshot { edges: Cow::Owned(edges), weights: weights.map(Cow::Owned) })
    }
}

fn same(a: Option<f32>, b: Option<f32>) -> bool {
    a.map(f32::to_bits) == b.map(f32::to_bits)
}

/// The position of the first entry not below `entry` in a sorted list: doubling steps, then halving, because
/// the next change is near.
pub(crate) fn seek<T: Copy + Ord>(list: &[T], entry: T) -> usize {
    let mut bound = 1;
    while bound < list.len() && list[bound] < entry {
        bound *= 2;
    }
    let low = bound / 2;
    let high = (bound + 1).min(list.len());
    low + list[low..high].partition_point(|&e| e < entry)
}

/// The difference of two aligned pieces: one merge over both sorted lists.
fn piece(earlier: &Snapshot<'_>, a: Range<usize>, later: &Snapshot<'_>, b: Range<usize>) -> Delta {
    let weighted = earlier.weights.is_some() || later.weights.is_some();
    let (old, new) = (&earlier.edges[a.clone()], &later.edges[b.clone()]);
    let mut delta = Delta::default();
    let (mut i, mut j) = (0, 0);
    while i < old.len() && j < new.len() {
        let (x, y) = (old[i], new[j]);
        if x == y {
            if weighted {
                let (before, after) = (earlier.weight(a.start + i), later.weight(b.start + j));
                if before.to_bits() != after.to_bits() {
                    delta.reweighted.push(Reweighted { edge: x, before, after });
                }
            }
            i += 1;
            j += 1;
        } else if x < y {
            delta.removed.push((x, earlier.weight(a.start + i)));
            i += 1;
        } else {
            delta.added.push((y, later.weight(b.start + j)));
            j += 1;
        }
    }
    delta.removed.extend((i..old.len()).map(|i| (old[i], earlier.weight(a.start + i))));
    delta.added.extend((j..new.len()).map(|j| (new[j], later.weight(b.start + j))));
    delta
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Random graphs on few vertices, so that edges collide, with few weights, so that some are equal.
    pub(crate) fn graph() -> impl Strategy<Value = Snapshot<'static>> {
        let edge =
            (0u32..12, 0u32..12, prop_oneof![Just(1.0f32), Just(0.5), Just(-2.0), Just(0.0), Just(-0.0)]);
        let weighted = prop::collection::vec(edge, 0..60).prop_map(|list| {
            Snapshot::from_weighted(list.into_iter().map(|(u, v, w)| (Edge::new(u, v), w)).collect())
        });
        let plain = prop::collection::vec((0u32..12, 0u32..12), 0..60)
            .prop_map(|list| Snapshot::from_edges(list.into_iter().map(|(u, v)| Edge::new(u, v)).collect()));
        prop_oneof![weighted, plain]
    }

    /// The definition, without any merging: look every edge up in the other graph.
    fn from_scratch(earlier: &Snapshot<'_>, later: &Snapshot<'_>) -> Delta {
        let weight =
            |graph: &Snapshot<'_>, edge| graph.edges.iter().position(|&e| e == edge).map(|i| graph.weight(i));
        let mut delta = Delta::default();
        for &edge in later.edges.iter() {
            delta.push(Change { edge, before: weight(earlier, edge), after: weight(later, edge) });
        }
        for &edge in earlier.edges.iter().filter(|&&edge| weight(later, edge).is_none()) {
            delta.push(Change { edge, before: weight(earlier, edge), after: None });
        }
        delta
    }

    fn bits(delta: &Delta) -> Vec<(Edge, Option<u32>, Option<u32>)> {
        delta.changes().map(|c| (c.edge, c.before.map(f32::to_bits), c.after.map(f32::to_bits))).collect()
    }

    proptest! {
        #[test]
        fn a_delta_is_what_a_search_finds(a in graph(), b in graph()) {
            prop_assert_eq!(bits(&Delta::between(&a, &b)), bits(&from_scratch(&a, &b)));
            prop_assert_eq!(Delta::count_between(&a, &b), from_scratch(&a, &b).len());
        }

        #[test]
        fn applying_the_delta_gives_the_later_graph(a in graph(), b in graph()) {
            prop_assert_eq!(Delta::between(&a, &b).apply(&a).unwrap(), b);
        }

        #[test]
        fn the_inverse_leads_back(a in graph(), b in graph()) {
            let inverse = Delta::between(&a, &b).inverted();
            prop_assert_eq!(bits(&inverse), bits(&Delta::between(&b, &a)));
            prop_assert_eq!(inverse.apply(&b).unwrap(), a);
        }

        #[test]
        fn deltas_compose(a in graph(), b in graph(), c in graph()) {
            let whole = Delta::between(&a, &b).then(&Delta::between(&b, &c)).unwrap();
            prop_assert_eq!(bits(&whole), bits(&Delta::between(&a, &c)));
        }

        #[test]
        fn a_delta_of_another_graph_is_refused(a in graph(), b in graph(), c in graph()) {
            let delta = Delta::between(&a, &b);
            match delta.apply(&c) {
                Ok(result) => {
                    // It applies only where it agrees with `c` about every edge it touches.
                    let back = delta.inverted().apply(&result).unwrap();
                    prop_assert_eq!(back, c);
                }
                Err(Mismatch(edge)) => prop_assert!(delta.changes().any(|change| change.edge == edge)),
            }
        }
    }

    #[test]
    fn large_graphs_in_pieces_equal_one_merge_for_any_thread_count() {
        let graph = |salt: u32| {
            let edges = (0..400_000u32)
                .map(|i| Edge::new(i.wrapping_mul(2654435761) % 997, i.wrapping_mul(salt) % 5003));
            Snapshot::from_weighted(edges.map(|e| (e, (e.source() * salt % 3) as f32)).collect())
        };
        let (a, b) = (graph(40503), graph(69621));
        assert!(a.len() > 2 * PIECE && b.len() > 2 * PIECE);
        let whole = piece(&a, 0..a.len(), &b, 0..b.len());
        for threads in [1, 2, 5] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            assert_eq!(pool.install(|| Delta::between(&a, &b)), whole);
        }
    }
}
