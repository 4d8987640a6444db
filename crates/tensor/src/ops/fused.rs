//! Recurrent cells with their products inside, on the tensor cores of a GPU: for whoever allows factors to be rounded.
//!
//! Taken where the precision of the device allows it and the weights fit into shared memory; otherwise cells go the other way, with
//! products by cuBLAS.

use super::dense::shares_of_columns;
use crate::cuda::{Argument, Device, Launch, Precision, Slice, Source, Sum};
use crate::error::Result;

/// The kernels.
pub(crate) const FUSED: Source = Source {
    name: "fused_cells",
    text: include_str!("fused_cells.cu"),
    samples: &[
        &[("WARPS", 16), ("CELL", 0), ("WIDTH", 64), ("INPUT", 64), ("STATE", 1), ("DX", 1), ("BACKWARD", 1)],
        &[("WARPS", 16), ("CELL", 0), ("WIDTH", 64), ("INPUT", 64), ("STATE", 0), ("DX", 0), ("FORWARD", 1)],
        &[("WARPS", 16), ("CELL", 1), ("WIDTH", 32), ("INPUT", 48), ("STATE", 1), ("DX", 1), ("FORWARD", 1)],
        &[("WARPS", 8), ("CELL", 1), ("WIDTH", 16), ("INPUT", 16), ("STATE", 1), ("DX", 1), ("BACKWARD", 1)],
        &[("WARPS", 16), ("CELL", 2), ("WIDTH", 64), ("INPUT", 128), ("STATE", 1), ("DX", 0), ("FORWARD", 1)],
        &[("WARPS", 8), ("CELL", 2), ("WIDTH", 64), ("INPUT", 128), ("STATE", 1), ("DX", 0), ("BACKWARD", 1)],
    ],
};

/// The kinds of cells, by their numbers in the kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cell {
    Lstm = 0,
    Gru = 1,
    Gated = 2,
}

/// A cell of known widths.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fused {
    pub cell: Cell,
    pub rows: usize,
    /// Columns of the input and of the state.
    pub input: usize,
    pub width: usize,
    /// Whether there is a state before.
    pub state: bool,
}

/// Bytes of shared memory that the driver keeps for each block.
const RESERVED: usize = 1024;

/// Warps of a block, if it has a processor to itself or shares it with another.
const WARPS: [usize; 2] = [16, 8];

impl Fused {
    /// Groups of gates: in a row, of the input's product, of the state's product.
    fn groups(&self) -> [usize; 3] {
        match self.cell {
            Cell::Lstm => [4, 4, 4],
            Cell::Gru => [4, 3, 3],
            Cell::Gated => [3, 3, 2],
        }
    }

    /// Rows of a tile.
    fn tile(&self, warps: usize) -> usize {
        16 * warps / (self.width / 16)
    }

    /// Warps of a block on the way back: fewer where two blocks fit, so that one reads while the other multiplies.
    fn warps_back(&self, device: &Device, dx: bool) -> usize {
        let fit =
            2 * (self.backward_bytes(dx, WARPS[1]) + RESERVED) <= device.facts().shared_bytes + RESERVED;
        WARPS[usize::from(fit)]
    }

    /// Numbers of a weight of the state that stand apart.
    fn apart(&self) -> usize {
        if self.cell == Cell::Gated && self.state { self.width * self.width } else { 0 }
    }

    fn forward_bytes(&self) -> usize {
        let ([_, of_input, of_state], width) = (self.groups(), self.width);
        let tile = self.tile(WARPS[0]);
        let mut numbers = self.input * of_input * width + self.apart() + tile * (self.input + 4);
        if self.state {
            let tiles = if self.cell == Cell::Gated { 2 } else { 1 };
            numbers += width * of_state * width + tiles * tile * (width + 4);
        }
        4 * numbers
    }

    fn backward_bytes(&self, dx: bool, warps: usize) -> usize {
        let ([groups, of_input, of_state], width) = (self.groups(), self.width);
        let mut numbers = self.apart() + self.tile(warps) * (groups * width + 4);
        if self.state {
            numbers += of_state * width * width;
        }
        if dx {
            numbers += of_input * width * self.input;
        }
        4 * numbers
    }

    fn suits(&self, device: &Device) -> bool {
        let aligned = [16, 32, 64].contains(&self.width) && self.input > 0 && self.input.is_multiple_of(8);
        device.precision() != Precision::Single && aligned && self.rows > 0 && self.rows < i32::MAX as usize
    }

    /// Whether this way can be taken forth.
    pub fn goes_forth(&self, device: &Device) -> bool {
        self.suits(device) && self.forward_bytes() <= device.facts().shared_bytes
    }

    /// Whether this way can be taken back, with the gradient of the input or without it.
    pub fn goes_back(&self, device: &Device, dx: bool) -> bool {
        let divided = || !dx || self.input.is_multiple_of(self.width / 2);
        let bytes = || self.backward_bytes(dx, self.warps_back(device, dx));
        self.suits(device) && divided() && bytes() <= device.facts().shared_bytes
    }

    fn defined(&self, way: &'static str, dx: bool, warps: usize) -> [(&'static str, usize); 7] {
        [
            ("WARPS", warps),
            ("CELL", self.cell as usize),
            ("WIDTH", self.width),
            ("INPUT", self.input),
            ("STATE", usize::from(self.state)),
            ("DX", usize::from(dx)),
            (way, 1),
        ]
    }

    fn launch(&self, device: &Device, shared: usize, warps: usize) -> Launch {
        let together = WARPS[0] / warps * device.facts().processors;
        let blocks = self.rows.div_ceil(self.tile(warps)).min(together);
        Launch { blocks: [blocks, 1], threads: 32 * warps, shared }
    }

    /// The cell and its new state. Arguments are those of the kernel behind the number of rows.
    pub fn forward(&self, device: &Device, arguments: &[Argument]) -> Result<()> {
        let mut all = vec![Argument::from(self.rows as i32)];
        all.extend_from_slice(arguments);
        let launch = self.launch(device, self.forward_bytes(), WARPS[0]);
        device.run(&FUSED, "fused_forward", &self.defined("FORWARD", false, WARPS[0]), launch, &all)
    }

    /// The gradients of the gates, of the state, of the input and, as sums over shares of the rows, of the biases: those are added to
    /// where each of `biases` says, from the column that it names on.
    pub fn backward(
        &self,
        device: &Device,
        arguments: &[Argument],
        dx: Option<Sum<'_>>,
        biases: &[(usize, Sum<'_>)],
    ) -> Result<()> {
        let warps = self.warps_back(device, dx.is_some());
        let launch = self.launch(device, self.backward_bytes(dx.is_some(), warps), warps);
        let columns = self.groups()[0] * self.width;
        let parts = device.take(launch.blocks[0] * columns)?;
        let mut all = vec![Argument::from(self.rows as i32)];
        all.extend_from_slice(arguments);
        let to: Option<Slice<'_>> = dx.map(|sum| sum.values);
        all.extend([Argument::from(to), dx.is_some_and(|sum| sum.adds).into(), parts.all().into()]);
        device.run(&FUSED, "fused_backward", &self.defined("BACKWARD", dx.is_some(), warps), launch, &all)?;
        for &(first, sum) in biases {
            let from = parts.all().range(first..parts.len());
            shares_of_columns(device, (from, columns), launch.blocks[0], sum)?;
        }
        Ok(())
    }
}
