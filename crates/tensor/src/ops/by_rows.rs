//! A sum over rows, computed and differentiated block by block.
//!
//! What comes after the last exchange between vertices (a time encoder, a head, a loss) treats every row by
//! itself. So it can be run for a block of rows from beginning to end, forward and backward, while everything
//! that belongs to the block stays in the cache: the window is fused over time whatever the model is made of,
//! and the memory is that of a block. This is legal because the result is a sum over rows: its gradient is
//! known up to a factor, the gradient of the result.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use rayon::prelude::*;

use super::ROWS;
use super::lazy::{Lazy, LazyProduct, LazyRows};
use crate::arena::{Arena, Buffer};
use crate::clock::{Of, Within};
use crate::error::{Error, Result, expect_input, expect_shape};
use crate::op::{Back, Few, Op, Shape, View};
use crate::tape::{Numbers, Tape, Value, Var};

/// Sums of blocks that are taken side by side and then added in order: enough for many threads, and a fixed
/// number, so that the result does not depend on how many there are.
const SUMS: usize = 32;

/// Numbers of a gradient that one thread scales or adds at a time.
const CHUNK: usize = 1 << 14;

struct ByRows<'a, F> {
    arena: &'a Arena,
    rows: usize,
    /// How many of the inputs have a row for each row; the others are shared by all.
    by_row: usize,
    wants_gradient: Vec<bool>,
    /// Of inputs that are not there as a whole, how their rows are computed.
    products: Vec<Option<Lazy<'a>>>,
    /// The gradients of inputs that have a row for each row, up to that of the result, once they are made.
    own: Mutex<Vec<Option<Buffer>>>,
    /// What each input belongs to, and what blocks take, where a clock is on.
    counted: Option<(Vec<Of>, Mutex<Within>)>,
    /// Whether layers look for rows that they had before.
    expects_repeats: bool,
    /// Whether products look for rows that the one before has.
    expects_same_rows: bool,
    body: F,
}

impl<F> ByRows<'_, F> {
    fn own(&self) -> MutexGuard<'_, Vec<Option<Buffer>>> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<F> ByRows<'_, F> {
    /// What an input belongs to, where a clock is on.
    fn of(&self, input: usize) -> Of {
        let of = self.counted.as_ref().and_then(|(of, _)| of.get(input));
        of.copied().unwrap_or(Of::Nothing)
    }
}

impl<F> Drop for ByRows<'_, F> {
    fn drop(&mut self) {
        let left = std::mem::take(&mut *self.own());
        left.into_iter().flatten().for_each(|gradient| self.arena.give(gradient));
    }
}

