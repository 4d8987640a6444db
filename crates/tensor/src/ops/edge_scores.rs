//! Scores of the entries of a sparse matrix, as graph attention has them: what the row says and what the
//! column says are added, and negative sums are flattened.

use std::sync::Arc;

use rayon::prelude::*;

use super::ROWS;
use super::aggregate::{Entries, Sum, Take};
use super::edges::{EDGES, by_segments, sums_of_entries};
use crate::arena::Arena;
use crate::clock::Stage;
use crate::cuda;
use crate::error::{Error, Result, expect_inputs, expect_shape};
use crate::lines::run;
use crate::op::{Back, Op, Shape, View};
use crate::pattern::Pattern;
use crate::tape::{Tape, Var};

struct EdgeScores<'a> {
    arena: &'a Arena,
    pattern: Arc<Pattern>,
    /// What sums below zero are multiplied by; not negative, so that a score has the sign of its sum.
    slope: f32,
}

impl Op for EdgeScores<'_> {
    fn name(&self) -> &'static str {
        "edge scores"
    }

    fn stage(&self) -> Stage {
        Stage::Aggregation
    }

    fn shape(&self, inputs: &[Shape]) -> Result<Shape> {
        let [left, right] = expect_inputs(self.name(), inputs)?;
        let heads = left.columns;
        expect_shape(self.name(), "the left side", left, Shape::new(self.pattern.rows(), heads))?;
        expect_shape(self.name(), "the right side", right, Shape::new(self.pattern.columns(), heads))?;
        if !(self.slope >= 0.0 && self.slope.is_finite()) {
            return Err(Error::settings("slope", format!("{} is not a number from zero up", self.slope)));
        }
        Ok(Shape::new(self.pattern.entries(), heads))
    }

    fn forward(&self, inputs: &[View<'_>], output: &mut [f32], _: &mut [f32]) -> Result<()> {
        let (left, right, slope) = (inputs[0], inputs[1], self.slope);
        let (lines, heads) = (self.pattern.by_row(), left.shape.columns);
        if heads == 0 {
            return Ok(());
        }
        run(lines.deal_entries(heads, output), |(piece, output)| {
            let mut outputs = output.chunks_exact_mut(heads);
            for line in piece.lines.clone() {
                let left = left.row(line);
                for (k, output) in lines.entries(piece, line).zip(&mut outputs) {
                    let right = right.row(lines.others()[k] as usize);
                    for ((output, left), right) in output.iter_mut().zip(left).zip(right) {
                        let sum = left + right;
                        *output = if sum > 0.0 { sum } else { slope * sum };
                    }
                }
            }
        });
        Ok(())
    }

    fn backward(&self, mut back: Back<'_, '_>) -> Result<()> {
        let (heads, slope) = (back.output.shape.columns, self.slope);
        let mut scaled = self.arena.take(back.upstream.len());
        let chunk = ROWS * heads.max(1);
        scaled
            .par_chunks_mut(chunk)
            .zip(back.upstream.par_chunks(chunk))
            .zip(back.output.values.par_chunks(chunk))
            .for_each(|((scaled, upstream), scores)| {
                for ((scaled, upstream), &score) in scaled.iter_mut().zip(upstream).zip(scores) {
                    *scaled = if score > 0.0 { *upstream } else { slope * upstream };
                }
            });
        let sum =
            |lines| Sum { lines, take: Take::Own, values: Entries::Ones, heads: 1, x: &scaled, width: heads };
        if let Some(left) = back.take(0) {
            sum(self.pattern.by_row()).compute(self.arena, left, true);
        }
        if let Some(right) = back.take(1) {
            sum(self.pattern.by_column()).compute(self.arena, right, true);
        }
        self.arena.give(scaled);
        Ok(())
    }

    fn cuda(&self, call: cuda::Call<'_>) -> Result<()> {
        let lines = self.pattern.by_row().on(call.device)?;
        let (left, right) = (call.inputs[0], call.inputs[1]);
        if call.output.is_empty() {
            return Ok(());
        }
        let arguments = [
            lines.lines_of_parts().into(),
            lines.others().into(),
            left.values.into(),
            right.values.into(),
            (left.shape.columns as i32).into(),
            self.slope.into(),
            call.output.into(),
        ];
        by_segments(call.device, &EDGES, "edge_scores", lines, &arguments)
    }

    fn cuda_back(&self, back: cuda::Back<'_>) -> Result<()> {
        let (device, heads) = (back.device, back.output.shape.columns);
        // In place: nothing needs the gradient of the scores afterwards.
        let arguments = [back.output.values.into(), self.slope.into(), back.upstream.into()];
        device.each(&EDGES, "edge_scores_back", back.upstream.len(), &arguments)?;
        if let Some(left) = back.gradients[0] {
            let lines = self.pattern.by_row().on(device)?;
            sums_of_entries(device, lines, (back.upstream, heads), left)?;
        }
        if let Some(right) = back.gradients[1] {
            let lines = self.pattern.by_column_on(device)?;
            sums_of_entries(device, lines, (back.upstream, heads), right)?;
        }
        Ok(())
    }
}

impl Tape<'_> {
    /// For each entry and head, `left` at its row plus `right` at its column, times `slope` where that is
    /// negative.
    pub fn edge_scores(&mut self, pattern: Arc<Pattern>, left: Var, right: Var, slope: f32) -> Result<Var> {
        let arena = self.arena();
        self.apply(EdgeScores { arena, pattern, slope }, &[left, right])
    }
}
