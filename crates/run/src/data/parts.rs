//! The parts of snapshots that a worker owns, read without the rest: the edges at its vertices, and the
//! features of those and of their neighbours elsewhere.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use kymo_graph::store::EdgesAround;
use kymo_graph::{Snapshot, Step, Store, Vertex};
use kymo_model::{Asked, Graph, PartEdges};
use kymo_plan::Ownership;
use kymo_plan::shares::OwnersKey;

use super::features::Inputs;
use super::source::{Piece, StepRows};
use crate::error::Result;
use crate::halo::{Cells, Neighbours};

/// Reads the parts of one worker.
pub(super) struct Parts {
    store: Arc<Store>,
    inputs: Arc<Inputs>,
    asked: Asked,
    cells: Arc<Cells>,
    places: Mutex<Places>,
    /// A place was given back.
    given: Condvar,
}

/// Where readers have been, and for which owners: each holds edges, so they are no more than was planned.
#[derive(Default)]
struct Places {
    free: Vec<(OwnersKey, EdgesAround)>,
    taken: usize,
    most: usize,
}

/// A place that somebody reads at; given back in the end, whatever happens.
struct Place<'p> {
    parts: &'p Parts,
    key: OwnersKey,
    around: Option<EdgesAround>,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut places = self.parts.places();
        places.taken -= 1;
        places.free.extend(self.around.take().map(|around| (self.key, around)));
        self.parts.given.notify_one();
    }
}

impl Parts {
    pub fn new(store: Arc<Store>, inputs: Arc<Inputs>, asked: Asked, cells: Arc<Cells>) -> Parts {
        let asked = asked.untransposed();
        Parts { store, inputs, asked, cells, places: Mutex::default(), given: Condvar::new() }
    }

    /// The part of step `t` that the worker has where these own the vertices.
    pub fn read(&self, t: Step, owners: &Ownership) -> Result<Piece> {
        let own = self.cells.own(owners);
        // Nothing is read where the worker has nothing.
        if own.is_empty() {
            return self.cut(t, &Snapshot::default(), (&[], &[]), owners);
        }
        let mut place = self.taken(owners.key());
        let here = match &mut place.around {
            Some(here) => here,
            none => none.insert(EdgesAround::new(self.store.clone(), &own)?),
        };
        here.go_to(t)?;
        self.cut(t, &here.snapshot(), here.degrees(), owners)
    }

    /// From now on this many may read at a time.
    pub fn read_by(&self, readers: usize) {
        self.places().most = readers.max(1);
    }

    fn places(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place to read at, where these own the vertices; waits for one if need be.
    fn taken(&self, key: OwnersKey) -> Place<'_> {
        let mut places = self.places();
        while places.taken == places.most.max(1) {
            places = self.given.wait(places).unwrap_or_else(PoisonError::into_inner);
        }
        places.taken += 1;
        let found = places.free.iter().position(|(other, _)| *other == key);
        let around = found.map(|at| places.free.swap_remove(at).1);
        // What is left by readers for other owners makes room for a new one.
        while around.is_none() && places.free.len() + places.taken > places.most.max(1) {
            places.free.pop();
        }
        Place { parts: self, key, around }
    }

    /// The part, from the edges at the worker's vertices and from the degrees of all.
    pub fn cut(
        &self,
        t: Step,
        near: &Snapshot<'_>,
        degrees: (&[u32], &[u32]),
        owners: &Ownership,
    ) -> Result<Piece> {
        let (halo, both) = (self.cells.halo(near, owners), self.cells.shares.needs().out_edges);
        let vertices: Vec<Vertex> = halo.own.iter().chain(&halo.beyond).copied().collect();
        let weights = near.weights.as_deref();
        let edges = near.edges.iter().enumerate().map(|(index, edge)| {
            (edge.source(), edge.target(), weights.map_or(1.0, |weights| weights[index]))
        });
        let edges = PartEdges { edges, has_weights: weights.is_some(), degrees };
        let graph = Graph::part(&halo.own, &halo.beyond, both, edges)?.reduced(self.asked)?;
        let rows = match vertices.is_empty() {
            true => Vec::new(),
            false => self.inputs.rows(&self.store, t, degrees, &vertices)?,
        };
        let neighbours = Some(Arc::new(Neighbours::new(halo)));
        Ok(Piece { graph, rows: StepRows::Own(rows.into()), vertices: Some(Arc::new(vertices)), neighbours })
    }
}
