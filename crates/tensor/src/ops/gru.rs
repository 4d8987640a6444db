//! The gated recurrent unit (Cho et al., 2014) in the form of cuDNN and PyTorch, fused: the state is reset
//! after its product.
//!
//! `r = sigmoid(a_r + h U_r + c_r)`, `z = sigmoid(a_z + h U_z + c_z)`, `n = tanh(a_n + r * (h U_n + c_n))`,
//! `h' = (1 - z) * n + z * h`, with the columns of the input `a`, of `U` and of `c` in the order r, z, n.

use super::pieces::{by_pieces, taken};
use super::product::{Columns, ColumnsMut, Side, multiply_columns, sum_columns, weight_gradient_columns};
use super::recurrent::{Input, Part, mix, mix_back, quarters_mut, split, state_row};
use crate::clock::Stage;
use crate::cuda;
use crate::error::{Result, expect_shape};
use crate::op::{Back, Op, Shape, View};
use crate::simd::{fma, sigmoid_all, simd, tanh_all};
use crate::tape::{Tape, Var};

#[inline(always)]
fn activate_body<const FUSED: bool>(
    cell: &mut [f32],
    state: Option<&[f32]>,
    width: usize,
    output: &mut [f32],
) {
    let rows = cell.chunks_exact_mut(4 * width).zip(output.chunks_exact_mut(width));
    for (index, (row, output)) in rows.enumerate() {
        // The parts of a row: r, z, the state's part of n, and n.
        let [r, z, hidden, n] = quarters_mut(row, width);
        sigmoid_all::<FUSED>(r);
        sigmoid_all::<FUSED>(z);
        for ((n, &r), &hidden) in n.iter_mut().zip(r.iter()).zip(hidden.iter()) {
            *n = fma::<FUSED>(r, hidden, *n);
        }
        tanh_all::<FUSED>(n);
        mix::<FUSED>(z, n, state_row(state, index, width), output);
    }
}

simd! {
    /// Activates the gates and computes the new state.
    fn activate(cell: &mut [f32], state: Option<&[f32]>, width: usize, output: &mut [f32]) = activate_body;
}

#[inline(always)]
fn activate_back_body<const FUSED: bool>(
    cell: &[f32],
    state: Option<&[f32]>,
    upstream: &[f32],
    width: usize,
    gates: &mut [f32],
    state_gradient: Option<&mut [f32]>,
) {
    let rows = cell.chunks_exact(4 * width).zip(gates.chunks_exact_mut(4 * width));
    for (index, ((row, gates), g)) in rows.zip(upstream.chunks_exact(width)).enumerate() {
        let [r, z, hidden, n] = split(row, width);
        let [dr, dz, dhidden, dn] = quarters_mut(gates, width);
        for (((dn, &z), &n), &g) in dn.iter_mut().zip(z).zip(n).zip(g) {
            *dn = g * (1.0 - z) * fma::<FUSED>(-n, n, 1.0);
        }
        for ((((dr, dhidden), &dn), &r), &hidden) in
            dr.iter_mut().zip(dhidden).zip(dn.iter()).zip(r).zip(hidden)
        {
            *dhidden = dn * r;
            *dr = *dhidden * hidden * (1.0 - r);
        }
        match state_row(state, index, width) {
            Some(h) => {
                for ((((dz, &z), &n), &h), &g) in dz.iter_mut().zip(z).zip(n).zip(h).zip(g) {
                    *dz = g * (h - n) * z * (1.0 - z);
                }
            }
            None => {
                for (((dz, &z), &n), &g) in dz.iter_mut().zip(z).zip(n).zip(g) {
                    *dz = g * -n * z * (1.0 - z);
                }
            }
        }
    }
    if let Some(sum) = state_gradient {
        mix_back::<FUSED>(cell, [4 * width, width], upstream, width, sum);
    }
}

simd! {
    /// The gradients of the gates, and the part of the state's that goes straight to the new state.
    fn activate_back(
        cell: &[f32],
        state: Option<&[f32]>,
        upstream: &[f32],
        width: usize,
        gates: &mut [f32],
        state_gradient: Option<&mut [f32]>,
    ) = activate_back_body;
}

pub(super) struct Gru {
    pub(super) input: Input,
    pub(super) has_state: bool,
}

impl Gru {
    /// The part of n that comes from the input stands after the one that comes from the state.
    pub(super) fn parts(width: usize) -> [Part; 2] {
        [Part { from: 0..2 * width, to: 0 }, Part { from: 2 * width..3 * width, to: 3 * width }]
    }

    /// The state and its weight, which come after the state's bias.
    fn state<'a>(&self, inputs: &[View<'a>]) -> Option<(View<'a>, Columns<'a>)> {
        let at = self.input.count() + 1;
        self.has_state.then(|| (inputs[at], inputs[at + 1].into()))
    }
}

