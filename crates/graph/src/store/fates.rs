//! What becomes of edges over some steps: sorted lists of fates, combined pairwise into one.

use super::change::{EdgeChange, EdgeList};
use crate::delta::Mismatch;
use crate::snapshot::Edge;

/// A weight, or `()` where all weights are 1: the same code, without the work.
pub trait Weight: Copy + Default {
    /// The weight of the edge at `index`.
    fn at(weights: Option<&[f32]>, index: usize) -> Self;
    /// Whether two weights have the same bits.
    fn same(self, other: Self) -> bool;
}

impl Weight for () {
    fn at(_: Option<&[f32]>, _: usize) -> Self {}
    fn same(self, (): Self) -> bool {
        true
    }
}

impl Weight for f32 {
    fn at(weights: Option<&[f32]>, index: usize) -> Self {
        weights.map_or(1.0, |weights| weights[index])
    }
    fn same(self, other: Self) -> bool {
        self.to_bits() == other.to_bits()
    }
}

/// The part of its length by which an array is longer than it must be when it grows.
const GROWTH: usize = 16;

/// The weight of an edge before and after, `None` where it is absent.
pub type Fate<W> = [Option<W>; 2];

/// Whether an edge is the same in both.
pub fn same<W: Weight>(a: Option<W>, b: Option<W>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => a.same(b),
        (None, None) => true,
        _ => false,
    }
}

/// Makes room for this many entries in all and a few more: to double what is there, as a vector does by
/// itself, would take more than was planned for a reader.
pub fn grow<T>(vector: &mut Vec<T>, length: usize) {
    if vector.capacity() < length {
        vector.reserve_exact(length + length / GROWTH - vector.len());
    }
}

/// Lists one after the other, each sorted by edge. The arrays are never shortened, only filled anew.
struct Lists<W> {
    edges: Vec<Edge>,
    fates: Vec<Fate<W>>,
    ends: Vec<usize>,
}

impl<W: Weight> Lists<W> {
    const EMPTY: Self = Lists { edges: Vec::new(), fates: Vec::new(), ends: Vec::new() };

    fn used(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }

    /// The list of this number; an empty one behind the last.
    fn list(&self, index: usize) -> (&[Edge], &[Fate<W>]) {
        let from = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        let range = from..self.ends.get(index).copied().unwrap_or(from);
        (&self.edges[range.clone()], &self.fates[range])
    }

    /// Room for one more list of up to `length` entries.
    fn room(&mut self, length: usize) -> (&mut [Edge], &mut [Fate<W>]) {
        let (from, to) = (self.used(), self.used() + length);
        if self.edges.len() < to {
            grow(&mut self.edges, to);
            grow(&mut self.fates, to);
            self.edges.resize(to, Edge::from_key(0));
            self.fates.resize(to, [None, None]);
        }
        (&mut self.edges[from..to], &mut self.fates[from..to])
    }

    /// Adds what two sorted lists come to, one after the other.
    fn merge(
        &mut self,
        (older, early): (&[Edge], impl Fn(usize) -> Fate<W>),
        (newer, late): (&[Edge], impl Fn(usize) -> Fate<W>),
    ) -> Result<(), Mismatch> {
        let (edges, fates) = self.room(older.len() + newer.len());
        let (mut i, mut j, mut next) = (0, 0, 0);
        while i < older.len() && j < newer.len() {
            let (x, y, first, then) = (older[i], newer[j], early(i), late(j));
            // Which comes first cannot be foreseen: to choose is cheaper than to branch.
            edges[next] = x.min(y);
            fates[next] = if x < y { first } else { then };
            let mut kept = 1;
            if x == y {
                if !same(first[1], then[0]) {
                    return Err(Mismatch(x));
                }
                fates[next] = [first[0], then[1]];
                kept = usize::from(!same(first[0], then[1]));
            }
            next += kept;
            i += usize::from(x <= y);
            j += usize::from(y <= x);
        }
        let older = older.iter().enumerate().skip(i).map(|(i, &edge)| (edge, early(i)));
        let newer = newer.iter().enumerate().skip(j).map(|(j, &edge)| (edge, late(j)));
        for (edge, fate) in older.chain(newer) {
            (edges[next], fates[next]) = (edge, fate);
            next += 1;
        }
        self.ends.push(self.used() + next);
        Ok(())
    }
}

