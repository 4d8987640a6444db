//! What a task's head makes of the last rows of a window, in plain numbers: written block by block while the
//! rows phase runs, which windows that are run together go through together.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use kymo_tensor::{Result, Tape, Var};

use super::{Loss, Matrices, keep};

/// Outputs that are still to be computed: a loss of zero, and what is written while it is taken.
pub struct Outputs<'a> {
    /// To be taken, by itself or with those of other windows.
    pub loss: Loss<'a>,
    /// To be read after that.
    pub written: Written,
}

/// A matrix that blocks of rows are written to.
#[derive(Clone)]
pub struct Written(Arc<Mutex<Matrices>>);

impl Written {
    /// Room for this many numbers.
    pub(super) fn new(numbers: usize) -> Written {
        Written(Arc::new(Mutex::new(vec![vec![0.0; numbers]])))
    }

    /// Writes some rows to their place.
    pub(super) fn keep(&self, tape: &Tape<'_>, rows: &Range<usize>, made: Var) -> Result<()> {
        keep(tape, rows, &[made], &self.0)
    }

    /// All rows, which are left to the caller.
    pub fn read(&self) -> Vec<f32> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }
}
