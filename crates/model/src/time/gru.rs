//! The gated recurrent unit (Cho et al., 2014, in PyTorch's form: the reset gate after the product). The
//! state before the first step is zero.

use kymo_tensor::{Result, Tape};

use super::{Sequence, Time};
use crate::memory::{Passed, handed};
use crate::params::{Bound, Slot};
use crate::together::once;

/// One cell.
pub struct Gru {
    /// What its parameters are called.
    pub name: String,
    /// Columns it takes.
    pub input: usize,
    /// Columns of its state.
    pub hidden: usize,
}

impl Time for Gru {
    fn slots(&self) -> Vec<Slot> {
        let (name, hidden) = (&self.name, self.hidden);
        vec![
            Slot::weight(format!("{name}.input"), self.input, 3 * hidden),
            Slot::weight(format!("{name}.state"), hidden, 3 * hidden),
            Slot::bias(format!("{name}.bias"), 3 * hidden),
            Slot::bias(format!("{name}.state_bias"), 3 * hidden),
        ]
    }

    fn width(&self) -> usize {
        self.hidden
    }

    fn memory(&self) -> Option<Vec<usize>> {
        Some(vec![self.hidden])
    }

    fn run(&self, tape: &mut Tape<'_>, params: &Bound<'_>, sequence: Sequence<'_>) -> Result<Passed> {
        let Sequence { steps, before, together, .. } = sequence;
        let together = together.filter(|_| tape.is_on_host());
        let of = |what: &str| params.get(&format!("{}.{what}", self.name));
        let (input, state, bias, state_bias) = (of("input")?, of("state")?, of("bias")?, of("state_bias")?);
        let mut before = handed(before, 1)?.map(|before| before[0]);
        let mut rows = Vec::with_capacity(steps.len());
        for &step in steps {
            let after = match together {
                None => tape.gru_cell_with_input(step, input, bias, before, state, state_bias)?,
                Some(_) => {
                    let gates = once(together, ("gates", 0), step, || tape.linear(step, input, bias))?;
                    tape.gru_cell(gates, before, state, state_bias)?
                }
            };
            before = Some(after);
            rows.push(after);
        }
        Ok(Passed { after: before.into_iter().collect(), steps: rows, ..Passed::default() })
    }
}
