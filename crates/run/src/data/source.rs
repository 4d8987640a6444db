//! Where snapshots come from: whole steps of a mapped store now; parts, samples and remote stores can take
//! their place.

use std::sync::Arc;

use kymo_graph::{Snapshot, Step, Store, Vertex};
use kymo_model::Graph;
use kymo_plan::{Neighbourhood, Ownership};

use super::features::Inputs;
use crate::error::{Error, Result};
use crate::halo::{Cells, Neighbours};

/// What a worker needs of a snapshot, as it was read.
pub struct Piece {
    /// Its edges.
    pub graph: Graph,
    /// The constant columns of its vertices, and below them those of their neighbours elsewhere.
    pub rows: Vec<f32>,
    /// The vertices of those rows, where they are not all.
    pub vertices: Option<Arc<Vec<Vertex>>>,
    /// What is elsewhere, where not all of it is here.
    pub neighbours: Option<Arc<Neighbours>>,
}

/// A place that snapshots are read from. Workers of a process ask it from several threads.
pub trait SnapshotSource: Send + Sync {
    /// The snapshot of a step, or the part of it that the worker owns.
    fn read(&self, t: Step, owners: Option<&Ownership>) -> Result<Piece>;

    /// Fails unless the source can give batches this neighbourhood.
    fn check(&self, neighbourhood: &Neighbourhood) -> Result<()>;
}

/// Whole steps of a store; a worker that owns a part cuts it out.
pub struct WholeSteps {
    store: Arc<Store>,
    inputs: Arc<Inputs>,
    cells: Option<Arc<Cells>>,
}

impl WholeSteps {
    /// The steps of a store, with these columns; a worker with cells gets its part alone.
    pub fn new(store: Arc<Store>, inputs: Arc<Inputs>, cells: Option<Arc<Cells>>) -> WholeSteps {
        WholeSteps { store, inputs, cells }
    }
}

impl WholeSteps {
    /// What the worker needs of a snapshot that is at hand.
    pub fn cut(&self, t: Step, snapshot: &Snapshot<'_>, owners: Option<&Ownership>) -> Result<Piece> {
        let whole = || {
            let rows = snapshot.by_target(self.store.vertices());
            Graph::new(rows.starts, rows.columns, rows.weights)
        };
        let (Some(cells), Some(owners)) = (&self.cells, owners) else {
            let rows = self.inputs.rows(&self.store, t, snapshot)?;
            return Ok(Piece { graph: whole()?, rows, vertices: None, neighbours: None });
        };
        let (halo, both) = (cells.halo(snapshot, owners), cells.shares.needs().out_edges);
        let vertices: Vec<Vertex> = halo.own.iter().chain(&halo.beyond).copied().collect();
        // Where a worker has nothing, it need not read anything.
        let (graph, rows) = match vertices.is_empty() {
            true => (Graph::new(vec![0], Vec::new(), None)?.part(&[], &[], both)?, Vec::new()),
            false => {
                let graph = whole()?.part(&halo.own, &halo.beyond, both)?;
                let (all, width) =
                    (self.inputs.rows(&self.store, t, snapshot)?, self.inputs.constant_width());
                let row = |&vertex: &Vertex| all[vertex as usize * width..][..width].iter().copied();
                (graph, vertices.iter().flat_map(row).collect())
            }
        };
        let neighbours = Some(Arc::new(Neighbours::new(halo)));
        Ok(Piece { graph, rows, vertices: Some(Arc::new(vertices)), neighbours })
    }
}

impl SnapshotSource for WholeSteps {
    /// The whole of the step is in memory meanwhile.
    fn read(&self, t: Step, owners: Option<&Ownership>) -> Result<Piece> {
        self.cut(t, &self.store.snapshot(t)?, owners)
    }

    fn check(&self, neighbourhood: &Neighbourhood) -> Result<()> {
        match neighbourhood {
            Neighbourhood::Whole => Ok(()),
            Neighbourhood::Hops(_) | Neighbourhood::Sampled(_) => {
                let problem =
                    "snapshots are read whole; L-hop and sampled neighbourhoods need another source";
                Err(Error::settings("batch", problem))
            }
        }
    }
}
