//! What a step stores of its edges, as it lies in the mapped file: all of them, or what changed.

use std::borrow::Cow;

use crate::delta::{Delta, Reweighted};
use crate::snapshot::{Edge, Snapshot};

/// A sorted list of distinct edges with their weights.
#[derive(Clone, Copy, Debug, Default)]
pub struct EdgeList<'a> {
    /// The edges in order.
    pub edges: &'a [Edge],
    /// The weight of each edge; absent when every weight is 1.
    pub weights: Option<&'a [f32]>,
}

impl<'a> EdgeList<'a> {
    /// The list of these edges, whose weights are kept where one of them is not 1.
    pub(super) fn new(edges: &'a [Edge], weights: Option<&'a [f32]>) -> Self {
        EdgeList { edges, weights: weights.filter(|weights| weights.iter().any(|&weight| weight != 1.0)) }
    }

    fn pairs(self) -> Vec<(Edge, f32)> {
        let weight = |index: usize| self.weights.map_or(1.0, |weights| weights[index]);
        self.edges.iter().enumerate().map(|(index, &edge)| (edge, weight(index))).collect()
    }
}

/// What a step stores of its edges; nothing is copied.
#[derive(Clone, Copy, Debug)]
pub enum EdgeChange<'a> {
    /// All edges of the step.
    Whole(EdgeList<'a>),
    /// What turns the step before into this one.
    Delta {
        /// Edges that are gone, with the weights they had.
        removed: EdgeList<'a>,
        /// Edges that are new.
        added: EdgeList<'a>,
        /// Edges with another weight than before.
        reweighted: &'a [Edge],
        /// The weight of each of those before and after.
        weights: &'a [[f32; 2]],
    },
}

impl<'a> EdgeChange<'a> {
    /// How many edges are listed.
    pub fn len(&self) -> usize {
        match self {
            EdgeChange::Whole(all) => all.edges.len(),
            EdgeChange::Delta { removed, added, reweighted, .. } => {
                removed.edges.len() + added.edges.len() + reweighted.len()
            }
        }
    }

    /// Whether no edge is listed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a weight other than 1 is stored.
    pub(super) fn is_weighted(&self) -> bool {
        match self {
            EdgeChange::Whole(all) => all.weights.is_some(),
            EdgeChange::Delta { removed, added, reweighted, .. } => {
                removed.weights.is_some() || added.weights.is_some() || !reweighted.is_empty()
            }
        }
    }

    /// The graph of the step, where all of it is stored.
    pub(super) fn snapshot(self) -> Option<Snapshot<'a>> {
        let EdgeChange::Whole(EdgeList { edges, weights }) = self else { return None };
        Some(Snapshot { edges: Cow::Borrowed(edges), weights: weights.map(Cow::Borrowed) })
    }

    /// The change, where that is stored.
    pub(super) fn delta(self) -> Option<Delta> {
        let EdgeChange::Delta { removed, added, reweighted, weights } = self else { return None };
        let reweighted = reweighted.iter().zip(weights);
        Some(Delta {
            added: added.pairs(),
            removed: removed.pairs(),
            reweighted: reweighted
                .map(|(&edge, &[before, after])| Reweighted { edge, before, after })
                .collect(),
        })
    }
}
