//! A state that two layers make of the state before and of the input (ROLAND's MLP update, You et al., KDD
//! 2022): `h' = relu(x W + h U + b) V + c`. The state before the first step is zero.

use kymo_tensor::{Result, Tape};

use super::{Sequence, Time};
use crate::memory::{Passed, handed};
use crate::params::{Bound, Slot};

/// Two layers, as wide as the state.
pub struct Mlp {
    /// What its parameters are called.
    pub name: String,
    /// Columns it takes.
    pub input: usize,
    /// Columns of its state.
    pub hidden: usize,
}

impl Time for Mlp {
    fn slots(&self) -> Vec<Slot> {
        let (name, hidden) = (&self.name, self.hidden);
        vec![
            Slot::weight(format!("{name}.input"), self.input, hidden),
            Slot::weight(format!("{name}.state"), hidden, hidden),
            Slot::bias(format!("{name}.bias"), hidden),
            Slot::weight(format!("{name}.output.weight"), hidden, hidden),
            Slot::bias(format!("{name}.output.bias"), hidden),
        ]
    }

    fn width(&self) -> usize {
        self.hidden
    }

    fn memory(&self) -> Option<Vec<usize>> {
        Some(vec![self.hidden])
    }

    fn run(&self, tape: &mut Tape<'_>, params: &Bound<'_>, sequence: Sequence<'_>) -> Result<Passed> {
        let of = |what: &str| params.get(&format!("{}.{what}", self.name));
        let (input, bias) = (of("input")?, of("bias")?);
        let (output, output_bias) = (of("output.weight")?, of("output.bias")?);
        let both = tape.concatenate_rows(&[input, of("state")?])?;
        let mut before = handed(sequence.before, 1)?.map(|before| before[0]);
        let mut rows = Vec::with_capacity(sequence.steps.len());
        for &step in sequence.steps {
            let inner = match before {
                Some(state) => {
                    let sum = tape.linear_of(&[step, state], both, bias)?;
                    tape.relu(sum)?
                }
                None => tape.linear_relu(step, input, bias)?,
            };
            let after = tape.linear(inner, output, output_bias)?;
            before = Some(after);
            rows.push(after);
        }
        Ok(Passed { after: before.into_iter().collect(), steps: rows, ..Passed::default() })
    }
}
