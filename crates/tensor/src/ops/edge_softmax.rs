//! Shares of the entries of each row: positive, and one in sum, for each head by itself.
//!
//! The largest score of a row is subtracted first, so that no exponential overflows. A row that was cut into
//! segments is done in two passes: each segment by itself, relative to its own largest score, and then by the
//! factor that relates it to its row.

use std::sync::Arc;

use super::edges::{EDGES, by_segments};
use crate::arena::Arena;
use crate::clock::Stage;
use crate::cuda::{self, Launch};
use crate::error::{Error, Result, expect_inputs, expect_shape};
use crate::lines::{Lines, Piece, run};
use crate::op::{Back, Op, Shape, View};
use crate::pattern::Pattern;
use crate::simd::{exp, simd};
use crate::tape::{Tape, Var};

struct EdgeSoftmax<'a> {
    arena: &'a Arena,
    pattern: Arc<Pattern>,
}

/// A piece, what it may write to, and numbers about the last line it worked on: for a segment, those of the
/// segment.
struct Share<'p, 'j> {
    piece: &'p Piece,
    output: &'j mut [f32],
    about: &'j mut [f32],
}

/// Divides `output`, with a row for each entry, and `about`, with a row for each piece.
fn deal<'p, 'j>(
    lines: &'p Lines,
    heads: usize,
    output: &'j mut [f32],
    about: &'j mut [f32],
) -> Vec<Share<'p, 'j>> {
    let row = about.len() / lines.pieces().max(1);
    let jobs = lines.deal_entries(heads, output).into_iter().zip(about.chunks_exact_mut(row.max(1)));
    jobs.map(|((piece, output), about)| Share { piece, output, about }).collect()
}

/// The segments of each line that was cut.
fn cut_lines<'s, 'p, 'j>(shares: &'s mut [Share<'p, 'j>]) -> impl Iterator<Item = &'s mut [Share<'p, 'j>]> {
    shares
        .chunk_by_mut(|a, b| a.piece.is_segment && a.piece.lines == b.piece.lines)
        .filter(|shares| shares[0].piece.is_segment)
}

simd! {
    /// Shares of whole lines; of a segment, exponentials relative to its largest score, which and whose sum
    /// it notes.
    fn exponentials(
        lines: &Lines,
        scores: &[f32],
        heads: usize,
        share: &mut Share<'_, '_>,
    ) = exponentials_body;
}

#[inline(always)]
fn exponentials_body<const FUSED: bool>(
    lines: &Lines,
    scores: &[f32],
    heads: usize,
    share: &mut Share<'_, '_>,
) {
    let Share { piece, output, about } = share;
    let (largest, sums) = about.split_at_mut(heads);
    let first = piece.entries.start;
    let place = |line: usize| {
        let entries = lines.entries(piece, line);
        (entries.start - first) * heads..(entries.end - first) * heads
    };
    let scores = &scores[first * heads..piece.entries.end * heads];
    for line in piece.lines.clone() {
        let (scores, output) = (&scores[place(line)], &mut output[place(line)]);
        largest.fill(f32::NEG_INFINITY);
        for scores in scores.chunks_exact(heads) {
            largest.iter_mut().zip(scores).for_each(|(largest, &score)| *largest = largest.max(score));
        }
        for (output, scores) in output.chunks_exact_mut(heads).zip(scores.chunks_exact(heads)) {
            for ((output, score), largest) in output.iter_mut().zip(scores).zip(&*largest) {
                *output = score - largest;
            }
        }
    }
    // Over all lines at once: lines are too short and heads too few to fill a vector.
    output.iter_mut().for_each(|output| *output = exp::<FUSED>(*output));
    for line in piece.lines.clone() {
        let output = &mut output[place(line)];
        sums.fill(0.0);
        for output in output.chunks_exact(heads) {
            sums.iter_mut().zip(output).for_each(|(sum, value)| *sum += value);
        }
        if !piece.is_segment {
            sums.iter_mut().for_each(|sum| *sum = 1.0 / *sum);
            scale(output, sums);
        }
    }
}

#[inline(always)]
fn scale(rows: &mut [f32], factors: &[f32]) {
    for row in rows.chunks_exact_mut(factors.len()) {
        row.iter_mut().zip(factors).for_each(|(value, factor)| *value *= factor);
    }
}

