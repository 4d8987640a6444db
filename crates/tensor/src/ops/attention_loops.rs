//! The loops of attention over time: scores, shares and outputs of one row after another, and their
//! gradients.

use std::ops::Range;

use super::pieces::Slots;
use crate::op::View;
use crate::simd::{exp, fma, simd};

/// The sum of products, in sixteen lanes, so that it vectorises.
#[inline(always)]
fn dot<const FUSED: bool>(x: &[f32], y: &[f32]) -> f32 {
    let ((x, x_rest), (y, y_rest)) = (x.as_chunks::<16>(), y.as_chunks::<16>());
    let mut lanes = [0.0; 16];
    for (x, y) in x.iter().zip(y) {
        for ((lane, &x), &y) in lanes.iter_mut().zip(x).zip(y) {
            *lane = fma::<FUSED>(x, y, *lane);
        }
    }
    x_rest.iter().zip(y_rest).fold(lanes.iter().sum(), |sum, (&x, &y)| fma::<FUSED>(x, y, sum))
}

/// `sum += factor * x`.
#[inline(always)]
fn add<const FUSED: bool>(factor: f32, x: &[f32], sum: &mut [f32]) {
    sum.iter_mut().zip(x).for_each(|(sum, &x)| *sum = fma::<FUSED>(factor, x, *sum));
}

/// Turns scores into shares of one; the largest is taken off first, so that no exponential is too large.
#[inline(always)]
fn softmax<const FUSED: bool>(scores: &mut [f32]) {
    let largest = scores.iter().fold(f32::NEG_INFINITY, |largest, &score| largest.max(score));
    scores.iter_mut().for_each(|score| *score = exp::<FUSED>(*score - largest));
    let sum: f32 = scores.iter().sum();
    scores.iter_mut().for_each(|score| *score /= sum);
}

/// The sizes of an attention.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    pub(super) steps: usize,
    /// Columns of all heads.
    pub(super) width: usize,
    pub(super) heads: usize,
    /// Whether a step looks only at itself and at those before.
    pub(super) causal: bool,
}

impl Sizes {
    /// The steps that step `t` looks at are those before this one.
    #[inline(always)]
    fn seen(self, t: usize) -> usize {
        if self.causal { t + 1 } else { self.steps }
    }

    /// The columns of a head.
    #[inline(always)]
    fn columns(self, head: usize) -> Range<usize> {
        let depth = self.width / self.heads;
        head * depth..(head + 1) * depth
    }

    #[inline(always)]
    pub(super) fn scale(self) -> f32 {
        1.0 / ((self.width / self.heads) as f32).sqrt()
    }
}

#[inline(always)]
fn forward_body<const FUSED: bool>(
    sizes: Sizes,
    inputs: &[View<'_>],
    rows: Range<usize>,
    output: &mut [f32],
    shares: &mut [f32],
) {
    let Sizes { steps, width, heads, .. } = sizes;
    let (q, rest) = inputs.split_at(steps);
    let (k, v) = rest.split_at(steps);
    output.fill(0.0);
    let all = output.chunks_exact_mut(steps * width).zip(shares.chunks_exact_mut(heads * steps * steps));
    for (row, (output, shares)) in rows.zip(all) {
        for (head, shares) in shares.chunks_exact_mut(steps * steps).enumerate() {
            let columns = sizes.columns(head);
            for (t, shares) in shares.chunks_exact_mut(steps).enumerate() {
                let (seen, unseen) = shares.split_at_mut(sizes.seen(t));
                unseen.fill(0.0);
                let q = &q[t].row(row)[columns.clone()];
                for (score, k) in seen.iter_mut().zip(k) {
                    *score = dot::<FUSED>(q, &k.row(row)[columns.clone()]) * sizes.scale();
                }
                softmax::<FUSED>(seen);
                let output = &mut output[t * width..(t + 1) * width][columns.clone()];
                for (&share, v) in seen.iter().zip(v) {
                    add::<FUSED>(share, &v.row(row)[columns.clone()], output);
                }
            }
        }
    }
}

simd! {
    /// The output of some rows, and the shares.
    pub(super) fn forward(
        sizes: Sizes,
        inputs: &[View<'_>],
        rows: Range<usize>,
        output: &mut [f32],
        shares: &mut [f32],
    ) = forward_body;
}

#[inline(always)]
fn backward_body<const FUSED: bool>(
    sizes: Sizes,
    inputs: &[View<'_>],
    rows: Range<usize>,
    saved: (&[f32], &[f32]),
    scores: &mut [f32],
    gradients: Slots<'_, '_>,
) {
    let Sizes { steps, width, heads, .. } = sizes;
    let (upstream, shares) = saved;
    let of = |which: usize, row: usize, columns: &Range<usize>| &inputs[which].row(row)[columns.clone()];
    for (at, row) in rows.enumerate() {
        let upstream = &upstream[at * steps * width..(at + 1) * steps * width];
        let shares = &shares[at * heads * steps * steps..(at + 1) * heads * steps * steps];
        let scores = &mut scores[at * steps..(at + 1) * steps];
        for (head, shares) in shares.chunks_exact(steps * steps).enumerate() {
            let columns = sizes.columns(head);
            let place = at * width + columns.start..at * width + columns.end;
            for (t, shares) in shares.chunks_exact(steps).enumerate() {
                let g = &upstream[t * width..(t + 1) * width][columns.clone()];
                let seen = sizes.seen(t);
                let mut mean = 0.0;
                for s in 0..seen {
                    scores[s] = dot::<FUSED>(g, of(2 * steps + s, row, &columns));
                    mean = fma::<FUSED>(shares[s], scores[s], mean);
                    if let Some(v) = gradients[2 * steps + s].as_deref_mut() {
                        add::<FUSED>(shares[s], g, &mut v[place.clone()]);
                    }
                }
                for s in 0..seen {
                    let score = shares[s] * (scores[s] - mean) * sizes.scale();
                    if let Some(q) = gradients[t].as_deref_mut() {
                        add::<FUSED>(score, of(steps + s, row, &columns), &mut q[place.clone()]);
                    }
                    if let Some(k) = gradients[steps + s].as_deref_mut() {
                        add::<FUSED>(score, of(t, row, &columns), &mut k[place.clone()]);
                    }
                }
            }
        }
    }
}

simd! {
    /// Adds to the gradients of some rows, from the gradients of the output and the shares of those rows.
    pub(super) fn backward(
        sizes: Sizes,
        inputs: &[View<'_>],
        rows: Range<usize>,
        saved: (&[f32], &[f32]),
        scores: &mut [f32],
        gradients: Slots<'_, '_>,
    ) = backward_body;
}
