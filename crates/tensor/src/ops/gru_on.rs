//! The gated recurrent unit on a GPU.

use super::dense::column_sums_on;
use super::fused::{BackwardCall, Cell, ForwardCall, Fused};
use super::gru::Gru;
use super::recurrent::Input;
use super::recurrent_on::{Place, each_unit};
use crate::cuda::{Back, Call};
use crate::error::Result;

impl Gru {
    pub(super) fn forward_on(&self, call: &Call<'_>) -> Result<()> {
        let (device, inputs, at) = (call.device, call.inputs, self.input.count());
        let (rows, width) = (inputs[0].shape.rows, inputs[at].shape.columns / 3);
        let stride = 4 * width;
        let cell = call.saved;
        let fused = self.fused(rows, inputs[0].shape.columns, width);
        if self.input == Input::Product && fused.goes_forth(device) {
            let way = ForwardCall {
                x: inputs[0].values,
                x_weight: inputs[1].values,
                bias: inputs[2].values,
                state: self.has_state.then(|| [inputs[at + 1].values, inputs[at + 2].values]),
                state_bias: Some(inputs[at].values),
                cell,
                aside: None,
                output: call.output,
            };
            return fused.forward(device, &way);
        }
        let place = Place { values: cell, stride };
        self.input.start_on(device, inputs, &Self::parts(width), place)?;
        let state = self.has_state.then(|| inputs[at + 1].values);
        if let Some(state) = state {
            let weight = inputs[at + 2].values;
            let (both, last) = (weight.factor(3 * width), weight.range(2 * width..weight.len()));
            device.product([rows, width, 2 * width], state.factor(width), both, 1.0, (cell, stride))?;
            let (last, output) = (last.factor(3 * width), (place.from(2 * width), stride));
            device.product([rows, width, width], state.factor(width), last, 0.0, output)?;
        }
        let (bias, state_bias) = (self.input.bias_on(inputs), inputs[at].values);
        let arguments = [cell.into(), bias.into(), state_bias.into(), state.into(), call.output.into()];
        each_unit(device, "gru", [rows, width], &arguments)
    }

    pub(super) fn backward_on(&self, back: &Back<'_>) -> Result<()> {
        let (device, inputs, at) = (back.device, back.inputs, self.input.count());
        let (rows, width) = (inputs[0].shape.rows, back.output.shape.columns);
        let stride = 4 * width;
        let gates = Place { values: back.scratch, stride };
        let state = self.has_state.then(|| inputs[at + 1].values);
        let sum = if self.has_state { back.gradients[at + 1] } else { None };
        let fused = self.fused(rows, inputs[0].shape.columns, width);
        if self.input == Input::Product && fused.goes_back(device, back.gradients[0].is_some()) {
            // The input's part of n stands behind the state's.
            let of_input = back.gradients[2]
                .map(|bias| [(0, bias.range(0..2 * width)), (3 * width, bias.range(2 * width..3 * width))]);
            let of_state = back.gradients[at].map(|bias| (0, bias));
            let way = BackwardCall {
                cell: back.saved,
                aside: None,
                upstream: back.upstream,
                x_weight: inputs[1].values,
                state: state.map(|state| [state, inputs[at + 2].values]),
                gates: gates.values,
                before: sum,
                dx: back.gradients[0],
                biases: of_input.into_iter().flatten().chain(of_state).collect(),
            };
            fused.backward(device, &way)?;
            return self.weights_on(back, true);
        }
        let arguments = [
            back.saved.into(),
            state.into(),
            back.upstream.into(),
            gates.values.into(),
            sum.map(|sum| sum.values).into(),
            sum.is_some_and(|sum| sum.adds).into(),
        ];
        each_unit(device, "gru_back", [rows, width], &arguments)?;
        if let (Some(sum), true) = (sum, self.has_state) {
            let weight = inputs[at + 2].values.transposed(3 * width);
            let from = gates.values.factor(stride);
            device.product([rows, 3 * width, width], from, weight, 1.0, (sum.values, width))?;
        }
        if let Some(sum) = back.gradients[at] {
            column_sums_on(device, (gates.values, stride, 0..3 * width), rows, sum)?;
        }
        self.weights_on(back, false)
    }

    fn fused(&self, rows: usize, input: usize, width: usize) -> Fused {
        Fused { cell: Cell::Gru, rows, input, width, state: self.has_state }
    }

    /// The gradients of the weights, from those of the gates, and of the input and the bias unless they
    /// `are_done`.
    fn weights_on(&self, back: &Back<'_>, are_done: bool) -> Result<()> {
        let (rows, width, at) = (back.inputs[0].shape.rows, back.output.shape.columns, self.input.count());
        let gates = Place { values: back.scratch, stride: 4 * width };
        if self.has_state
            && let Some(sum) = back.gradients[at + 2]
        {
            let (state, output) = (back.inputs[at + 1].values.transposed(width), (sum.values, 3 * width));
            let from = gates.values.factor(gates.stride);
            back.device.product([width, rows, 3 * width], state, from, sum.keep(), output)?;
        }
        self.input.back_on(back, &Self::parts(width), gates, are_done)
    }
}