/// Relates the segments of one line to it: their sums become the factors they are to be multiplied by.
fn relate(segments: &mut [Share<'_, '_>], heads: usize) {
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

/// For each head, adds the sum over entries of share times gradient.
fn mean(shares: &[f32], upstream: &[f32], sums: &mut [f32]) {
    let heads = sums.len();
    for (shares, upstream) in shares.chunks_exact(heads).zip(upstream.chunks_exact(heads)) {
        for ((sum, share), upstream) in sums.iter_mut().zip(shares).zip(upstream) {
            *sum += share * upstream;
        }
    }
}

/// Adds `share (upstream - mean)`.
fn add_gradient(shares: &[f32], upstream: &[f32], means: &[f32], gradient: &mut [f32]) {
    let heads = means.len();
    let rows = shares.chunks_exact(heads).zip(upstream.chunks_exact(heads));
    for (gradient, (shares, upstream)) in gradient.chunks_exact_mut(heads).zip(rows) {
        let numbers = shares.iter().zip(upstream).zip(means);
        for (gradient, ((share, upstream), mean)) in gradient.iter_mut().zip(numbers) {
            *gradient += share * (upstream - mean);
        }
    }
}

impl Op for EdgeSoftmax<'_> {
    fn name(&self) -> &'static str {
        "edge softmax"
    }

    fn stage(&self) -> Stage {
        Stage::Aggregation
    }

    fn shape(&self, inputs: &[Shape]) -> Result<Shape> {
        let [scores] = expect_inputs(self.name(), inputs)?;
        if scores.columns == 0 {
            return Err(Error::shape(self.name(), "the scores have no heads"));
        }
        let expected = Shape::new(self.pattern.entries(), scores.columns);
        expect_shape(self.name(), "the matrix of scores", scores, expected)?;
        Ok(expected)
    }

    fn forward(&self, inputs: &[View<'_>], output: &mut [f32], _: &mut [f32]) -> Result<()> {
        let (lines, heads) = (self.pattern.by_row(), inputs[0].shape.columns);
        let mut about = self.arena.take(lines.pieces() * 2 * heads);
        let mut shares = deal(lines, heads, output, &mut about);
        run(shares.iter_mut().collect(), |share| exponentials(lines, inputs[0].values, heads, share));
        cut_lines(&mut shares).for_each(|segments| relate(segments, heads));
        let segments = shares.iter_mut().filter(|share| share.piece.is_segment).collect();
        run(segments, |share: &mut Share<'_, '_>| scale(share.output, &share.about[heads..]));
        self.arena.give(about);
        Ok(())
    }

    fn backward(&self, mut back: Back<'_, '_>) -> Result<()> {
        let (lines, heads) = (self.pattern.by_row(), back.output.shape.columns);
        let Some(gradient) = back.take(0) else { return Ok(()) };
        let of = |entries: std::ops::Range<usize>| {
            let place = entries.start * heads..entries.end * heads;
            (&back.output.values[place.clone()], &back.upstream[place])
        };
        let mut about = self.arena.take(lines.pieces() * heads);
        let mut shares = deal(lines, heads, gradient, &mut about);
        run(shares.iter_mut().collect(), |Share { piece, output, about }| {
            for line in piece.lines.clone() {
                let entries = lines.entries(piece, line);
                let place = (entries.start - piece.entries.start) * heads
                    ..(entries.end - piece.entries.start) * heads;
                let (shares, upstream) = of(entries);
                about.fill(0.0);
                mean(shares, upstream, about);
                if !piece.is_segment {
                    add_gradient(shares, upstream, about, &mut output[place]);
                }
            }
        });
        for segments in cut_lines(&mut shares) {
            for head in 0..heads {
                let sum = segments.iter().map(|segment| segment.about[head]).sum();
                segments.iter_mut().for_each(|segment| segment.about[head] = sum);
            }
        }
        let segments = shares.iter_mut().filter(|share| share.piece.is_segment).collect();
        run(segments, |share: &mut Share<'_, '_>| {
            let (shares, upstream) = of(share.piece.entries.clone());
            add_gradient(shares, upstream, share.about, share.output);
        });
        self.arena.give(about);
        Ok(())
    }

    fn cuda(&self, call: cuda::Call<'_>) -> Result<()> {
        let (device, lines) = (call.device, self.pattern.by_row().on(call.device)?);
        let heads = call.inputs[0].shape.columns;
        let about = device.take(2 * lines.parts * heads)?;
        let [largest, sums] = about.all().split(lines.parts * heads);
        let width = (heads as i32).into();
        let arguments =
            [call.inputs[0].values.into(), width, call.output.into(), largest.into(), sums.into()];
        by_segments(device, &EDGES, "softmax", lines, &arguments)?;
        if lines.cut_lines == 0 {
            return Ok(());
        }
        let count = lines.cut_lines * heads;
        let arguments = [count.into(), lines.cuts().into(), width, largest.into(), sums.into()];
        device.run(&EDGES, "softmax_relate", &[], Launch::each(32 * count), &arguments)?;
        by_segments(device, &EDGES, "softmax_finish", lines, &[width, sums.into(), call.output.into()])
    }

    fn cuda_back(&self, back: cuda::Back<'_>) -> Result<()> {
        let Some(gradient) = back.gradients[0] else { return Ok(()) };
        let (device, lines) = (back.device, self.pattern.by_row().on(back.device)?);
        let heads = back.output.shape.columns;
        let means = device.take(lines.parts * heads)?;
        let width = (heads as i32).into();
        let arguments = [
            back.output.values.into(),
            back.upstream.into(),
            width,
            means.all().into(),
            gradient.values.into(),
            gradient.adds.into(),
        ];
        by_segments(device, &EDGES, "softmax_back", lines, &arguments)?;
        if lines.cut_lines == 0 {
            return Ok(());
        }
        let count = lines.cut_lines * heads;
        let relate = [count.into(), lines.cuts().into(), width, means.all().into()];
        device.run(&EDGES, "softmax_back_relate", &[], Launch::each(32 * count), &relate)?;
        by_segments(device, &EDGES, "softmax_back_finish", lines, &arguments)
    }
}

impl Tape<'_> {
    /// The softmax of the scores of each row's entries, for each head (column) by itself.
    pub fn edge_softmax(&mut self, pattern: Arc<Pattern>, scores: Var) -> Result<Var> {
        let arena = self.arena();
        self.apply(EdgeSoftmax { arena, pattern }, &[scores])
    }
}
