//! Time encoders: how a vertex remembers its earlier snapshots. Every vertex is by itself.

mod attention;
mod average;
mod convolution;
mod gru;
mod linear;
mod lstm;
mod mlp;

pub use attention::Attention;
pub use average::Average;
pub use convolution::Convolution;
pub use gru::Gru;
pub use linear::Linear;
pub use lstm::Lstm;
pub use mlp::Mlp;

use kymo_tensor::{Result, Tape, Var};

use crate::memory::Passed;
use crate::params::{Bound, Slot};
use crate::together::Together;

/// How a state follows from the one before and from what structure made of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Update {
    /// By a gated recurrent unit.
    #[default]
    Gru,
    /// By two layers.
    Mlp,
    /// By a moving average.
    Average,
}

impl Update {
    /// The encoder that does it, of as many columns as it gives.
    pub fn encoder(self, name: &str, width: usize) -> Box<dyn Time> {
        let (name, input, hidden) = (name.into(), width, width);
        match self {
            Update::Gru => Box::new(Gru { name, input, hidden }),
            Update::Mlp => Box::new(Mlp { name, input, hidden }),
            Update::Average => Box::new(Average { name, width }),
        }
    }
}

/// What a time encoder reads.
#[derive(Clone, Copy)]
pub struct Sequence<'v> {
    /// The rows of every step.
    pub steps: &'v [Var],
    /// What was handed over, if anything was.
    pub before: &'v [Var],
    /// What other windows share with it, where several are run together. Cells share their products with
    /// inputs on the host only: on a GPU, cells that multiply inputs themselves gain more.
    pub together: Option<&'v Together>,
    /// Whether nobody reads the outputs of the steps before the last one: they may be left out.
    pub only_last: bool,
}

/// An encoder of a sequence of rows.
pub trait Time: Send + Sync {
    /// Its parameters.
    fn slots(&self) -> Vec<Slot>;

    /// Columns of its output.
    fn width(&self) -> usize;

    /// Columns of the matrices it hands from one window to the next; `None` where it can only see a window at
    /// a time.
    fn memory(&self) -> Option<Vec<usize>>;

    /// The output after each step, or after the last ones where nobody reads the others.
    fn run(&self, tape: &mut Tape<'_>, params: &Bound<'_>, sequence: Sequence<'_>) -> Result<Passed>;
}
