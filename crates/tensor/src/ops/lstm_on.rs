//! Long short-term memory on a GPU.

use super::lstm::Lstm;
use super::recurrent::Input;
use super::recurrent_on::{Place, each_unit};
use crate::cuda::{Back, Call, Slice};
use crate::error::Result;

impl Lstm {
    pub(super) fn forward_on(&self, call: &Call<'_>) -> Result<()> {
        let (device, inputs) = (call.device, call.inputs);
        let (rows, width) = (inputs[0].shape.rows, inputs[1].shape.columns / 4);
        let stride = 4 * width;
        let [cell, tangents] = call.saved.split(stride * rows);
        let place = Place { values: cell, stride };
        Input::Product.start_on(device, inputs, &Self::parts(width), place)?;
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
        if let Some(state) = state {
            if let Some(sum) = sum {
                let weight = inputs[4].values.transposed(stride);
                let output = (sum.values, 2 * width);
                device.product([rows, stride, width], gates.factor(stride), weight, sum.keep(), output)?;
            }
            if let Some(sum) = back.gradients[4] {
                let (hidden, output) = (state.transposed(2 * width), (sum.values, stride));
                device.product([width, rows, stride], hidden, gates.factor(stride), sum.keep(), output)?;
            }
        }
        Input::Product.back_on(back, &Self::parts(width), Place { values: gates, stride })
    }
}
