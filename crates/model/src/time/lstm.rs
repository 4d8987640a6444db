//! Long short-term memory (Hochreiter and Schmidhuber, 1997; gates in PyTorch's order i, f, g, o), one or
//! several above each other. The state before the first step is zero.

use kymo_tensor::{Result, Tape};

use super::{Sequence, Time};
use crate::memory::{Passed, handed};
use crate::params::{Bound, Slot};
use crate::together::once;

/// One or several cells above each other.
pub struct Lstm {
    /// What the parameters of each cell are called.
    pub names: Vec<String>,
    /// Columns the first takes.
    pub input: usize,
    /// Columns of the state.
    pub hidden: usize,
}

impl Time for Lstm {
    fn slots(&self) -> Vec<Slot> {
        let hidden = self.hidden;
        let cell = |(number, name): (usize, &String)| {
            let input = if number == 0 { self.input } else { hidden };
            [
                Slot::weight(format!("{name}.input"), input, 4 * hidden),
                Slot::weight(format!("{name}.state"), hidden, 4 * hidden),
                Slot::bias(format!("{name}.bias"), 4 * hidden),
            ]
        };
        self.names.iter().enumerate().flat_map(cell).collect()
    }

    fn width(&self) -> usize {
        self.hidden
    }

    fn memory(&self) -> Option<Vec<usize>> {
        // Of each cell h and c, side by side.
        Some(vec![2 * self.hidden; self.names.len()])
    }

    fn run(&self, tape: &mut Tape<'_>, params: &Bound<'_>, sequence: Sequence<'_>) -> Result<Passed> {
        let Sequence { steps, before, together, .. } = sequence;
        let together = together.filter(|_| tape.is_on_host());
        let handed = handed(before, self.names.len())?;
        let (mut rows, mut after) = (steps.to_vec(), Vec::with_capacity(self.names.len()));
        for (number, name) in self.names.iter().enumerate() {
            let of = |what: &str| params.get(&format!("{name}.{what}"));
            let (input, state, bias) = (of("input")?, of("state")?, of("bias")?);
            let mut before = handed.map(|before| before[number]);
            for row in &mut rows {
                let cell = match together {
                    // The cells above the first read what time has made.
                    Some(_) if number == 0 => {
                        let make = || tape.linear(*row, input, bias);
                        let gates = once(together, ("gates", 0), *row, make)?;
                        tape.lstm_cell_of_gates(gates, before, state)?
                    }
                    _ => tape.lstm_cell(*row, input, bias, before, state)?,
                };
                before = Some(cell);
                *row = tape.lstm_output(cell)?;
            }
            after.extend(before);
        }
        Ok(Passed { steps: rows, after, ..Passed::default() })
    }
}
