//! The seam: what an operation is.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::arena::Buffer;
use crate::clock::{Stage, Within};
use crate::cuda;
use crate::error::{Error, Result};
use crate::estimate::MemoryEstimate;

/// What there is one of for each input: few enough that no memory is asked for.
pub(crate) type Few<T> = smallvec::SmallVec<[T; 4]>;

/// Rows and columns of a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Rows.
    pub rows: usize,
    /// Columns.
    pub columns: usize,
}

impl Shape {
    /// A matrix with these rows and columns.
    pub const fn new(rows: usize, columns: usize) -> Self {
        Shape { rows, columns }
    }

    /// One number.
    pub const SCALAR: Shape = Shape::new(1, 1);

    /// How many numbers there are.
    pub const fn len(self) -> usize {
        self.rows * self.columns
    }

    /// Whether there are none.
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} x {}", self.rows, self.columns)
    }
}

/// A matrix to be read: row after row.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// Its shape.
    pub shape: Shape,
    /// Its numbers.
    pub values: &'a [f32],
}

impl<'a> View<'a> {
    /// The row at `index`.
    #[inline]
    pub fn row(&self, index: usize) -> &'a [f32] {
        &self.values[index * self.shape.columns..(index + 1) * self.shape.columns]
    }

    /// Some of its rows.
    #[inline]
    pub fn rows(&self, range: Range<usize>) -> View<'a> {
        let columns = self.shape.columns;
        View {
            shape: Shape::new(range.len(), columns),
            values: &self.values[range.start * columns..range.end * columns],
        }
    }
}

/// What an operation has at hand to compute its gradient.
pub struct Back<'a, 'g> {
    /// Its inputs.
    pub inputs: &'a [View<'a>],
    /// What it computed from them.
    pub output: View<'a>,
    /// What it put aside then.
    pub saved: &'a [f32],
    /// The gradient of its output.
    pub upstream: &'a [f32],
    /// Room to work in, of the length that [`Op::scratch`] asked for; it holds anything.
    pub scratch: &'a mut [f32],
    /// The gradients of its inputs, to be added to; `None` where none is wanted, or it was
    /// [ready](Op::ready).
    pub gradients: &'a mut [Option<&'g mut [f32]>],
}

impl<'g> Back<'_, 'g> {
    /// The gradient of input `index`, taken out to be written to; `None` where it is not wanted.
    pub fn take(&mut self, index: usize) -> Option<&'g mut [f32]> {
        self.gradients[index].take()
    }
}

/// An operation: as coarse and fused as speed wants, with a gradient of its own.
///
/// Values do not depend on the number of threads: work is split into pieces that depend on the shapes alone,
/// and sums over pieces are taken in order.
pub trait Op: Send + Sync {
    /// What it is called, in errors and traces.
    fn name(&self) -> &'static str;

    /// The shape of its output, or what is wrong with the inputs.
    fn shape(&self, inputs: &[Shape]) -> Result<Shape>;

    /// How many numbers it puts aside for its gradient.
    fn saved(&self, _inputs: &[Shape]) -> usize {
        0
    }

    /// How many numbers of room it needs to compute its gradient.
    fn scratch(&self, _inputs: &[Shape]) -> usize {
        0
    }

    /// Whether peers take part: it runs `backward` even without an upstream gradient, or they would wait for
    /// ever.
    fn collective(&self) -> bool {
        false
    }

    /// Whether it computes inputs that are products by itself: they are not put together for it, and their
    /// numbers are not there.
    fn computes_products(&self) -> bool {
        false
    }

    /// Whether a GPU leaves it until its output is read, which may never be: for copies. It puts nothing
    /// aside.
    fn waits(&self) -> bool {
        false
    }

    /// The output, where it was made together with others and need not be computed. It can be taken once.
    fn made(&self) -> Option<Buffer> {
        None
    }

    /// Rows of its output that are not copied from its last input, where it copies the others.
    fn changed(&self) -> Option<&Arc<[u32]>> {
        None
    }

    /// The gradient of an input, where the forward pass made it and it needs no adding up. It can be taken
    /// once.
    fn ready(&self, _input: usize, _upstream: &[f32]) -> Option<Buffer> {
        None
    }

    /// What it is for, where time is counted.
    fn stage(&self) -> Stage {
        Stage::Products
    }

    /// Whether its output is of all snapshots that its inputs are of, and not of the latest: time is counted
    /// so, then.
    fn joins_steps(&self) -> bool {
        false
    }

    /// What was counted within it, where it ran tapes with clocks of their own.
    fn within(&self) -> Option<Within> {
        None
    }

    /// Computes all of `output` and of `saved`, which hold anything before.
    fn forward(&self, inputs: &[View<'_>], output: &mut [f32], saved: &mut [f32]) -> Result<()>;

    /// Adds to the gradients of the inputs.
    fn backward(&self, back: Back<'_, '_>) -> Result<()>;

    /// Tells of everything besides its inputs that a GPU has to hold for it from tape to tape, in the forward
    /// pass or in the backward pass.
    fn holds(&self, _estimate: &MemoryEstimate, _back: bool) {}

    /// [`Op::forward`] on a GPU.
    fn cuda(&self, _call: cuda::Call<'_>) -> Result<()> {
        Err(only_on_the_host(self.name()))
    }

    /// [`Op::backward`] on a GPU.
    fn cuda_back(&self, _back: cuda::Back<'_>) -> Result<()> {
        Err(only_on_the_host(self.name()))
    }
}

fn only_on_the_host(name: &str) -> Error {
    Error::Device(format!("there is no kernel for {name}; run on the CPU, or with one worker"))
}
