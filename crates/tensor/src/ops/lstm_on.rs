//! Long short-term memory on a GPU.

use super::fused::{BackwardCall, Cell, ForwardCall, Fused};
use super::lstm::Lstm;
use super::recurrent::{Input, Part};
use super::recurrent_on::{Place, each_unit};
use crate::cuda::{Back, Call, Slice};
use crate::error::Result;

/// All gates: a gradient that is new is to be written whole, also where there was nothing to forget.
fn parts(width: usize) -> [Part; 1] {
    [Part { from: 0..4 * width, to: 0 }]
}

impl Lstm {
    pub(super) fn forward_on(&self, call: &Call<'_>) -> Result<()> {
        let (device, inputs, at) = (call.device, call.inputs, self.input.count());
        let rows = inputs[0].shape.rows;
        let Some(width @ 1..) = call.output.len().checked_div(2 * rows) else { return Ok(()) };
        let stride = 4 * width;
        let [cell, tangents] = call.saved.split(stride * rows);
        let fused = self.fused(rows, inputs[0].shape.columns, width);
        if self.input == Input::Product && fused.goes_forth(device) {
            let way = ForwardCall {
                x: inputs[0].values,
                x_weight: inputs[1].values,
                bias: inputs[2].values,
                state: self.has_state.then(|| [inputs[at].values, inputs[at + 1].values]),
                state_bias: None,
                cell,
                aside: Some(tangents),
                output: call.output,
            };
            return fused.forward(device, &way);
        }
        let place = Place { values: cell, stride };
        self.input.start_on(device, inputs, &parts(width), place)?;
        let state = self.has_state.then(|| inputs[at].values);
        if let Some(state) = state {
            let (hidden, weight) = (state.factor(2 * width), inputs[at + 1].values.factor(stride));
            device.product([rows, width, stride], hidden, weight, 1.0, (cell, stride))?;
        }
        let bias = self.input.bias_on(inputs);
        let arguments = [cell.into(), bias.into(), state.into(), tangents.into(), call.output.into()];
        each_unit(device, "lstm", [rows, width], &arguments)
    }

    pub(super) fn backward_on(&self, back: &Back<'_>) -> Result<()> {
        let (device, inputs, at) = (back.device, back.inputs, self.input.count());
        let (rows, width) = (inputs[0].shape.rows, back.output.shape.columns / 2);
        let stride = 4 * width;
        let [cell, tangents] = back.saved.split(stride * rows);
        let gates = back.scratch;
        let state = self.has_state.then(|| inputs[at].values);
        let sum = if self.has_state { back.gradients[at] } else { None };
        let before: Option<Slice<'_>> = sum.map(|sum| sum.values);
        let fused = self.fused(rows, inputs[0].shape.columns, width);
        if self.input == Input::Product && fused.goes_back(device, back.gradients[0].is_some()) {
            let way = BackwardCall {
                cell,
                aside: Some(tangents),
                upstream: back.upstream,
                x_weight: inputs[1].values,
                state: state.map(|state| [state, inputs[at + 1].values]),
                gates,
                before: sum,
                dx: back.gradients[0],
                biases: back.gradients[2].map(|bias| (0, bias)).into_iter().collect(),
            };
            fused.backward(device, &way)?;
            return self.weights_on(back, true);
        }
        let arguments = [
            cell.into(),
            tangents.into(),
            state.into(),
            back.upstream.into(),
            gates.into(),
            before.into(),
            sum.is_some_and(|sum| sum.adds).into(),
        ];
        each_unit(device, "lstm_back", [rows, width], &arguments)?;
        if let (Some(sum), true) = (sum, self.has_state) {
            let weight = inputs[at + 1].values.transposed(stride);
            let output = (sum.values, 2 * width);
            device.product([rows, stride, width], gates.factor(stride), weight, sum.keep(), output)?;
        }
        self.weights_on(back, false)
    }

    fn fused(&self, rows: usize, input: usize, width: usize) -> Fused {
        Fused { cell: Cell::Lstm, rows, input, width, state: self.has_state }
    }

    /// The gradients of the weights, from those of the gates, and of the input and the bias unless they
    /// `are_done`.
    fn weights_on(&self, back: &Back<'_>, are_done: bool) -> Result<()> {
        let (rows, width) = (back.inputs[0].shape.rows, back.output.shape.columns / 2);
        let (stride, gates, at) = (4 * width, back.scratch, self.input.count());
        if self.has_state
            && let Some(sum) = back.gradients[at + 1]
        {
            let (hidden, output) = (back.inputs[at].values.transposed(2 * width), (sum.values, stride));
            back.device.product([width, rows, stride], hidden, gates.factor(stride), sum.keep(), output)?;
        }
        self.input.back_on(back, &parts(width), Place { values: gates, stride }, are_done)
    }
}
