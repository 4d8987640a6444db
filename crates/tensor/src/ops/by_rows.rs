//! A sum over rows, computed and differentiated block by block.
//!
//! What comes after the last exchange between vertices (a time encoder, a head, a loss) treats every row by itself. So it
//! can be run for a block of rows from beginning to end, forth and back, while everything that belongs to the block stays
//! in the cache: the window is fused over time whatever the model is made of, and the memory is that of a block. This is
//! legal because the result is a sum over rows: its gradient is known up to a factor, the gradient of the result.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use rayon::prelude::*;

use super::ROWS;
use crate::arena::{Arena, Buffer};
use crate::clock::{Of, Within};
use crate::error::{Error, Result, expect_shape};
use crate::op::{Back, Op, Shape, View};
use crate::tape::{Numbers, Tape, Var};

/// Sums of blocks that are taken side by side and then added in order: enough for many threads, and a fixed number, so
/// that the result does not depend on how many there are.
const SUMS: usize = 32;

struct ByRows<'a, F> {
    arena: &'a Arena,
    rows: usize,
    /// How many of the inputs have a row for each row; the others are shared by all.
    by_row: usize,
    wants_gradient: Vec<bool>,
    /// What each input belongs to, and what blocks take, where a clock is on.
    counted: Option<(Vec<Of>, Mutex<Within>)>,
    body: F,
}

impl<F> ByRows<'_, F>
where
    F: Fn(&mut Tape<'_>, Range<usize>, &[Var], &[Var]) -> Result<Var> + Send + Sync,
{
    /// Runs one block forth and back; adds the gradients of shared inputs to `shared`, which has a sum for each that is wanted,
    /// and writes those of rows to `own`.
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
        let mut vars = Vec::with_capacity(inputs.len());
        for (index, (&input, &wants)) in inputs.iter().zip(&self.wants_gradient).enumerate() {
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
                match gradients.of(var) {
                    Some(gradient) => slot.copy_from_slice(gradient),
                    None => slot.fill(0.0),
                }
            }
            for (&var, sum) in all.iter().zip(shared) {
                *sum = gradients.take(var).and_then(Numbers::into_host);
            }
        }
        within.add(&tape);
        Ok(f64::from(tape.value(sum)[0]))
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
            expect_shape(
                self.name(),
                &format!("input {index}"),
                *shape,
                Shape::new(self.rows, shape.columns),
            )?;
        }
        Ok(Shape::SCALAR)
    }

    fn saved(&self, inputs: &[Shape]) -> usize {
        inputs
            .iter()
            .zip(&self.wants_gradient)
            .filter(|(_, wants)| **wants)
            .map(|(shape, _)| shape.len())
            .sum()
    }

    fn joins_steps(&self) -> bool {
        true
    }

    fn within(&self) -> Option<Within> {
        let (_, within) = self.counted.as_ref()?;
        Some(within.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    fn forward(&self, inputs: &[View<'_>], output: &mut [f32], saved: &mut [f32]) -> Result<()> {
        let wanted = |range: Range<usize>| {
            range
                .filter(|&index| self.wants_gradient[index])
                .map(|index| inputs[index].shape.len())
                .sum::<usize>()
        };
        let (own, shared) = saved.split_at_mut(wanted(0..self.by_row));
        shared.fill(0.0);
        let piece = self.rows.div_ceil(SUMS).next_multiple_of(ROWS).max(ROWS);
        // The rows of each wanted input, piece after piece.
        let count = self.rows.div_ceil(piece);
        let mut pieces: Vec<Vec<Option<&mut [f32]>>> =
            (0..count).map(|_| Vec::with_capacity(self.by_row)).collect();
        let mut rest = own;
        for (index, input) in inputs[..self.by_row].iter().enumerate() {
            if !self.wants_gradient[index] {
                pieces.iter_mut().for_each(|slots| slots.push(None));
                continue;
            }
            let (mine, others) = std::mem::take(&mut rest).split_at_mut(input.shape.len());
            rest = others;
            let chunk = piece * input.shape.columns;
            if chunk == 0 {
                pieces.iter_mut().for_each(|slots| slots.push(Some(&mut [])));
                continue;
            }
            for (slots, slice) in pieces.iter_mut().zip(mine.chunks_mut(chunk)) {
                slots.push(Some(slice));
            }
        }
        let zeros =
            |index: usize| self.wants_gradient[index].then(|| self.arena.zeros(inputs[index].shape.len()));
        let sums: Vec<(f64, Vec<Option<Buffer>>)> = pieces
            .into_par_iter()
            .enumerate()
            .map(|(number, mut slots)| {
                let arena = self.arena.lend();
                let mut shared: Vec<Option<Buffer>> = (self.by_row..inputs.len()).map(zeros).collect();
                let end = ((number + 1) * piece).min(self.rows);
                let mut sum = 0.0;
                let (begun, mut within) = (self.counted.as_ref().map(|_| Instant::now()), Within::default());
                for start in (number * piece..end).step_by(ROWS) {
                    let rows = start..(start + ROWS).min(end);
                    let mut own: Vec<Option<&mut [f32]>> = Vec::with_capacity(slots.len());
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
            })
            .collect::<Result<_>>()?;
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
        Ok(())
    }

    fn backward(&self, mut back: Back<'_, '_>) -> Result<()> {
        let factor = back.upstream[0];
        let mut saved = back.saved;
        for (index, &wants) in self.wants_gradient.iter().enumerate() {
            if !wants {
                continue;
            }
            let (mine, rest) = saved.split_at(back.inputs[index].shape.len());
            saved = rest;
            if let Some(gradient) = back.take(index) {
                gradient.iter_mut().zip(mine).for_each(|(sum, value)| *sum += factor * value);
            }
        }
        Ok(())
    }
}

impl<'a> Tape<'a> {
    /// The sum of `body` over blocks of rows.
    ///
    /// `by_row` have as many rows as there are, and the body sees a block of them; `shared` it sees whole. The body must
    /// treat rows by themselves and give the sum over its rows, as one number.
    pub fn sum_by_rows<F>(&mut self, rows: usize, by_row: &[Var], shared: &[Var], body: F) -> Result<Var>
    where
        F: Fn(&mut Tape<'_>, Range<usize>, &[Var], &[Var]) -> Result<Var> + Send + Sync + 'a,
    {
        let inputs = [by_row, shared].concat();
        if inputs.is_empty() {
            return Err(Error::shape("by rows", "no inputs were given"));
        }
        if self.arena().is_elsewhere() {
            // A GPU has no cache that a block would have to stay in: all rows are one block, and the way back is the tape's own.
            return body(self, 0..rows, by_row, shared);
        }
        let wants_gradient = inputs.iter().map(|&input| self.wants_gradient(input)).collect();
        let of = |_| (inputs.iter().map(|&input| self.of(input)).collect(), Mutex::default());
        let counted = self.clock.as_ref().map(of);
        let op = ByRows { arena: self.arena(), rows, by_row: by_row.len(), wants_gradient, counted, body };
        self.apply(op, &inputs)
    }
}
