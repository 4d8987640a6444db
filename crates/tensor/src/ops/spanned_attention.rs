//! Graph attention at consecutive snapshots whose vertices have the same rows: through the edges of all of
//! them once (REAL, section 4.1, equations 5 to 8).
//!
//! The score of an edge is the same wherever the edge is, so it is computed once, and its neighbour's row is
//! fetched once and added to the sum of every snapshot that has the edge. The softmax of a row is of the
//! edges of one snapshot: sums of exponentials are kept for each. They are taken relative to a number that is
//! no smaller than any score of the row, whichever snapshot it is from; the caller sees to it that no
//! exponential vanishes beside it.
//!
//! Backwards, an edge needs the sum over its snapshots of the gradients of its row. The gradients come in
//! from the last snapshot to the first, and are summed up as they come: that sum is then a difference of two
//! rows. Where sums of exponentials of a row differ so much that little would be left of a difference, the
//! gradients stay by themselves and are added up for each edge.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rayon::prelude::*;

use super::ROWS;
use super::aggregate::add_segments;
use super::spanned_loops::{
    Gone, Gradients, Spanned, Sums, attend, back_by_column, back_by_row, divide, go_back,
};
use super::spmm::expect_heads;
use crate::arena::{Arena, Buffer};
use crate::clock::Stage;
use crate::error::{Error, Result, expect_inputs, expect_shape};
use crate::lines::run;
use crate::op::{Back, Op, Shape, View};
use crate::spans::Spans;
use crate::tape::{Tape, Var};

/// How far scores of a row may be apart: beyond, the exponential of the least could be lost beside the
/// largest, which may be of another snapshot.
const APART: f32 = 40.0;

/// How far sums of exponentials of a row may be apart for gradients to be summed up: two digits of a
/// difference are lost at most.
const ALIKE: f32 = 16.0;

/// What the operations of the snapshots have in common.
struct Shared<'a> {
    arena: &'a Arena,
    spans: Arc<Spans>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The outputs of the snapshots, until each is taken.
    outputs: Vec<Option<Buffer>>,
    /// Of each snapshot, row and head, one over the sum of exponentials.
    inverses: Vec<Buffer>,
    /// Whether the sums of exponentials of a row are alike at all snapshots.
    alike: Vec<bool>,
    /// Of each snapshot, gradients of sums, and of their exponentials: with those of later ones where they
    /// are summed up.
    gradients: Vec<[Buffer; 2]>,
}

impl Shared<'_> {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Shared<'_> {
    fn drop(&mut self) {
        let state = std::mem::take(&mut *self.state());
        let rest = state.outputs.into_iter().flatten().chain(state.inverses);
        rest.chain(state.gradients.into_iter().flatten()).for_each(|buffer| self.arena.give(buffer));
    }
}

/// All snapshots. Its inputs are the scores of rows, those of columns, and what is summed; its output is of
/// no use.
struct All<'a> {
    shared: Arc<Shared<'a>>,
    slope: f32,
    /// Of each head the largest score of a column.
    largest: Vec<f32>,
}

/// One snapshot of them.
struct One<'a> {
    shared: Arc<Shared<'a>>,
    number: usize,
    shape: Shape,
}

impl All<'_> {
    fn spanned<'v>(&'v self, inputs: &[View<'v>]) -> Spanned<'v> {
        Spanned {
            lines: self.shared.spans.pattern().by_row(),
            spans: self.shared.spans.spans(),
            count: self.shared.spans.count(),
            left: inputs[0].values,
            right: inputs[1].values,
            largest: &self.largest,
            heads: inputs[0].shape.columns,
            slope: self.slope,
            x: inputs[2].values,
            width: inputs[2].shape.columns,
        }
    }
}

/// A matrix for each snapshot, divided into pieces of rows: a list of rows for each piece.
fn by_piece<T>(matrices: Vec<Vec<T>>, pieces: usize) -> Vec<Vec<T>> {
    let mut lists: Vec<Vec<T>> = (0..pieces).map(|_| Vec::with_capacity(matrices.len())).collect();
    for matrix in matrices {
        lists.iter_mut().zip(matrix).for_each(|(list, rows)| list.push(rows));
    }
    lists
}

