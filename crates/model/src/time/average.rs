//! A moving average (ROLAND's first update, You et al., KDD 2022): `h' = k h + (1 - k) x`. It begins with the
//! first step.
//!
//! The share `k` that is kept is learnt, one for each column: `sigmoid` of a parameter. In the paper it is
//! the share of edges that came before the step, which a window that is a sample of its own does not know;
//! over a long sequence it goes to one, and what is new counts less and less.

use kymo_tensor::{Result, Tape};

use super::{Sequence, Time};
use crate::memory::{Passed, handed, last};
use crate::params::{Bound, Slot};

/// An average of each column.
pub struct Average {
    /// What its parameters are called.
    pub name: String,
    /// Columns it takes and gives.
    pub width: usize,
}

impl Time for Average {
    fn slots(&self) -> Vec<Slot> {
        vec![Slot::bias(format!("{}.keep", self.name), self.width)]
    }

    fn width(&self) -> usize {
        self.width
    }

    fn memory(&self) -> Option<Vec<usize>> {
        Some(vec![self.width])
    }

    fn run(&self, tape: &mut Tape<'_>, params: &Bound<'_>, sequence: Sequence<'_>) -> Result<Passed> {
        let (_, shape) = last(tape, sequence.steps)?;
        let nothing = tape.filled(shape, 0.0);
        let keep = tape.add_row(nothing, params.get(&format!("{}.keep", self.name))?)?;
        let keep = tape.sigmoid(keep)?;
        let mut before = handed(sequence.before, 1)?.map(|before| before[0]);
        let mut rows = Vec::with_capacity(sequence.steps.len());
        for &step in sequence.steps {
            let after = match before {
                Some(state) => {
                    // k h + (1 - k) x = x + k (h - x)
                    let difference = tape.subtract(state, step)?;
                    let change = tape.multiply(keep, difference)?;
                    tape.add(step, change)?
                }
                None => step,
            };
            before = Some(after);
            rows.push(after);
        }
        Ok(Passed { after: before.into_iter().collect(), steps: rows, ..Passed::default() })
    }
}
