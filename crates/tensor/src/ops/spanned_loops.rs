//! The loops of graph attention at consecutive snapshots, over the entries of one piece.

use super::aggregate::AHEAD;
use super::graph_attention_loops::by_heads;
use crate::arena::Buffer;
use crate::lines::{Lines, Piece};
use crate::simd::{exp, fma, prefetch_row, simd};
use crate::spans::Span;

/// Scores of entries, the snapshots that have them, and what is summed by them.
#[derive(Clone, Copy)]
pub(super) struct Spanned<'a> {
    /// The lines.
    pub lines: &'a Lines,
    /// The snapshots of each entry, in the original order.
    pub spans: &'a [Span],
    /// How many snapshots there are.
    pub count: usize,
    /// Scores of rows.
    pub left: &'a [f32],
    /// Scores of columns.
    pub right: &'a [f32],
    /// The largest of those.
    pub largest: &'a [f32],
    /// How many each has.
    pub heads: usize,
    /// What sums below zero are multiplied by.
    pub slope: f32,
    /// Rows that are summed.
    pub x: &'a [f32],
    /// How wide they are.
    pub width: usize,
}

impl Spanned<'_> {
    #[inline(always)]
    fn score(&self, sum: f32) -> f32 {
        if sum > 0.0 { sum } else { self.slope * sum }
    }

    /// Whether all snapshots have an entry.
    #[inline(always)]
    fn is_in_all(&self, span: Span) -> bool {
        span.first == 0 && usize::from(span.end) == self.count
    }
}

/// Of each snapshot the rows of a piece: sums, and the sums of exponentials that they are to be divided by.
pub(super) struct Sums<'j, 'r> {
    pub sums: &'r mut [&'j mut [f32]],
    pub wholes: &'r mut [&'j mut [f32]],
}

/// Divides the parts of a row by numbers, of which the inverses stay; nothing by nothing is nothing.
pub(super) fn divide(row: &mut [f32], whole: &mut [f32]) {
    let part = row.len() / whole.len();
    for (row, whole) in row.chunks_exact_mut(part).zip(whole) {
        *whole = if *whole > 0.0 { 1.0 / *whole } else { 0.0 };
        row.iter_mut().for_each(|value| *value *= *whole);
    }
}

simd! {
    /// The exponentials of entries, and of each snapshot what its entries come to: of whole lines divided by
    /// the sums of exponentials, of segments not.
    pub(super) fn attend(
        spanned: &Spanned<'_>,
        piece: &Piece,
        weights: &mut [f32],
        sums: &mut Sums<'_, '_>,
    ) = attend_body;
}

#[inline(always)]
fn attend_body<const FUSED: bool>(
    spanned: &Spanned<'_>,
    piece: &Piece,
    weights: &mut [f32],
    sums: &mut Sums<'_, '_>,
) {
    by_heads!(spanned.heads, distances::<FUSED>(spanned, piece, weights));
    // Over all lines at once: lines are too short and heads too few to fill a vector.
    for weight in weights.iter_mut() {
        *weight = exp::<FUSED>(-weight.abs()).copysign(*weight);
    }
    by_heads!(spanned.heads, add_up::<FUSED>(spanned, piece, weights, sums));
}

/// How far each score is below what no score of its row exceeds, negative where the score is.
#[inline(always)]
fn distances<const FUSED: bool>(spanned: &Spanned<'_>, piece: &Piece, weights: &mut [f32], heads: usize) {
    let (others, first) = (spanned.lines.others(), piece.entries.start);
    for line in piece.lines.clone() {
        let left = &spanned.left[line * heads..(line + 1) * heads];
        for k in spanned.lines.entries(piece, line) {
            let right = &spanned.right[others[k] as usize * heads..][..heads];
            let weights = &mut weights[(k - first) * heads..][..heads];
            for head in 0..heads {
                let sum = left[head] + right[head];
                let highest = spanned.score(left[head] + spanned.largest[head]);
                let distance = highest - spanned.score(sum);
                weights[head] = if sum > 0.0 { distance } else { -distance };
            }
        }
    }
}

#[inline(always)]
fn add_up<const FUSED: bool>(
    spanned: &Spanned<'_>,
    piece: &Piece,
    weights: &[f32],
    Sums { sums, wholes }: &mut Sums<'_, '_>,
    heads: usize,
) {
    let Spanned { lines, spans, x, width, .. } = *spanned;
    let (others, first) = (lines.others(), piece.entries.start);
    // What all snapshots have is summed up once. One list for each: those of a row are few.
    let (mut of_all, mut whole_of_all) = (vec![0.0; width], vec![0.0; heads]);
    for (number, line) in piece.lines.clone().enumerate() {
        let (wide, by_head) = (number * width..(number + 1) * width, number * heads..(number + 1) * heads);
        of_all.fill(0.0);
        whole_of_all.fill(0.0);
        sums.iter_mut().for_each(|rows| rows[wide.clone()].fill(0.0));
        wholes.iter_mut().for_each(|rows| rows[by_head.clone()].fill(0.0));
        for k in lines.entries(piece, line) {
            prefetch_row(x, others[(k + AHEAD).min(others.len() - 1)] as usize * width, width);
            let x = &x[others[k] as usize * width..][..width];
            let weights = &weights[(k - first) * heads..][..heads];
            if spanned.is_in_all(spans[k]) {
                add_weighed::<FUSED>(weights, x, &mut of_all, heads);
                add_weights(weights, &mut whole_of_all);
                continue;
            }
            for at in spans[k].first..spans[k].end {
                add_weighed::<FUSED>(weights, x, &mut sums[usize::from(at)][wide.clone()], heads);
                add_weights(weights, &mut wholes[usize::from(at)][by_head.clone()]);
            }
        }
        for (sums, wholes) in sums.iter_mut().zip(wholes.iter_mut()) {
            let (sums, wholes) = (&mut sums[wide.clone()], &mut wholes[by_head.clone()]);
            add(&of_all, sums);
            add(&whole_of_all, wholes);
            if !piece.is_segment {
                divide(sums, wholes);
            }
        }
    }
}

