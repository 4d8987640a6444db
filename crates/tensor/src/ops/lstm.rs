//! Long short-term memory (Hochreiter and Schmidhuber, 1997; with the forget gate of Gers et al., 2000), fused.
//!
//! `i, f, o = sigmoid(a)`, `g = tanh(a)` with `a = x W + h U + b` in the order i, f, g, o of PyTorch; `c' = f * c + i * g`,
//! `h' = o * tanh(c')`. The state is one matrix with h and c side by side, so that a cell's output is the next one's input.

use super::pieces::{by_pieces, taken};
use super::product::{Columns, ColumnsMut, Side, multiply_columns, weight_gradient_columns};
use super::recurrent::{Input, Part, quarters_mut, split};
use crate::cuda;
use crate::error::{Error, Result, expect_shape};
use crate::op::{Back, Op, Shape, View};
use crate::simd::{fma, sigmoid_all, simd, tanh_all};
use crate::tape::{Tape, Var};

#[inline(always)]
fn activate_body<const FUSED: bool>(
    cell: &mut [f32],
    state: Option<&[f32]>,
    width: usize,
    tangents: &mut [f32],
    output: &mut [f32],
) {
    let rows = cell.chunks_exact_mut(4 * width).zip(output.chunks_exact_mut(2 * width));
    for (index, ((row, output), tangent)) in rows.zip(tangents.chunks_exact_mut(width)).enumerate() {
        let [i, f, g, o] = quarters_mut(row, width);
        let (hidden, c) = output.split_at_mut(width);
        sigmoid_all::<FUSED>(i);
        sigmoid_all::<FUSED>(f);
        tanh_all::<FUSED>(g);
        sigmoid_all::<FUSED>(o);
        c.iter_mut().zip(i.iter()).zip(g.iter()).for_each(|((c, i), g)| *c = i * g);
        if let Some(state) = state {
            let before = &state[(2 * index + 1) * width..(2 * index + 2) * width];
            for ((c, &f), &before) in c.iter_mut().zip(f.iter()).zip(before) {
                *c = fma::<FUSED>(f, before, *c);
            }
        }
        tangent.copy_from_slice(c);
        tanh_all::<FUSED>(tangent);
        hidden.iter_mut().zip(o.iter()).zip(tangent.iter()).for_each(|((h, o), tangent)| *h = o * tangent);
    }
}

simd! {
    /// Activates the gates, computes the new state and puts `tanh(c')` aside.
    fn activate(cell: &mut [f32], state: Option<&[f32]>, width: usize, tangents: &mut [f32], output: &mut [f32]) = activate_body;
}

#[inline(always)]
fn activate_back_body<const FUSED: bool>(
    (cell, tangents): (&[f32], &[f32]),
    state: Option<&[f32]>,
    upstream: &[f32],
    width: usize,
    gates: &mut [f32],
    mut state_gradient: Option<&mut [f32]>,
) {
    let rows = cell.chunks_exact(4 * width).zip(gates.chunks_exact_mut(4 * width));
    let rows = rows.zip(tangents.chunks_exact(width)).zip(upstream.chunks_exact(2 * width));
    for (index, (((row, gates), tangent), upstream)) in rows.enumerate() {
        let [i, f, g, o] = split(row, width);
        let [di, df, dg, output] = quarters_mut(gates, width);
        let (hidden, c) = upstream.split_at(width);
        // The gradient of c' stands where that of f belongs, until it is used.
        for (((((df, output), &tangent), &o), &hidden), &c) in
            df.iter_mut().zip(output).zip(tangent).zip(o).zip(hidden).zip(c)
        {
            *output = hidden * tangent * o * (1.0 - o);
            *df = fma::<FUSED>(hidden * o, fma::<FUSED>(-tangent, tangent, 1.0), c);
        }
        for ((((di, dg), &dc), &i), &g) in di.iter_mut().zip(dg).zip(df.iter()).zip(i).zip(g) {
            *di = dc * g * i * (1.0 - i);
            *dg = dc * i * fma::<FUSED>(-g, g, 1.0);
        }
        let place = (2 * index + 1) * width..(2 * index + 2) * width;
        if let Some(sum) = state_gradient.as_deref_mut() {
            for ((sum, &dc), &f) in sum[place.clone()].iter_mut().zip(df.iter()).zip(f) {
                *sum = fma::<FUSED>(dc, f, *sum);
            }
        }
        match state {
            Some(state) => {
                for ((df, &f), &before) in df.iter_mut().zip(f).zip(&state[place]) {
                    *df = *df * before * f * (1.0 - f);
                }
            }
            None => df.fill(0.0),
        }
    }
}

simd! {
    /// The gradients of the gates, and that of c.
    fn activate_back(cell: (&[f32], &[f32]), state: Option<&[f32]>, upstream: &[f32], width: usize, gates: &mut [f32], state_gradient: Option<&mut [f32]>) = activate_back_body;
}

pub(super) struct Lstm {
    pub(super) has_state: bool,
}

impl Lstm {
    pub(super) fn parts(width: usize) -> [Part; 1] {
        [Part { from: 0..4 * width, to: 0 }]
    }

    /// The state, h and c, and the weight of h.
    fn state<'a>(&self, inputs: &[View<'a>]) -> Option<(View<'a>, Columns<'a>)> {
        self.has_state.then(|| (inputs[3], inputs[4].into()))
    }
}

