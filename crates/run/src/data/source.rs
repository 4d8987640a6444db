//! Where snapshots come from: steps of a mapped store now; parts, samples and remote stores can take their
//! place.

use std::sync::{Arc, Mutex, PoisonError};

use kymo_graph::store::{Cursor, SharedRows};
use kymo_graph::{Snapshot, Step, Store, Vertex};
use kymo_model::{Asked, Graph, Rows};
use kymo_plan::{Neighbourhood, Ownership};
use kymo_tensor::{Device, Pattern, Resident, Shape, Tape, Var};

use super::features::Inputs;
use super::segment::Segment;
use super::shared::Segments;
use crate::error::{Error, Result};
use crate::halo::{Cells, Neighbours};

/// The constant columns of a step.
pub enum StepRows {
    /// A matrix of the step's own.
    Own(Resident),
    /// Among those of the steps around it.
    Shared(Arc<Segment>),
}

impl StepRows {
    /// The columns of step `t` on a tape.
    pub fn on_tape<'a>(&'a self, tape: &mut Tape<'a>, t: Step, shape: Shape) -> Result<Var> {
        Ok(match self {
            StepRows::Own(rows) => tape.held(shape, rows)?,
            StepRows::Shared(segment) => match segment.at(t) {
                Some(index) => tape.indexed(shape.columns, &segment.rows, index)?,
                None => tape.held_first(shape, &segment.rows)?,
            },
        })
    }
}

impl StepRows {
    /// Brings the columns of step `t` to a GPU, before they are asked for there.
    pub fn bring(&self, device: &Device, t: Step) -> Result<()> {
        match self {
            StepRows::Own(rows) => drop(rows.on(device)?),
            StepRows::Shared(segment) => {
                segment.rows.on(device)?;
                segment.at(t).map_or(Ok(()), |index| index.on(device).map(drop))?;
            }
        }
        Ok(())
    }
}

/// What a worker needs of a snapshot, as it was read.
pub struct Piece {
    /// Its edges.
    pub graph: Graph,
    /// The constant columns of its vertices, and below them those of their neighbours elsewhere.
    pub rows: StepRows,
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

/// Steps of a store; a worker that owns a part cuts it out.
pub struct WholeSteps {
    store: Arc<Store>,
    inputs: Arc<Inputs>,
    asked: Asked,
    cells: Option<Arc<Cells>>,
    /// Whether cursors see to the loops that models add.
    has_loops: bool,
    segments: Segments,
    /// Where readers have been: who reads next goes on from the nearest.
    cursors: Mutex<Vec<Cursor>>,
}

impl WholeSteps {
    /// The steps of a store, with these columns, prepared with what is asked of them; a worker with cells
    /// gets its part alone.
    pub fn new(
        store: Arc<Store>,
        inputs: Arc<Inputs>,
        asked: Asked,
        cells: Option<Arc<Cells>>,
    ) -> WholeSteps {
        let segments = Segments::new(store.clone(), inputs.clone());
        let is_plain = store.has_weights().is_ok_and(|weights| !weights) && !inputs.are_degrees();
        let has_loops = is_plain && cells.is_none() && asked.is_of_loops();
        WholeSteps { store, inputs, asked, cells, has_loops, segments, cursors: Mutex::default() }
    }

    /// A whole step, from the nearest one that a reader has been at.
    fn whole(&self, t: Step) -> Result<Piece> {
        let cursors = || self.cursors.lock().unwrap_or_else(PoisonError::into_inner);
        let mut cursor = {
            let mut free = cursors();
            let behind = |cursor: &Cursor| cursor.at().and_then(|at| t.checked_sub(at)).unwrap_or(usize::MAX);
            let nearest = free.iter().enumerate().min_by_key(|(_, cursor)| behind(cursor));
            let nearest = nearest.map(|(number, _)| number);
            let new = if self.has_loops { Cursor::with_loops } else { Cursor::new };
            nearest.map_or_else(|| new(self.store.clone()), |number| free.swap_remove(number))
        };
        let piece = self.piece(t, &mut cursor);
        cursors().push(cursor);
        piece
    }

    fn piece(&self, t: Step, cursor: &mut Cursor) -> Result<Piece> {
        let degrees = self.inputs.are_degrees();
        let SharedRows { starts, columns, weights } = cursor.go_to(t)?;
        let graph = match self.has_loops {
            true => {
                let pattern = Pattern::shared(self.store.vertices(), starts.clone(), columns.clone())?;
                Graph::looped(pattern, self.store.edges(t)?, self.asked)
            }
            false => {
                let rows = Rows { starts, sources: columns, weights: weights.as_deref() };
                Graph::prepared(&rows, self.asked)?
            }
        };
        let rows = match degrees {
            true => {
                let inward: Vec<u32> =
                    cursor.go_to(t)?.starts.windows(2).map(|row| (row[1] - row[0]) as u32).collect();
                StepRows::Own(self.inputs.of_degrees(inward.into_iter(), cursor.outward()).into())
            }
            false => self.rows(t)?,
        };
        Ok(Piece { graph, rows, vertices: None, neighbours: None })
    }

    /// The constant columns of a step.
    fn rows(&self, t: Step) -> Result<StepRows> {
        Ok(match self.inputs.constant_width() {
            0 => StepRows::Own(Vec::new().into()),
            _ => StepRows::Shared(self.segments.at(t)?),
        })
    }

    /// What the worker needs of a snapshot that is at hand.
    pub fn cut(&self, t: Step, snapshot: &Snapshot<'_>, owners: Option<&Ownership>) -> Result<Piece> {
        let whole = || {
            let rows = snapshot.by_target(self.store.vertices());
            Graph::new(rows.starts, rows.columns, rows.weights)
        };
        let (Some(cells), Some(owners)) = (&self.cells, owners) else {
            let graph = whole()?.reduced(self.asked)?;
            return Ok(Piece { graph, rows: self.rows(t)?, vertices: None, neighbours: None });
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
        let (graph, rows) = (graph.reduced(self.asked)?, StepRows::Own(rows.into()));
        Ok(Piece { graph, rows, vertices: Some(Arc::new(vertices)), neighbours })
    }
}

impl SnapshotSource for WholeSteps {
    fn read(&self, t: Step, owners: Option<&Ownership>) -> Result<Piece> {
        match owners {
            None => self.whole(t),
            // The whole of the step is in memory meanwhile.
            Some(_) => self.cut(t, &self.store.snapshot(t)?, owners),
        }
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