impl<F> ByRows<'_, F>
where
    F: Fn(&mut Tape<'_>, Range<usize>, &[Var], &[Var]) -> Result<Var> + Send + Sync,
{
    /// Runs one block forward and backward; adds the gradients of shared inputs to `shared`, which has a sum
    /// for each that is wanted, and writes those of rows to `own`.
    fn run_block(
        &self,
        arena: &Arena,
        rows: Range<usize>,
        inputs: &[View<'_>],
        shared: &mut [Option<Buffer>],
        own: &mut [Option<&mut [f32]>],
        within: &mut Within,
    ) -> Result<f64> {
        let mut tape = Tape::new(arena);
        if self.counted.is_some() {
            tape.start_clock();
        }
        if self.expects_repeats {
            tape.look_for_repeats();
        }
        let mut vars = Vec::with_capacity(inputs.len());
        let mut last: Option<(Var, &LazyProduct<'_>)> = None;
        for (index, (&input, &wants)) in inputs.iter().zip(&self.wants_gradient).enumerate() {
            if let Some(product) = self.products.get(index).and_then(Option::as_ref) {
                let of_product = match product {
                    Lazy::Product(product) => Some(product),
                    Lazy::Versions(_) => None,
                };
                let before = last.filter(|(_, before)| {
                    self.expects_same_rows && of_product.is_some_and(|now| now.may_have_rows_of(before))
                });
                let (matrix, made) = (product.clone(), before.map(|(made, _)| made));
                let before = before.map(|(_, before)| before.clone());
                let some = LazyRows { arena, matrix, before, rows: rows.clone() };
                // Before anything is computed of it, so that its time counts where it belongs.
                let var = tape.during(self.of(index), |tape| tape.apply(some, made.as_slice()))?;
                last = of_product.map(|product| (var, product)).or(last);
                vars.push(var);
                continue;
            }
            let view = if index < self.by_row { input.rows(rows.clone()) } else { input };
            vars.push(if wants {
                tape.parameter(view.shape, view.values)?
            } else {
                tape.constant(view.shape, view.values)?
            });
        }
        for (&var, &of) in vars.iter().zip(self.counted.iter().flat_map(|(of, _)| of)) {
            tape.belongs(var, of);
        }
        let (by_row, all) = vars.split_at(self.by_row);
        let sum = (self.body)(&mut tape, rows, by_row, all)?;
        expect_shape("by rows", "the result of a block", tape.shape(sum), Shape::SCALAR)?;
        if self.wants_gradient.iter().any(|&wants| wants) {
            // Sums of shared gradients go on where the block before left them.
            let begun = all.iter().zip(&mut *shared).filter_map(|(&var, sum)| Some((var, sum.take()?)));
            let mut gradients = tape.backward_onto(sum, &[1.0], begun.collect::<Vec<_>>())?;
            for (&var, slot) in by_row.iter().zip(own) {
                let Some(slot) = slot.as_deref_mut() else { continue };
                match gradients.read(var)? {
                    Some(gradient) => slot.copy_from_slice(&gradient),
                    None => slot.fill(0.0),
                }
            }
            for (&var, sum) in all.iter().zip(shared) {
                *sum = gradients.take(var).map(Numbers::into_host).transpose()?;
            }
        }
        within.add(&tape);
        Ok(f64::from(tape.value(sum)?[0]))
    }
}

impl<F> Op for ByRows<'_, F>
where
    F: Fn(&mut Tape<'_>, Range<usize>, &[Var], &[Var]) -> Result<Var> + Send + Sync,
{
    fn name(&self) -> &'static str {
        "by rows"
    }

    fn shape(&self, inputs: &[Shape]) -> Result<Shape> {
        for (index, shape) in inputs[..self.by_row].iter().enumerate() {
            expect_input(self.name(), index, *shape, Shape::new(self.rows, shape.columns))?;
        }
        Ok(Shape::SCALAR)
    }

    fn saved(&self, inputs: &[Shape]) -> usize {
        let shared = inputs.iter().zip(&self.wants_gradient).skip(self.by_row);
        shared.filter(|(_, wants)| **wants).map(|(shape, _)| shape.len()).sum()
    }

    fn ready(&self, input: usize, upstream: &[f32]) -> Option<Buffer> {
        let mut gradient = self.own().get_mut(input)?.take()?;
        let factor = upstream[0];
        if factor != 1.0 {
            gradient
                .par_chunks_mut(CHUNK)
                .for_each(|chunk| chunk.iter_mut().for_each(|value| *value *= factor));
        }
        Some(gradient)
    }

    fn joins_steps(&self) -> bool {
        true
    }

    fn computes_products(&self) -> bool {
        true
    }

    fn within(&self) -> Option<Within> {
        let (_, within) = self.counted.as_ref()?;
        Some(within.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    fn forward(&self, inputs: &[View<'_>], output: &mut [f32], saved: &mut [f32]) -> Result<()> {
        let shared = saved;
        shared.fill(0.0);
        let wanted =
            |index: usize| self.wants_gradient[index].then(|| self.arena.take(inputs[index].shape.len()));
        let mut own: Vec<Option<Buffer>> = (0..self.by_row).map(wanted).collect();
        let piece = self.rows.div_ceil(SUMS).next_multiple_of(ROWS).max(ROWS);
        // The rows of each wanted input, piece after piece.
        let count = self.rows.div_ceil(piece);
        let mut pieces: Vec<Vec<Option<&mut [f32]>>> =
            (0..count).map(|_| Vec::with_capacity(self.by_row)).collect();
        for (gradient, input) in own.iter_mut().zip(inputs) {
            let chunk = piece * input.shape.columns;
            match gradient.as_deref_mut() {
                None => pieces.iter_mut().for_each(|slots| slots.push(None)),
                Some(_) if chunk == 0 => pieces.iter_mut().for_each(|slots| slots.push(Some(&mut []))),
                Some(gradient) => {
                    let slices = gradient.chunks_mut(chunk);
                    pieces.iter_mut().zip(slices).for_each(|(slots, slice)| slots.push(Some(slice)));
                }
            }
        }
        let zeros =
            |index: usize| self.wants_gradient[index].then(|| self.arena.zeros(inputs[index].shape.len()));
        let run =
            |(number, mut slots): (usize, Vec<Option<&mut [f32]>>)| -> Result<(f64, Vec<Option<Buffer>>)> {
                let arena = self.arena.lend();
                let mut shared: Vec<Option<Buffer>> = (self.by_row..inputs.len()).map(zeros).collect();
                let end = ((number + 1) * piece).min(self.rows);
                let mut sum = 0.0;
                let (begun, mut within) = (self.counted.as_ref().map(|_| Instant::now()), Within::default());
                for start in (number * piece..end).step_by(ROWS) {
                    let rows = start..(start + ROWS).min(end);
                    let mut own: Few<Option<&mut [f32]>> = Few::with_capacity(slots.len());
                    for (slot, input) in slots.iter_mut().zip(inputs) {
                        own.push(slot.take().map(|slice| {
                            let (mine, others) = slice.split_at_mut(rows.len() * input.shape.columns);
                            *slot = Some(others);
                            mine
                        }));
                    }
                    sum += self.run_block(&arena, rows, inputs, &mut shared, &mut own, &mut within)?;
                }
                if let (Some((_, all)), Some(begun)) = (&self.counted, begun) {
                    within.add_busy(begun);
                    all.lock().unwrap_or_else(PoisonError::into_inner).join(&within);
                }
                self.arena.take_back(arena);
                Ok((sum, shared))
            };
        let sums: Vec<(f64, Vec<Option<Buffer>>)> = match count {
            // A small graph is computed faster than handed out.
            1 => pieces.into_iter().enumerate().map(run).collect::<Result<_>>()?,
            _ => pieces.into_par_iter().enumerate().map(run).collect::<Result<_>>()?,
        };
        let mut total = 0.0;
        for (sum, partials) in sums {
            total += sum;
            let mut rest = &mut *shared;
            for partial in partials.into_iter().flatten() {
                let (mine, others) = rest.split_at_mut(partial.len());
                mine.iter_mut().zip(partial.iter()).for_each(|(sum, value)| *sum += value);
                rest = others;
                self.arena.give(partial);
            }
        }
        output[0] = total as f32;
        *self.own() = own;
        Ok(())
    }

    fn backward(&self, mut back: Back<'_, '_>) -> Result<()> {
        let factor = back.upstream[0];
        let add = |gradient: &mut [f32], mine: &[f32]| {
            let chunks = gradient.par_chunks_mut(CHUNK).zip(mine.par_chunks(CHUNK));
            chunks.for_each(|(gradient, mine)| {
                gradient.iter_mut().zip(mine).for_each(|(sum, value)| *sum += factor * value);
            });
        };
        for index in 0..self.by_row {
            let Some(gradient) = back.take(index) else { continue };
            let own = self.own();
            let Some(mine) = own.get(index).and_then(Option::as_deref) else {
                return Err(Error::shape(
                    self.name(),
                    "its gradients were taken before: there is one backward pass",
                ));
            };
            add(gradient, mine);
        }
        let mut saved = back.saved;
        for index in (self.by_row..self.wants_gradient.len()).filter(|&index| self.wants_gradient[index]) {
            let (mine, rest) = saved.split_at(back.inputs[index].shape.len());
            saved = rest;
            if let Some(gradient) = back.take(index) {
                add(gradient, mine);
            }
        }
        Ok(())
    }
}

impl<'a> Tape<'a> {
    /// The sum of `body` over blocks of rows.
    ///
    /// `by_row` have as many rows as there are, and the body sees a block of them; `shared` it sees whole.
    /// The body must treat rows by themselves and give the sum over its rows, as one number.
    pub fn sum_by_rows<F>(&mut self, rows: usize, by_row: &[Var], shared: &[Var], body: F) -> Result<Var>
    where
        F: Fn(&mut Tape<'_>, Range<usize>, &[Var], &[Var]) -> Result<Var> + Send + Sync + 'a,
    {
        let inputs = [by_row, shared].concat();
        if inputs.is_empty() {
            return Err(Error::shape("by rows", "no inputs were given"));
        }
        if self.arena().is_elsewhere() {
            // A GPU has no cache that a block would have to stay in: all rows are one block, and the backward
            // pass is the tape's own.
            return body(self, 0..rows, by_row, shared);
        }
        let wants_gradient = inputs.iter().map(|&input| self.wants_gradient(input)).collect();
        let products = by_row.iter().map(|&input| self.product_of(input)).collect();
        let of = |_| (inputs.iter().map(|&input| self.of(input)).collect(), Mutex::default());
        let counted = self.clock.as_ref().map(of);
        let op = ByRows {
            arena: self.arena(),
            rows,
            by_row: by_row.len(),
            wants_gradient,
            products,
            own: Mutex::default(),
            counted,
            expects_repeats: self.expects_repeats,
            expects_same_rows: self.expects_same_rows,
            body,
        };
        self.apply(op, &inputs)
    }

    /// The product that a matrix is to be, where it has not been computed.
    fn product_of(&self, var: Var) -> Option<Lazy<'a>> {
        match &self.nodes[var.0].value {
            Value::Lazy(matrix) => Some(matrix.clone()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::super::pieces::tests::{equal, numbers, same_for_any_thread_count};
    use super::*;

    /// The sum of `tanh(x w)` over rows.
    fn body(tape: &mut Tape<'_>, x: Var, w: Var) -> Result<Var> {
        let product = tape.matmul(x, w)?;
        let bent = tape.tanh(product)?;
        tape.sum(bent)
    }

    /// Rows that are used before, in and after blocks, and a result that is scaled.
    fn both_ways(tape: &mut Tape<'_>, vars: &[Var], in_blocks: bool) -> Result<Var> {
        let (x, w) = (vars[0], vars[1]);
        let rows = tape.shape(x).rows;
        let sum = match in_blocks {
            true => tape
                .sum_by_rows(rows, &[x], &[w], |tape, _, by_row, shared| body(tape, by_row[0], shared[0]))?,
            false => body(tape, x, w)?,
        };
        let half = tape.scale(sum, 0.5)?;
        let plain = tape.sum(x)?;
        tape.add(half, plain)
    }

    #[test]
    fn gradients_are_those_without_blocks() {
        for rows in [1, ROWS, 3 * ROWS + 5] {
            let inputs = [numbers(rows, 3, 1), numbers(3, 4, 2)];
            // The gradient of rows is ready, and scaled; or added to what another use of them began.
            let scaled = |tape: &mut Tape<'_>, vars: &[Var]| {
                let blocks =
                    tape.sum_by_rows(rows, &vars[..1], &vars[1..], |t, _, x, w| body(t, x[0], w[0]))?;
                tape.scale(blocks, -3.0)
            };
            let plain = |tape: &mut Tape<'_>, vars: &[Var]| {
                let sum = body(tape, vars[0], vars[1])?;
                tape.scale(sum, -3.0)
            };
            equal(&inputs, scaled, plain);
            equal(&inputs, |t, v| both_ways(t, v, true), |t, v| both_ways(t, v, false));
            same_for_any_thread_count(&inputs, scaled);
        }
    }

    /// The sum of what a layer makes of two steps, multiplied; counts where it looked for rows of before.
    fn product(tape: &mut Tape<'_>, steps: &[Var], w: Var, found: &AtomicUsize) -> Result<Var> {
        let made = [tape.matmul(steps[0], w)?, tape.matmul(steps[1], w)?];
        let is_again = |var: &&Var| tape.nodes[var.0].op.as_ref().is_some_and(|op| op.changed().is_some());
        found.fetch_add(made.iter().filter(is_again).count(), Ordering::Relaxed);
        let product = tape.multiply(made[0], made[1])?;
        tape.sum(product)
    }

    /// Layers look for rows that they had before within blocks, never on the tape itself: there it would
    /// depend on what is kept whether rows are known already.
    #[test]
    fn repeats_are_looked_for_in_blocks_alone() {
        let rows = ROWS + 5;
        let ((shape, x), (of_weight, w)) = (numbers(rows, 3, 1), numbers(3, 4, 2));
        let mut next = x.clone();
        next[3 * (ROWS + 1)] += 0.5;
        let run = |expects: bool| {
            let arena = Arena::new();
            let mut tape = Tape::new(&arena);
            if expects {
                tape.expect_repeats();
            }
            let steps = [&x, &next].map(|values| tape.constant(shape, values).unwrap());
            let w = tape.parameter(of_weight, &w).unwrap();
            let found = Arc::new(AtomicUsize::new(0));
            let short = [0; 2].map(|_| tape.filled(Shape::new(4, 3), 1.0));
            product(&mut tape, &short, w, &found).unwrap();
            assert_eq!(found.load(Ordering::Relaxed), 0, "on the tape itself");
            let count = Arc::clone(&found);
            let body = move |tape: &mut Tape<'_>, _: Range<usize>, steps: &[Var], w: &[Var]| {
                product(tape, steps, w[0], &count)
            };
            let sum = tape.sum_by_rows(rows, &steps, &[w], body).unwrap();
            let gradients = tape.backward(sum).unwrap();
            let of_w = gradients.read(w).unwrap().unwrap().to_vec();
            (tape.value(sum).unwrap()[0], of_w, found.load(Ordering::Relaxed))
        };
        let ((sum, of_w, found), (expected, exact, none)) = (run(true), run(false));
        assert_eq!((found, none), (rows.div_ceil(ROWS), 0));
        let is_close = |one: f32, other: f32| (one - other).abs() <= 1e-4 * (1.0 + other.abs());
        assert!(
            is_close(sum, expected) && of_w.iter().zip(&exact).all(|(&one, &other)| is_close(one, other))
        );
    }

    #[test]
    fn there_is_one_way_back() {
        let ((shape, x), (of_weight, w)) = (numbers(5, 3, 1), numbers(3, 4, 2));
        let arena = Arena::new();
        let mut tape = Tape::new(&arena);
        let (x, w) = (tape.parameter(shape, &x).unwrap(), tape.parameter(of_weight, &w).unwrap());
        let sum = tape.sum_by_rows(5, &[x], &[w], |tape, _, x, w| body(tape, x[0], w[0])).unwrap();
        tape.backward(sum).unwrap();
        let error = tape.backward(sum).err().unwrap().to_string();
        assert!(error.contains("one backward pass"), "{error}");
    }
}
