//! The edges at some vertices, step after step: what a worker needs of a store if it owns these vertices.
//!
//! Of a store without weights nothing else is held but two counts of each vertex: the edges that lead to and
//! leave any of them. Degrees that are sums of weights are summed in the order of the edges, so of a store
//! with weights all edges are held.

use std::borrow::Cow;
use std::sync::Arc;

use super::Store;
use super::change::{EdgeChange, EdgeList};
use super::fates::{Fate, Fates, Weight, grow};
use super::way::Way;
use crate::delta::{Mismatch, seek};
use crate::error::Result;
use crate::snapshot::{Edge, Snapshot, Step, Vertex};

/// Goes from step to step of a store and has the edges at some vertices.
pub struct EdgesAround {
    store: Arc<Store>,
    /// Of each vertex, whether its edges are wanted; nothing where all edges are.
    wanted: Option<Vec<bool>>,
    at: Option<Step>,
    held: Held,
    inward: Vec<u32>,
    outward: Vec<u32>,
}

enum Held {
    Plain(Edges<()>),
    Weighted(Edges<f32>),
}

/// Sorted edges with their weights, and room for those of the next step.
struct Edges<W> {
    edges: Vec<Edge>,
    weights: Vec<W>,
    next: (Vec<Edge>, Vec<W>),
    fates: Fates<W>,
}

impl EdgesAround {
    /// The edges that lead to or leave one of `own`, and all loops; before the first step.
    pub fn new(store: Arc<Store>, own: &[Vertex]) -> Result<EdgesAround> {
        let (vertices, is_weighted) = (store.vertices(), store.has_weights()?);
        let wanted = (!is_weighted && own.len() < vertices).then(|| {
            let mut wanted = vec![false; vertices];
            own.iter().for_each(|&vertex| wanted[vertex as usize] = true);
            wanted
        });
        let held = match is_weighted {
            true => Held::Weighted(Edges::EMPTY),
            false => Held::Plain(Edges::EMPTY),
        };
        let (inward, outward) = (vec![0; vertices], vec![0; vertices]);
        Ok(EdgesAround { store, wanted, at: None, held, inward, outward })
    }

    /// Goes to step `t`.
    pub fn go_to(&mut self, t: Step) -> Result<()> {
        if self.at == Some(t) {
            return Ok(());
        }
        let EdgesAround { store, wanted, at, held, inward, outward } = self;
        let mut way = Way::to(store, *at, t)?;
        // What is held may be overwritten on the way: it is of no step until it is of this one.
        *at = None;
        let leaves_out = |edge: &Edge| {
            let wants = |wanted: &[bool]| wanted[edge.source() as usize] || wanted[edge.target() as usize];
            wanted.as_ref().is_some_and(|wanted| !edge.is_loop() && !wants(wanted))
        };
        if let Some(whole) = way.whole {
            let EdgeChange::Whole(all) = store.edge_change(whole)? else { return Err(store.no_whole()) };
            inward.fill(0);
            outward.fill(0);
            for edge in all.edges {
                inward[edge.target() as usize] += 1;
                outward[edge.source() as usize] += 1;
            }
            match held {
                Held::Plain(edges) => edges.load(all, leaves_out),
                Held::Weighted(edges) => edges.load(all, leaves_out),
            }
            store.release_edges(whole)?;
        }
        while let Some(some) = way.next(store, held.len())? {
            for step in some.steps.clone() {
                let EdgeChange::Delta { removed, added, .. } = store.edge_change(step)? else { continue };
                let (come, gone) = if some.back { (removed, added) } else { (added, removed) };
                // Edges that were never there are found by the worker that holds them.
                for edge in come.edges {
                    let (to, from) = (edge.target() as usize, edge.source() as usize);
                    (inward[to], outward[from]) = (inward[to].wrapping_add(1), outward[from].wrapping_add(1));
                }
                for edge in gone.edges {
                    let (to, from) = (edge.target() as usize, edge.source() as usize);
                    (inward[to], outward[from]) = (inward[to].wrapping_sub(1), outward[from].wrapping_sub(1));
                }
            }
            let steps = some.steps.clone();
            match held {
                Held::Plain(edges) => edges.pass(store, t, some, leaves_out)?,
                Held::Weighted(edges) => edges.pass(store, t, some, leaves_out)?,
            }
            for step in steps {
                store.release_edges(step)?;
            }
        }
        *at = Some(t);
        Ok(())
    }

