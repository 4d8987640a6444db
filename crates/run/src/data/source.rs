//! Where snapshots come from: steps of a mapped store now; parts, samples and remote stores can take their
//! place.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::ThreadId;

use kymo_graph::store::{Cursor, NewArrays, SharedRows};
use kymo_graph::{Snapshot, Step, Store, Vertex};
use kymo_model::{Asked, Graph, Rows};
use kymo_plan::{Neighbourhood, Ownership};
use kymo_tensor::{Device, Pattern, Pool, Resident, Shape, Tape, Var};

use super::features::Inputs;
use super::parts::Parts;
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
    /// The columns of some vertices at step `t`.
    pub fn some_on_tape<'a>(
        &'a self,
        tape: &mut Tape<'a>,
        t: Step,
        columns: usize,
        vertices: &Arc<Vec<Vertex>>,
    ) -> Result<Var> {
        let (rows, indices) = match self {
            StepRows::Own(rows) => (rows, vertices.clone()),
            StepRows::Shared(segment) => match segment.at(t) {
                Some(index) => {
                    let of = |&vertex: &Vertex| index[vertex as usize];
                    (&segment.rows, Arc::new(vertices.iter().map(of).collect()))
                }
                None => (&segment.rows, vertices.clone()),
            },
        };
        let all = tape.held(Shape::new(rows.len() / columns.max(1), columns), rows)?;
        Ok(tape.gather(all, indices)?)
    }

    /// Whether step `t` has the rows that another step has of `other`: the same memory, not the same numbers.
    pub fn are_those_of(&self, t: Step, other: &StepRows, other_step: Step) -> bool {
        match (self, other) {
            (StepRows::Shared(segment), StepRows::Shared(other)) if Arc::ptr_eq(segment, other) => {
                match (segment.at(t), segment.at(other_step)) {
                    (None, None) => true,
                    (Some(one), Some(other)) => Arc::ptr_eq(one, other),
                    _ => false,
                }
            }
            _ => false,
        }
    }

    /// Brings the columns of step `t` to a GPU, before they are asked for there.
    pub fn bring(&self, device: &Device, t: Step) -> Result<()> {
        match self {
            StepRows::Own(rows) => rows.bring(device)?,
            StepRows::Shared(segment) => {
                segment.rows.bring(device)?;
                segment.at(t).map_or(Ok(()), |index| index.bring(device))?;
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

    /// From now on this many may read parts at a time: each works in memory of its own.
    fn read_by(&self, _readers: usize) {}

    /// Of what it gave and is done with, it may keep this much from now on, to use it again.
    fn keep_up_to(&self, _bytes: usize) {}
}

/// Steps of a store: whole, or a worker's part of them.
pub struct WholeSteps {
    store: Arc<Store>,
    inputs: Arc<Inputs>,
    asked: Asked,
    /// What a worker reads that owns some vertices.
    parts: Option<Parts>,
    /// Whether cursors see to the loops that models add.
    has_loops: bool,
    segments: Segments,
    /// Arrays of snapshots that are gone.
    pool: Pool,
    /// Where readers have been.
    cursors: Mutex<Vec<(ThreadId, Cursor)>>,
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
        let pool = Pool::new();
        let segments = Segments::new(store.clone(), inputs.clone(), pool.clone());
        let is_plain = store.has_weights().is_ok_and(|weights| !weights) && !inputs.are_degrees();
        let has_loops = is_plain && asked.is_of_loops();
        let parts = cells.map(|cells| Parts::new(store.clone(), inputs.clone(), asked, cells));
        WholeSteps { store, inputs, asked, parts, has_loops, segments, pool, cursors: Mutex::default() }
    }

    /// Arrays of snapshots that are gone, to be used again.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// A cursor that stands nowhere yet.
    fn cursor(&self) -> Cursor {
        let store = self.store.clone();
        let cursor = if self.has_loops { Cursor::with_loops(store) } else { Cursor::new(store) };
        cursor.with_arrays(FromPool(self.pool.clone()))
    }

    /// What `make` makes with the cursor that this thread left where it read last: another would have to go
    /// back for the steps that are to follow.
    fn going_on(&self, make: impl FnOnce(&mut Cursor) -> Result<Piece>) -> Result<Piece> {
        let cursors = || self.cursors.lock().unwrap_or_else(PoisonError::into_inner);
        let me = std::thread::current().id();
        let mut cursor = {
            let mut free = cursors();
            match free.iter().position(|(owner, _)| *owner == me) {
                Some(place) => free.swap_remove(place).1,
                None => self.cursor(),
            }
        };
        let piece = make(&mut cursor);
        cursors().push((me, cursor));
        piece
    }

    /// A whole step.
    fn whole(&self, t: Step, cursor: &mut Cursor) -> Result<Piece> {
        let degrees = self.inputs.are_degrees();
        let SharedRows { starts, columns, weights } = cursor.go_to(t)?;
        let graph = match self.has_loops {
            true => {
                let (starts, columns) = (starts.clone(), columns.clone());
                let pattern = Pattern::shared(self.store.vertices(), starts, columns, &self.pool)?;
                Graph::looped(pattern, self.store.edges(t)?, self.asked)?
            }
            false => {
                let rows = Rows { starts, sources: columns, weights: weights.as_deref() };
                Graph::prepared(&rows, self.asked, &self.pool)?
            }
        };
        let rows = match degrees {
            true => {
                let starts = cursor.go_to(t)?.starts.clone();
                let inward = starts.windows(2).map(|row| (row[1] - row[0]) as u32);
                let rows = self.pool.take(2 * self.store.vertices());
                let rows = self.inputs.of_degrees(inward, cursor.outward(), rows);
                StepRows::Own(Resident::reusable(rows, &self.pool))
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
        if let (Some(parts), Some(owners)) = (&self.parts, owners) {
            let (inward, outward) = snapshot.degrees(self.store.vertices());
            return parts.cut(t, snapshot, (&inward, &outward), owners);
        }
        let rows = snapshot.by_target(self.store.vertices());
        let graph = Graph::new(rows.starts, rows.columns, rows.weights)?.reduced(self.asked)?;
        Ok(Piece { graph, rows: self.rows(t)?, vertices: None, neighbours: None })
    }
}

/// Arrays of a pool for a cursor.
struct FromPool(Pool);

impl NewArrays for FromPool {
    fn starts(&self, room: usize) -> Vec<u64> {
        self.0.take(room)
    }

    fn columns(&self, room: usize) -> Vec<Vertex> {
        self.0.take(room)
    }
}

impl SnapshotSource for WholeSteps {
    fn read(&self, t: Step, owners: Option<&Ownership>) -> Result<Piece> {
        match (&self.parts, owners) {
            (Some(parts), Some(owners)) => parts.read(t, owners),
            _ => self.going_on(|cursor| self.whole(t, cursor)),
        }
    }

    fn keep_up_to(&self, bytes: usize) {
        self.pool.keep_up_to(bytes);
    }

    fn read_by(&self, readers: usize) {
        if let Some(parts) = &self.parts {
            parts.read_by(readers);
        }
    }

    fn check(&self, neighbourhood: &Neighbourhood) -> Result<()> {
        match neighbourhood {
            // What a batch sees within some edges is taken out of whole snapshots.
            Neighbourhood::Whole | Neighbourhood::Hops(_) => Ok(()),
            Neighbourhood::Sampled(_) => {
                let problem = "snapshots are read whole; sampled neighbourhoods need another source";
                Err(Error::settings("batch", problem))
            }
        }
    }
}
