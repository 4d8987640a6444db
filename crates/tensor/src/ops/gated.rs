//! The gated cell of T-GCN (Zhao et al., 2020, equations 3 to 6), fused: the state is reset before its
//! product.
//!
//! `z = sigmoid(a_z + h U_z)`, `r = sigmoid(a_r + h U_r)`, `n = tanh(a_n + (r * h) U_n)`,
//! `h' = z * h + (1 - z) * n`, with the columns of the input `a` and of `U` in the order z, r, n.

use super::elementwise::add_scaled;
use super::pieces::{by_pieces, taken};
use super::product::{Columns, ColumnsMut, Side, multiply_columns, weight_gradient_columns};
use super::recurrent::{Input, Part, mix, mix_back, split, state_row};
use crate::clock::Stage;
use crate::cuda;
use crate::error::{Result, expect_shape};
use crate::op::{Back, Op, Shape, View};
use crate::simd::{fma, sigmoid, sigmoid_all, simd, tanh_all};
use crate::tape::{Tape, Var};

/// The three gates of a row, to be written to.
#[inline(always)]
fn thirds_mut(row: &mut [f32], width: usize) -> [&mut [f32]; 3] {
    let (a, rest) = row.split_at_mut(width);
    let (b, c) = rest.split_at_mut(width);
    [a, b, &mut c[..width]]
}

#[inline(always)]
fn reset_body<const FUSED: bool>(cell: &mut [f32], state: &[f32], width: usize, reset: &mut [f32]) {
    let rows = cell.chunks_exact_mut(3 * width).zip(reset.chunks_exact_mut(width));
    for ((row, reset), h) in rows.zip(state.chunks_exact(width)) {
        let [_, r, _] = thirds_mut(row, width);
        for ((r, reset), &h) in r.iter_mut().zip(reset).zip(h) {
            *r = sigmoid::<FUSED>(*r);
            *reset = *r * h;
        }
    }
}

simd! {
    /// Activates r and puts `r * h` aside.
    fn reset_state(cell: &mut [f32], state: &[f32], width: usize, reset: &mut [f32]) = reset_body;
}

#[inline(always)]
fn update_body<const FUSED: bool>(cell: &mut [f32], state: Option<&[f32]>, width: usize, output: &mut [f32]) {
    for (index, (row, output)) in
        cell.chunks_exact_mut(3 * width).zip(output.chunks_exact_mut(width)).enumerate()
    {
        let [z, _, n] = thirds_mut(row, width);
        sigmoid_all::<FUSED>(z);
        tanh_all::<FUSED>(n);
        mix::<FUSED>(z, n, state_row(state, index, width), output);
    }
}

simd! {
    /// Activates z and n and computes the new state.
    fn update(cell: &mut [f32], state: Option<&[f32]>, width: usize, output: &mut [f32]) = update_body;
}

#[inline(always)]
fn update_back_body<const FUSED: bool>(
    cell: &[f32],
    state: Option<&[f32]>,
    upstream: &[f32],
    width: usize,
    gates: &mut [f32],
    state_gradient: Option<&mut [f32]>,
) {
    let rows = cell.chunks_exact(3 * width).zip(gates.chunks_exact_mut(3 * width));
    for (index, ((row, gates), g)) in rows.zip(upstream.chunks_exact(width)).enumerate() {
        let [z, _, n] = split(row, width);
        let [dz, dr, dn] = thirds_mut(gates, width);
        match state_row(state, index, width) {
            Some(h) => {
                for (((((dz, dn), &z), &n), &h), &g) in dz.iter_mut().zip(dn).zip(z).zip(n).zip(h).zip(g) {
                    let stays = g * (1.0 - z);
                    *dz = stays * z * (h - n);
                    *dn = stays * fma::<FUSED>(-n, n, 1.0);
                }
            }
            None => {
                dr.fill(0.0);
                for ((((dz, dn), &z), &n), &g) in dz.iter_mut().zip(dn).zip(z).zip(n).zip(g) {
                    let stays = g * (1.0 - z);
                    *dz = stays * z * -n;
                    *dn = stays * fma::<FUSED>(-n, n, 1.0);
                }
            }
        }
    }
    if let Some(sum) = state_gradient {
        mix_back::<FUSED>(cell, [3 * width, 0], upstream, width, sum);
    }
}

