//! The recurrent state that windows leave for those that follow: at the worker that needs it, or whole, for a
//! checkpoint.

use std::ops::Range;

use kymo_graph::{Step, Vertex};
use kymo_model::{Extent, Memory};
use kymo_plan::{Ownership, Shares};
use kymo_tensor::{Shape, Tape, Var};

use super::Matrices;
use crate::error::Result;
use crate::halo::{self, Cells, moved};

/// What a model left behind after a window.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecurrentState {
    /// Of the exchange.
    pub exchange: Matrices,
    /// Of the rows.
    pub rows: Matrices,
    /// The window that left it, if only the rows of the worker's vertices are here; otherwise all are.
    pub window: Option<Range<Step>>,
}

/// The state on a tape.
#[derive(Default)]
pub struct StateVars {
    /// What the exchange begins with.
    pub exchange: Vec<Var>,
    /// What the rows begin with.
    pub rows: Vec<Var>,
}

/// Who owns the vertices at a step of a window, in one of its two phases.
type Owners = fn(&Shares, &Range<Step>, Step) -> Ownership;

impl RecurrentState {
    /// The state on a tape, with the rows that the first step of a window has.
    pub fn on_tape(
        &self,
        tape: &mut Tape<'_>,
        memory: &Memory,
        window: &Range<Step>,
        cells: Option<(&Cells, &halo::Window)>,
    ) -> Result<StateVars> {
        let mut vars = StateVars::default();
        for (&extent, values) in memory.exchange.iter().zip(&self.exchange) {
            vars.exchange.push(match extent {
                Extent::Vertices(columns) => {
                    self.brought(tape, window, cells, (columns, values), Shares::structure)?
                }
                Extent::Rows(columns) => {
                    self.brought(tape, window, cells, (columns, values), Shares::rows)?
                }
                Extent::Matrix(shape) => tape.copied(shape, values)?,
            });
        }
        for (&columns, values) in memory.rows.iter().zip(&self.rows) {
            vars.rows.push(self.brought(tape, window, cells, (columns, values), Shares::rows)?);
        }
        Ok(vars)
    }

    /// One matrix of it, with the rows that the first step of a window has.
    fn brought(
        &self,
        tape: &mut Tape<'_>,
        window: &Range<Step>,
        cells: Option<(&Cells, &halo::Window)>,
        (columns, values): (usize, &[f32]),
        owners: Owners,
    ) -> Result<Var> {
        let rows = |values: &[f32]| Shape::new(values.len() / columns.max(1), columns);
        let Some((cells, on)) = cells else { return Ok(tape.copied(rows(values), values)?) };
        let here = owners(&cells.shares, window, window.start);
        let Some(before) = &self.window else {
            let own = cells.own(&here);
            let row = |&vertex: &Vertex| values[vertex as usize * columns..][..columns].iter().copied();
            let values: Vec<f32> = own.iter().flat_map(row).collect();
            return Ok(tape.copied(rows(&values), &values)?);
        };
        let matrix = tape.copied(rows(values), values)?;
        match cells.route(&owners(&cells.shares, before, before.end - 1), &here) {
            Some(route) => Ok(moved(tape, &cells.group, &route, on.tag(0), matrix)?),
            None => Ok(matrix),
        }
    }

    /// The same with the rows of all vertices, at every worker: for a checkpoint. All workers come here
    /// together.
    pub fn gathered(self, memory: &Memory, cells: &Cells) -> Result<RecurrentState> {
        let Some(window) = self.window.clone() else { return Ok(self) };
        let last = window.end - 1;
        let whole = |matrix: &[f32], owners: &Ownership| -> Result<Vec<f32>> {
            let told = cells.group.all_gather(bytemuck::cast_slice(matrix))?;
            let parts: Vec<Vec<f32>> = told.iter().map(|bytes| bytemuck::pod_collect_to_vec(bytes)).collect();
            Ok(cells.whole(owners, &parts))
        };
        let (structure, rows_at) = (cells.shares.structure(&window, last), cells.shares.rows(&window, last));
        let mut exchange = Vec::with_capacity(self.exchange.len());
        for (extent, matrix) in memory.exchange.iter().zip(&self.exchange) {
            exchange.push(match extent {
                Extent::Vertices(_) => whole(matrix, &structure)?,
                Extent::Rows(_) => whole(matrix, &rows_at)?,
                Extent::Matrix(_) => matrix.clone(),
            });
        }
        let rows = self.rows.iter().map(|matrix| whole(matrix, &rows_at)).collect::<Result<_>>()?;
        Ok(RecurrentState { exchange, rows, window: None })
    }
}