impl Op for Lstm {
    fn name(&self) -> &'static str {
        "lstm cell"
    }

    fn shape(&self, inputs: &[Shape]) -> Result<Shape> {
        let gates = Input::Product.shape(self.name(), inputs, if self.has_state { 5 } else { 3 }, 4)?;
        let width = gates.columns / 4;
        if self.has_state {
            expect_shape(self.name(), "the state", inputs[3], Shape::new(gates.rows, 2 * width))?;
            expect_shape(self.name(), "the state weight", inputs[4], Shape::new(width, 4 * width))?;
        }
        Ok(Shape::new(gates.rows, 2 * width))
    }

    /// Rows of i, f, g and o, then rows of `tanh(c')`.
    fn saved(&self, inputs: &[Shape]) -> usize {
        self.shape(inputs).map_or(0, |shape| 5 * shape.len() / 2)
    }

    fn scratch(&self, inputs: &[Shape]) -> usize {
        self.shape(inputs).map_or(0, |shape| 2 * shape.len())
    }

    fn forward(&self, inputs: &[View<'_>], output: &mut [f32], saved: &mut [f32]) -> Result<()> {
        let rows = inputs[0].shape.rows;
        let width = inputs[1].shape.columns / 4;
        if rows * width == 0 {
            return Ok(());
        }
        let stride = 4 * width;
        let (cell, tangents) = saved.split_at_mut(stride * rows);
        by_pieces(rows, &mut [Some(output), Some(cell), Some(tangents)], |range, slots| {
            let [output, cell, tangents] = [0, 1, 2].map(|index| taken(slots, index));
            Input::Product.start(inputs, range.clone(), &Self::parts(width), cell, stride);
            let state = self.state(inputs).map(|(state, weight)| (state.rows(range).values, weight));
            if let Some((state, weight)) = state {
                let hidden = Columns::new(state, 2 * width, 0..width);
                multiply_columns(hidden, weight, Side::Plain, ColumnsMut::new(cell, stride, 0), true);
            }
            activate(cell, state.map(|(state, _)| state), width, tangents, output);
        });
        Ok(())
    }

    fn backward(&self, mut back: Back<'_, '_>) -> Result<()> {
        let (inputs, rows) = (back.inputs, back.output.shape.rows);
        if back.output.shape.is_empty() {
            return Ok(());
        }
        let width = back.output.shape.columns / 2;
        let (stride, parts) = (4 * width, Self::parts(width));
        let upstream = View { shape: back.output.shape, values: back.upstream };
        let (cell, tangents) = back.saved.split_at(stride * rows);
        let input_gradient = back.take(0);
        let state_gradient = if self.has_state { back.take(3) } else { None };
        let mut slots = [Some(&mut *back.scratch), input_gradient, state_gradient];
        by_pieces(rows, &mut slots, |range, slots| {
            let gates = taken(slots, 0);
            let saved = (
                &cell[range.start * stride..range.end * stride],
                &tangents[range.start * width..range.end * width],
            );
            let g = upstream.rows(range.clone()).values;
            let state = self.state(inputs).map(|(state, weight)| (state.rows(range).values, weight));
            activate_back(saved, state.map(|(state, _)| state), g, width, gates, slots[2].as_deref_mut());
            if let (Some((_, weight)), Some(sum)) = (state, slots[2].take()) {
                let gates = Columns::new(gates, stride, 0..stride);
                multiply_columns(gates, weight, Side::Transposed, ColumnsMut::new(sum, 2 * width, 0), true);
            }
            if let Some(sum) = slots[1].take() {
                Input::Product.back(inputs, &parts, gates, stride, sum);
            }
        });
        let gates = &*back.scratch;
        if let Some((state, _)) = self.state(inputs)
            && let Some(weight) = back.gradients[4].take()
        {
            let hidden = Columns::new(state.values, 2 * width, 0..width);
            let gates = Columns::new(gates, stride, 0..stride);
            weight_gradient_columns(hidden, gates, ColumnsMut::new(weight, stride, 0));
        }
        Input::Product.back_weights(inputs, &parts, (gates, stride), back.gradients);
        Ok(())
    }

    fn cuda(&self, call: cuda::Call<'_>) -> Result<()> {
        self.forward_on(&call)
    }

    fn cuda_back(&self, back: cuda::Back<'_>) -> Result<()> {
        self.backward_on(&back)
    }
}

impl Tape<'_> {
    /// The new state of a long short-term memory, h and c side by side, from an input and from the state before.
    ///
    /// The input weight is `F x 4H`, the state weight `H x 4H`, the bias one row of `4H`. Without a state, which stands for
    /// zeros, the state weight is not used.
    pub fn lstm_cell(
        &mut self,
        x: Var,
        input_weight: Var,
        bias: Var,
        state: Option<Var>,
        state_weight: Var,
    ) -> Result<Var> {
        let op = Lstm { has_state: state.is_some() };
        match state {
            Some(state) => self.apply(op, &[x, input_weight, bias, state, state_weight]),
            None => self.apply(op, &[x, input_weight, bias]),
        }
    }

    /// What a cell shows of its state: h, without c.
    pub fn lstm_output(&mut self, state: Var) -> Result<Var> {
        let columns = self.shape(state).columns;
        if !columns.is_multiple_of(2) {
            return Err(Error::shape(
                "lstm output",
                format!("the state has {columns} columns, expected an even number"),
            ));
        }
        self.slice_columns(state, 0..columns / 2)
    }
}