    /// The edges of the step that lead to or leave one of the vertices, and all loops; all edges where the
    /// store has weights.
    pub fn snapshot(&self) -> Snapshot<'_> {
        match &self.held {
            Held::Plain(held) => Snapshot { edges: Cow::Borrowed(&held.edges), weights: None },
            Held::Weighted(held) => {
                let counts = held.weights.iter().any(|&weight| weight != 1.0);
                let weights = counts.then_some(Cow::Borrowed(&held.weights[..]));
                Snapshot { edges: Cow::Borrowed(&held.edges), weights }
            }
        }
    }

    /// Of each vertex of the store, how many edges lead to it at the step and how many leave it.
    pub fn degrees(&self) -> (&[u32], &[u32]) {
        (&self.inward, &self.outward)
    }
}

impl Held {
    fn len(&self) -> usize {
        match self {
            Held::Plain(held) => held.edges.len(),
            Held::Weighted(held) => held.edges.len(),
        }
    }
}

impl<W: Weight> Edges<W> {
    const EMPTY: Self =
        Edges { edges: Vec::new(), weights: Vec::new(), next: (Vec::new(), Vec::new()), fates: Fates::EMPTY };

    fn load(&mut self, all: EdgeList<'_>, leaves_out: impl Fn(&Edge) -> bool) {
        self.edges.clear();
        self.weights.clear();
        let count = all.edges.iter().filter(|edge| !leaves_out(edge)).count();
        grow(&mut self.edges, count);
        grow(&mut self.weights, count);
        for (index, edge) in all.edges.iter().enumerate().filter(|(_, edge)| !leaves_out(edge)) {
            self.edges.push(*edge);
            self.weights.push(W::at(all.weights, index));
        }
    }

    fn pass(&mut self, store: &Store, t: Step, way: Way, leaves_out: impl Fn(&Edge) -> bool) -> Result<()> {
        let damaged = |problem| store.inconsistent(t, problem);
        self.fates.clear();
        for step in way.steps {
            self.fates.push(store.edge_change(step)?, &leaves_out).map_err(damaged)?;
        }
        let (edges, fates) = self.fates.combine().map_err(damaged)?;
        if way.back {
            fates.iter_mut().for_each(|fate| fate.reverse());
        }
        let (new_edges, new_weights) = &mut self.next;
        apply((&self.edges, &self.weights), (edges, fates), (new_edges, new_weights)).map_err(damaged)?;
        std::mem::swap(&mut self.edges, new_edges);
        std::mem::swap(&mut self.weights, new_weights);
        Ok(())
    }
}

/// Fills `new` with what the sorted edges `old` become by these fates.
fn apply<W: Weight>(
    (old_edges, old_weights): (&[Edge], &[W]),
    (edges, fates): (&[Edge], &[Fate<W>]),
    (new_edges, new_weights): (&mut Vec<Edge>, &mut Vec<W>),
) -> std::result::Result<(), Mismatch> {
    new_edges.clear();
    new_weights.clear();
    // Room for all that come; those that go leave some of it.
    let come = fates.iter().filter(|[before, after]| before.is_none() && after.is_some()).count();
    grow(new_edges, old_edges.len() + come);
    grow(new_weights, old_edges.len() + come);
    let mut done = 0;
    for (&edge, &[before, after]) in edges.iter().zip(fates) {
        let at = done + seek(&old_edges[done..], edge);
        new_edges.extend_from_slice(&old_edges[done..at]);
        new_weights.extend_from_slice(&old_weights[done..at]);
        let held = old_weights.get(at).copied().filter(|_| old_edges.get(at) == Some(&edge));
        if !super::fates::same(before, held) {
            return Err(Mismatch(edge));
        }
        if let Some(weight) = after {
            new_edges.push(edge);
            new_weights.push(weight);
        }
        done = at + usize::from(held.is_some());
    }
    new_edges.extend_from_slice(&old_edges[done..]);
    new_weights.extend_from_slice(&old_weights[done..]);
    Ok(())
}
