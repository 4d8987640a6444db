//! The transpose of a pattern, made on the GPU that needs it: the host counts where its lines begin, and
//! nothing but those counts is brought there.

use super::call::Slice;
use super::device::{Argument, Device, Launch};
use super::kernels::Source;
use super::lines::LinesOn;
use crate::error::Result;

/// The kernels.
pub(crate) const TRANSPOSE: Source =
    Source { name: "transpose", text: include_str!("transpose.cu"), samples: &[&[]] };

/// Entries of a line that a warp sorts.
const SHORT: i32 = 32;

/// Threads that sort a longer line.
const THREADS: usize = 1024;

/// Writes the other end and the origin of each entry of the transpose of `lines`, whose lines begin at
/// `starts`.
pub(super) fn transpose(
    device: &Device,
    lines: &LinesOn,
    starts: &[i32],
    [others, origins]: [Slice<'_>; 2],
) -> Result<()> {
    let count = starts.len() - 1;
    let long: Vec<i32> =
        (0..count as i32).filter(|&line| starts[line as usize + 1] - starts[line as usize] > SHORT).collect();
    let (starts, long_lines) = (device.upload(starts)?, device.upload(&long)?);
    let (next, keys) = (device.take(count)?, device.take(2 * others.len())?);
    device.clear(next.all())?;
    let scattered = [
        Argument::from(lines.count as i32),
        lines.segments().into(),
        lines.lines_of_parts().into(),
        lines.others().into(),
        starts.all().into(),
        next.all().into(),
        keys.all().into(),
    ];
    device.run(&TRANSPOSE, "scatter", &[], Launch::each(32 * lines.count), &scattered)?;
    let [starts, keys] = [starts.all(), keys.all()].map(Argument::from);
    let (others, origins) = (Argument::from(others), Argument::from(origins));
    let short = [Argument::from(count as i32), starts, keys, others, origins];
    device.run(&TRANSPOSE, "sort_short", &[], Launch::each(32 * count), &short)?;
    let launch = Launch { blocks: [long.len(), 1], threads: THREADS, shared: 0 };
    device.run(
        &TRANSPOSE,
        "sort_long",
        &[],
        launch,
        &[long_lines.all().into(), starts, keys, others, origins],
    )
}
