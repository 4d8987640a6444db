//! Long short-term memory (Hochreiter and Schmidhuber, 1997; gates in PyTorch's order i, f, g, o), one or several above
//! each other. The state before the first step is zero.

use kymo_tensor::{Result, Tape, Var};

use super::Time;
use crate::params::{Bound, Slot};

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

    fn run(&self, tape: &mut Tape<'_>, params: &Bound<'_>, steps: &[Var]) -> Result<Vec<Var>> {
        let mut rows = steps.to_vec();
        for name in &self.names {
            let of = |what: &str| params.get(&format!("{name}.{what}"));
            let (input, state, bias) = (of("input")?, of("state")?, of("bias")?);
            let mut before = None;
            for row in &mut rows {
                let cell = tape.lstm_cell(*row, input, bias, before, state)?;
                before = Some(cell);
                *row = tape.lstm_output(cell)?;
            }
        }
        Ok(rows)
    }
}