impl Op for All<'_> {
    fn name(&self) -> &'static str {
        "graph attention of snapshots"
    }

    fn stage(&self) -> Stage {
        Stage::Aggregation
    }

    fn shape(&self, inputs: &[Shape]) -> Result<Shape> {
        let ([left, right, x], pattern) = (expect_inputs(self.name(), inputs)?, self.shared.spans.pattern());
        let heads = left.columns;
        expect_shape(self.name(), "the left side", left, Shape::new(pattern.rows(), heads))?;
        expect_shape(self.name(), "the right side", right, Shape::new(pattern.columns(), heads))?;
        expect_shape(self.name(), "x", x, Shape::new(pattern.columns(), x.columns))?;
        expect_heads(self.name(), x.columns, heads)?;
        Ok(Shape::SCALAR)
    }

    /// The exponentials of the entries, negative where the score is.
    fn saved(&self, inputs: &[Shape]) -> usize {
        self.shared.spans.pattern().entries() * inputs[0].columns
    }

    /// The gradients of the scores.
    fn scratch(&self, inputs: &[Shape]) -> usize {
        self.shared.spans.pattern().entries() * inputs[0].columns
    }

    fn forward(&self, inputs: &[View<'_>], output: &mut [f32], saved: &mut [f32]) -> Result<()> {
        let spanned = self.spanned(inputs);
        let (arena, lines) = (self.shared.arena, spanned.lines);
        let (heads, width, count) = (spanned.heads, spanned.width, spanned.count);
        let rows = lines.count();
        let take = |length: usize| -> Vec<Buffer> { (0..count).map(|_| arena.take(length)).collect() };
        let (mut outputs, mut inverses) = (take(rows * width), take(rows * heads));
        let (mut cut_outputs, mut cut_inverses) =
            (take(lines.segments() * width), take(lines.segments() * heads));
        let (mut sums, mut sum_cuts) = (Vec::with_capacity(count), Vec::with_capacity(count));
        for (output, scratch) in outputs.iter_mut().zip(&mut cut_outputs) {
            let (jobs, cuts) = lines.deal_lines(width, output, scratch);
            sums.push(jobs.into_iter().map(|(_, rows)| rows).collect());
            sum_cuts.push(cuts);
        }
        let (mut whole, mut whole_cuts) = (Vec::with_capacity(count), Vec::with_capacity(count));
        for (inverse, scratch) in inverses.iter_mut().zip(&mut cut_inverses) {
            let (jobs, cuts) = lines.deal_lines(heads, inverse, scratch);
            whole.push(jobs.into_iter().map(|(_, rows)| rows).collect());
            whole_cuts.push(cuts);
        }
        let lists = by_piece(sums, lines.pieces()).into_iter().zip(by_piece(whole, lines.pieces()));
        let jobs = lines.deal_entries(heads, saved).into_iter().zip(lists).collect();
        run(jobs, |((piece, weights), (mut sums, mut wholes))| {
            attend(&spanned, piece, weights, &mut Sums { sums: &mut sums, wholes: &mut wholes });
        });
        for ((sums, wholes), (sum_scratch, whole_scratch)) in
            sum_cuts.into_iter().zip(whole_cuts).zip(cut_outputs.iter().zip(&cut_inverses))
        {
            for ((sum, segments), (whole, _)) in sums.into_iter().zip(wholes) {
                add_segments(vec![(&mut *sum, segments.clone())], sum_scratch, false);
                add_segments(vec![(&mut *whole, segments)], whole_scratch, false);
                divide(sum, whole);
            }
        }
        cut_outputs.into_iter().chain(cut_inverses).for_each(|buffer| arena.give(buffer));
        let is_alike = |row: usize| {
            let of = |head: usize| inverses.iter().map(move |inverse| inverse[row * heads + head]);
            (0..heads).all(|head| {
                let (least, most) = of(head).fold((f32::MAX, 0.0f32), |(a, b), one| (a.min(one), b.max(one)));
                most <= ALIKE * least
            })
        };
        let alike = (0..rows).into_par_iter().map(is_alike).collect();
        output.fill(0.0);
        let outputs = outputs.into_iter().map(Some).collect();
        *self.shared.state() = State { outputs, inverses, alike, gradients: Vec::new() };
        Ok(())
    }

    fn backward(&self, mut back: Back<'_, '_>) -> Result<()> {
        let spanned = self.spanned(back.inputs);
        let (arena, lines, heads, width) = (self.shared.arena, spanned.lines, spanned.heads, spanned.width);
        let mut state = self.shared.state();
        // They came from the last to the first.
        let mut gradients = std::mem::take(&mut state.gradients);
        gradients.reverse();
        if gradients.len() != spanned.count {
            return Err(Error::settings("graph attention", "gradients of some snapshots are missing"));
        }
        let kept = Gradients { of: &gradients, weights: back.saved, alike: &state.alike };
        let scores = std::mem::take(&mut back.scratch);
        // Where no gradient is wanted it is computed all the same, which happens in tests alone.
        let mut unasked = [0, 1, 2].map(|index| match back.gradients[index] {
            Some(_) => arena.take(0),
            None => arena.zeros(back.inputs[index].shape.len()),
        });
        let [left, right, x] = &mut unasked;
        let left = back.take(0).unwrap_or(left);
        let right = back.take(1).unwrap_or(right);
        let x = back.take(2).unwrap_or(x);

        let mut scratch = arena.zeros(lines.segments() * heads);
        let (jobs, cuts) = lines.deal_lines(heads, left, &mut scratch);
        let jobs = jobs.into_iter().zip(lines.deal_entries(heads, scores)).collect();
        run(jobs, |((piece, left), (_, scores))| {
            back_by_row(&spanned, &kept, piece, left, scores);
        });
        add_segments(cuts, &scratch, true);
        arena.give(scratch);

        let columns = self.shared.spans.pattern().by_column();
        let spanned = Spanned { lines: columns, ..spanned };
        let mut x_scratch = arena.zeros(columns.segments() * width);
        let mut right_scratch = arena.zeros(columns.segments() * heads);
        let (x_jobs, x_cuts) = columns.deal_lines(width, x, &mut x_scratch);
        let (right_jobs, right_cuts) = columns.deal_lines(heads, right, &mut right_scratch);
        let scores = &*scores;
        run(x_jobs.into_iter().zip(right_jobs).collect(), |((piece, x), (_, right))| {
            back_by_column(&spanned, &kept, scores, piece, x, right);
        });
        add_segments(x_cuts, &x_scratch, true);
        add_segments(right_cuts, &right_scratch, true);
        [x_scratch, right_scratch].into_iter().chain(unasked).for_each(|buffer| arena.give(buffer));
        gradients.into_iter().flatten().for_each(|buffer| arena.give(buffer));
        Ok(())
    }
}