/// Adds a row whose parts are multiplied by the sizes of numbers.
#[inline(always)]
fn add_weighed<const FUSED: bool>(weights: &[f32], row: &[f32], sum: &mut [f32], heads: usize) {
    let part = row.len() / heads;
    for ((weight, row), sum) in weights.iter().zip(row.chunks_exact(part)).zip(sum.chunks_exact_mut(part)) {
        let weight = weight.abs();
        row.iter().zip(sum).for_each(|(value, sum)| *sum = fma::<FUSED>(weight, *value, *sum));
    }
}

#[inline(always)]
fn add_weights(weights: &[f32], sum: &mut [f32]) {
    weights.iter().zip(sum).for_each(|(weight, sum)| *sum += weight.abs());
}

#[inline(always)]
fn add(row: &[f32], sum: &mut [f32]) {
    row.iter().zip(sum).for_each(|(value, sum)| *sum += value);
}

/// Some rows of a snapshot on the way back.
pub(super) struct Gone<'a> {
    pub upstream: &'a [f32],
    pub output: &'a [f32],
    /// One over the sums of exponentials.
    pub inverse: &'a [f32],
    /// What was kept of the snapshot behind it.
    pub later: Option<[&'a [f32]; 2]>,
    /// Whether gradients of a row are summed up.
    pub alike: &'a [bool],
    pub heads: usize,
}

simd! {
    /// The gradients of sums and of the sums of exponentials, with those of later snapshots where they are
    /// summed up.
    pub(super) fn go_back(gone: &Gone<'_>, sums: &mut [f32], wholes: &mut [f32]) = go_back_body;
}

#[inline(always)]
fn go_back_body<const FUSED: bool>(gone: &Gone<'_>, sums: &mut [f32], wholes: &mut [f32]) {
    by_heads!(gone.heads, go_rows_back::<FUSED>(gone, sums, wholes));
}

#[inline(always)]
fn go_rows_back<const FUSED: bool>(gone: &Gone<'_>, sums: &mut [f32], wholes: &mut [f32], heads: usize) {
    let width = sums.len() / gone.alike.len();
    let part = width / heads;
    for (row, &alike) in gone.alike.iter().enumerate() {
        for head in 0..heads {
            let (one, at) = (row * heads + head, row * width + head * part);
            let (inverse, part) = (gone.inverse[one], at..at + part);
            let (upstream, output) = (&gone.upstream[part.clone()], &gone.output[part.clone()]);
            let (sums, later) = (&mut sums[part.clone()], gone.later.filter(|_| alike));
            wholes[one] =
                dot::<FUSED>(upstream, output) * inverse + later.map_or(0.0, |[_, wholes]| wholes[one]);
            match later {
                Some([later, _]) => {
                    let rows = sums.iter_mut().zip(upstream).zip(&later[part]);
                    rows.for_each(|((sum, up), later)| *sum = fma::<FUSED>(*up, inverse, *later));
                }
                None => sums.iter_mut().zip(upstream).for_each(|(sum, up)| *sum = up * inverse),
            }
        }
    }
}

/// Lanes in which products are summed.
const LANES: usize = 8;

#[inline(always)]
fn dot<const FUSED: bool>(one: &[f32], other: &[f32]) -> f32 {
    let ((one, one_rest), (other, other_rest)) = (one.as_chunks::<LANES>(), other.as_chunks::<LANES>());
    let mut sums = [0.0; LANES];
    for (one, other) in one.iter().zip(other) {
        for lane in 0..LANES {
            sums[lane] = fma::<FUSED>(one[lane], other[lane], sums[lane]);
        }
    }
    for ((sum, one), other) in sums.iter_mut().zip(one_rest).zip(other_rest) {
        *sum = fma::<FUSED>(*one, *other, *sum);
    }
    let quarters = [0, 1, 2, 3].map(|lane| sums[lane] + sums[lane + 4]);
    (quarters[0] + quarters[2]) + (quarters[1] + quarters[3])
}

/// What was kept of the gradients of each snapshot, from the first on.
pub(super) struct Gradients<'a> {
    pub of: &'a [[Buffer; 2]],
    /// The exponentials of the entries.
    pub weights: &'a [f32],
    /// Whether those of a row are summed up.
    pub alike: &'a [bool],
}

