//! The largest neighbour, number by number: pooling by maximum.
//!
//! Which entry was the largest is saved for the gradient, which goes to the first of several that are equal.

use std::sync::Arc;

use super::aggregate::{AHEAD, add_segments};
use super::edges::by_segments;
use super::sums::add_parts;
use crate::arena::Arena;
use crate::clock::Stage;
use crate::cuda::{self, Source};
use crate::error::{Result, expect_inputs, expect_shape};
use crate::estimate::MemoryEstimate;
use crate::lines::{Lines, Piece, run};
use crate::op::{Back, Op, Shape, View};
use crate::pattern::Pattern;
use crate::simd::{prefetch_row, simd};
use crate::tape::{Tape, Var};

/// The kernels.
pub(crate) const ROW_MAX: Source =
    Source { name: "row_max", text: include_str!("row_max.cu"), samples: &[&[]] };

/// The number of an entry that is none.
const NONE: u32 = u32::MAX;

struct RowMax<'a> {
    arena: &'a Arena,
    pattern: Arc<Pattern>,
}

/// Whether `value` is to replace `best`. What is not a number is, so that it is not hidden.
#[inline(always)]
fn is_better(value: f32, best: f32) -> bool {
    value > best || value.is_nan()
}

simd! {
    /// The largest numbers of the lines of a piece, and the entries they are from.
    fn largest(lines: &Lines, x: View<'_>, piece: &Piece, best: &mut [f32], from: &mut [f32]) = largest_body;
}

#[inline(always)]
fn largest_body<const FUSED: bool>(
    lines: &Lines,
    x: View<'_>,
    piece: &Piece,
    best: &mut [f32],
    from: &mut [f32],
) {
    let (width, others) = (x.shape.columns, lines.others());
    let rows = best.chunks_exact_mut(width).zip(from.chunks_exact_mut(width));
    for (line, (best, from)) in piece.lines.clone().zip(rows) {
        let mut entries = lines.entries(piece, line);
        let Some(first) = entries.next() else {
            best.fill(0.0);
            from.fill(f32::from_bits(NONE));
            continue;
        };
        best.copy_from_slice(x.row(others[first] as usize));
        from.fill(f32::from_bits(first as u32));
        for k in entries {
            let ahead = others[(k + AHEAD).min(others.len() - 1)] as usize * width;
            prefetch_row(x.values, ahead, width);
            let entry = f32::from_bits(k as u32);
            for ((best, from), &value) in best.iter_mut().zip(&mut *from).zip(x.row(others[k] as usize)) {
                let better = is_better(value, *best);
                *best = if better { value } else { *best };
                *from = if better { entry } else { *from };
            }
        }
    }
}

/// What the gradient of each column is summed from.
struct Gradient<'a> {
    lines: &'a Lines,
    /// The number of each entry among the rows.
    origins: &'a [u32],
    from: View<'a>,
    upstream: View<'a>,
}

