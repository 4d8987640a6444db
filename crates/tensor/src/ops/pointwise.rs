//! What operations number by number share on a GPU.

use crate::cuda::{Argument, Device, Slice, Source, Sum};
use crate::error::Result;

/// The kernels.
pub(crate) const POINTWISE: Source =
    Source { name: "pointwise", text: include_str!("pointwise.cu"), samples: &[&[]] };

/// `output (+)= factor * x`.
pub(crate) fn add_scaled_on(device: &Device, x: Slice<'_>, factor: f32, output: Sum<'_>) -> Result<()> {
    if factor == 1.0 && !output.adds {
        return device.copy(x, output.values);
    }
    let arguments = [x.into(), factor.into(), output.values.into(), output.adds.into()];
    device.each(&POINTWISE, "scaled", x.len(), &arguments)
}

/// `output (+)= x * y`, number by number.
pub(crate) fn add_product_on(device: &Device, [x, y]: [Slice<'_>; 2], output: Sum<'_>) -> Result<()> {
    let arguments = [x.into(), y.into(), output.values.into(), output.adds.into()];
    device.each(&POINTWISE, "multiplied", x.len(), &arguments)
}

/// Copies or adds some columns of all rows: each side is where it is, how far its rows are apart, and the
/// first column.
pub(crate) fn copy_columns_on(
    device: &Device,
    (rows, columns): (usize, usize),
    (from, from_stride, from_start): (Slice<'_>, usize, usize),
    (to, to_stride, to_start): (Slice<'_>, usize, usize),
    adds: bool,
) -> Result<()> {
    let arguments = [
        columns.into(),
        from.into(),
        from_stride.into(),
        from_start.into(),
        to.into(),
        to_stride.into(),
        to_start.into(),
        adds.into(),
    ];
    device.each(&POINTWISE, "copy_columns", rows * columns, &arguments)
}

/// Copies or adds the rows of `x`, of this many columns, that indices name.
pub(crate) fn gather_on(
    device: &Device,
    indices: &[u32],
    (x, columns): (Slice<'_>, usize),
    output: Sum<'_>,
) -> Result<()> {
    gather_by(device, device.upload(indices)?.all(), (x, columns), output)
}

/// The same by indices that are on the GPU already.
pub(crate) fn gather_by(
    device: &Device,
    indices: Slice<'_>,
    (x, columns): (Slice<'_>, usize),
    output: Sum<'_>,
) -> Result<()> {
    let arguments: [Argument; 5] =
        [columns.into(), indices.into(), x.into(), output.values.into(), output.adds.into()];
    device.each(&POINTWISE, "gathered", indices.len() * columns, &arguments)
}