impl Gradients<'_> {
    /// The gradients that an entry of a row gets from its snapshots: of sums, or (1) of exponentials.
    #[inline(always)]
    fn get<'r>(
        &'r self,
        row: usize,
        span: Span,
        which: usize,
        width: usize,
        room: &'r mut [f32],
    ) -> &'r [f32] {
        let of = |at: usize| &self.of[at][which][row * width..(row + 1) * width];
        let (first, end) = (usize::from(span.first), usize::from(span.end));
        if self.alike[row] && end == self.of.len() {
            return of(first);
        }
        let room = &mut room[..width];
        if self.alike[row] {
            let both = of(first).iter().zip(of(end));
            room.iter_mut().zip(both).for_each(|(room, (one, other))| *room = one - other);
        } else {
            room.fill(0.0);
            (first..end).for_each(|at| add(of(at), room));
        }
        room
    }
}

simd! {
    /// Writes the gradient of the score of each entry, and adds it to that of its row.
    pub(super) fn back_by_row(
        spanned: &Spanned<'_>,
        gradients: &Gradients<'_>,
        piece: &Piece,
        left: &mut [f32],
        scores: &mut [f32],
    ) = back_by_row_body;
}

#[inline(always)]
fn back_by_row_body<const FUSED: bool>(
    spanned: &Spanned<'_>,
    gradients: &Gradients<'_>,
    piece: &Piece,
    left: &mut [f32],
    scores: &mut [f32],
) {
    by_heads!(spanned.heads, back_rows::<FUSED>(spanned, gradients, piece, left, scores));
}

#[inline(always)]
fn back_rows<const FUSED: bool>(
    spanned: &Spanned<'_>,
    gradients: &Gradients<'_>,
    piece: &Piece,
    left: &mut [f32],
    scores: &mut [f32],
    heads: usize,
) {
    let Spanned { lines, spans, x, width, slope, .. } = *spanned;
    let (others, part, first) = (lines.others(), width / heads, piece.entries.start);
    let (mut sum_room, mut whole_room) = (vec![0.0; width], vec![0.0; heads]);
    for (line, left) in piece.lines.clone().zip(left.chunks_exact_mut(heads)) {
        for k in lines.entries(piece, line) {
            prefetch_row(x, others[(k + AHEAD).min(others.len() - 1)] as usize * width, width);
            let x = &x[others[k] as usize * width..][..width];
            let sums = gradients.get(line, spans[k], 0, width, &mut sum_room);
            let wholes = gradients.get(line, spans[k], 1, heads, &mut whole_room);
            let (weights, scores) =
                (&gradients.weights[k * heads..][..heads], &mut scores[(k - first) * heads..][..heads]);
            for head in 0..heads {
                let mine = head * part..(head + 1) * part;
                let to_weight = dot::<FUSED>(&sums[mine.clone()], &x[mine]) - wholes[head];
                let slope = if weights[head].is_sign_positive() { 1.0 } else { slope };
                scores[head] = to_weight * weights[head].abs() * slope;
                left[head] += scores[head];
            }
        }
    }
}

simd! {
    /// Adds to the gradients of columns: those of `x` by exponentials, those of scores.
    pub(super) fn back_by_column(
        spanned: &Spanned<'_>,
        gradients: &Gradients<'_>,
        scores: &[f32],
        piece: &Piece,
        x: &mut [f32],
        right: &mut [f32],
    ) = back_by_column_body;
}

#[inline(always)]
fn back_by_column_body<const FUSED: bool>(
    spanned: &Spanned<'_>,
    gradients: &Gradients<'_>,
    scores: &[f32],
    piece: &Piece,
    x: &mut [f32],
    right: &mut [f32],
) {
    by_heads!(spanned.heads, back_columns::<FUSED>(spanned, gradients, scores, piece, x, right));
}

#[inline(always)]
fn back_columns<const FUSED: bool>(
    spanned: &Spanned<'_>,
    gradients: &Gradients<'_>,
    scores: &[f32],
    piece: &Piece,
    x: &mut [f32],
    right: &mut [f32],
    heads: usize,
) {
    let Spanned { lines, spans, width, .. } = *spanned;
    // Columns are in another order than the entries by definition.
    let (others, origins) = (lines.others(), lines.origins().unwrap_or_default());
    let mut room = vec![0.0; width];
    for ((line, x), right) in
        piece.lines.clone().zip(x.chunks_exact_mut(width)).zip(right.chunks_exact_mut(heads))
    {
        for k in lines.entries(piece, line) {
            let ahead = (k + AHEAD).min(others.len() - 1);
            let later = usize::from(spans[origins[ahead] as usize].first);
            prefetch_row(&gradients.of[later][0], others[ahead] as usize * width, width);
            let origin = origins[k] as usize;
            let row = gradients.get(others[k] as usize, spans[origin], 0, width, &mut room);
            add_weighed::<FUSED>(&gradients.weights[origin * heads..][..heads], row, x, heads);
            add(&scores[origin * heads..][..heads], right);
        }
    }
}
