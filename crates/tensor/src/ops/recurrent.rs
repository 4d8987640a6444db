//! What recurrent cells share: the input side (gates that were computed before, or `x W + b` computed in
//! place), the parts of their rows, and the mixing of an old state with a new one.
//!
//! A cell works in rows of several times its width, where each gate has its columns. What comes from the
//! input is put into those columns directly, and its gradient is read from there, so that no matrix of gates
//! is written and read in between.

use std::ops::Range;

use super::product::{Columns, ColumnsMut, Side, multiply_columns, sum_columns, weight_gradient_columns};
use crate::error::{Error, Result, expect_shape};
use crate::op::{Shape, View};
use crate::simd::fma;

/// Parts of a row, each as wide as the state.
#[inline(always)]
pub(crate) fn split<const N: usize>(row: &[f32], width: usize) -> [&[f32]; N] {
    std::array::from_fn(|index| &row[index * width..(index + 1) * width])
}

/// The four parts of a row, to be written to.
#[inline(always)]
pub(crate) fn quarters_mut(row: &mut [f32], width: usize) -> [&mut [f32]; 4] {
    let (first, second) = row.split_at_mut(2 * width);
    let ((a, b), (c, d)) = (first.split_at_mut(width), second[..2 * width].split_at_mut(width));
    [a, b, c, d]
}

/// The row of a state at `index`, where there is a state.
#[inline(always)]
pub(crate) fn state_row(state: Option<&[f32]>, index: usize, width: usize) -> Option<&[f32]> {
    state.map(|state| &state[index * width..(index + 1) * width])
}

/// `output = z * h + (1 - z) * n`, where no state stands for zeros.
#[inline(always)]
pub(crate) fn mix<const FUSED: bool>(z: &[f32], n: &[f32], state: Option<&[f32]>, output: &mut [f32]) {
    match state {
        Some(h) => {
            for (((output, &z), &n), &h) in output.iter_mut().zip(z).zip(n).zip(h) {
                *output = fma::<FUSED>(z, h - n, n);
            }
        }
        None => {
            for ((output, &z), &n) in output.iter_mut().zip(z).zip(n) {
                *output = fma::<FUSED>(-z, n, n);
            }
        }
    }
}

/// What of the gradient of a mixed state goes straight to the old one: `sum += g * z`, with z from column
/// `at` of each row.
#[inline(always)]
pub(crate) fn mix_back<const FUSED: bool>(
    cell: &[f32],
    [stride, at]: [usize; 2],
    upstream: &[f32],
    width: usize,
    sum: &mut [f32],
) {
    let rows = cell.chunks_exact(stride).zip(upstream.chunks_exact(width));
    for ((row, g), sum) in rows.zip(sum.chunks_exact_mut(width)) {
        for ((sum, &z), &g) in sum.iter_mut().zip(&row[at..at + width]).zip(g) {
            *sum = fma::<FUSED>(g, z, *sum);
        }
    }
}

/// Columns of the input gates, and where they begin in a cell's rows.
pub(crate) struct Part {
    pub(crate) from: Range<usize>,
    pub(crate) to: usize,
}

/// Where a cell's input comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    /// One matrix of gates.
    Gates,
    /// An input, a weight and a bias.
    Product,
}

impl Input {
    /// How many inputs of the operation it is.
    pub(crate) const fn count(self) -> usize {
        match self {
            Input::Gates => 1,
            Input::Product => 3,
        }
    }

    /// The shape of the gates, if they are `gates` times as wide as the state and there are as many inputs as
    /// there should.
    pub(crate) fn shape(
        self,
        op: &'static str,
        inputs: &[Shape],
        count: usize,
        gates: usize,
    ) -> Result<Shape> {
        if inputs.len() != count {
            return Err(Error::shape(op, format!("{} inputs were given, expected {count}", inputs.len())));
        }
        let mut shape = inputs[0];
        if self == Input::Product {
            shape = Shape::new(inputs[0].rows, inputs[1].columns);
            let expected = Shape::new(inputs[0].columns, inputs[1].columns);
            expect_shape(op, "the input weight", inputs[1], expected)?;
            expect_shape(op, "the bias", inputs[2], Shape::new(1, inputs[1].columns))?;
        }
        if !shape.columns.is_multiple_of(gates) {
            let problem = format!("the gates have {} columns, expected a multiple of {gates}", shape.columns);
            return Err(Error::shape(op, problem));
        }
        Ok(shape)
    }

    /// How many columns the gates have, whether they are all used or not.
    fn columns(self, inputs: &[View<'_>]) -> usize {
        match self {
            Input::Gates => inputs[0].shape.columns,
            Input::Product => inputs[1].shape.columns,
        }
    }

    /// Puts the gates of some rows into the columns of `cell`.
    pub(crate) fn start(
        self,
        inputs: &[View<'_>],
        rows: Range<usize>,
        parts: &[Part],
        cell: &mut [f32],
        stride: usize,
    ) {
        let columns = self.columns(inputs);
        let gates = match self {
            Input::Gates => inputs[0].rows(rows.clone()).values,
            Input::Product => inputs[2].values,
        };
        for (to, from) in cell.chunks_exact_mut(stride).zip(gates.chunks_exact(columns).cycle()) {
            for part in parts {
                to[part.to..part.to + part.from.len()].copy_from_slice(&from[part.from.clone()]);
            }
        }
        if self == Input::Product {
            let x = inputs[0].rows(rows);
            for part in parts {
                let weight = Columns::new(inputs[1].values, columns, part.from.clone());
                multiply_columns(x.into(), weight, Side::Plain, ColumnsMut::new(cell, stride, part.to), true);
            }
        }
    }

    /// Adds to the gradient of the first input, of the rows of `gates`, which holds the gradients of the
    /// gates.
    pub(crate) fn back(
        self,
        inputs: &[View<'_>],
        parts: &[Part],
        gates: &[f32],
        stride: usize,
        sum: &mut [f32],
    ) {
        let columns = self.columns(inputs);
        match self {
            Input::Gates => {
                for (to, from) in sum.chunks_exact_mut(columns).zip(gates.chunks_exact(stride)) {
                    for part in parts {
                        let from = &from[part.to..part.to + part.from.len()];
                        to[part.from.clone()].iter_mut().zip(from).for_each(|(sum, value)| *sum += value);
                    }
                }
            }
            Input::Product => {
                let width = inputs[0].shape.columns;
                for part in parts {
                    let gates = Columns::new(gates, stride, part.to..part.to + part.from.len());
                    let weight = Columns::new(inputs[1].values, columns, part.from.clone());
                    let sum = ColumnsMut::new(sum, width, 0);
                    multiply_columns(gates, weight, Side::Transposed, sum, true);
                }
            }
        }
    }

    /// Adds to the gradients of the weight and of the bias, from the gradients of the gates of all rows.
    pub(crate) fn back_weights(
        self,
        inputs: &[View<'_>],
        parts: &[Part],
        (gates, stride): (&[f32], usize),
        slots: &mut [Option<&mut [f32]>],
    ) {
        if self == Input::Gates {
            return;
        }
        let columns = self.columns(inputs);
        for part in parts {
            let gates = Columns::new(gates, stride, part.to..part.to + part.from.len());
            if let Some(weight) = slots[1].as_deref_mut() {
                let output = ColumnsMut::new(weight, columns, part.from.start);
                weight_gradient_columns(inputs[0].into(), gates, output);
            }
            if let Some(bias) = slots[2].as_deref_mut() {
                sum_columns(gates, &mut bias[part.from.clone()]);
            }
        }
    }
}
