//! What windows leave behind for those that follow: at the worker that needs it, or whole, for a checkpoint.

use std::ops::Range;

use kymo_graph::Step;
use kymo_model::Extent;
use kymo_plan::{Place, Shares};
use kymo_tensor::{Shape, Tape, Var};

use crate::cells::moved;
use crate::error::Result;
use crate::learner::Learner;
use crate::pass::Matrices;

/// What a model left behind after a window.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Carried {
    /// Of the exchange.
    pub exchange: Matrices,
    /// Of the rows.
    pub rows: Matrices,
    /// The window that left it, if only the rows of the worker's vertices are here; otherwise all are.
    pub window: Option<Range<Step>>,
}

impl Learner {
    /// A matrix that the window before left behind, with the rows that the first step of this one has.
    pub(crate) fn brought(
        &self,
        tape: &mut Tape<'_>,
        window: &Range<Step>,
        carried: &Carried,
        (columns, values): (usize, &[f32]),
        place: impl Fn(&Shares, &Range<Step>, Step) -> Place,
    ) -> Result<Var> {
        let rows = |values: &[f32]| Shape::new(values.len() / columns.max(1), columns);
        let Some(cells) = &self.cells else { return Ok(tape.copied(rows(values), values)?) };
        let here = place(&cells.shares, window, window.start);
        let Some(before) = &carried.window else {
            let own = cells.own(&here);
            let row = |&vertex: &u32| values[vertex as usize * columns..][..columns].iter().copied();
            let values: Vec<f32> = own.iter().flat_map(row).collect();
            return Ok(tape.copied(rows(&values), &values)?);
        };
        let matrix = tape.copied(rows(values), values)?;
        match cells.route(&place(&cells.shares, before, before.end - 1), &here) {
            Some(route) => Ok(moved(tape, &self.team, &route, matrix)?),
            None => Ok(matrix),
        }
    }

    /// What was carried with the rows of all vertices, at the first worker: for a checkpoint.
    pub fn gather_carried(&mut self) -> Result<()> {
        let Some(cells) = &self.cells else { return Ok(()) };
        let Some(carried) = self.carried.take() else { return Ok(()) };
        let Some(window) = carried.window.clone() else {
            self.carried = Some(carried);
            return Ok(());
        };
        let last = window.end - 1;
        let extents = self.shared.memory.clone().unwrap_or_default();
        let whole = |matrix: &[f32], place: &Place| -> Result<Vec<f32>> {
            let told = self.team.from_all(bytemuck::cast_slice(matrix))?;
            let parts: Vec<Vec<f32>> = told.iter().map(|bytes| bytemuck::pod_collect_to_vec(bytes)).collect();
            Ok(cells.whole(place, &parts))
        };
        let (structure, rows_at) = (cells.shares.structure(&window, last), cells.shares.rows(&window, last));
        let mut exchange = Vec::with_capacity(carried.exchange.len());
        for (extent, matrix) in extents.exchange.iter().zip(&carried.exchange) {
            exchange.push(match extent {
                Extent::Vertices(_) => whole(matrix, &structure)?,
                Extent::Matrix(_) => matrix.clone(),
            });
        }
        let rows = carried.rows.iter().map(|matrix| whole(matrix, &rows_at)).collect::<Result<_>>()?;
        self.carried = Some(Carried { exchange, rows, window: None });
        Ok(())
    }
}
