//! The input side of recurrent cells on a GPU, as [`super::recurrent`] has it for the host.

use super::dense::column_sums_on;
use super::recurrent::{Input, Part};
use crate::cuda::{Argument, Back, Device, Slice, Source, Sum, View};
use crate::error::Result;

/// The kernels of all cells.
pub(crate) const CELLS: Source = Source { name: "cells", text: include_str!("cells.cu"), samples: &[&[]] };

/// Runs a kernel of a cell with a thread for each unit of each row.
pub(super) fn each_unit(
    device: &Device,
    name: &'static str,
    [rows, width]: [usize; 2],
    arguments: &[Argument],
) -> Result<()> {
    let mut all = vec![Argument::from(width as i32)];
    all.extend_from_slice(arguments);
    device.each(&CELLS, name, rows * width, &all)
}

/// Some columns of rows that are `stride` apart.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub values: Slice<'a>,
    pub stride: usize,
}

impl<'a> Place<'a> {
    /// From this column on.
    pub fn from(self, column: usize) -> Slice<'a> {
        self.values.range(column.min(self.values.len())..self.values.len())
    }
}

impl Input {
    /// The bias that is still to be added to what [`Input::start_on`] puts in.
    pub(super) fn bias_on<'a>(self, inputs: &[View<'a>]) -> Option<Slice<'a>> {
        (self == Input::Product).then(|| inputs[2].values)
    }

    /// Puts the gates, without their bias, into the columns of `cell`.
    pub(super) fn start_on(
        self,
        device: &Device,
        inputs: &[View<'_>],
        parts: &[Part],
        cell: Place<'_>,
    ) -> Result<()> {
        let (x, rows) = (inputs[0], inputs[0].shape.rows);
        let gates: usize = parts.iter().map(|part| part.from.len()).sum();
        for part in parts {
            let columns = part.from.len();
            match self {
                Input::Gates => copy_columns(
                    device,
                    [rows, columns],
                    Place { values: x.values, stride: gates }.from(part.from.start),
                    gates,
                    Sum { values: cell.from(part.to), adds: false },
                    cell.stride,
                )?,
                Input::Product => {
                    let weight = Place { values: inputs[1].values, stride: gates }.from(part.from.start);
                    device.product(
                        [rows, x.shape.columns, columns],
                        x.values.factor(x.shape.columns),
                        weight.factor(gates),
                        0.0,
                        (cell.from(part.to), cell.stride),
                    )?;
                }
            }
        }
        Ok(())
    }

    /// The gradients of the input, of its weight and of its bias, from those of the gates; of the weight
    /// alone where the others `are_done`.
    pub(super) fn back_on(
        self,
        back: &Back<'_>,
        parts: &[Part],
        gates: Place<'_>,
        are_done: bool,
    ) -> Result<()> {
        let (device, x, rows) = (back.device, back.inputs[0], back.inputs[0].shape.rows);
        let all: usize = parts.iter().map(|part| part.from.len()).sum();
        if self == Input::Gates {
            let Some(sum) = back.gradients[0] else { return Ok(()) };
            for part in parts {
                let to =
                    Sum { values: Place { values: sum.values, stride: all }.from(part.from.start), ..sum };
                let from = gates.from(part.to);
                copy_columns(device, [rows, part.from.len()], from, gates.stride, to, all)?;
            }
            return Ok(());
        }
        let inner = x.shape.columns;
        for (number, part) in parts.iter().enumerate() {
            let (columns, from) = (part.from.len(), gates.from(part.to));
            if let Some(sum) = back.gradients[0].filter(|_| !are_done) {
                let keep = if number > 0 { 1.0 } else { sum.keep() };
                let weight = Place { values: back.inputs[1].values, stride: all }.from(part.from.start);
                device.product(
                    [rows, columns, inner],
                    from.factor(gates.stride),
                    weight.transposed(all),
                    keep,
                    (sum.values, inner),
                )?;
            }
            if let Some(sum) = back.gradients[1] {
                device.product(
                    [inner, rows, columns],
                    x.values.transposed(inner),
                    from.factor(gates.stride),
                    sum.keep(),
                    (Place { values: sum.values, stride: all }.from(part.from.start), all),
                )?;
            }
            if let Some(sum) = back.gradients[2].filter(|_| !are_done) {
                let to = Sum { values: sum.values.range(part.from.clone()), ..sum };
                column_sums_on(device, (gates.values, gates.stride, part.to..part.to + columns), rows, to)?;
            }
        }
        Ok(())
    }
}

fn copy_columns(
    device: &Device,
    [rows, columns]: [usize; 2],
    from: Slice<'_>,
    from_stride: usize,
    to: Sum<'_>,
    to_stride: usize,
) -> Result<()> {
    let arguments = [
        from.into(),
        (from_stride as i32).into(),
        to.values.into(),
        (to_stride as i32).into(),
        (columns as i32).into(),
        to.adds.into(),
    ];
    device.each(&CELLS, "copy_columns", rows * columns, &arguments)
}
