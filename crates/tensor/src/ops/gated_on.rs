//! The gated cell of T-GCN on a GPU.

use super::fused::{BackwardCall, Cell, ForwardCall, Fused};
use super::gated::Gated;
use super::recurrent::Input;
use super::recurrent_on::{Place, each_unit};
use crate::cuda::{Back, Call, Slice};
use crate::error::Result;

/// The columns of the state weight for z and r, and those for n.
fn weights(weight: Slice<'_>, width: usize) -> [Slice<'_>; 2] {
    [weight, weight.range((2 * width).min(weight.len())..weight.len())]
}

impl Gated {
    pub(super) fn forward_on(&self, call: &Call<'_>) -> Result<()> {
        let (device, inputs, at) = (call.device, call.inputs, self.input.count());
        let rows = inputs[0].shape.rows;
        let Some(width @ 1..) = call.output.len().checked_div(rows) else { return Ok(()) };
        let stride = 3 * width;
        let [cell, reset] = call.saved.split(stride * rows);
        let fused = self.fused(rows, inputs[0].shape.columns, width);
        if self.input == Input::Product && fused.goes_forth(device) {
            let way = ForwardCall {
                x: inputs[0].values,
                x_weight: inputs[1].values,
                bias: inputs[2].values,
                state: self.has_state.then(|| [inputs[at].values, inputs[at + 1].values]),
                state_bias: None,
                cell,
                aside: Some(reset),
                output: call.output,
            };
            return fused.forward(device, &way);
        }
        let place = Place { values: cell, stride };
        self.input.start_on(device, inputs, &Self::parts(width), place)?;
        let (bias, state) = (self.input.bias_on(inputs), self.has_state.then(|| inputs[at].values));
        if let Some(state) = state {
            let [both, last] = weights(inputs[at + 1].values, width);
            let sizes = [rows, width, 2 * width];
            device.product(sizes, state.factor(width), both.factor(stride), 1.0, (cell, stride))?;
            let arguments = [cell.into(), bias.into(), state.into(), reset.into()];
            each_unit(device, "gated_reset", [rows, width], &arguments)?;
            let output = (place.from(2 * width), stride);
            device.product([rows, width, width], reset.factor(width), last.factor(stride), 1.0, output)?;
        }
        let arguments = [cell.into(), bias.into(), state.into(), call.output.into()];
        each_unit(device, "gated", [rows, width], &arguments)
    }

    pub(super) fn backward_on(&self, back: &Back<'_>) -> Result<()> {
        let (device, inputs, at) = (back.device, back.inputs, self.input.count());
        let (rows, width) = (inputs[0].shape.rows, back.output.shape.columns);
        let stride = 3 * width;
        let [cell, _] = back.saved.split(stride * rows);
        let [gates, through] = back.scratch.split(stride * rows);
        let place = Place { values: gates, stride };
        let state = self.has_state.then(|| inputs[at].values);
        let sum = if self.has_state { back.gradients[at] } else { None };
        let before = sum.map(|sum| sum.values);
        let fused = self.fused(rows, inputs[0].shape.columns, width);
        if self.input == Input::Product && fused.goes_back(device, back.gradients[0].is_some()) {
            let way = BackwardCall {
                cell,
                aside: None,
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
            state.into(),
            back.upstream.into(),
            gates.into(),
            before.into(),
            sum.is_some_and(|sum| sum.adds).into(),
        ];
        each_unit(device, "gated_back", [rows, width], &arguments)?;
        if let Some(state) = state {
            let [both, last] = weights(inputs[at + 1].values, width);
            let dn = place.from(2 * width).factor(stride);
            device.product([rows, width, width], dn, last.transposed(stride), 0.0, (through, width))?;
            let arguments = [cell.into(), state.into(), through.into(), gates.into(), before.into()];
            each_unit(device, "gated_reset_back", [rows, width], &arguments)?;
            if let Some(before) = before {
                let (from, both) = (gates.factor(stride), both.transposed(stride));
                device.product([rows, 2 * width, width], from, both, 1.0, (before, width))?;
            }
        }
        self.weights_on(back, false)
    }

    fn fused(&self, rows: usize, input: usize, width: usize) -> Fused {
        Fused { cell: Cell::Gated, rows, input, width, state: self.has_state }
    }

    /// The gradients of the weights, from those of the gates, and of the input and the bias unless they
    /// `are_done`.
    fn weights_on(&self, back: &Back<'_>, are_done: bool) -> Result<()> {
        let (device, at) = (back.device, self.input.count());
        let (rows, width) = (back.inputs[0].shape.rows, back.output.shape.columns);
        let stride = 3 * width;
        let reset = back.saved.split(stride * rows)[1];
        let gates = Place { values: back.scratch.split(stride * rows)[0], stride };
        if self.has_state
            && let Some(sum) = back.gradients[at + 1]
        {
            let (state, from) = (back.inputs[at].values.transposed(width), gates.values.factor(stride));
            device.product([width, rows, 2 * width], state, from, sum.keep(), (sum.values, stride))?;
            let (dn, output) = (gates.from(2 * width).factor(stride), weights(sum.values, width)[1]);
            let sizes = [width, rows, width];
            device.product(sizes, reset.transposed(width), dn, sum.keep(), (output, stride))?;
        }
        self.input.back_on(back, &Self::parts(width), gates, are_done)
    }
}
