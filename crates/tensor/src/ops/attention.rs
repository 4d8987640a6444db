//! Scaled dot-product attention over time, for every vertex by itself (Vaswani et al., 2017, equation 1; over the steps of
//! a window as in DySAT, Sankar et al., 2020, equation 2).
//!
//! Row `i` of step `t` looks at row `i` of the steps `s`: `out_t = sum over s of softmax_s(q_t k_s / sqrt(d)) v_s`, for each
//! head in its own columns. What is put aside are the shares that the softmax gives.

use std::ops::Range;

use super::pieces::{Slots, by_pieces, taken};
use crate::error::{Error, Result, expect_shape};
use crate::op::{Back, Op, Shape, View};
use crate::simd::{exp, fma, simd};
use crate::tape::{Tape, Var};

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
struct Sizes {
    steps: usize,
    width: usize,
    heads: usize,
    causal: bool,
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
    fn scale(self) -> f32 {
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
    fn forward(sizes: Sizes, inputs: &[View<'_>], rows: Range<usize>, output: &mut [f32], shares: &mut [f32]) = forward_body;
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
    fn backward(sizes: Sizes, inputs: &[View<'_>], rows: Range<usize>, saved: (&[f32], &[f32]), scores: &mut [f32], gradients: Slots<'_, '_>) = backward_body;
}

struct Attention {
    heads: usize,
    causal: bool,
}

impl Attention {
    fn sizes(&self, inputs: &[Shape]) -> Sizes {
        let (steps, width) = (inputs.len() / 3, inputs[0].columns);
        Sizes { steps, width, heads: self.heads, causal: self.causal }
    }
}

fn shapes(inputs: &[View<'_>]) -> Vec<Shape> {
    inputs.iter().map(|input| input.shape).collect()
}

impl Op for Attention {
    fn name(&self) -> &'static str {
        "attention"
    }

    fn shape(&self, inputs: &[Shape]) -> Result<Shape> {
        let Some(&first) = inputs.first() else {
            return Err(Error::shape(self.name(), "no steps were given"));
        };
        for (index, &shape) in inputs.iter().enumerate() {
            expect_shape(self.name(), &format!("input {index}"), shape, first)?;
        }
        if self.heads == 0 || !first.columns.is_multiple_of(self.heads) {
            let problem = format!("{} columns cannot be shared by {} heads", first.columns, self.heads);
            return Err(Error::shape(self.name(), problem));
        }
        Ok(Shape::new(first.rows, inputs.len() / 3 * first.columns))
    }

    /// For each row, head and step the shares of all steps.
    fn saved(&self, inputs: &[Shape]) -> usize {
        let Sizes { steps, heads, .. } = self.sizes(inputs);
        inputs[0].rows * heads * steps * steps
    }

    fn scratch(&self, inputs: &[Shape]) -> usize {
        inputs[0].rows * self.sizes(inputs).steps
    }

    fn forward(&self, inputs: &[View<'_>], output: &mut [f32], saved: &mut [f32]) -> Result<()> {
        let sizes = self.sizes(&shapes(inputs));
        if !output.is_empty() {
            by_pieces(inputs[0].shape.rows, &mut [Some(output), Some(saved)], |range, slots| {
                forward(sizes, inputs, range, taken(slots, 0), taken(slots, 1));
            });
        }
        Ok(())
    }

    fn backward(&self, back: Back<'_, '_>) -> Result<()> {
        let (inputs, saved) = (back.inputs, back.saved);
        let sizes = self.sizes(&shapes(inputs));
        let upstream = View { shape: back.output.shape, values: back.upstream };
        if back.output.shape.is_empty() {
            return Ok(());
        }
        let count = inputs.len();
        let mut slots: Vec<Option<&mut [f32]>> =
            back.gradients.iter_mut().map(|slot| slot.as_deref_mut()).collect();
        slots.push(Some(back.scratch));
        by_pieces(upstream.shape.rows, &mut slots, |range, slots| {
            let scores = taken(slots, count);
            let shares = sizes.heads * sizes.steps * sizes.steps;
            let shares = &saved[range.start * shares..range.end * shares];
            let upstream = upstream.rows(range.clone()).values;
            backward(sizes, inputs, range, (upstream, shares), scores, slots);
        });
        Ok(())
    }
}

impl Tape<'_> {
    /// Attention over the steps of a window, for every row by itself: the outputs of all steps side by side.
    ///
    /// Queries, keys and values are one matrix a step. The columns are shared by the heads. If it is causal, a step looks
    /// only at itself and at those before.
    pub fn attention(
        &mut self,
        queries: &[Var],
        keys: &[Var],
        values: &[Var],
        heads: usize,
        causal: bool,
    ) -> Result<Var> {
        if queries.len() != keys.len() || queries.len() != values.len() {
            let problem = format!(
                "{} queries, {} keys and {} values were given, expected as many of each",
                queries.len(),
                keys.len(),
                values.len()
            );
            return Err(Error::shape("attention", problem));
        }
        self.apply(Attention { heads, causal }, &[queries, keys, values].concat())
    }
}

#[cfg(test)]
mod tests {
    use super::super::pieces::tests::{assert_close, numbers, run, same_for_any_thread_count};
    use super::*;
    use crate::Arena;
    use crate::check::gradient;

    fn inputs(rows: usize, steps: usize, width: usize) -> Vec<(Shape, Vec<f32>)> {
        (0..3 * steps).map(|index| numbers(rows, width, index as u32 + 1)).collect()
    }

    fn build(heads: usize, causal: bool) -> impl Fn(&mut Tape<'_>, &[Var]) -> Result<Var> {
        move |tape, vars| {
            let steps = vars.len() / 3;
            tape.attention(&vars[..steps], &vars[steps..2 * steps], &vars[2 * steps..], heads, causal)
        }
    }

    /// Attention as it is written down, in double precision.
    fn exact(inputs: &[(Shape, Vec<f32>)], heads: usize, causal: bool) -> Vec<f64> {
        let (steps, Shape { rows, columns: width }) = (inputs.len() / 3, inputs[0].0);
        let depth = width / heads;
        let at = |which: usize, row: usize, column: usize| f64::from(inputs[which].1[row * width + column]);
        let mut output = vec![0.0; rows * steps * width];
        for (row, head, t) in
            (0..rows).flat_map(|row| (0..heads).flat_map(move |head| (0..steps).map(move |t| (row, head, t))))
        {
            let columns = head * depth..(head + 1) * depth;
            let shares: Vec<f64> = (0..if causal { t + 1 } else { steps })
                .map(|s| {
                    let dot: f64 = columns.clone().map(|c| at(t, row, c) * at(steps + s, row, c)).sum();
                    (dot / (depth as f64).sqrt()).exp()
                })
                .collect();
            let sum: f64 = shares.iter().sum();
            for column in columns {
                output[row * steps * width + t * width + column] =
                    shares.iter().enumerate().map(|(s, p)| p / sum * at(2 * steps + s, row, column)).sum();
            }
        }
        output
    }

    #[test]
    fn gradients_and_values() {
        for (rows, steps, width, heads) in
            [(1, 1, 1, 1), (1, 3, 4, 2), (4, 2, 1, 1), (3, 4, 6, 3), (2, 3, 38, 2)]
        {
            for causal in [false, true] {
                let inputs = inputs(rows, steps, width);
                gradient(&inputs, 1e-2, build(heads, causal)).unwrap();
                let found = run(&inputs, &build(heads, causal));
                assert_close(&found[0], exact(&inputs, heads, causal), "attention");
            }
        }
        same_for_any_thread_count(&inputs(1500, 3, 4), build(2, true));
    }

    #[test]
    fn extremes_are_finite_and_the_same_matrix_may_be_all_three() {
        let mut large = inputs(5, 3, 4);
        large.iter_mut().flat_map(|(_, values)| values).for_each(|value| *value *= 1e4);
        assert!(run(&large, &build(2, false)).iter().flatten().all(|value| value.is_finite()));
        let one = [numbers(2, 4, 1), numbers(2, 4, 2)];
        gradient(&one, 1e-2, |tape, vars| tape.attention(vars, vars, vars, 2, true)).unwrap();
    }

    #[test]
    fn wrong_shapes() {
        let arena = Arena::new();
        let mut tape = Tape::new(&arena);
        let (a, b) = (tape.filled(Shape::new(2, 3), 1.0), tape.filled(Shape::new(2, 4), 1.0));
        let error = tape.attention(&[a], &[a], &[b], 1, false).unwrap_err().to_string();
        assert_eq!(error, "attention: input 2 is 2 x 4, expected 2 x 3");
        let error = tape.attention(&[a], &[a], &[a], 2, false).unwrap_err().to_string();
        assert_eq!(error, "attention: 3 columns cannot be shared by 2 heads");
        let error = tape.attention(&[a, a], &[a], &[a], 1, false).unwrap_err().to_string();
        assert_eq!(error, "attention: 2 queries, 1 keys and 1 values were given, expected as many of each");
        assert!(
            tape.attention(&[], &[], &[], 1, false).is_err()
                && tape.attention(&[a], &[a], &[a], 0, true).is_err()
        );
    }
}
