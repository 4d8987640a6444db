//! Rows added up at given places: the reverse of gathering them.

use std::sync::Arc;

use super::aggregate::{Entries, Sum, Take};
use super::gather::{expect_indices, for_each_row};
use super::pointwise::gather_on;
use super::sums::{Factors, Rows, sums};
use crate::arena::Arena;
use crate::cuda;
use crate::error::{Result, expect_inputs, expect_shape};
use crate::lines::Lines;
use crate::op::{Back, Op, Shape, View};
use crate::tape::{Tape, Var};

struct Scatter<'a> {
    arena: &'a Arena,
    indices: Arc<Vec<u32>>,
    /// The places among `indices` that name each row, so that a row is summed by one thread and in order.
    lines: Lines,
}

impl Op for Scatter<'_> {
    fn name(&self) -> &'static str {
        "scatter"
    }

    fn shape(&self, inputs: &[Shape]) -> Result<Shape> {
        let [x] = expect_inputs(self.name(), inputs)?;
        expect_shape(self.name(), "x", x, Shape::new(self.indices.len(), x.columns))?;
        Ok(Shape::new(self.lines.count(), x.columns))
    }

    fn forward(&self, inputs: &[View<'_>], output: &mut [f32], _: &mut [f32]) -> Result<()> {
        let sum = Sum {
            lines: &self.lines,
            take: Take::Other,
            values: Entries::Ones,
            heads: 1,
            x: inputs[0].values,
            width: inputs[0].shape.columns,
        };
        sum.compute(self.arena, output, false);
        Ok(())
    }

    fn backward(&self, mut back: Back<'_, '_>) -> Result<()> {
        let Some(x) = back.take(0) else { return Ok(()) };
        let upstream = View { shape: back.output.shape, values: back.upstream };
        for_each_row(&self.indices, upstream, x, |gradient, upstream| {
            gradient.iter_mut().zip(upstream).for_each(|(sum, value)| *sum += value);
        });
        Ok(())
    }

    fn cuda(&self, call: cuda::Call<'_>) -> Result<()> {
        let (lines, x) = (self.lines.on(call.device)?, call.inputs[0]);
        let output = cuda::Sum { values: call.output, adds: false };
        let rows = (x.values, x.shape.columns);
        sums(call.device, lines, (Rows::Others, Factors::Ones), rows, output)
    }

    fn cuda_back(&self, back: cuda::Back<'_>) -> Result<()> {
        match back.gradients[0] {
            Some(x) => gather_on(back.device, &self.indices, (back.upstream, back.output.shape.columns), x),
            None => Ok(()),
        }
    }
}

impl Tape<'_> {
    /// A matrix of `rows` rows, of which row `indices[i]` has row `i` of `x` added to it; the others are
    /// zero.
    pub fn scatter(&mut self, x: Var, indices: Arc<Vec<u32>>, rows: usize) -> Result<Var> {
        expect_indices("scatter", &indices, rows)?;
        let lines = Lines::sorted(rows, &indices, |place| place as u32);
        let arena = self.arena();
        self.apply(Scatter { arena, indices, lines }, &[x])
    }
}
