//! The parts of snapshots that a worker owns, read without the rest: the edges at its vertices, and the
//! features of those and of their neighbours elsewhere.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
    /// Where readers have been, and for which owners.
    around: Mutex<Vec<(OwnersKey, EdgesAround)>>,
}

impl Parts {
    pub fn new(store: Arc<Store>, inputs: Arc<Inputs>, asked: Asked, cells: Arc<Cells>) -> Parts {
        Parts { store, inputs, asked, cells, around: Mutex::default() }
    }

    /// The part of step `t` that the worker has where these own the vertices.
    pub fn read(&self, t: Step, owners: &Ownership) -> Result<Piece> {
        let own = self.cells.own(owners);
        // Nothing is read where the worker has nothing.
        if own.is_empty() {
            return self.cut(t, &Snapshot::default(), (&[], &[]), owners);
        }
        let left = {
            let mut free = self.free();
            free.iter().position(|(key, _)| *key == owners.key()).map(|place| free.swap_remove(place).1)
        };
        let mut here = match left {
            Some(here) => here,
            None => EdgesAround::new(self.store.clone(), &own)?,
        };
        here.go_to(t)?;
        let piece = self.cut(t, &here.snapshot(), here.degrees(), owners);
        let mut free = self.free();
        // Others are of no use any more, or will have to be made again.
        free.retain(|(key, _)| *key == owners.key());
        free.push((owners.key(), here));
        piece
    }

    fn free(&self) -> MutexGuard<'_, Vec<(OwnersKey, EdgesAround)>> {
        self.around.lock().unwrap_or_else(PoisonError::into_inner)
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
