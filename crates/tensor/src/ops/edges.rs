//! What operations on the entries of a sparse matrix share on a GPU.

use super::sums::{Factors, Rows, add_parts, sums};
use crate::cuda::lines::LinesOn;
use crate::cuda::{Argument, Device, Launch, Slice, Source, Sum};
use crate::error::Result;

/// The kernels.
pub(crate) const EDGES: Source = Source { name: "edges", text: include_str!("edges.cu"), samples: &[&[]] };

/// Rows of at most this many numbers are summed by lanes that go through the entries instead of the columns.
const NARROW: usize = 16;

/// Runs a kernel with a warp for each segment of lines, of which it is told first.
pub(crate) fn by_segments(
    device: &Device,
    source: &'static Source,
    name: &'static str,
    lines: &LinesOn,
    arguments: &[Argument],
) -> Result<()> {
    let mut all: Vec<Argument> = vec![(lines.count as i32).into(), lines.segments().into()];
    all.extend_from_slice(arguments);
    device.run(source, name, &[], Launch::each(32 * lines.count), &all)
}

/// For each line, the sum over its entries of their rows of `x`, which has one for each in the original
/// order.
pub(crate) fn sums_of_entries(
    device: &Device,
    lines: &LinesOn,
    (x, width): (Slice<'_>, usize),
    output: Sum<'_>,
) -> Result<()> {
    if width > NARROW {
        return sums(device, lines, (Rows::Own, Factors::Ones), (x, width), output);
    }
    let parts = device.take(lines.parts * width)?;
    let arguments = [
        lines.origins().into(),
        x.into(),
        (width as i32).into(),
        output.values.into(),
        parts.all().into(),
        output.adds.into(),
    ];
    by_segments(device, &EDGES, "sums_of_narrow", lines, &arguments)?;
    add_parts(device, lines, (parts.all(), width), output)
}
