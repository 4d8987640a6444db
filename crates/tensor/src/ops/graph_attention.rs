//! Graph attention (Velickovic et al., 2018, equations 3 to 6) after the linear maps, fused: scores of
//! entries, their shares of each row, and the sum of neighbours by shares.
//!
//! Scores live in the cache only, a piece of the entries at a time; of all the numbers per entry the shares
//! alone are kept. A share is positive, so its sign is free to say on which side of the kink its score was.
//! In the backward pass the mean of the gradients of a row's shares, by share, is the product of the row's
//! output and its gradient: one pass over the entries of rows is enough, and one over those of columns, which
//! reads share and gradient of a score side by side.

use std::sync::Arc;

use super::aggregate::add_segments;
use super::graph_attention_back::{Kept, back_by_column, back_by_row};
use super::graph_attention_loops::{Scores, attend, scale, scale_parts};
use super::spmm::expect_heads;
use crate::arena::Arena;
use crate::clock::Stage;
use crate::cuda;
use crate::error::{Error, Result, expect_inputs, expect_shape};
use crate::estimate::MemoryEstimate;
use crate::lines::{Lines, Piece, run};
use crate::op::{Back, Op, Shape, View};
use crate::pattern::Pattern;
use crate::tape::{Tape, Var};

/// The inputs are the scores of rows, those of columns, and what is summed.
pub(super) struct GraphAttention<'a> {
    arena: &'a Arena,
    pub(super) pattern: Arc<Pattern>,
    /// What sums of scores below zero are multiplied by; not negative.
    pub(super) slope: f32,
}

/// A piece and what belongs to it: shares of entries, rows of the output, and what a segment notes about
/// itself, the largest score and the sum of exponentials of each head; and room for another sum.
struct Job<'p, 'j> {
    piece: &'p Piece,
    shares: &'j mut [f32],
    output: &'j mut [f32],
    about: &'j mut [f32],
}

/// Relates the segments of one line to it: their sums become the factors they are to be multiplied by.
fn relate(segments: &mut [Job<'_, '_>], heads: usize) {
    for head in 0..heads {
        let largest =
            segments.iter().fold(f32::NEG_INFINITY, |largest, segment| largest.max(segment.about[head]));
        let mut sum = 0.0;
        for segment in &mut *segments {
            segment.about[head] = (segment.about[head] - largest).exp();
            sum += segment.about[head] * segment.about[heads + head];
        }
        for segment in &mut *segments {
            segment.about[heads + head] = segment.about[head] / sum;
        }
    }
}

impl GraphAttention<'_> {
    fn scores<'v>(&'v self, inputs: &[View<'v>]) -> Scores<'v> {
        Scores {
            lines: self.pattern.by_row(),
            left: inputs[0].values,
            right: inputs[1].values,
            heads: inputs[0].shape.columns,
            slope: self.slope,
            x: inputs[2].values,
            width: inputs[2].shape.columns,
        }
    }

    /// Runs `work` for every piece of `lines` with rows for its lines of two matrices, to which it is to add;
    /// lines that were cut are put together in order.
    fn by_line(
        &self,
        lines: &Lines,
        (one, one_width): (&mut [f32], usize),
        (other, other_width): (&mut [f32], usize),
        work: impl Fn(&Piece, &mut [f32], &mut [f32]) + Sync + Send,
    ) {
        let mut one_scratch = self.arena.zeros(lines.segments() * one_width);
        let mut other_scratch = self.arena.zeros(lines.segments() * other_width);
        let (one_jobs, one_cuts) = lines.deal_lines(one_width, one, &mut one_scratch);
        let (other_jobs, other_cuts) = lines.deal_lines(other_width, other, &mut other_scratch);
        run(one_jobs.into_iter().zip(other_jobs).collect(), |((piece, one), (_, other))| {
            work(piece, one, other);
        });
        add_segments(one_cuts, &one_scratch, true);
        add_segments(other_cuts, &other_scratch, true);
        self.arena.give(one_scratch);
        self.arena.give(other_scratch);
    }
}

