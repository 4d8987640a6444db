//! Recurrent cells with their products inside, on the tensor cores of a GPU.
//!
//! Where the precision of the device is single, factors are split in two and products are as exact as others
//! in single precision; where it is less, factors are rounded. Taken where the weights fit into shared
//! memory; otherwise cells go the other way, with products by cuBLAS.

use super::dense::shares_of_columns;
use crate::cuda::{Argument, Device, Launch, Precision, Slice, Source, Sum};
use crate::error::Result;

/// The kernels.
pub(crate) const FUSED: Source = Source {
    name: "fused_cells",
    text: include_str!("fused_cells.cu"),
    samples: &[
        &sample(Cell::Lstm, [64, 64], "BACKWARD", [8, 1, 1, 0]),
        &sample(Cell::Lstm, [64, 64], "FORWARD", [8, 0, 0, 0]),
        &sample(Cell::Lstm, [64, 64], "FORWARD", [8, 1, 0, 1]),
        &sample(Cell::Gru, [48, 32], "FORWARD", [12, 1, 0, 1]),
        &sample(Cell::Gru, [64, 64], "FORWARD", [8, 1, 0, 0]),
        &sample(Cell::Gru, [16, 16], "BACKWARD", [8, 1, 1, 0]),
        &sample(Cell::Gated, [128, 64], "FORWARD", [8, 1, 0, 0]),
        &sample(Cell::Gated, [128, 64], "BACKWARD", [8, 1, 0, 0]),
        &sample(Cell::Gated, [64, 64], "BACKWARD", [8, 1, 1, 1]),
    ],
};

