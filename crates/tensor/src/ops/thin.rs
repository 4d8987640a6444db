//! Dense layers with few outputs on a GPU: a product with a handful of columns is nothing but reading its
//! rows.

use super::dense::shares_of_columns;
use crate::cuda::{Back, Call, Launch, Source};
use crate::error::Result;
use crate::op::Shape;

/// The kernels.
pub(crate) const THIN: Source = Source {
    name: "thin",
    text: include_str!("thin.cu"),
    samples: &[&[("COLUMNS", 1), ("INNER", 64)], &[("COLUMNS", 4), ("INNER", 7)]],
};

/// Outputs at most.
const MOST: usize = 4;

/// Shares of rows that are summed side by side.
const SHARES: usize = 1024;

/// Whether a layer of this weight is thin.
pub(super) fn is_thin(weight: Shape) -> bool {
    (1..=MOST).contains(&weight.columns) && weight.rows > 0
}

/// The inputs are the weight, the bias if there is one, and one matrix.
pub(super) fn forward(call: &Call<'_>, has_bias: bool) -> Result<()> {
    let (w, x) = (call.inputs[0], call.inputs[1 + usize::from(has_bias)]);
    let bias = has_bias.then(|| call.inputs[1].values);
    let Shape { rows, columns: inner } = x.shape;
    let arguments = [
        rows.into(),
        (inner as i32).into(),
        x.values.into(),
        w.values.into(),
        bias.into(),
        call.output.into(),
    ];
    call.device.run(
        &THIN,
        "thin",
        &[("COLUMNS", w.shape.columns), ("INNER", inner)],
        Launch::each(16 * rows),
        &arguments,
    )
}

/// Its backward pass.
pub(super) fn backward(back: &Back<'_>, has_bias: bool) -> Result<()> {
    let (device, at) = (back.device, 1 + usize::from(has_bias));
    let (w, x) = (back.inputs[0], back.inputs[at]);
    let (Shape { rows, columns: inner }, columns) = (x.shape, w.shape.columns);
    let defined = [("COLUMNS", columns), ("INNER", inner)];
    if let Some(sum) = back.gradients[at] {
        let count = rows * inner;
        let arguments =
            [count.into(), back.upstream.into(), w.values.into(), sum.values.into(), sum.adds.into()];
        device.run(&THIN, "thin_rows", &defined, Launch::each(count), &arguments)?;
    }
    let (weight, bias) = (back.gradients[0], if has_bias { back.gradients[1] } else { None });
    if weight.is_none() && bias.is_none() {
        return Ok(());
    }
    let (shares, all) = (rows.div_ceil(32).clamp(1, SHARES), (inner + 1) * columns);
    let parts = device.take(shares * all)?;
    let launch = Launch { blocks: [shares, (inner + 1).div_ceil(32)], threads: 256, shared: 0 };
    let arguments =
        [rows.into(), (inner as i32).into(), x.values.into(), back.upstream.into(), parts.all().into()];
    device.run(&THIN, "thin_weights", &defined, launch, &arguments)?;
    for (first, sum) in [(0, weight), (inner * columns, bias)] {
        if let Some(sum) = sum {
            shares_of_columns(device, (parts.all().range(first..parts.len()), all), shares, sum)?;
        }
    }
    Ok(())
}