impl Op for GraphAttention<'_> {
    fn name(&self) -> &'static str {
        "graph attention"
    }

    fn stage(&self) -> Stage {
        Stage::Aggregation
    }

    fn shape(&self, inputs: &[Shape]) -> Result<Shape> {
        let [left, right, x] = expect_inputs(self.name(), inputs)?;
        let heads = left.columns;
        expect_shape(self.name(), "the left side", left, Shape::new(self.pattern.rows(), heads))?;
        expect_shape(self.name(), "the right side", right, Shape::new(self.pattern.columns(), heads))?;
        expect_shape(self.name(), "x", x, Shape::new(self.pattern.columns(), x.columns))?;
        expect_heads(self.name(), x.columns, heads)?;
        if !(self.slope >= 0.0 && self.slope.is_finite()) {
            return Err(Error::settings("slope", format!("{} is not a number from zero up", self.slope)));
        }
        Ok(Shape::new(self.pattern.rows(), x.columns))
    }

    /// The shares, negative where the score is.
    fn saved(&self, inputs: &[Shape]) -> usize {
        // On a GPU a number of each row, of which there may be more than entries.
        self.pattern.entries().max(self.pattern.rows()) * inputs[0].columns
    }

    /// Of every entry the shares, then the gradients of the scores.
    fn scratch(&self, inputs: &[Shape]) -> usize {
        2 * self.pattern.entries() * inputs[0].columns
    }

    fn forward(&self, inputs: &[View<'_>], output: &mut [f32], saved: &mut [f32]) -> Result<()> {
        let scores = self.scores(inputs);
        let (lines, heads, width) = (scores.lines, scores.heads, scores.width);
        if width == 0 {
            return Ok(());
        }
        let mut about = self.arena.take(lines.pieces() * 3 * heads);
        let mut scratch = self.arena.take(lines.segments() * width);
        let (outputs, cuts) = lines.deal_lines(width, output, &mut scratch);
        let parts = lines.deal_entries(heads, saved).into_iter().zip(outputs);
        let mut jobs: Vec<Job<'_, '_>> = parts
            .zip(about.chunks_exact_mut(3 * heads))
            .map(|(((piece, shares), (_, output)), about)| Job { piece, shares, output, about })
            .collect();
        run(jobs.iter_mut().collect(), |Job { piece, shares, output, about }| {
            attend(&scores, piece, shares, about, output);
        });
        for segments in jobs.chunk_by_mut(|a, b| a.piece.is_segment && a.piece.lines == b.piece.lines) {
            if segments[0].piece.is_segment {
                relate(segments, heads);
            }
        }
        let segments = jobs.into_iter().filter(|job| job.piece.is_segment).collect();
        run(segments, |Job { shares, output, about, .. }: Job<'_, '_>| {
            scale(shares, &about[heads..2 * heads]);
            scale_parts(output, &about[heads..2 * heads]);
        });
        add_segments(cuts, &scratch, false);
        self.arena.give(scratch);
        self.arena.give(about);
        Ok(())
    }

    fn backward(&self, mut back: Back<'_, '_>) -> Result<()> {
        let scores = self.scores(back.inputs);
        let (heads, width) = (scores.heads, scores.width);
        if width == 0 {
            return Ok(());
        }
        let kept = Kept { shares: back.saved, output: back.output.values, upstream: back.upstream };
        let pairs = std::mem::take(&mut back.scratch);
        // Where no gradient is wanted it is computed all the same, which happens in tests alone.
        let mut unasked = [0, 1, 2].map(|index| match back.gradients[index] {
            Some(_) => self.arena.take(0),
            None => self.arena.zeros(back.inputs[index].shape.len()),
        });
        let [left, right, x] = &mut unasked;
        let left = back.take(0).unwrap_or(left);
        let right = back.take(1).unwrap_or(right);
        let x = back.take(2).unwrap_or(x);

        let lines = scores.lines;
        let mut scratch = self.arena.zeros(lines.segments() * heads);
        let (jobs, cuts) = lines.deal_lines(heads, left, &mut scratch);
        let jobs = jobs.into_iter().zip(lines.deal_entries(2 * heads, pairs)).collect();
        run(jobs, |((piece, left), (_, pairs))| back_by_row(&scores, &kept, piece, left, pairs));
        add_segments(cuts, &scratch, true);
        self.arena.give(scratch);

        let (lines, pairs) = (self.pattern.by_column(), &*pairs);
        self.by_line(lines, (x, width), (right, heads), |piece, x, right| {
            back_by_column(&Scores { lines, ..scores }, back.upstream, pairs, piece, x, right);
        });
        unasked.into_iter().for_each(|buffer| self.arena.give(buffer));
        Ok(())
    }

    fn holds(&self, estimate: &MemoryEstimate, back: bool) {
        if back { self.pattern.by_column() } else { self.pattern.by_row() }.hold(estimate);
    }

    fn cuda(&self, call: cuda::Call<'_>) -> Result<()> {
        self.forward_on(&call)
    }

    fn cuda_back(&self, back: cuda::Back<'_>) -> Result<()> {
        self.backward_on(&back)
    }
}

impl Tape<'_> {
    /// For each row and head the sum of its neighbours' parts of `x`, by their shares: the softmax over the
    /// entries of the row of `left` at the row plus `right` at the column, times `slope` where that is
    /// negative.
    pub fn graph_attention(
        &mut self,
        pattern: Arc<Pattern>,
        left: Var,
        right: Var,
        x: Var,
        slope: f32,
    ) -> Result<Var> {
        let arena = self.arena();
        self.apply(GraphAttention { arena, pattern, slope }, &[left, right, x])
    }
}
