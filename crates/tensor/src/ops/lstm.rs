//! Long short-term memory (Hochreiter and Schmidhuber, 1997; with the forget gate of Gers et al., 2000),
//! fused.
//!
//! `i, f, o = sigmoid(a)`, `g = tanh(a)` with `a = x W + h U + b` in the order i, f, g, o of PyTorch;
//! `c' = f * c + i * g`, `h' = o * tanh(c')`. The state is one matrix with h and c side by side, so that a
//! cell's output is the next one's input.

use super::pieces::{by_pieces, taken};
use super::product::{Columns, ColumnsMut, Side, multiply_columns, weight_gradient_columns};
use super::recurrent::{Input, Part, quarters_mut, split};
use crate::clock::Stage;
use crate::cuda;
use crate::error::{Error, Result, expect_shape};
use crate::op::{Back, Op, Shape, View};
use crate::simd::{fma, sigmoid, sigmoid_and_tanh, sigmoid_pair, simd, tanh_all};
use crate::tape::{Tape, Var};

/// Columns that are activated together: the widest register.
const LANES: usize = 16;

/// `N` numbers from `at` on.
#[inline(always)]
fn read<const N: usize>(from: &[f32], at: usize) -> [f32; N] {
    let mut numbers = [0.0; N];
    numbers.copy_from_slice(&from[at..at + N]);
    numbers
}

/// What belongs to one row of a cell: i, f, g and o, `tanh(c')`, and the state h and c.
struct Row<'a> {
    gates: [&'a mut [f32]; 4],
    tangent: &'a mut [f32],
    hidden: &'a mut [f32],
    c: &'a mut [f32],
}

/// Activates `N` columns from `at` on; all gates of a column at once, so that two share a division.
#[inline(always)]
fn activate_columns<const FUSED: bool, const N: usize>(
    row: &mut Row<'_>,
    bias: [&[f32]; 4],
    before: Option<&[f32]>,
    at: usize,
) {
    let (mut i, mut g) = (read::<N>(row.gates[0], at), read::<N>(row.gates[2], at));
    let (to_i, to_g) = (read::<N>(bias[0], at), read::<N>(bias[2], at));
    let mut c = [0.0; N];
    for j in 0..N {
        let (input, candidate) = sigmoid_and_tanh::<FUSED>(i[j] + to_i[j], g[j] + to_g[j]);
        i[j] = input;
        g[j] = candidate;
        c[j] = i[j] * g[j];
    }
    row.gates[0][at..at + N].copy_from_slice(&i);
    row.gates[2][at..at + N].copy_from_slice(&g);
    let (mut o, to_o) = (read::<N>(row.gates[3], at), read::<N>(bias[3], at));
    if let Some(before) = before {
        let (mut f, to_f) = (read::<N>(row.gates[1], at), read::<N>(bias[1], at));
        let before = read::<N>(before, at);
        for j in 0..N {
            let (forget, output) = sigmoid_pair::<FUSED>(f[j] + to_f[j], o[j] + to_o[j]);
            f[j] = forget;
            o[j] = output;
            c[j] = fma::<FUSED>(forget, before[j], c[j]);
        }
        row.gates[1][at..at + N].copy_from_slice(&f);
    } else {
        for j in 0..N {
            o[j] = sigmoid::<FUSED>(o[j] + to_o[j]);
        }
    }
    row.gates[3][at..at + N].copy_from_slice(&o);
    row.c[at..at + N].copy_from_slice(&c);
}

#[inline(always)]
fn activate_body<const FUSED: bool>(
    cell: &mut [f32],
    bias: &[f32],
    state: Option<&[f32]>,
    width: usize,
    tangents: &mut [f32],
    output: &mut [f32],
) {
    let bias = split(bias, width);
    let rows = cell.chunks_exact_mut(4 * width).zip(output.chunks_exact_mut(2 * width));
    for (index, ((gates, output), tangent)) in rows.zip(tangents.chunks_exact_mut(width)).enumerate() {
        let (hidden, c) = output.split_at_mut(width);
        let mut row = Row { gates: quarters_mut(gates, width), tangent, hidden, c };
        let before = state.map(|state| &state[(2 * index + 1) * width..(2 * index + 2) * width]);
        let whole = width / LANES * LANES;
        for at in (0..whole).step_by(LANES) {
            activate_columns::<FUSED, LANES>(&mut row, bias, before, at);
        }
        for at in whole..width {
            activate_columns::<FUSED, 1>(&mut row, bias, before, at);
        }
        // In a loop of its own: it would wait for c otherwise.
        let Row { gates: [.., o], tangent, hidden, c } = row;
        tangent.copy_from_slice(c);
        tanh_all::<FUSED>(tangent);
        hidden.iter_mut().zip(o.iter()).zip(tangent.iter()).for_each(|((h, o), tangent)| *h = o * tangent);
    }
}

simd! {
    /// Adds the bias, activates the gates, computes the new state and puts `tanh(c')` aside.
    fn activate(
        cell: &mut [f32],
        bias: &[f32],
        state: Option<&[f32]>,
        width: usize,
        tangents: &mut [f32],
        output: &mut [f32],
    ) = activate_body;
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
        if let Some(state) = state {
            for ((df, &f), &before) in df.iter_mut().zip(f).zip(&state[place]) {
                *df = *df * before * f * (1.0 - f);
            }
        }
    }
}