simd! {
    /// The gradients of z and n, and the part of the state's that goes straight to the new state.
    fn update_back(
        cell: &[f32],
        state: Option<&[f32]>,
        upstream: &[f32],
        width: usize,
        gates: &mut [f32],
        state_gradient: Option<&mut [f32]>,
    ) = update_back_body;
}

#[inline(always)]
fn reset_back_body<const FUSED: bool>(
    cell: &[f32],
    state: &[f32],
    width: usize,
    gates: &mut [f32],
    reset: &mut [f32],
) {
    let rows = cell.chunks_exact(3 * width).zip(gates.chunks_exact_mut(3 * width));
    for (((row, gates), h), reset) in rows.zip(state.chunks_exact(width)).zip(reset.chunks_exact_mut(width)) {
        let [_, r, _] = split(row, width);
        let [_, dr, _] = thirds_mut(gates, width);
        for (((dr, reset), &r), &h) in dr.iter_mut().zip(reset).zip(r).zip(h) {
            *reset *= r;
            *dr = *reset * h * (1.0 - r);
        }
    }
}

simd! {
    /// The gradient of r from that of `r * h`, which becomes that of the state through the reset.
    fn reset_back(
        cell: &[f32],
        state: &[f32],
        width: usize,
        gates: &mut [f32],
        reset: &mut [f32],
    ) = reset_back_body;
}

pub(super) struct Gated {
    pub(super) input: Input,
    pub(super) has_state: bool,
}

impl Gated {
    pub(super) fn parts(width: usize) -> [Part; 1] {
        [Part { from: 0..3 * width, to: 0 }]
    }

    /// The state and its weight.
    fn state<'a>(&self, inputs: &[View<'a>]) -> Option<(View<'a>, &'a [f32])> {
        let at = self.input.count();
        self.has_state.then(|| (inputs[at], inputs[at + 1].values))
    }
}

