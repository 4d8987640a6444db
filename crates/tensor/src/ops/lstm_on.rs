//! Long short-term memory on a GPU.

use super::fused::{Cell, Fused};
use super::lstm::Lstm;
use super::recurrent::{Input, Part};
use super::recurrent_on::{Place, each_unit};
use crate::cuda::{Argument, Back, Call, Slice};
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
        let fused =
            Fused { cell: Cell::Lstm, rows, input: inputs[0].shape.columns, width, state: self.has_state };
        if fused.goes_forth(device) {
            let [state, weight] = [3, 4].map(|number| inputs.get(number).map(|input| input.values));
            let [x, x_weight, bias] = [0, 1, 2].map(|number| Argument::from(inputs[number].values));
            let rest = [None.into(), cell.into(), tangents.into(), call.output.into()];
            return fused
                .forward(device, &[&[x, x_weight, bias, state.into(), weight.into()][..], &rest].concat());
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
        let fused =
            Fused { cell: Cell::Lstm, rows, input: inputs[0].shape.columns, width, state: self.has_state };
        if fused.goes_back(device, back.gradients[0].is_some()) {
            let weight = inputs.get(4).map(|input| input.values);
            let arguments = [
                cell.into(),
                tangents.into(),
                state.into(),
                back.upstream.into(),
                inputs[1].values.into(),
                weight.into(),
                gates.into(),
                before.into(),
                sum.is_some_and(|sum| sum.adds).into(),
            ];
            let biases: Vec<_> = back.gradients[2].map(|bias| (0, bias)).into_iter().collect();
            fused.backward(device, &arguments, back.gradients[0], &biases)?;
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

    /// The gradients of the weights, from those of the gates, and of the input and the bias unless they `are_done`.
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