simd! {
    /// The gradients of the gates, and that of c.
    fn activate_back(
        cell: (&[f32], &[f32]),
        state: Option<&[f32]>,
        upstream: &[f32],
        width: usize,
        gates: &mut [f32],
        state_gradient: Option<&mut [f32]>,
    ) = activate_back_body;
}

pub(super) struct Lstm {
    pub(super) input: Input,
    pub(super) has_state: bool,
}

impl Lstm {
    /// The gates that are used: without a state there is nothing to forget.
    fn parts(&self, width: usize) -> Vec<Part> {
        match self.has_state {
            true => vec![Part { from: 0..4 * width, to: 0 }],
            false => vec![Part { from: 0..width, to: 0 }, Part { from: 2 * width..4 * width, to: 2 * width }],
        }
    }

    /// The state, h and c, and the weight of h.
    fn state<'a>(&self, inputs: &[View<'a>]) -> Option<(View<'a>, Columns<'a>)> {
        let at = self.input.count();
        self.has_state.then(|| (inputs[at], inputs[at + 1].into()))
    }
}

impl Op for Lstm {
    fn name(&self) -> &'static str {
        "lstm cell"
    }

    fn stage(&self) -> Stage {
        Stage::Time
    }

    fn shape(&self, inputs: &[Shape]) -> Result<Shape> {
        let at = self.input.count();
        let gates = self.input.shape(self.name(), inputs, if self.has_state { at + 2 } else { at }, 4)?;
        let width = gates.columns / 4;
        if self.has_state {
            expect_shape(self.name(), "the state", inputs[at], Shape::new(gates.rows, 2 * width))?;
            expect_shape(self.name(), "the state weight", inputs[at + 1], Shape::new(width, 4 * width))?;
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
        let width = output.len() / 2 / rows.max(1);
        if rows * width == 0 {
            return Ok(());
        }
        let stride = 4 * width;
        let parts = self.parts(width);
        // The bias is added with the activation, where the gates are read anyway.
        let zeros = vec![0.0; if self.input == Input::Gates { stride } else { 0 }];
        let bias = match self.input {
            Input::Gates => &zeros[..],
            Input::Product => inputs[2].values,
        };
        let (cell, tangents) = saved.split_at_mut(stride * rows);
        by_pieces(rows, &mut [Some(output), Some(cell), Some(tangents)], |range, slots| {
            let [output, cell, tangents] = [0, 1, 2].map(|index| taken(slots, index));
            let x = inputs[0].rows(range.clone());
            match self.input {
                Input::Gates => cell.copy_from_slice(x.values),
                Input::Product => {
                    for part in &parts {
                        let weight = Columns::new(inputs[1].values, stride, part.from.clone());
                        let output = ColumnsMut::new(cell, stride, part.to);
                        multiply_columns(x.into(), weight, Side::Plain, output, false);
                    }
                }
            }
            let state = self.state(inputs).map(|(state, weight)| (state.rows(range).values, weight));
            if let Some((state, weight)) = state {
                let hidden = Columns::new(state, 2 * width, 0..width);
                multiply_columns(hidden, weight, Side::Plain, ColumnsMut::new(cell, stride, 0), true);
            }
            activate(cell, bias, state.map(|(state, _)| state), width, tangents, output);
        });
        Ok(())
    }

    fn backward(&self, mut back: Back<'_, '_>) -> Result<()> {
        let (inputs, rows) = (back.inputs, back.output.shape.rows);
        if back.output.shape.is_empty() {
            return Ok(());
        }
        let width = back.output.shape.columns / 2;
        let (stride, at, parts) = (4 * width, self.input.count(), self.parts(width));
        let upstream = View { shape: back.output.shape, values: back.upstream };
        let (cell, tangents) = back.saved.split_at(stride * rows);
        let input_gradient = back.take(0);
        let state_gradient = if self.has_state { back.take(at) } else { None };
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
                self.input.back(inputs, &parts, gates, stride, sum);
            }
        });
        let gates = &*back.scratch;
        if let Some((state, _)) = self.state(inputs)
            && let Some(weight) = back.gradients[at + 1].take()
        {
            let hidden = Columns::new(state.values, 2 * width, 0..width);
            let gates = Columns::new(gates, stride, 0..stride);
            weight_gradient_columns(hidden, gates, ColumnsMut::new(weight, stride, 0));
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

impl Tape<'_> {
    /// The new state of a long short-term memory, h and c side by side, from an input and from the state
    /// before.
    ///
    /// The input weight is `F x 4H`, the state weight `H x 4H`, the bias one row of `4H`. Without a state,
    /// which stands for zeros, the state weight is not used.
    pub fn lstm_cell(
        &mut self,
        x: Var,
        input_weight: Var,
        bias: Var,
        state: Option<Var>,
        state_weight: Var,
    ) -> Result<Var> {
        let op = Lstm { input: Input::Product, has_state: state.is_some() };
        match state {
            Some(state) => self.apply(op, &[x, input_weight, bias, state, state_weight]),
            None => self.apply(op, &[x, input_weight, bias]),
        }
    }

    /// [`Tape::lstm_cell`] from gates `x input_weight + bias`, four times as wide as h, that are there
    /// already.
    pub fn lstm_cell_of_gates(&mut self, gates: Var, state: Option<Var>, state_weight: Var) -> Result<Var> {
        let op = Lstm { input: Input::Gates, has_state: state.is_some() };
        match state {
            Some(state) => self.apply(op, &[gates, state, state_weight]),
            None => self.apply(op, &[gates]),
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