impl Op for Gated {
    fn name(&self) -> &'static str {
        "gated cell"
    }

    fn stage(&self) -> Stage {
        Stage::Time
    }

    fn shape(&self, inputs: &[Shape]) -> Result<Shape> {
        let at = self.input.count();
        let count = at + if self.has_state { 2 } else { 0 };
        let gates = self.input.shape(self.name(), inputs, count, 3)?;
        let width = gates.columns / 3;
        if self.has_state {
            expect_shape(self.name(), "the state", inputs[at], Shape::new(gates.rows, width))?;
            expect_shape(self.name(), "the state weight", inputs[at + 1], Shape::new(width, 3 * width))?;
        }
        Ok(Shape::new(gates.rows, width))
    }

    /// Rows of z, r and n, then rows of `r * h`.
    fn saved(&self, inputs: &[Shape]) -> usize {
        let parts = if self.has_state { 4 } else { 3 };
        self.shape(inputs).map_or(0, |shape| parts * shape.len())
    }

    fn scratch(&self, inputs: &[Shape]) -> usize {
        self.saved(inputs)
    }

    fn forward(&self, inputs: &[View<'_>], output: &mut [f32], saved: &mut [f32]) -> Result<()> {
        let rows = inputs[0].shape.rows;
        let Some(width @ 1..) = output.len().checked_div(rows) else { return Ok(()) };
        let stride = 3 * width;
        let (cell, reset) = saved.split_at_mut(stride * rows);
        by_pieces(rows, &mut [Some(output), Some(cell), Some(reset)], |range, slots| {
            let [output, cell, reset] = [0, 1, 2].map(|index| taken(slots, index));
            self.input.start(inputs, range.clone(), &Self::parts(width), cell, stride);
            let state = self.state(inputs).map(|(state, weight)| (state.rows(range), weight));
            if let Some((state, weight)) = state {
                let [both, last] = weights(weight, width);
                multiply_columns(state.into(), both, Side::Plain, ColumnsMut::new(cell, stride, 0), true);
                reset_state(cell, state.values, width, reset);
                let reset = Columns::new(reset, width, 0..width);
                multiply_columns(reset, last, Side::Plain, ColumnsMut::new(cell, stride, 2 * width), true);
            }
            update(cell, state.map(|(state, _)| state.values), width, output);
        });
        Ok(())
    }

    fn backward(&self, mut back: Back<'_, '_>) -> Result<()> {
        let (inputs, saved) = (back.inputs, back.saved);
        let Shape { rows, columns: width } = back.output.shape;
        if back.output.shape.is_empty() {
            return Ok(());
        }
        let (stride, at, parts) = (3 * width, self.input.count(), Self::parts(width));
        let upstream = View { shape: back.output.shape, values: back.upstream };
        let input_gradient = back.take(0);
        let state_gradient = if self.has_state { back.take(at) } else { None };
        let (saved, saved_reset) = saved.split_at(stride * rows);
        let (gates, reset) = back.scratch.split_at_mut(stride * rows);
        let mut slots = [Some(&mut *gates), Some(reset), input_gradient, state_gradient];
        by_pieces(rows, &mut slots, |range, slots| {
            let (gates, reset) = (taken(slots, 0), taken(slots, 1));
            let cell = &saved[range.start * stride..range.end * stride];
            let g = upstream.rows(range.clone()).values;
            let state = self.state(inputs).map(|(state, weight)| (state.rows(range), weight));
            update_back(cell, state.map(|(state, _)| state.values), g, width, gates, slots[3].as_deref_mut());
            if let Some((state, weight)) = state {
                let [both, last] = weights(weight, width);
                let dn = Columns::new(gates, stride, 2 * width..3 * width);
                multiply_columns(dn, last, Side::Transposed, ColumnsMut::new(reset, width, 0), false);
                reset_back(cell, state.values, width, gates, reset);
                if let Some(sum) = slots[3].take() {
                    add_scaled(reset, 1.0, sum);
                    let gates = Columns::new(gates, stride, 0..2 * width);
                    multiply_columns(gates, both, Side::Transposed, ColumnsMut::new(sum, width, 0), true);
                }
            }
            if let Some(sum) = slots[2].take() {
                self.input.back(inputs, &parts, gates, stride, sum);
            }
        });
        if let Some((state, _)) = self.state(inputs)
            && let Some(weight) = back.gradients[at + 1].take()
        {
            let both = Columns::new(gates, stride, 0..2 * width);
            weight_gradient_columns(state.into(), both, ColumnsMut::new(weight, stride, 0));
            let (reset, dn) =
                (Columns::new(saved_reset, width, 0..width), Columns::new(gates, stride, 2 * width..stride));
            weight_gradient_columns(reset, dn, ColumnsMut::new(weight, stride, 2 * width));
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

/// The columns of the state weight for z and r, and those for n.
fn weights(weight: &[f32], width: usize) -> [Columns<'_>; 2] {
    [0..2 * width, 2 * width..3 * width].map(|columns| Columns::new(weight, 3 * width, columns))
}

impl Tape<'_> {
    /// The new state of a gated cell, from gates of three times its width and from the state before.
    ///
    /// The state weight is `H x 3H`. Without a state, which stands for zeros, it is not used.
    pub fn gated_cell(&mut self, gates: Var, state: Option<Var>, state_weight: Var) -> Result<Var> {
        let op = Gated { input: Input::Gates, has_state: state.is_some() };
        match state {
            Some(state) => self.apply(op, &[gates, state, state_weight]),
            None => self.apply(op, &[gates]),
        }
    }

    /// [`Tape::gated_cell`] with gates `x input_weight + bias`, which are never a matrix of their own.
    pub fn gated_cell_with_input(
        &mut self,
        x: Var,
        input_weight: Var,
        bias: Var,
        state: Option<Var>,
        state_weight: Var,
    ) -> Result<Var> {
        let op = Gated { input: Input::Product, has_state: state.is_some() };
        match state {
            Some(state) => self.apply(op, &[x, input_weight, bias, state, state_weight]),
            None => self.apply(op, &[x, input_weight, bias]),
        }
    }
}
