//! The product of a sparse matrix with rows, made out of the product of another one with the same rows
//! (REAL, section 4.1): sums are scaled, and the entries that changed are added. The gradient goes the same
//! way back: scaled to the sums before, and through the changed entries to the rows.

use std::sync::Arc;

use super::aggregate::{Entries, Sum, Take};
use super::pieces::{by_pieces, taken};
use crate::arena::Arena;
use crate::change::Change;
use crate::clock::Stage;
use crate::error::{Result, expect_inputs, expect_shape};
use crate::lines::Lines;
use crate::op::{Back, Op, Shape, View};
use crate::tape::{Tape, Var};

/// The inputs are the rows, and their product with the matrix before.
struct Increment<'a> {
    arena: &'a Arena,
    change: Arc<Change>,
}

impl Increment<'_> {
    fn sum<'v>(&'v self, lines: &'v Lines, x: &'v [f32], width: usize) -> Sum<'v> {
        let values = Entries::Given(&self.change.values);
        Sum { lines, take: Take::Other, values, heads: 1, x, width }
    }
}

impl Op for Increment<'_> {
    fn name(&self) -> &'static str {
        "increment"
    }

    fn stage(&self) -> Stage {
        Stage::Aggregation
    }

    fn shape(&self, inputs: &[Shape]) -> Result<Shape> {
        let [x, before] = expect_inputs(self.name(), inputs)?;
        let pattern = &self.change.pattern;
        expect_shape(self.name(), "x", x, Shape::new(pattern.columns(), x.columns))?;
        let shape = Shape::new(pattern.rows(), x.columns);
        expect_shape(self.name(), "the product before", before, shape)?;
        Ok(shape)
    }

    fn forward(&self, inputs: &[View<'_>], output: &mut [f32], _: &mut [f32]) -> Result<()> {
        let Shape { rows, columns } = inputs[1].shape;
        by_pieces(rows, &mut [Some(&mut *output)], |range, slots| {
            let before = inputs[1].rows(range.clone());
            let scaled = taken(slots, 0).chunks_exact_mut(columns.max(1));
            let rows = scaled.zip(before.values.chunks_exact(columns.max(1)));
            for ((row, before), &scale) in rows.zip(&self.change.scales[range]) {
                row.iter_mut().zip(before).for_each(|(value, before)| *value = scale * before);
            }
        });
        let sum = self.sum(self.change.pattern.by_row(), inputs[0].values, columns);
        sum.compute(self.arena, output, true);
        Ok(())
    }

    fn backward(&self, mut back: Back<'_, '_>) -> Result<()> {
        let Shape { rows, columns } = back.output.shape;
        if let Some(before) = back.take(1) {
            let upstream = View { shape: back.output.shape, values: back.upstream };
            by_pieces(rows, &mut [Some(before)], |range, slots| {
                let upstream = upstream.rows(range.clone());
                let gradients = taken(slots, 0).chunks_exact_mut(columns.max(1));
                let rows = gradients.zip(upstream.values.chunks_exact(columns.max(1)));
                for ((row, upstream), &scale) in rows.zip(&self.change.scales[range]) {
                    row.iter_mut().zip(upstream).for_each(|(sum, upstream)| *sum += scale * upstream);
                }
            });
        }
        if let Some(x) = back.take(0) {
            let sum = self.sum(self.change.pattern.by_column(), back.upstream, columns);
            sum.compute(self.arena, x, true);
        }
        Ok(())
    }
}

impl Tape<'_> {
    /// The product of `x` with a matrix, out of `before`, that with another: `change` is what turns the one
    /// into the other. On the host alone.
    pub fn increment(&mut self, change: Change, x: Var, before: Var) -> Result<Var> {
        let (arena, change) = (self.arena(), Arc::new(change));
        self.apply(Increment { arena, change }, &[x, before])
    }
}