/// The fates of edges over consecutive steps, in buffers that are used again and again.
pub struct Fates<W> {
    lists: Lists<W>,
    other: Lists<W>,
}

impl<W: Weight> Fates<W> {
    /// No step and no room yet.
    pub const EMPTY: Self = Fates { lists: Lists::EMPTY, other: Lists::EMPTY };

    /// Forgets all steps.
    pub fn clear(&mut self) {
        self.lists.ends.clear();
    }

    /// Adds what a later step changes, but for the edges that are left out, which have no weights. (A whole
    /// step changes everything: it has no place here.)
    pub fn push(
        &mut self,
        change: EdgeChange<'_>,
        leaves_out: impl Fn(&Edge) -> bool,
    ) -> Result<(), Mismatch> {
        let EdgeChange::Delta { removed, added, reweighted, weights } = change else { return Ok(()) };
        if removed.edges.iter().chain(added.edges).any(&leaves_out) {
            let rest = |list: EdgeList<'_>| -> Vec<Edge> {
                let kept = || list.edges.iter().filter(|edge| !leaves_out(edge));
                let mut rest = Vec::with_capacity(kept().count());
                rest.extend(kept());
                rest
            };
            let (removed, added) = (rest(removed), rest(added));
            let gone = |_| [Some(W::default()), None];
            return self.lists.merge((&removed, gone), (&added, |_| [None, Some(W::default())]));
        }
        let gone = |index| [Some(W::at(removed.weights, index)), None];
        let come = |index| [None, Some(W::at(added.weights, index))];
        self.lists.merge((removed.edges, gone), (added.edges, come))?;
        if !reweighted.is_empty() {
            let other = |index: usize| weights[index].map(|weight| Some(W::at(Some(&[weight]), 0)));
            self.lists.merge((reweighted, other), (&[], other))?;
        }
        Ok(())
    }

    /// What all steps come to: each pass halves the number of lists.
    pub fn combine(&mut self) -> Result<(&[Edge], &mut [Fate<W>]), Mismatch> {
        while self.lists.ends.len() > 1 {
            self.other.ends.clear();
            for index in (0..self.lists.ends.len()).step_by(2) {
                let (older, early) = self.lists.list(index);
                let (newer, late) = self.lists.list(index + 1);
                self.other.merge((older, |i| early[i]), (newer, |j| late[j]))?;
            }
            std::mem::swap(&mut self.lists, &mut self.other);
        }
        let used = self.lists.used();
        Ok((&self.lists.edges[..used], &mut self.lists.fates[..used]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_grow_by_what_is_asked_for_and_a_little() {
        let mut array: Vec<u64> = vec![7; 1000];
        grow(&mut array, 1600);
        assert_eq!((array.len(), array.capacity()), (1000, 1700));
        grow(&mut array, 1700);
        assert_eq!(array.capacity(), 1700, "there was room");
        assert!(array.iter().all(|&value| value == 7));
    }

    /// What fates are put together in is no longer than it must be, however many steps there are.
    #[test]
    fn room_for_fates_is_that_of_their_edges() {
        let edges =
            |from: u32, count: u32| -> Vec<Edge> { (from..from + count).map(|k| Edge::new(k, 0)).collect() };
        let mut fates: Fates<()> = Fates::EMPTY;
        let mut total = 0;
        for step in 0..9u32 {
            let added = edges(step * 1000, 500 + step * 50);
            total += added.len();
            let list = |edges| EdgeList { edges, weights: None };
            let (added, removed) = (list(&added), list(&[]));
            fates
                .push(EdgeChange::Delta { removed, added, reweighted: &[], weights: &[] }, |_| false)
                .unwrap();
        }
        assert_eq!(fates.combine().unwrap().0.len(), total);
        for lists in [&fates.lists, &fates.other] {
            let rooms = [lists.edges.capacity(), lists.fates.capacity()];
            assert!(rooms.iter().all(|&room| room <= total + total / GROWTH), "{rooms:?} for {total}");
        }
    }
}