impl Op for Gru {
    fn name(&self) -> &'static str {
        "gru cell"
    }

    fn stage(&self) -> Stage {
        Stage::Time
    }

    fn shape(&self, inputs: &[Shape]) -> Result<Shape> {
        let at = self.input.count();
        let count = at + if self.has_state { 3 } else { 1 };
        let gates = self.input.shape(self.name(), inputs, count, 3)?;
        let width = gates.columns / 3;
        expect_shape(self.name(), "the state bias", inputs[at], Shape::new(1, 3 * width))?;
        if self.has_state {
            expect_shape(self.name(), "the state", inputs[at + 1], Shape::new(gates.rows, width))?;
            expect_shape(self.name(), "the state weight", inputs[at + 2], Shape::new(width, 3 * width))?;
        }
        Ok(Shape::new(gates.rows, width))
    }

    /// Rows of r, z, the state's part of n, and n.
    fn saved(&self, inputs: &[Shape]) -> usize {
        self.shape(inputs).map_or(0, |shape| 4 * shape.len())
    }

    fn scratch(&self, inputs: &[Shape]) -> usize {
        self.saved(inputs)
    }

    fn forward(&self, inputs: &[View<'_>], output: &mut [f32], saved: &mut [f32]) -> Result<()> {
        let rows = inputs[0].shape.rows;
        let Some(width @ 1..) = output.len().checked_div(rows) else { return Ok(()) };
        let (stride, bias) = (4 * width, inputs[self.input.count()].values);
        by_pieces(rows, &mut [Some(output), Some(saved)], |range, slots| {
            let (output, cell) = (taken(slots, 0), taken(slots, 1));
            self.input.start(inputs, range.clone(), &Self::parts(width), cell, stride);
            for row in cell.chunks_exact_mut(stride) {
                row[2 * width..3 * width].copy_from_slice(&bias[2 * width..]);
                row.iter_mut().zip(&bias[..2 * width]).for_each(|(sum, bias)| *sum += bias);
            }
            let state = self.state(inputs).map(|(state, weight)| (state.rows(range), weight));
            if let Some((state, weight)) = state {
                multiply_columns(state.into(), weight, Side::Plain, ColumnsMut::new(cell, stride, 0), true);
            }
            activate(cell, state.map(|(state, _)| state.values), width, output);
        });
        Ok(())
    }

    fn backward(&self, mut back: Back<'_, '_>) -> Result<()> {
        let (inputs, saved) = (back.inputs, back.saved);
        let Shape { rows, columns: width } = back.output.shape;
        if back.output.shape.is_empty() {
            return Ok(());
        }
        let (stride, at, parts) = (4 * width, self.input.count(), Self::parts(width));
        let upstream = View { shape: back.output.shape, values: back.upstream };
        let input_gradient = back.take(0);
        let state_gradient = if self.has_state { back.take(at + 1) } else { None };
        let mut slots = [Some(&mut *back.scratch), input_gradient, state_gradient];
        by_pieces(rows, &mut slots, |range, slots| {
            let gates = taken(slots, 0);
            let cell = &saved[range.start * stride..range.end * stride];
            let g = upstream.rows(range.clone()).values;
            let state = self.state(inputs).map(|(state, weight)| (state.rows(range), weight));
            let h = state.map(|(state, _)| state.values);
            activate_back(cell, h, g, width, gates, slots[2].as_deref_mut());
            if let (Some((_, weight)), Some(sum)) = (state, slots[2].take()) {
                let gates = Columns::new(gates, stride, 0..3 * width);
                multiply_columns(gates, weight, Side::Transposed, ColumnsMut::new(sum, width, 0), true);
            }
            if let Some(sum) = slots[1].take() {
                self.input.back(inputs, &parts, gates, stride, sum);
            }
        });
        let gates = &*back.scratch;
        let from_state = Columns::new(gates, stride, 0..3 * width);
        if let Some(bias) = back.gradients[at].take() {
            sum_columns(from_state, bias);
        }
        if let Some((state, _)) = self.state(inputs)
            && let Some(weight) = back.gradients[at + 2].take()
        {
            weight_gradient_columns(state.into(), from_state, ColumnsMut::new(weight, 3 * width, 0));
        }
        self.input.back_weights(inputs, &parts, (gates, stride), back.gradients);
        Ok(())
    }

    fn cuda(&self, call: cuda::Call<'_>) -> Result<()> {
        self.forward_on(&call)
    }

    fn cuda_back(&self, back: cuda::Back<'_>) -> Result<()> {
        self.backward_on(&back)
    }
}

/// A state and what it is multiplied by, as inputs of a cell: nothing where there is no state.
fn with_state(mut inputs: Vec<Var>, state: Option<Var>, weight: Var) -> Vec<Var> {
    inputs.extend(state.into_iter().flat_map(|state| [state, weight]));
    inputs
}

impl Tape<'_> {
    /// The new state of a gated recurrent unit, from gates of three times its width and from the state
    /// before.
    ///
    /// The state weight is `H x 3H`, the state bias one row. Without a state, which stands for zeros, the
    /// weight is not used.
    pub fn gru_cell(
        &mut self,
        gates: Var,
        state: Option<Var>,
        state_weight: Var,
        state_bias: Var,
    ) -> Result<Var> {
        let op = Gru { input: Input::Gates, has_state: state.is_some() };
        self.apply(op, &with_state(vec![gates, state_bias], state, state_weight))
    }

    /// [`Tape::gru_cell`] with gates `x input_weight + bias`, which are never a matrix of their own.
    pub fn gru_cell_with_input(
        &mut self,
        x: Var,
        input_weight: Var,
        bias: Var,
        state: Option<Var>,
        state_weight: Var,
        state_bias: Var,
    ) -> Result<Var> {
        let op = Gru { input: Input::Product, has_state: state.is_some() };
        self.apply(op, &with_state(vec![x, input_weight, bias, state_bias], state, state_weight))
    }
}
