//! The loops of graph attention over the entries of one piece, in the backward pass.

use super::aggregate::{AHEAD, sum_lines};
use super::graph_attention_loops::{Scores, by_heads};
use crate::lines::{Lines, Piece};
use crate::simd::{fma, prefetch, prefetch_row, simd};

/// Lanes in which a product of rows is summed; a power of four.
const LANES: usize = 16;

/// Products of rows that are taken before their lanes are summed.
const PRODUCTS: usize = 64;

/// What is kept of the forward pass, and the gradient of the output.
pub(super) struct Kept<'a> {
    pub shares: &'a [f32],
    pub output: &'a [f32],
    pub upstream: &'a [f32],
}

simd! {
    /// Writes share and gradient of the score of each entry, and adds the latter to the gradient of its row.
    pub(super) fn back_by_row(
        scores: &Scores<'_>,
        kept: &Kept<'_>,
        piece: &Piece,
        left: &mut [f32],
        pairs: &mut [f32],
    ) = back_by_row_body;
}

#[inline(always)]
fn back_by_row_body<const FUSED: bool>(
    scores: &Scores<'_>,
    kept: &Kept<'_>,
    piece: &Piece,
    left: &mut [f32],
    pairs: &mut [f32],
) {
    by_heads!(scores.heads, back_rows::<FUSED>(scores, kept, piece, left, pairs));
}

#[inline(always)]
fn back_rows<const FUSED: bool>(
    scores: &Scores<'_>,
    kept: &Kept<'_>,
    piece: &Piece,
    left: &mut [f32],
    pairs: &mut [f32],
    heads: usize,
) {
    let Scores { lines, slope, x, width, .. } = *scores;
    let (others, part, first) = (lines.others(), width / heads, piece.entries.start);
    let mut products = [0.0; PRODUCTS * LANES];
    for (line, left) in piece.lines.clone().zip(left.chunks_exact_mut(heads)) {
        let upstream = &kept.upstream[line * width..(line + 1) * width];
        let output = &kept.output[line * width..(line + 1) * width];
        let entries = lines.entries(piece, line);
        for block in (0..heads).step_by(PRODUCTS) {
            let block = block..(block + PRODUCTS).min(heads);
            for start in entries.clone().step_by(PRODUCTS / block.len()) {
                let entries = start..(start + PRODUCTS / block.len()).min(entries.end);
                let mut lanes = products.as_chunks_mut::<LANES>().0.iter_mut();
                for k in entries.clone() {
                    prefetch_row(x, others[(k + AHEAD).min(others.len() - 1)] as usize * width, width);
                    let x = &x[others[k] as usize * width..][..width];
                    for (head, lanes) in block.clone().zip(&mut lanes) {
                        let mine = head * part..(head + 1) * part;
                        // The mean of the gradients of shares is the product with the output.
                        let (x, output) = (&x[mine.clone()], &output[mine.clone()]);
                        *lanes = products_with_difference::<FUSED>(&upstream[mine], x, output);
                    }
                }
                let sums = sum_lanes(&mut products, entries.len() * block.len());
                for (k, sums) in entries.zip(sums.chunks_exact(block.len())) {
                    let shares = &kept.shares[k * heads..(k + 1) * heads][block.clone()];
                    let pair = &mut pairs[(k - first) * 2 * heads..(k - first + 1) * 2 * heads];
                    let (to_share, to_score) = pair.split_at_mut(heads);
                    let (to_share, to_score) = (&mut to_share[block.clone()], &mut to_score[block.clone()]);
                    let left = &mut left[block.clone()];
                    for head in 0..block.len() {
                        let share = shares[head].abs();
                        let slope = if shares[head].is_sign_positive() { 1.0 } else { slope };
                        to_share[head] = share;
                        to_score[head] = sums[head] * share * slope;
                        left[head] += to_score[head];
                    }
                }
            }
        }
    }
}

/// The products of a row and the difference of two others, summed in lanes.
#[inline(always)]
fn products_with_difference<const FUSED: bool>(row: &[f32], one: &[f32], other: &[f32]) -> [f32; LANES] {
    let (row, row_rest) = row.as_chunks::<LANES>();
    let (one, one_rest) = one.as_chunks::<LANES>();
    let (other, other_rest) = other.as_chunks::<LANES>();
    let mut sums = [0.0; LANES];
    for ((row, one), other) in row.iter().zip(one).zip(other) {
        for j in 0..LANES {
            sums[j] = fma::<FUSED>(row[j], one[j] - other[j], sums[j]);
        }
    }
    for (((sum, row), one), other) in sums.iter_mut().zip(row_rest).zip(one_rest).zip(other_rest) {
        *sum = fma::<FUSED>(*row, one - other, *sum);
    }
    sums
}

/// The sums of the lanes of `count` products, which are overwritten. Neighbours are added to each other, of
/// all products at once: the lanes of one do not fill a vector for long.
#[inline(always)]
fn sum_lanes(products: &mut [f32; PRODUCTS * LANES], count: usize) -> &[f32] {
    let mut halves = [0.0; PRODUCTS * LANES / 2];
    let mut length = count * LANES;
    while length > count {
        add_neighbours(&products[..length], &mut halves[..length / 2]);
        add_neighbours(&halves[..length / 2], &mut products[..length / 4]);
        length /= 4;
    }
    &products[..count]
}

#[inline(always)]
fn add_neighbours(from: &[f32], to: &mut [f32]) {
    for (to, from) in to.iter_mut().zip(from.as_chunks::<2>().0) {
        *to = from[0] + from[1];
    }
}

simd! {
    /// Adds to the gradients of columns: those of `x` by shares, those of scores.
    pub(super) fn back_by_column(
        scores: &Scores<'_>,
        upstream: &[f32],
        pairs: &[f32],
        piece: &Piece,
        x: &mut [f32],
        right: &mut [f32],
    ) = back_by_column_body;
}

#[inline(always)]
fn back_by_column_body<const FUSED: bool>(
    scores: &Scores<'_>,
    upstream: &[f32],
    pairs: &[f32],
    piece: &Piece,
    x: &mut [f32],
    right: &mut [f32],
) {
    let (others, heads) = (scores.lines.others(), scores.heads);
    // Columns are in another order than the entries by definition.
    let origins = scores.lines.origins().unwrap_or_default();
    let value = |_: usize, k: usize, head: usize| pairs[origins[k] as usize * 2 * heads + head];
    let ask = |k: usize| prefetch(pairs, origins[k] as usize * 2 * heads);
    sum_lines::<FUSED>(&scores.sum(upstream), piece, x, true, |k| others[k] as usize, value, ask);
    by_heads!(heads, back_scores::<FUSED>(scores.lines, origins, pairs, piece, right));
}

#[inline(always)]
fn back_scores<const FUSED: bool>(
    lines: &Lines,
    origins: &[u32],
    pairs: &[f32],
    piece: &Piece,
    right: &mut [f32],
    heads: usize,
) {
    for (line, right) in piece.lines.clone().zip(right.chunks_exact_mut(heads)) {
        for &origin in &origins[lines.entries(piece, line)] {
            let start = (2 * origin as usize + 1) * heads;
            let to_score = &pairs[start..start + heads];
            for head in 0..heads {
                right[head] += to_score[head];
            }
        }
    }
}