simd! {
    /// Adds the gradients of the rows in which a line's entry was the largest.
    fn add_chosen(gradient: &Gradient<'_>, piece: &Piece, output: &mut [f32]) = add_chosen_body;
}

#[inline(always)]
fn add_chosen_body<const FUSED: bool>(gradient: &Gradient<'_>, piece: &Piece, output: &mut [f32]) {
    let Gradient { lines, origins, from, upstream } = *gradient;
    for (line, output) in piece.lines.clone().zip(output.chunks_exact_mut(from.shape.columns)) {
        for k in lines.entries(piece, line) {
            let (row, entry) = (lines.others()[k] as usize, origins[k]);
            let rows = from.row(row).iter().zip(upstream.row(row));
            for (output, (from, upstream)) in output.iter_mut().zip(rows) {
                *output += if from.to_bits() == entry { *upstream } else { 0.0 };
            }
        }
    }
}

impl Op for RowMax<'_> {
    fn name(&self) -> &'static str {
        "row max"
    }

    fn stage(&self) -> Stage {
        Stage::Aggregation
    }

    fn shape(&self, inputs: &[Shape]) -> Result<Shape> {
        let [x] = expect_inputs(self.name(), inputs)?;
        expect_shape(self.name(), "x", x, Shape::new(self.pattern.columns(), x.columns))?;
        Ok(Shape::new(self.pattern.rows(), x.columns))
    }

    fn saved(&self, inputs: &[Shape]) -> usize {
        self.pattern.rows() * inputs[0].columns
    }

    fn forward(&self, inputs: &[View<'_>], output: &mut [f32], saved: &mut [f32]) -> Result<()> {
        let (x, lines) = (inputs[0], self.pattern.by_row());
        let width = x.shape.columns;
        if width == 0 {
            return Ok(());
        }
        let (mut best, mut from) =
            (self.arena.take(lines.segments() * width), self.arena.take(lines.segments() * width));
        let (jobs, cuts) = lines.deal_lines(width, output, &mut best);
        let (from_jobs, from_cuts) = lines.deal_lines(width, saved, &mut from);
        let jobs = jobs.into_iter().zip(from_jobs).collect();
        run(jobs, |((piece, best), (_, from)): (_, (_, &mut [f32]))| largest(lines, x, piece, best, from));
        for ((output, segments), (saved, _)) in cuts.into_iter().zip(from_cuts) {
            let place = segments.start * width..segments.end * width;
            let rows = best[place.clone()].chunks_exact(width).zip(from[place].chunks_exact(width));
            for (segment, (best, from)) in rows.enumerate() {
                for j in 0..width {
                    if segment == 0 || is_better(best[j], output[j]) {
                        (output[j], saved[j]) = (best[j], from[j]);
                    }
                }
            }
        }
        self.arena.give(best);
        self.arena.give(from);
        Ok(())
    }

    fn backward(&self, mut back: Back<'_, '_>) -> Result<()> {
        let (shape, lines) = (back.output.shape, self.pattern.by_column());
        let (width, origins) = (shape.columns, lines.origins().unwrap_or_default());
        let Some(x) = back.take(0).filter(|_| width > 0) else { return Ok(()) };
        let gradient = Gradient {
            lines,
            origins,
            from: View { shape, values: back.saved },
            upstream: View { shape, values: back.upstream },
        };
        let mut scratch = self.arena.zeros(lines.segments() * width);
        let (jobs, cuts) = lines.deal_lines(width, x, &mut scratch);
        run(jobs, |(piece, output)| add_chosen(&gradient, piece, output));
        add_segments(cuts, &scratch, true);
        self.arena.give(scratch);
        Ok(())
    }

    fn holds(&self, estimate: &MemoryEstimate, back: bool) {
        if back { self.pattern.by_column() } else { self.pattern.by_row() }.hold(estimate);
    }

    fn cuda(&self, call: cuda::Call<'_>) -> Result<()> {
        let (device, lines) = (call.device, self.pattern.by_row().on(call.device)?);
        let (x, width) = (call.inputs[0], call.inputs[0].shape.columns);
        if width == 0 {
            return Ok(());
        }
        let parts = device.take(2 * lines.parts * width)?;
        let [best, from] = parts.all().split(lines.parts * width);
        let arguments = [
            lines.others().into(),
            x.values.into(),
            (width as i32).into(),
            call.output.into(),
            call.saved.into(),
            best.into(),
            from.into(),
        ];
        by_segments(device, &ROW_MAX, "row_max", lines, &arguments)?;
        let arguments = [
            lines.cuts().into(),
            best.into(),
            from.into(),
            width.into(),
            call.output.into(),
            call.saved.into(),
        ];
        device.each(&ROW_MAX, "row_max_of_parts", lines.cut_lines * width, &arguments)
    }

    fn cuda_back(&self, back: cuda::Back<'_>) -> Result<()> {
        let (device, width) = (back.device, back.output.shape.columns);
        let Some(x) = back.gradients[0].filter(|_| width > 0) else { return Ok(()) };
        let lines = self.pattern.by_column_on(device)?;
        let parts = device.take(lines.parts * width)?;
        let arguments = [
            lines.others().into(),
            lines.origins().into(),
            back.saved.into(),
            back.upstream.into(),
            (width as i32).into(),
            x.values.into(),
            parts.all().into(),
            x.adds.into(),
        ];
        by_segments(device, &ROW_MAX, "row_max_back", lines, &arguments)?;
        add_parts(device, lines, (parts.all(), width), x)
    }
}

impl Tape<'_> {
    /// For each row of the pattern and each column of `x`, the largest number among the entries; zero where
    /// there are none.
    pub fn row_max(&mut self, pattern: Arc<Pattern>, x: Var) -> Result<Var> {
        let arena = self.arena();
        self.apply(RowMax { arena, pattern }, &[x])
    }
}
