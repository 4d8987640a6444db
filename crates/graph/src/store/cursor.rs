//! A cursor over the steps of a store: the compressed rows of one step after the other, in memory that is
//! used again.
//!
//! A store keeps steps as changes, and windows of consecutive steps are read over and over. A cursor goes
//! from a step to the next in one pass over its rows, from one set of buffers into another; several changes
//! are combined before they are applied. Whatever way it comes, it stands at `snapshot(t).by_target()`.

use std::sync::Arc;

use super::Store;
use super::change::{EdgeChange, EdgeList};
use super::fates::{Fates, Weight};
use super::rows::{self, Rows};
use super::way::Way;
use crate::error::Result;
use crate::snapshot::{Edge, Step, Vertex};

/// Goes from step to step of a store and has the rows of the step it is at.
pub struct Cursor {
    store: Arc<Store>,
    has_loops: bool,
    at: Option<Step>,
    here: Side,
    there: Side,
    plain: Fates<()>,
    weighted: Fates<f32>,
    outward: Vec<u32>,
    /// The step `outward` is of.
    counted: Option<Step>,
    arrays: Box<dyn NewArrays>,
}

/// Where a cursor gets arrays from while others keep those that it had. What is in them does not matter; one
/// that is too short is replaced by a new one.
pub trait NewArrays: Send + Sync {
    /// One with room for this many starts of rows.
    fn starts(&self, room: usize) -> Vec<u64>;
    /// One with room for this many columns.
    fn columns(&self, room: usize) -> Vec<Vertex>;
}

/// New memory.
struct Fresh;

impl NewArrays for Fresh {
    fn starts(&self, _: usize) -> Vec<u64> {
        Vec::new()
    }

    fn columns(&self, _: usize) -> Vec<Vertex> {
        Vec::new()
    }
}

/// The rows of a step. Who keeps the arrays keeps them as they are: then the cursor goes on into others.
#[derive(Clone, Debug, Default)]
pub struct SharedRows {
    /// Row `v` is `starts[v]..starts[v + 1]` of the other arrays.
    pub starts: Arc<Vec<u64>>,
    /// The sources, ascending within a row.
    pub columns: Arc<Vec<Vertex>>,
    /// Their weights; absent when all are 1.
    pub weights: Option<Vec<f32>>,
}

impl SharedRows {
    /// The edges in order.
    pub fn edges(&self) -> impl Iterator<Item = Edge> + Clone + '_ {
        let row = |(target, ends): (Vertex, &[u64])| {
            let sources = &self.columns[ends[0] as usize..ends[1] as usize];
            sources.iter().map(move |&source| Edge::new(source, target))
        };
        (0..).zip(self.starts.windows(2)).flat_map(row)
    }
}

/// One set of buffers; `spare` are the weights while the rows have none.
#[derive(Default)]
struct Side {
    rows: SharedRows,
    spare: Vec<f32>,
}

impl Side {
    /// Takes the buffers for rows, or new ones where others keep them, to be given back to [`Side::fill`].
    fn empty(&mut self, arrays: &dyn NewArrays, [starts, columns]: [usize; 2]) -> (Vec<u64>, Vec<Vertex>) {
        let old = (std::mem::take(&mut self.rows.starts), std::mem::take(&mut self.rows.columns));
        let mine = Arc::into_inner(old.0).filter(|array| array.capacity() >= starts);
        let also = Arc::into_inner(old.1).filter(|array| array.capacity() >= columns);
        (mine.unwrap_or_else(|| arrays.starts(starts)), also.unwrap_or_else(|| arrays.columns(columns)))
    }

    fn fill(&mut self, (starts, columns): (Vec<u64>, Vec<Vertex>)) {
        (self.rows.starts, self.rows.columns) = (Arc::new(starts), Arc::new(columns));
    }

    /// Takes the buffer for weights, to be given back to [`Side::give`].
    fn take(&mut self) -> Vec<f32> {
        self.rows.weights.take().unwrap_or_else(|| std::mem::take(&mut self.spare))
    }

    /// Sets the weights, which count where one of them is not 1.
    fn give(&mut self, weights: Vec<f32>) {
        if weights.iter().any(|&weight| weight != 1.0) {
            self.rows.weights = Some(weights);
        } else {
            self.spare = weights;
        }
    }
}

impl Cursor {
    /// A cursor that stands nowhere yet.
    pub fn new(store: Arc<Store>) -> Cursor {
        Cursor {
            store,
            has_loops: false,
            at: None,
            here: Side::default(),
            there: Side::default(),
            plain: Fates::EMPTY,
            weighted: Fates::EMPTY,
            outward: Vec::new(),
            counted: None,
            arrays: Box::new(Fresh),
        }
    }

    /// The same with arrays from elsewhere.
    pub fn with_arrays(self, arrays: impl NewArrays + 'static) -> Cursor {
        Cursor { arrays: Box::new(arrays), ..self }
    }

    /// A cursor over a store without weights whose rows have a loop at every vertex, stored or not.
    pub fn with_loops(store: Arc<Store>) -> Cursor {
        Cursor { has_loops: true, ..Cursor::new(store) }
    }

    /// The step the cursor is at; `None` before the first, and where the way to one was damaged.
    pub fn at(&self) -> Option<Step> {
        self.at
    }

