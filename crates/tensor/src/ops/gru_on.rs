//! The gated recurrent unit on a GPU.

use super::dense::column_sums_on;
use super::gru::Gru;
use super::recurrent_on::{Place, each_unit};
use crate::cuda::{Back, Call};
use crate::error::Result;

impl Gru {
    pub(super) fn forward_on(&self, call: &Call<'_>) -> Result<()> {
        let (device, inputs, at) = (call.device, call.inputs, self.input.count());
        let (rows, width) = (inputs[0].shape.rows, inputs[at].shape.columns / 3);
        let stride = 4 * width;
        let cell = call.saved;
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
        let arguments = [
            back.saved.into(),
            state.into(),
            back.upstream.into(),
            gates.values.into(),
            sum.map(|sum| sum.values).into(),
            sum.is_some_and(|sum| sum.adds).into(),
        ];
        each_unit(device, "gru_back", [rows, width], &arguments)?;
        if let Some(state) = state {
            if let Some(sum) = sum {
                let weight = inputs[at + 2].values.transposed(3 * width);
                let from = gates.values.factor(stride);
                device.product([rows, 3 * width, width], from, weight, 1.0, (sum.values, width))?;
            }
            if let Some(sum) = back.gradients[at + 2] {
                let (state, output) = (state.transposed(width), (sum.values, 3 * width));
                let from = gates.values.factor(stride);
                device.product([width, rows, 3 * width], state, from, sum.keep(), output)?;
            }
        }
        if let Some(sum) = back.gradients[at] {
            column_sums_on(device, (gates.values, stride, 0..3 * width), rows, sum)?;
        }
        self.input.back_on(back, &Self::parts(width), gates)
    }
}
