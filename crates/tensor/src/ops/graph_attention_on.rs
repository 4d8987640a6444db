//! Graph attention on a GPU: one pass over the entries of rows forward, one over those of columns backward.

use super::edges::{by_segments, sums_of_entries};
use super::graph_attention::GraphAttention;
use super::sums::add_parts;
use crate::cuda::lines::LinesOn;
use crate::cuda::{Argument, Back, Call, Device, Launch, Source, Sum};
use crate::error::Result;

/// The kernels.
pub(crate) const GRAPH_ATTENTION: Source = Source {
    name: "graph_attention",
    text: include_str!("graph_attention.cu"),
    samples: &[
        &[],
        &[("WIDTH", 64), ("HEADS", 4)],
        &[("WIDTH", 16), ("HEADS", 1)],
        &[("WIDTH", 128), ("HEADS", 8)],
    ],
};

/// Whether lanes can have four columns of one head each, in groups that are a part of a warp.
fn divides(width: usize, heads: usize) -> bool {
    let deep = width / heads;
    [16, 32, 64, 128].contains(&width) && deep.is_multiple_of(4) && (deep / 4).is_power_of_two()
}

/// Runs the kernel for these widths, or the one for any.
fn run(
    device: &Device,
    lines: &LinesOn,
    [for_width, for_any]: [&'static str; 2],
    (width, heads): (usize, usize),
    mut arguments: Vec<Argument>,
) -> Result<()> {
    if divides(width, heads) {
        let mut all: Vec<Argument> = vec![(lines.count as i32).into(), lines.segments().into()];
        all.extend(arguments);
        let launch = Launch::each(lines.count * width / 4);
        return device.run(&GRAPH_ATTENTION, for_width, &[("WIDTH", width), ("HEADS", heads)], launch, &all);
    }
    arguments.extend([Argument::from(width as i32), Argument::from(heads as i32)]);
    by_segments(device, &GRAPH_ATTENTION, for_any, lines, &arguments)
}

impl GraphAttention<'_> {
    pub(super) fn forward_on(&self, call: &Call<'_>) -> Result<()> {
        let (device, [left, right, x]) = (call.device, [0, 1, 2].map(|number| call.inputs[number]));
        let (width, heads) = (x.shape.columns, left.shape.columns);
        if width == 0 {
            return Ok(());
        }
        let lines = self.pattern.by_row().on(device)?;
        let kept = call.saved;
        let (parts, about) = (device.take(lines.parts * width)?, device.take(lines.parts * 2 * heads)?);
        let arguments = vec![
            lines.lines_of_parts().into(),
            lines.others().into(),
            left.values.into(),
            right.values.into(),
            x.values.into(),
            self.slope.into(),
            call.output.into(),
            kept.into(),
            parts.all().into(),
            about.all().into(),
        ];
        run(device, lines, ["attend", "attend_any"], (width, heads), arguments)?;
        let arguments = [
            lines.cuts().into(),
            parts.all().into(),
            about.all().into(),
            call.output.into(),
            kept.into(),
            (width as i32).into(),
            (heads as i32).into(),
        ];
        device.each(&GRAPH_ATTENTION, "attend_parts", lines.cut_lines * width, &arguments)
    }

    pub(super) fn backward_on(&self, back: &Back<'_>) -> Result<()> {
        let (device, [left, right, x]) = (back.device, [0, 1, 2].map(|number| back.inputs[number]));
        let (width, heads) = (x.shape.columns, left.shape.columns);
        if width == 0 {
            return Ok(());
        }
        let rows = self.pattern.rows();
        let means = device.take(rows * heads)?;
        let arguments = [
            (rows * heads).into(),
            back.output.values.into(),
            back.upstream.into(),
            ((width / heads) as i32).into(),
            means.all().into(),
        ];
        device.run(&GRAPH_ATTENTION, "attend_means", &[], Launch::each(8 * rows * heads), &arguments)?;
        let lines = self.pattern.by_column_on(device)?;
        let (parts, right_parts) = (device.take(lines.parts * width)?, device.take(lines.parts * heads)?);
        // Where no gradient is wanted it is computed all the same.
        let room = |number: usize, length: usize| if back.gradients[number].is_some() { 0 } else { length };
        let for_right = device.take(room(1, right.shape.len()))?;
        let for_x = device.take(room(2, x.shape.len()))?;
        let dright = back.gradients[1].unwrap_or(Sum { values: for_right.all(), adds: false });
        let dx = back.gradients[2].unwrap_or(Sum { values: for_x.all(), adds: false });
        let changes = back.scratch.range(0..self.pattern.entries() * heads);
        let arguments = vec![
            lines.lines_of_parts().into(),
            lines.others().into(),
            lines.origins().into(),
            left.values.into(),
            right.values.into(),
            x.values.into(),
            self.slope.into(),
            back.saved.into(),
            means.all().into(),
            back.upstream.into(),
            changes.into(),
            dx.values.into(),
            dx.adds.into(),
            dright.values.into(),
            dright.adds.into(),
            parts.all().into(),
            right_parts.all().into(),
        ];
        run(device, lines, ["attend_back", "attend_back_any"], (width, heads), arguments)?;
        add_parts(device, lines, (parts.all(), width), dx)?;
        add_parts(device, lines, (right_parts.all(), heads), dright)?;
        match back.gradients[0] {
            Some(dleft) => {
                sums_of_entries(device, self.pattern.by_row().on(device)?, (changes, heads), dleft)
            }
            None => Ok(()),
        }
    }
}
