//! Rows of a matrix at given places.

use std::sync::Arc;

use rayon::prelude::*;

use super::ROWS;
use super::aggregate::{Entries, Sum, Take};
use super::pointwise::gather_on;
use super::sums::{Factors, Rows, sums};
use crate::arena::Arena;
use crate::cuda;
use crate::error::{Error, Result, expect_inputs};
use crate::lines::Lines;
use crate::op::{Back, Op, Shape, View};
use crate::tape::{Tape, Var};

struct Gather<'a> {
    arena: &'a Arena,
    indices: Arc<Vec<u32>>,
}

/// Fails unless every index is that of a row, and 32 bits can number the indices.
pub(crate) fn expect_indices(op: &'static str, indices: &[u32], rows: usize) -> Result<()> {
    if let Some(&index) = indices.iter().find(|&&index| index as usize >= rows) {
        return Err(Error::shape(op, format!("row {index} was asked for, there are {rows}")));
    }
    if indices.len() > u32::MAX as usize {
        return Err(Error::shape(op, format!("{} rows were asked for, which is too many", indices.len())));
    }
    Ok(())
}

/// Hands every row to `write`, with the row of `x` that its index names.
pub(crate) fn for_each_row(
    indices: &[u32],
    x: View<'_>,
    output: &mut [f32],
    write: impl Fn(&mut [f32], &[f32]) + Sync,
) {
    let width = x.shape.columns;
    if width == 0 {
        return;
    }
    output.par_chunks_mut(ROWS * width).zip(indices.par_chunks(ROWS)).for_each(|(output, indices)| {
        for (output, &index) in output.chunks_exact_mut(width).zip(indices) {
            write(output, x.row(index as usize));
        }
    });
}

impl Op for Gather<'_> {
    fn name(&self) -> &'static str {
        "gather"
    }

    fn shape(&self, inputs: &[Shape]) -> Result<Shape> {
        let [x] = expect_inputs(self.name(), inputs)?;
        expect_indices(self.name(), &self.indices, x.rows)?;
        Ok(Shape::new(self.indices.len(), x.columns))
    }

    fn forward(&self, inputs: &[View<'_>], output: &mut [f32], _: &mut [f32]) -> Result<()> {
        for_each_row(&self.indices, inputs[0], output, <[f32]>::copy_from_slice);
        Ok(())
    }

    fn backward(&self, mut back: Back<'_, '_>) -> Result<()> {
        let Some(x) = back.take(0) else { return Ok(()) };
        let lines = Lines::sorted(back.inputs[0].shape.rows, &self.indices, |place| place as u32);
        let sum = Sum {
            lines: &lines,
            take: Take::Other,
            values: Entries::Ones,
            heads: 1,
            x: back.upstream,
            width: back.output.shape.columns,
        };
        sum.compute(self.arena, x, true);
        Ok(())
    }

    fn cuda(&self, call: cuda::Call<'_>) -> Result<()> {
        let (x, output) = (call.inputs[0], cuda::Sum { values: call.output, adds: false });
        gather_on(call.device, &self.indices, (x.values, x.shape.columns), output)
    }

    fn cuda_back(&self, back: cuda::Back<'_>) -> Result<()> {
        let Some(x) = back.gradients[0] else { return Ok(()) };
        let lines = Lines::sorted(back.inputs[0].shape.rows, &self.indices, |place| place as u32);
        let rows = (back.upstream, back.output.shape.columns);
        sums(back.device, lines.on(back.device)?, (Rows::Others, Factors::Ones), rows, x)
    }
}

impl Tape<'_> {
    /// The rows of `x` at `indices`, which may name a row more than once.
    pub fn gather(&mut self, x: Var, indices: Arc<Vec<u32>>) -> Result<Var> {
        let arena = self.arena();
        self.apply(Gather { arena, indices }, &[x])
    }
}
