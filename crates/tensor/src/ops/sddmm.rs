//! Products of rows, one for each entry of a sparse matrix: scores of attention, and the gradient of sparse
//! values.

use std::sync::Arc;

use super::aggregate::{AHEAD, Entries, Sum, Take};
use super::spmm::expect_heads;
use super::sums::{Factors, Rows, dots, sums};
use crate::arena::Arena;
use crate::clock::Stage;
use crate::cuda;
use crate::error::{Result, expect_inputs, expect_shape};
use crate::lines::{Lines, Piece, run};
use crate::op::{Back, Op, Shape, View};
use crate::pattern::Pattern;
use crate::simd::{fma, prefetch_row, simd};
use crate::tape::{Tape, Var};

/// Sums that are taken side by side in a product of rows.
const LANES: usize = 16;

/// For each entry and head, the product of the row of its line and the row of its other end.
pub(super) struct Dots<'a> {
    /// The lines, in the original order.
    pub lines: &'a Lines,
    /// Into how many parts, each with a product of its own, a row is divided.
    pub heads: usize,
    /// The rows of lines.
    pub left: &'a [f32],
    /// The rows of other ends.
    pub right: &'a [f32],
    /// How wide both are.
    pub width: usize,
}

impl Dots<'_> {
    /// Adds the products.
    pub fn add(&self, output: &mut [f32]) {
        if self.width == 0 {
            return;
        }
        run(self.lines.deal_entries(self.heads, output), |(piece, output)| dots_piece(self, piece, output));
    }
}

simd! {
    fn dots_piece(dots: &Dots<'_>, piece: &Piece, output: &mut [f32]) = dots_piece_body;
}

#[inline(always)]
fn dots_piece_body<const FUSED: bool>(dots: &Dots<'_>, piece: &Piece, output: &mut [f32]) {
    let Dots { lines, heads, left, right, width } = *dots;
    let (others, part) = (lines.others(), width / heads);
    let mut outputs = output.chunks_exact_mut(heads);
    for line in piece.lines.clone() {
        let left = &left[line * width..(line + 1) * width];
        for (k, output) in lines.entries(piece, line).zip(&mut outputs) {
            let ahead = others[(k + AHEAD).min(others.len() - 1)] as usize * width;
            prefetch_row(right, ahead, width);
            let start = others[k] as usize * width;
            let right = &right[start..start + width];
            let parts = left.chunks_exact(part).zip(right.chunks_exact(part));
            for (output, (left, right)) in output.iter_mut().zip(parts) {
                *output += dot::<FUSED>(left, right);
            }
        }
    }
}

/// The product of two rows.
#[inline(always)]
pub(super) fn dot<const FUSED: bool>(left: &[f32], right: &[f32]) -> f32 {
    let (left, left_rest) = left.as_chunks::<LANES>();
    let (right, right_rest) = right.as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    for (left, right) in left.iter().zip(right) {
        for j in 0..LANES {
            sums[j] = fma::<FUSED>(left[j], right[j], sums[j]);
        }
    }
    let mut rest = 0.0;
    for (left, right) in left_rest.iter().zip(right_rest) {
        rest = fma::<FUSED>(*left, *right, rest);
    }
    // Halves are added to each other, which vectorises, unlike adding from left to right.
    let mut count = LANES / 2;
    while count > 0 {
        for j in 0..count {
            sums[j] += sums[j + count];
        }
        count /= 2;
    }
    sums[0] + rest
}

struct Sddmm<'a> {
    arena: &'a Arena,
    pattern: Arc<Pattern>,
    heads: usize,
}

impl Op for Sddmm<'_> {
    fn name(&self) -> &'static str {
        "sddmm"
    }

    fn stage(&self) -> Stage {
        Stage::Aggregation
    }

    fn shape(&self, inputs: &[Shape]) -> Result<Shape> {
        let [left, right] = expect_inputs(self.name(), inputs)?;
        expect_shape(self.name(), "the left side", left, Shape::new(self.pattern.rows(), left.columns))?;
        let expected = Shape::new(self.pattern.columns(), left.columns);
        expect_shape(self.name(), "the right side", right, expected)?;
        expect_heads(self.name(), left.columns, self.heads)?;
        Ok(Shape::new(self.pattern.entries(), self.heads))
    }

    fn forward(&self, inputs: &[View<'_>], output: &mut [f32], _: &mut [f32]) -> Result<()> {
        output.fill(0.0);
        let dots = Dots {
            lines: self.pattern.by_row(),
            heads: self.heads,
            left: inputs[0].values,
            right: inputs[1].values,
            width: inputs[0].shape.columns,
        };
        dots.add(output);
        Ok(())
    }

    fn backward(&self, mut back: Back<'_, '_>) -> Result<()> {
        let width = back.inputs[0].shape.columns;
        let sum = |lines, x| Sum {
            lines,
            take: Take::Other,
            values: Entries::Given(back.upstream),
            heads: self.heads,
            x,
            width,
        };
        let from_right = sum(self.pattern.by_row(), back.inputs[1].values);
        if let Some(left) = back.take(0) {
            from_right.compute(self.arena, left, true);
        }
        if let Some(right) = back.take(1) {
            let sum = Sum { lines: self.pattern.by_column(), x: back.inputs[0].values, ..from_right };
            sum.compute(self.arena, right, true);
        }
        Ok(())
    }

    fn cuda(&self, call: cuda::Call<'_>) -> Result<()> {
        let (left, right) = (call.inputs[0], call.inputs[1]);
        let lines = self.pattern.by_row().on(call.device)?;
        let sizes = (left.shape.columns, self.heads);
        let output = cuda::Sum { values: call.output, adds: false };
        dots(call.device, lines, [left.values, right.values], sizes, output)
    }

    fn cuda_back(&self, back: cuda::Back<'_>) -> Result<()> {
        let (device, width) = (back.device, back.inputs[0].shape.columns);
        let factors = (Rows::Others, Factors::Given(back.upstream, self.heads));
        if let Some(left) = back.gradients[0] {
            let lines = self.pattern.by_row().on(device)?;
            sums(device, lines, factors, (back.inputs[1].values, width), left)?;
        }
        if let Some(right) = back.gradients[1] {
            let lines = self.pattern.by_column_on(device)?;
            sums(device, lines, factors, (back.inputs[0].values, width), right)?;
        }
        Ok(())
    }
}

impl Tape<'_> {
    /// For each entry of the pattern, the product of the row of `left` at its row and the row of `right` at
    /// its column; with several heads, rows are divided into as many parts, and there is a product for each.
    pub fn sddmm(&mut self, pattern: Arc<Pattern>, left: Var, right: Var, heads: usize) -> Result<Var> {
        let arena = self.arena();
        self.apply(Sddmm { arena, pattern, heads }, &[left, right])
    }
}