    /// Goes to step `t` and gives its rows by target: those of `snapshot(t)`.
    pub fn go_to(&mut self, t: Step) -> Result<&SharedRows> {
        if self.at != Some(t) {
            let way = Way::to(&self.store, self.at, t)?;
            // What is here may be overwritten on the way: the cursor is nowhere until it has arrived.
            let before = self.at.take();
            if let Some(whole) = way.whole {
                self.load(whole)?;
            }
            let count = way.whole.is_none() && self.counted == before;
            // On a way that fails, degrees may be those of a step in between.
            self.counted = self.counted.filter(|_| !count);
            let mut rest = way;
            while let Some(some) = rest.next(&self.store, self.here.rows.columns.len())? {
                self.pass(t, some, count)?;
            }
            self.at = Some(t);
            if count {
                self.counted = self.at;
            }
        }
        Ok(&self.here.rows)
    }

    /// How many edges leave each vertex at the step the cursor is at. Once asked for, the numbers follow the
    /// cursor over changes. (Those that arrive are in the rows: `starts[v + 1] - starts[v]`.)
    pub fn outward(&mut self) -> &[u32] {
        if self.at.is_none() {
            return &[];
        }
        if self.counted != self.at {
            self.outward.clear();
            self.outward.resize(self.store.vertices(), 0);
            for &source in &self.here.rows.columns[..] {
                self.outward[source as usize] += 1;
            }
            self.counted = self.at;
        }
        &self.outward
    }

    /// Takes a step that is stored whole.
    fn load(&mut self, whole: Step) -> Result<()> {
        let EdgeChange::Whole(EdgeList { edges, weights }) = self.store.edge_change(whole)? else {
            return Err(self.store.no_whole());
        };
        let vertices = self.store.vertices();
        // As much as where a step is reached over changes: arrays change places.
        let most = rows::most::<()>(edges.len() + if self.has_loops { vertices } else { 0 }, &[]);
        let (mut starts, mut columns) = self.here.empty(&*self.arrays, [vertices + 1, most]);
        let new = (&mut starts, &mut columns);
        // What has been copied need not stay in memory twice.
        let done = |edges: &[Edge]| self.store.release_list(whole, edges);
        match self.has_loops {
            true => rows::fill_with_loops(edges, vertices, new, done),
            false => rows::fill(edges, vertices, new, done),
        }
        self.here.fill((starts, columns));
        let mut copied = self.here.take();
        copied.clear();
        copied.extend_from_slice(weights.unwrap_or_default());
        self.here.give(copied);
        self.store.release_edges(whole)
    }

    /// Passes over changes, and keeps up the outward degrees where they are to be counted.
    fn pass(&mut self, t: Step, way: Way, count: bool) -> Result<()> {
        let Cursor { store, here, there, plain, weighted, outward, has_loops, arrays, .. } = self;
        let mut is_weighted = here.rows.weights.is_some();
        for step in way.steps.clone() {
            is_weighted |= store.edge_change(step)?.is_weighted();
        }
        let outward = count.then_some(&mut outward[..]);
        let edges = here.rows.columns.len();
        let way = Course { store, t, way, has_loops: *has_loops, arrays: &**arrays };
        if is_weighted {
            if here.rows.weights.is_none() {
                here.spare.clear();
                here.spare.resize(edges, 1.0);
            }
            let (old, mut new) = (here.rows.weights.as_ref().unwrap_or(&here.spare), there.take());
            let old_rows = (&here.rows.starts[..], &here.rows.columns[..]);
            way.turn(weighted, (old_rows, old), (there, &mut new), outward)?;
            there.give(new);
        } else {
            there.spare = there.take();
            let (old, mut new) = (vec![(); edges], Vec::new());
            let old_rows = (&here.rows.starts[..], &here.rows.columns[..]);
            way.turn(plain, (old_rows, &old), (there, &mut new), outward)?;
        }
        std::mem::swap(here, there);
        Ok(())
    }
}

/// A way to step `t`.
struct Course<'s> {
    store: &'s Store,
    t: Step,
    way: Way,
    has_loops: bool,
    arrays: &'s dyn NewArrays,
}

impl Course<'_> {
    /// Turns the old rows into the new ones.
    fn turn<W: Weight>(
        self,
        fates: &mut Fates<W>,
        old: (Rows<'_>, &[W]),
        (there, weights): (&mut Side, &mut Vec<W>),
        outward: Option<&mut [u32]>,
    ) -> Result<()> {
        let Course { store, t, way, has_loops, arrays } = self;
        fates.clear();
        let damaged = |problem| store.inconsistent(t, problem);
        for step in way.steps {
            fates.push(store.edge_change(step)?, |edge| has_loops && edge.is_loop()).map_err(damaged)?;
            store.release_edges(step)?;
        }
        let (edges, fates) = fates.combine().map_err(damaged)?;
        if way.back {
            fates.iter_mut().for_each(|fate| fate.reverse());
        }
        let (old_starts, old_columns) = old.0;
        let most = rows::most(old_columns.len(), fates);
        let (mut starts, mut columns) = there.empty(arrays, [old_starts.len(), most]);
        rows::apply(old, (edges, fates), ((&mut starts, &mut columns), weights)).map_err(damaged)?;
        there.fill((starts, columns));
        if let Some(outward) = outward {
            for (edge, [before, after]) in edges.iter().zip(fates) {
                let degree = &mut outward[edge.source() as usize];
                *degree = *degree + u32::from(after.is_some()) - u32::from(before.is_some());
            }
        }
        Ok(())
    }
}
