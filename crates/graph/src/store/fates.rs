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

    fn list(&self, index: usize) -> (&[Edge], &[Fate<W>]) {
        let from = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        let range = from..self.ends[index];
        (&self.edges[range.clone()], &self.fates[range])
    }

    /// Room for one more list of up to `length` entries.
    fn room(&mut self, length: usize) -> (&mut [Edge], &mut [Fate<W>]) {
        let (from, to) = (self.used(), self.used() + length);
        if self.edges.len() < to {
            self.edges.resize(to, Edge::from_key(0));
            self.fates.resize(to, [None, None]);
        }
        (&mut self.edges[from..to], &mut self.fates[from..to])
    }

    /// Adds a list as it is; an empty one says nothing.
    fn push(&mut self, list: &[Edge], fate: impl Fn(usize) -> Fate<W>) {
        if list.is_empty() {
            return;
        }
        let (edges, fates) = self.room(list.len());
        edges.copy_from_slice(list);
        fates.iter_mut().enumerate().for_each(|(index, slot)| *slot = fate(index));
        self.ends.push(self.used() + list.len());
    }

    /// Adds what two lists come to, one after the other.
    fn merge(&mut self, older: (&[Edge], &[Fate<W>]), newer: (&[Edge], &[Fate<W>])) -> Result<(), Mismatch> {
        let (edges, fates) = self.room(older.0.len() + newer.0.len());
        let (mut i, mut j, mut next) = (0, 0, 0);
        while i < older.0.len() && j < newer.0.len() {
            let (x, y, early, late) = (older.0[i], newer.0[j], older.1[i], newer.1[j]);
            // Which comes first cannot be foreseen: to choose is cheaper than to branch.
            edges[next] = x.min(y);
            fates[next] = if x < y { early } else { late };
            let mut kept = 1;
            if x == y {
                if !same(early[1], late[0]) {
                    return Err(Mismatch(x));
                }
                fates[next] = [early[0], late[1]];
                kept = usize::from(!same(early[0], late[1]));
            }
            next += kept;
            i += usize::from(x <= y);
            j += usize::from(y <= x);
        }
        for ((left, what), from) in [(older, i), (newer, j)] {
            let to = next + left.len() - from;
            edges[next..to].copy_from_slice(&left[from..]);
            fates[next..to].copy_from_slice(&what[from..]);
            next = to;
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

    /// Adds what a later step changes. (A whole step changes everything: it has no place here.)
    pub fn push(&mut self, change: EdgeChange<'_>) {
        let EdgeChange::Delta { removed, added, reweighted, weights } = change else { return };
        let EdgeList { edges, weights: had } = removed;
        self.lists.push(edges, |index| [Some(W::at(had, index)), None]);
        let EdgeList { edges, weights: has } = added;
        self.lists.push(edges, |index| [None, Some(W::at(has, index))]);
        self.lists.push(reweighted, |index| weights[index].map(|weight| Some(W::at(Some(&[weight]), 0))));
    }

    /// What all steps come to: each pass halves the number of lists.
    pub fn combine(&mut self) -> Result<(&[Edge], &mut [Fate<W>]), Mismatch> {
        while self.lists.ends.len() > 1 {
            self.other.ends.clear();
            for index in (0..self.lists.ends.len()).step_by(2) {
                let newer = if index + 1 < self.lists.ends.len() {
                    self.lists.list(index + 1)
                } else {
                    (&[][..], &[][..])
                };
                self.other.merge(self.lists.list(index), newer)?;
            }
            std::mem::swap(&mut self.lists, &mut self.other);
        }
        let used = self.lists.used();
        Ok((&self.lists.edges[..used], &mut self.lists.fates[..used]))
    }
}
