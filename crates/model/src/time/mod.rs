//! Time encoders: how a vertex remembers its earlier snapshots. Every vertex is by itself.

mod attention;
mod gru;
mod linear;
mod lstm;

pub use attention::Attention;
pub use gru::Gru;
pub use linear::Linear;
pub use lstm::Lstm;

use kymo_tensor::{Result, Tape, Var};

use crate::memory::Passed;
use crate::params::{Bound, Slot};

/// An encoder of a sequence of rows.
pub trait Time: Send + Sync {
    /// Its parameters.
    fn slots(&self) -> Vec<Slot>;

    /// Columns of its output.
    fn width(&self) -> usize;

    /// Columns of the matrices it hands from one window to the next; `None` where it can only see a window at
    /// a time.
    fn memory(&self) -> Option<Vec<usize>>;

    /// The output after each step, from the inputs of all steps and from what was handed over, if anything
    /// was.
    fn run(&self, tape: &mut Tape<'_>, params: &Bound<'_>, steps: &[Var], before: &[Var]) -> Result<Passed>;
}