type Defined = [(&'static str, usize); 8];

const fn sample(
    cell: Cell,
    [input, width]: [usize; 2],
    way: &'static str,
    [warps, state, dx, split]: [usize; 4],
) -> Defined {
    [
        ("WARPS", warps),
        ("CELL", cell as usize),
        ("WIDTH", width),
        ("INPUT", input),
        ("STATE", state),
        ("DX", dx),
        ("SPLIT", split),
        (way, 1),
    ]
}

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

/// What a cell reads and writes in the forward pass.
pub(super) struct ForwardCall<'a> {
    pub x: Slice<'a>,
    pub x_weight: Slice<'a>,
    pub bias: Slice<'a>,
    /// The state before, and its weight.
    pub state: Option<[Slice<'a>; 2]>,
    /// The bias of the state, where it has one of its own.
    pub state_bias: Option<Slice<'a>>,
    /// The gates, and what is put aside besides.
    pub cell: Slice<'a>,
    pub aside: Option<Slice<'a>>,
    pub output: Slice<'a>,
}

/// What a cell reads and writes in the backward pass.
pub(super) struct BackwardCall<'a> {
    pub cell: Slice<'a>,
    pub aside: Option<Slice<'a>>,
    pub upstream: Slice<'a>,
    pub x_weight: Slice<'a>,
    /// The state before, and its weight.
    pub state: Option<[Slice<'a>; 2]>,
    /// Room for the gradients of the gates.
    pub gates: Slice<'a>,
    /// The gradients of the state before and of the input, where they are wanted.
    pub before: Option<Sum<'a>>,
    pub dx: Option<Sum<'a>>,
    /// The gradients of biases: each is that of the columns of gates from the one it names on.
    pub biases: Vec<(usize, Sum<'a>)>,
}

/// Rows that four warps have.
const TILE: usize = 64;

/// Warps of a block.
const WARPS: usize = 8;

impl Fused {
    /// Groups of gates: in a row, of the input's product, of the state's product.
    fn groups(&self) -> [usize; 3] {
        match self.cell {
            Cell::Lstm => [4, 4, 4],
            Cell::Gru => [4, 3, 3],
            Cell::Gated => [3, 3, 2],
        }
    }

    fn splits(device: &Device) -> bool {
        device.precision() == Precision::Single
    }

    /// Warps of a block in the forward pass: more where each multiplies by itself, as far as registers allow.
    fn warps_forth(&self, device: &Device) -> usize {
        if Self::splits(device) && self.cell != Cell::Lstm { 12 } else { WARPS }
    }

    /// Numbers of the weights of the state.
    fn state_weights(&self) -> usize {
        let apart = usize::from(self.cell == Cell::Gated);
        if self.state { (self.groups()[2] + apart) * self.width * self.width } else { 0 }
    }

    fn bytes_forth(&self) -> usize {
        4 * (self.input * self.groups()[1] * self.width + self.state_weights())
    }

    /// The weights, and for every thread the sums of its gates.
    fn bytes_back(&self, dx: bool) -> usize {
        let [groups, of_input, _] = self.groups();
        let input = if dx { of_input * self.width * self.input } else { 0 };
        4 * (self.state_weights() + input + groups * self.width / 4 * 32 * WARPS)
    }

    fn suits(&self) -> bool {
        let aligned = [16, 32, 64].contains(&self.width) && self.input > 0 && self.input.is_multiple_of(16);
        aligned && self.rows > 0 && self.rows < i32::MAX as usize
    }

    /// Whether the fused kernel can be used in the forward pass.
    pub fn goes_forth(&self, device: &Device) -> bool {
        self.suits() && self.bytes_forth() <= device.facts().shared_bytes
    }

    /// Whether this way can be taken back, with the gradient of the input or without it.
    pub fn goes_back(&self, device: &Device, dx: bool) -> bool {
        // More columns of the input than that are more sums than there are registers.
        self.suits() && (!dx || self.input <= 128) && self.bytes_back(dx) <= device.facts().shared_bytes
    }

    fn defined(&self, way: &'static str, device: &Device, warps: usize, dx: bool) -> Defined {
        let flags = [warps, self.state.into(), dx.into(), Self::splits(device).into()];
        sample(self.cell, [self.input, self.width], way, flags)
    }

    fn launch(&self, device: &Device, shared: usize, warps: usize) -> Launch {
        let blocks = self.rows.div_ceil(TILE).div_ceil(warps / 4).min(device.facts().processors);
        Launch { blocks: [blocks, 1], threads: 32 * warps, shared }
    }

    /// The cell and its new state.
    pub fn forward(&self, device: &Device, way: &ForwardCall<'_>) -> Result<()> {
        let [state, state_weight] = [0, 1].map(|part| way.state.map(|state| state[part]));
        let arguments = [
            Argument::from(self.rows as i32),
            way.x.into(),
            way.x_weight.into(),
            way.bias.into(),
            state.into(),
            state_weight.into(),
            way.state_bias.into(),
            way.cell.into(),
            way.aside.into(),
            way.output.into(),
        ];
        let warps = self.warps_forth(device);
        let launch = self.launch(device, self.bytes_forth(), warps);
        device.run(
            &FUSED,
            "fused_forward",
            &self.defined("FORWARD", device, warps, false),
            launch,
            &arguments,
        )
    }

    /// The gradients of the gates, of the state, of the input and of the biases.
    pub fn backward(&self, device: &Device, way: &BackwardCall<'_>) -> Result<()> {
        let wants_dx = way.dx.is_some();
        let launch = self.launch(device, self.bytes_back(wants_dx), WARPS);
        let columns = self.groups()[0] * self.width;
        let parts = device.take(launch.blocks[0] * columns)?;
        let [state, state_weight] = [0, 1].map(|part| way.state.map(|state| state[part]));
        let [before, dx] = [way.before, way.dx].map(|sum| sum.map(|sum| sum.values));
        let [before_adds, dx_adds] = [way.before, way.dx].map(|sum| sum.is_some_and(|sum| sum.adds));
        let arguments = [
            Argument::from(self.rows as i32),
            way.cell.into(),
            way.aside.into(),
            state.into(),
            way.upstream.into(),
            way.x_weight.into(),
            state_weight.into(),
            way.gates.into(),
            before.into(),
            before_adds.into(),
            dx.into(),
            dx_adds.into(),
            parts.all().into(),
        ];
        let defined = self.defined("BACKWARD", device, WARPS, wants_dx);
        device.run(&FUSED, "fused_backward", &defined, launch, &arguments)?;
        for &(first, sum) in &way.biases {
            let from = parts.all().range(first..parts.len());
            shares_of_columns(device, (from, columns), launch.blocks[0], sum)?;
        }
        Ok(())
    }
}
