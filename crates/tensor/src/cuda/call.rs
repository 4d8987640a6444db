//! What an operation is given on a GPU: the same as on the host, with places in the GPU's memory.

use std::marker::PhantomData;
use std::ops::Range;

use super::device::{Argument, Device, Factor, Launch, Product};
use super::kernels::Source;
use crate::error::Result;
use crate::op::Shape;

/// Numbers in the memory of a GPU. Its owner may write there.
#[derive(Clone, Copy, Debug)]
pub struct Slice<'a> {
    at: u64,
    length: usize,
    memory: PhantomData<&'a ()>,
}

impl<'a> Slice<'a> {
    pub(super) fn new(at: u64, length: usize) -> Self {
        Slice { at, length, memory: PhantomData }
    }

    /// Numbers that there would be, where nothing is computed.
    pub(crate) fn nowhere(length: usize) -> Self {
        Slice::new(0, length)
    }

    pub(crate) fn at(self) -> u64 {
        self.at
    }

    /// How many numbers there are.
    pub fn len(self) -> usize {
        self.length
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.length == 0
    }

    /// Some of them.
    pub fn range(self, range: Range<usize>) -> Slice<'a> {
        assert!(range.start <= range.end && range.end <= self.length, "a place outside its memory");
        Slice::new(self.at + 4 * range.start as u64, range.len())
    }

    /// Both parts, the first of this length.
    pub fn split(self, length: usize) -> [Slice<'a>; 2] {
        [self.range(0..length), self.range(length..self.length)]
    }

    /// A factor of a product, with rows of this length.
    pub(crate) fn factor(self, stride: usize) -> Factor {
        Factor { at: self.at, stride, transposed: false }
    }

    /// The transpose of [`Slice::factor`].
    pub(crate) fn transposed(self, stride: usize) -> Factor {
        Factor { at: self.at, stride, transposed: true }
    }
}

/// A matrix to be read.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// Its shape.
    pub shape: Shape,
    /// Its numbers.
    pub values: Slice<'a>,
}

/// A gradient to be added to, or to be written where nothing is there yet.
#[derive(Clone, Copy, Debug)]
pub struct Sum<'a> {
    /// Where.
    pub values: Slice<'a>,
    /// Whether there is something to add to; otherwise it holds anything, and all of it is to be written.
    pub adds: bool,
}

impl<'a> Sum<'a> {
    /// Some of the numbers.
    pub(crate) fn range(self, range: Range<usize>) -> Sum<'a> {
        Sum { values: self.values.range(range), ..self }
    }

    /// What is there is multiplied by this first.
    pub(crate) fn keep(self) -> f32 {
        if self.adds { 1.0 } else { 0.0 }
    }
}

/// What an operation computes on a GPU: all of `output` and `saved`, which hold anything before.
pub struct Call<'a> {
    /// The GPU.
    pub device: &'a Device,
    /// Its inputs.
    pub inputs: &'a [View<'a>],
    /// What it is to compute.
    pub output: Slice<'a>,
    /// What it puts aside.
    pub saved: Slice<'a>,
}

/// What an operation has at hand to compute its gradient on a GPU.
pub struct Back<'a> {
    /// The GPU.
    pub device: &'a Device,
    /// Its inputs.
    pub inputs: &'a [View<'a>],
    /// What it computed from them.
    pub output: View<'a>,
    /// What it put aside then.
    pub saved: Slice<'a>,
    /// The gradient of its output. It is not needed afterwards: it may be written over.
    pub upstream: Slice<'a>,
    /// Room to work in, of the length that [`crate::Op::scratch`] asked for.
    pub scratch: Slice<'a>,
    /// The gradients of its inputs; `None` where none is wanted. Every one that is wanted must be written.
    pub gradients: &'a [Option<Sum<'a>>],
}

impl Device {
    /// `output = left right + keep * output`: sizes are rows, inner, columns.
    pub(crate) fn product(
        &self,
        [rows, inner, columns]: [usize; 3],
        left: Factor,
        right: Factor,
        keep: f32,
        (output, stride): (Slice<'_>, usize),
    ) -> Result<()> {
        if inner == 0 {
            return if keep == 0.0 { self.clear(output) } else { Ok(()) };
        }
        self.multiply(&Product { rows, inner, columns, left, right, keep, output: output.at(), stride })
    }

    /// Runs a kernel without definitions with a thread for each of `count` things, the number of which is its
    /// first argument.
    pub(crate) fn each(
        &self,
        source: &'static Source,
        name: &'static str,
        count: usize,
        arguments: &[Argument],
    ) -> Result<()> {
        let mut all = vec![Argument::from(count)];
        all.extend_from_slice(arguments);
        self.run(source, name, &[], Launch::each(count), &all)
    }
}
