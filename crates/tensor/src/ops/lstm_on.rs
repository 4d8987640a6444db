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
        let (device, inputs) = (call.device, call.inputs);
        let (rows, width) = (inputs[0].shape.rows, inputs[1].shape.columns / 4);
        let stride = 4 * width;
        let [cell, tangents] = call.saved.split(stride * rows);
        let fused = self.fused(rows, inputs[0].shape.columns, width);
        if fused.goes_forth(device) {
            let way = ForwardCall {
                x: inputs[0].values,
                x_weight: inputs[1].values,
                bias: inputs[2].values,
                state: self.has_state.then(|| [inputs[3].values, inputs[4].values]),
                state_bias: None,
                cell,
                aside: Some(tangents),
                output: call.output,
            };
            return fused.forward(device, &way);
        }
        let place = Place { values: cell, stride };
        Input::Product.start_on(device, inputs, &parts(width), place)?;
        let state = self.has_state.then(|| inputs[3].values);
        if let Some(state) = state {
            let (hidden, weight) = (state.factor(2 * width), inputs[4].values.factor(stride));
            device.product([rows, width, stride], hidden, weight, 1.0, (cell, stride))?;
        }
        let bias = Input::Product.bias_on(inputs);
        let arguments = [cell.into(), bias.into(), state.into(), tangents.into(), call.output.into()];
        each_unit(device, "lstm", [rows, width], &arguments)
    }

    pub(super) fn backward_on(&self, back: &Back<'_>) -> Result<()> {
        let (device, inputs) = (back.device, back.inputs);
        let (rows, width) = (inputs[0].shape.rows, inputs[1].shape.columns / 4);
        let stride = 4 * width;
        let [cell, tangents] = back.saved.split(stride * rows);
        let gates = back.scratch;
        let state = self.has_state.then(|| inputs[3].values);
        let sum = if self.has_state { back.gradients[3] } else { None };
        let before: Option<Slice<'_>> = sum.map(|sum| sum.values);
        let fused = self.fused(rows, inputs[0].shape.columns, width);
        if fused.goes_back(device, back.gradients[0].is_some()) {
            let way = BackwardCall {
                cell,
                aside: Some(tangents),
                upstream: back.upstream,
                x_weight: inputs[1].values,
                state: state.map(|state| [state, inputs[4].values]),
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
            let weight = inputs[4].values.transposed(stride);
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
        let (rows, width) = (back.inputs[0].shape.rows, back.inputs[1].shape.columns / 4);
        let (stride, gates) = (4 * width, back.scratch);
        if self.has_state
            && let Some(sum) = back.gradients[4]
        {
            let (hidden, output) = (back.inputs[3].values.transposed(2 * width), (sum.values, stride));
            back.device.product([width, rows, stride], hidden, gates.factor(stride), sum.keep(), output)?;
        }
        Input::Product.back_on(back, &parts(width), Place { values: gates, stride }, are_done)
    }
}
