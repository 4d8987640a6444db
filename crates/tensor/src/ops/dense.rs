//! What dense layers share on a GPU: biases, positive parts, sums of columns.

use std::ops::Range;

use crate::cuda::{Device, Launch, Slice, Source, Sum};
use crate::error::Result;

/// The kernels.
pub(crate) const DENSE: Source = Source { name: "dense", text: include_str!("dense.cu"), samples: &[&[]] };

/// Shares of rows that are summed side by side: enough for the largest GPUs, and a fixed number, so that
/// results do not depend on it.
const SHARES: usize = 512;

/// Sums over all rows of some columns of a matrix whose rows are `stride` apart.
pub(crate) fn column_sums_on(
    device: &Device,
    (values, stride, columns): (Slice<'_>, usize, Range<usize>),
    rows: usize,
    output: Sum<'_>,
) -> Result<()> {
    let count = columns.len();
    if rows == 0 {
        return if output.adds { Ok(()) } else { device.clear(output.values) };
    }
    let shares = rows.div_ceil(64).min(SHARES);
    let parts = device.take(shares * count)?;
    let launch = Launch { blocks: [shares, count.div_ceil(32)], threads: 256, shared: 0 };
    let from = values.range(columns.start..values.len());
    let arguments = [rows.into(), from.into(), stride.into(), (count as i32).into(), parts.all().into()];
    device.run(&DENSE, "column_sums", &[], launch, &arguments)?;
    shares_of_columns(device, (parts.all(), count), shares, output)
}

/// Adds up sums over shares of rows, which stand in rows of `stride` numbers, in order: as many columns as
/// the output has.
pub(crate) fn shares_of_columns(
    device: &Device,
    (parts, stride): (Slice<'_>, usize),
    shares: usize,
    output: Sum<'_>,
) -> Result<()> {
    let count = output.values.len();
    let arguments = [
        count.into(),
        parts.into(),
        stride.into(),
        (shares as i32).into(),
        output.values.into(),
        output.adds.into(),
    ];
    device.run(&DENSE, "column_sums_of_shares", &[], Launch::each(32 * count), &arguments)
}
