//! The loops of graph attention over the entries of one piece, in the forward pass.
//!
//! They are written for any number of heads and compiled for the usual ones, where the numbers of an entry
//! are a register.

use super::aggregate::{AHEAD, CHUNK, Entries, Sum, Take, sum_lines};
use crate::lines::{Lines, Piece};
use crate::simd::{exp, prefetch, simd};

/// Scores of entries, and what is summed by them.
#[derive(Clone, Copy)]
pub(super) struct Scores<'a> {
    /// The lines.
    pub lines: &'a Lines,
    /// Scores of rows.
    pub left: &'a [f32],
    /// Scores of columns.
    pub right: &'a [f32],
    /// How many each has.
    pub heads: usize,
    /// What sums below zero are multiplied by.
    pub slope: f32,
    /// Rows that are summed.
    pub x: &'a [f32],
    /// How wide they are.
    pub width: usize,
}

impl<'a> Scores<'a> {
    /// A sum over the lines.
    #[inline(always)]
    pub fn sum(&self, x: &'a [f32]) -> Sum<'a> {
        Sum {
            lines: self.lines,
            take: Take::Other,
            values: Entries::Ones,
            heads: self.heads,
            x,
            width: self.width,
        }
    }
}

/// Calls `$body` with the number of heads as a constant where it is a usual one.
macro_rules! by_heads {
    ($heads:expr, $body:ident::<$fused:ident>($($argument:expr),*)) => {
        match $heads {
            1 => $body::<$fused>($($argument,)* 1),
            2 => $body::<$fused>($($argument,)* 2),
            4 => $body::<$fused>($($argument,)* 4),
            8 => $body::<$fused>($($argument,)* 8),
            heads => $body::<$fused>($($argument,)* heads),
        }
    };
}

pub(super) use by_heads;

/// Multiplies rows by factors, number by number.
#[inline(always)]
pub(super) fn scale(rows: &mut [f32], factors: &[f32]) {
    for row in rows.chunks_exact_mut(factors.len()) {
        row.iter_mut().zip(factors).for_each(|(value, factor)| *value *= factor);
    }
}

/// Multiplies the parts of a row by factors.
pub(super) fn scale_parts(row: &mut [f32], factors: &[f32]) {
    let part = row.len() / factors.len();
    for (part, factor) in row.chunks_exact_mut(part).zip(factors) {
        part.iter_mut().for_each(|value| *value *= factor);
    }
}

simd! {
    /// Shares and sums of whole lines. Of a segment: exponentials relative to its largest score, which and
    /// whose sum it notes, and the sum by them.
    pub(super) fn attend(
        scores: &Scores<'_>,
        piece: &Piece,
        shares: &mut [f32],
        about: &mut [f32],
        output: &mut [f32],
    ) = attend_body;
}

#[inline(always)]
fn attend_body<const FUSED: bool>(
    scores: &Scores<'_>,
    piece: &Piece,
    shares: &mut [f32],
    about: &mut [f32],
    output: &mut [f32],
) {
    let (first, heads) = (piece.entries.start, scores.heads);
    by_heads!(heads, distances::<FUSED>(scores, piece, shares, about));
    // Over all lines at once: lines are too short and heads too few to fill a vector.
    for share in shares.iter_mut() {
        *share = exp::<FUSED>(-share.abs()).copysign(*share);
    }
    by_heads!(heads, normalise::<FUSED>(scores, piece, shares, about));
    let (others, shares) = (scores.lines.others(), &*shares);
    let value = |_: usize, k: usize, head: usize| shares[(k - first) * heads + head].abs();
    let row = |k: usize| others[k] as usize;
    sum_lines::<FUSED>(&scores.sum(scores.x), piece, output, false, row, value, |_| ());
}

/// How far each score is below the largest of its line, negative where the score is; that of the last line is
/// noted.
#[inline(always)]
fn distances<const FUSED: bool>(
    scores: &Scores<'_>,
    piece: &Piece,
    shares: &mut [f32],
    about: &mut [f32],
    heads: usize,
) {
    let Scores { lines, left, right, slope, .. } = *scores;
    let (others, first) = (lines.others(), piece.entries.start);
    let largest = &mut about[..heads];
    for line in piece.lines.clone() {
        let left = &left[line * heads..(line + 1) * heads];
        let entries = lines.entries(piece, line);
        let shares = &mut shares[(entries.start - first) * heads..(entries.end - first) * heads];
        largest.fill(f32::NEG_INFINITY);
        for (k, shares) in entries.zip(shares.chunks_exact_mut(heads)) {
            prefetch(right, others[(k + AHEAD).min(others.len() - 1)] as usize * heads);
            let start = others[k] as usize * heads;
            let right = &right[start..start + heads];
            for head in 0..heads {
                let sum = left[head] + right[head];
                let score = if sum > 0.0 { sum } else { slope * sum };
                largest[head] = if score > largest[head] { score } else { largest[head] };
                shares[head] = score;
            }
        }
        for shares in shares.chunks_exact_mut(heads) {
            for head in 0..heads {
                let distance = largest[head] - shares[head];
                shares[head] = if shares[head] > 0.0 { distance } else { -distance };
            }
        }
    }
}

/// Divides the exponentials of whole lines by their sum; notes that of a segment.
#[inline(always)]
fn normalise<const FUSED: bool>(
    scores: &Scores<'_>,
    piece: &Piece,
    shares: &mut [f32],
    about: &mut [f32],
    heads: usize,
) {
    let (sums, partial) = about[heads..3 * heads].split_at_mut(heads);
    for line in piece.lines.clone() {
        let entries = scores.lines.entries(piece, line);
        let first = piece.entries.start;
        let shares = &mut shares[(entries.start - first) * heads..(entries.end - first) * heads];
        sums.fill(0.0);
        for shares in shares.chunks(CHUNK * heads) {
            partial.fill(0.0);
            for shares in shares.chunks_exact(heads) {
                for head in 0..heads {
                    partial[head] += shares[head].abs();
                }
            }
            for head in 0..heads {
                sums[head] += partial[head];
            }
        }
        if !piece.is_segment {
            sums.iter_mut().for_each(|sum| *sum = 1.0 / *sum);
            scale(shares, sums);
        }
    }
}
