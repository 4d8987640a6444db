//! Sums over the entries of each line on a GPU, and products of rows for each entry: the kernels under sparse
//! operations there.

use crate::cuda::lines::{LinesOn, TILES};
use crate::cuda::{Argument, Device, Launch, Slice, Source, Sum};
use crate::error::Result;

/// The kernels.
pub(crate) const SUMS: Source = Source {
    name: "sums",
    text: include_str!("sums.cu"),
    samples: &[
        &[],
        &[("COLUMNS", 64), ("WIDTH", 192), ("HEADS", 1)],
        &[("COLUMNS", 64), ("WIDTH", 128), ("HEADS", 4)],
        &[("COLUMNS", 16), ("WIDTH", 16), ("HEADS", 1)],
    ],
};

/// Threads of a block of sums, as the kernel has it.
const BLOCK: usize = 64;

/// What the entries of lines are multiplied by.
#[derive(Clone, Copy)]
pub(crate) enum Factors<'a> {
    /// One.
    Ones,
    /// A value for each entry in the original order, and head.
    Given(Slice<'a>, usize),
    /// A value for each entry in the order of the lines.
    Permuted(Slice<'a>),
}

/// Which rows are summed: those of other ends, or one for each entry in the original order.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rows {
    Others,
    Own,
}

/// For each line, the sum over its entries of a row of `x` times the factor of the entry; `width` is that of
/// rows.
pub(crate) fn sums(
    device: &Device,
    lines: &LinesOn,
    (rows, factors): (Rows, Factors<'_>),
    (x, width): (Slice<'_>, usize),
    output: Sum<'_>,
) -> Result<()> {
    if width == 0 {
        return Ok(());
    }
    let (values, heads, permuted) = match factors {
        Factors::Ones => (None, 1, false),
        Factors::Given(values, heads) => (Some(values), heads, false),
        Factors::Permuted(values) => (Some(values), 1, true),
    };
    // Not wider: half as many columns of all rows are more likely to stay in the cache.
    let columns = [64, 32, 16].into_iter().find(|columns| width.is_multiple_of(*columns));
    let columns = columns.filter(|columns| (width / heads).is_multiple_of(4) && width / columns <= TILES);
    let parts = device.take(if columns.is_some() { lines.pieces.parts } else { lines.parts } * width)?;
    let whole = lines.segments().range(4 * lines.parts..4 * lines.count);
    let mut arguments: Vec<Argument> = match columns {
        Some(_) => vec![
            (lines.pieces.count as i32).into(),
            lines.pieces.all().into(),
            lines.pieces.heaps().into(),
            lines.pieces.turns().into(),
            ((lines.count - lines.parts) as i32).into(),
            whole.into(),
        ],
        None => vec![(lines.count as i32).into(), lines.segments().into()],
    };
    arguments.extend([
        Argument::from(lines.others()),
        lines.origins().into(),
        values.into(),
        permuted.into(),
        (rows == Rows::Own).into(),
        x.into(),
        output.values.into(),
        parts.all().into(),
        output.adds.into(),
    ]);
    let Some(columns) = columns else {
        arguments.extend([Argument::from(width as i32), Argument::from(heads as i32)]);
        device.run(&SUMS, "sums_of_any", &[], Launch::each(32 * lines.count), &arguments)?;
        return add_parts(device, lines, (parts.all(), width), output);
    };
    let defined = [("COLUMNS", columns), ("WIDTH", width), ("HEADS", heads)];
    let blocks = lines.pieces.count + ((lines.count - lines.parts) * columns / 4).div_ceil(BLOCK);
    let launch = Launch { blocks: [blocks, width / columns], threads: BLOCK, shared: 0 };
    device.run(&SUMS, "sums", &defined, launch, &arguments)
}

/// Puts lines that were cut together from what their parts came to.
pub(crate) fn add_parts(
    device: &Device,
    lines: &LinesOn,
    (parts, width): (Slice<'_>, usize),
    output: Sum<'_>,
) -> Result<()> {
    let arguments =
        [lines.cuts().into(), parts.into(), output.values.into(), output.adds.into(), (width as i32).into()];
    device.each(&SUMS, "sums_of_parts", lines.cut_lines * width, &arguments)
}

/// For each entry and head, the product of the row of its line in `left` and that of its other end in
/// `right`.
pub(crate) fn dots(
    device: &Device,
    lines: &LinesOn,
    [left, right]: [Slice<'_>; 2],
    (width, heads): (usize, usize),
    output: Sum<'_>,
) -> Result<()> {
    let arguments = [
        (lines.count as i32).into(),
        lines.segments().into(),
        lines.others().into(),
        left.into(),
        right.into(),
        output.values.into(),
        output.adds.into(),
        (width as i32).into(),
        (heads as i32).into(),
        lines.lines_of_parts().into(),
    ];
    device.run(&SUMS, "dots", &[], Launch::each(32 * lines.count), &arguments)
}

/// Of each entry, the product of the factors of both its ends.
pub(crate) fn factored(
    device: &Device,
    lines: &LinesOn,
    factors: Slice<'_>,
    output: Slice<'_>,
) -> Result<()> {
    let arguments = [
        Argument::from(lines.count as i32),
        lines.segments().into(),
        lines.others().into(),
        factors.into(),
        lines.lines_of_parts().into(),
        output.into(),
    ];
    device.run(&SUMS, "factored", &[], Launch::each(32 * lines.count), &arguments)
}

/// Values of entries in the order of lines that number them otherwise.
pub(crate) fn permuted(device: &Device, lines: &LinesOn, values: Slice<'_>, output: Slice<'_>) -> Result<()> {
    let Some(origins) = lines.origins() else { return device.copy(values, output) };
    device.each(&SUMS, "permute", values.len(), &[origins.into(), values.into(), output.into()])
}