impl Op for One<'_> {
    fn name(&self) -> &'static str {
        "graph attention of a snapshot"
    }

    fn stage(&self) -> Stage {
        Stage::Aggregation
    }

    fn shape(&self, _: &[Shape]) -> Result<Shape> {
        Ok(self.shape)
    }

    /// The gradients of all snapshots are waited for, also of one that nothing follows from.
    fn collective(&self) -> bool {
        true
    }

    fn made(&self) -> Option<Buffer> {
        self.shared.state().outputs.get_mut(self.number)?.take()
    }

    fn forward(&self, _: &[View<'_>], _: &mut [f32], _: &mut [f32]) -> Result<()> {
        Err(Error::settings("graph attention", "the output of a snapshot is made with those of all"))
    }

    fn backward(&self, back: Back<'_, '_>) -> Result<()> {
        let Shape { rows, columns: width } = self.shape;
        let arena = self.shared.arena;
        let mut state = self.shared.state();
        let inverse = &state.inverses[self.number];
        let heads = inverse.len() / rows.max(1);
        let (mut sums, mut wholes) = (arena.take(rows * width), arena.take(rows * heads));
        let (later, alike) = (state.gradients.last(), &state.alike);
        let chunks = sums.par_chunks_mut(ROWS * width).zip(wholes.par_chunks_mut(ROWS * heads));
        chunks.enumerate().for_each(|(chunk, (sums, wholes))| {
            let rows = chunk * ROWS..chunk * ROWS + sums.len() / width;
            let wide = rows.start * width..rows.end * width;
            let by_head = rows.start * heads..rows.end * heads;
            let back = Gone {
                upstream: &back.upstream[wide.clone()],
                output: &back.output.values[wide.clone()],
                inverse: &inverse[by_head.clone()],
                later: later.map(|[sums, wholes]| [&sums[wide], &wholes[by_head]]),
                alike: &alike[rows],
                heads,
            };
            go_back(&back, sums, wholes);
        });
        state.gradients.push([sums, wholes]);
        Ok(())
    }
}

impl Tape<'_> {
    /// [Graph attention](Tape::graph_attention) at each of several snapshots with these entries, whose scores
    /// and rows are the same; nothing where the scores are too far apart for that, or elsewhere than in the
    /// memory of the host.
    pub fn graph_attention_of_spans(
        &mut self,
        spans: Arc<Spans>,
        [left, right, x]: [Var; 3],
        slope: f32,
    ) -> Result<Option<Vec<Var>>> {
        let heads = self.shape(right).columns;
        let shape = Shape::new(spans.pattern().rows(), self.shape(x).columns);
        if !self.is_on_host() || shape.is_empty() || heads == 0 || !(0.0..=1.0).contains(&slope) {
            return Ok(None);
        }
        let (mut least, mut largest) = (vec![f32::INFINITY; heads], vec![f32::NEG_INFINITY; heads]);
        for row in self.value(right)?.chunks_exact(heads) {
            least.iter_mut().zip(row).for_each(|(least, &score)| *least = least.min(score));
            largest.iter_mut().zip(row).for_each(|(largest, &score)| *largest = largest.max(score));
        }
        // The score of an edge grows no faster than that of its column.
        if !least.iter().zip(&largest).all(|(least, largest)| largest - least <= APART) {
            return Ok(None);
        }
        let (arena, count) = (self.arena(), spans.count());
        let shared = Arc::new(Shared { arena, spans, state: Mutex::default() });
        let all = self.apply(All { shared: shared.clone(), slope, largest }, &[left, right, x])?;
        let one = |number: usize| self.apply(One { shared: shared.clone(), number, shape }, &[all]);
        (0..count).map(one).collect::<Result<Vec<Var>>>().map(Some)
    }
}
