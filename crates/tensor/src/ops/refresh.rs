//! The product of a sparse matrix with rows, of which most rows are those of another product with the same
//! rows: those are copied, and the others summed anew, so that the result has the bits of a product that is
//! made from nothing. The gradient goes the way of that product, all of it, for the same reason.

use std::sync::Arc;

use super::aggregate::{Sum, Take};
use super::pieces::{by_pieces, taken};
use crate::arena::Arena;
use crate::change::Changed;
use crate::clock::Stage;
use crate::cuda::Resident;
use crate::error::{Error, Result, expect_inputs, expect_shape};
use crate::lines::Lines;
use crate::op::{Back, Op, Shape, View};
use crate::pattern::Pattern;
use crate::tape::{Tape, Var};

/// The inputs are the rows, and their product with the matrix before.
struct Refresh<'a> {
    arena: &'a Arena,
    pattern: Arc<Pattern>,
    values: Arc<Resident>,
    changed: Changed,
}

impl Refresh<'_> {
    fn sum<'v>(&'v self, lines: &'v Lines, x: &'v [f32], width: usize) -> Sum<'v> {
        Sum { lines, take: Take::Other, values: self.values.entries(), heads: 1, x, width }
    }
}

impl Op for Refresh<'_> {
    fn name(&self) -> &'static str {
        "refresh"
    }

    fn stage(&self) -> Stage {
        Stage::Aggregation
    }

    fn shape(&self, inputs: &[Shape]) -> Result<Shape> {
        let [x, before] = expect_inputs(self.name(), inputs)?;
        expect_shape(self.name(), "x", x, Shape::new(self.pattern.columns(), x.columns))?;
        let shape = Shape::new(self.pattern.rows(), x.columns);
        expect_shape(self.name(), "the product before", before, shape)?;
        let values = Shape::new(self.values.len(), 1);
        expect_shape(self.name(), "the matrix of values", values, Shape::new(self.pattern.entries(), 1))?;
        match self.changed.0.last() {
            Some(&last) if last as usize >= shape.rows => {
                Err(Error::shape(self.name(), format!("there is no row {last}")))
            }
            _ => Ok(shape),
        }
    }

    fn forward(&self, inputs: &[View<'_>], output: &mut [f32], _: &mut [f32]) -> Result<()> {
        let Shape { rows, columns } = inputs[1].shape;
        let sum = self.sum(self.pattern.by_row(), inputs[0].values, columns);
        by_pieces(rows, &mut [Some(&mut *output)], |range, slots| {
            let output = taken(slots, 0);
            output.copy_from_slice(inputs[1].rows(range.clone()).values);
            let place = |row: usize| self.changed.0.partition_point(|&changed| (changed as usize) < row);
            let changed = &self.changed.0[place(range.start)..place(range.end)];
            let changed: Vec<usize> = changed.iter().map(|&row| row as usize).collect();
            sum.compute_some(self.arena, &changed, range.start, output);
        });
        Ok(())
    }

    fn backward(&self, mut back: Back<'_, '_>) -> Result<()> {
        if let Some(x) = back.take(0) {
            let sum = self.sum(self.pattern.by_column(), back.upstream, back.output.shape.columns);
            sum.compute(self.arena, x, true);
        }
        Ok(())
    }
}

impl Tape<'_> {
    /// The product of `x` with a matrix, of which all rows but those that changed are those of `before`, its
    /// product with another. On the host alone.
    pub fn refresh(
        &mut self,
        (pattern, values): (Arc<Pattern>, Arc<Resident>),
        changed: Changed,
        x: Var,
        before: Var,
    ) -> Result<Var> {
        let arena = self.arena();
        self.apply(Refresh { arena, pattern, values, changed }, &[x, before])
    }
}
