//! A linear function of the last steps: `out_t = sum_k x_(t-k) W_k + b`, with nothing before the first step.

use kymo_tensor::{Result, Tape, Var};

use super::{Sequence, Time};
use crate::memory::{Passed, handed, recent};
use crate::params::{Bound, Slot};
use crate::together::once;

/// One weight for each step back.
pub struct Linear {
    /// What its parameters are called.
    pub name: String,
    /// Columns it takes.
    pub input: usize,
    /// Columns it gives.
    pub output: usize,
    /// Steps it looks at, the current one included.
    pub reach: usize,
}

impl Time for Linear {
    fn slots(&self) -> Vec<Slot> {
        let weight = |back| Slot::weight(format!("{}.{back}.weight", self.name), self.input, self.output);
        (0..self.reach).map(weight).chain([Slot::bias(format!("{}.bias", self.name), self.output)]).collect()
    }

    fn width(&self) -> usize {
        self.output
    }

    fn memory(&self) -> Option<Vec<usize>> {
        Some(vec![self.input; self.reach - 1])
    }

    fn run(&self, tape: &mut Tape<'_>, params: &Bound<'_>, sequence: Sequence<'_>) -> Result<Passed> {
        let Sequence { steps, before, together, only_last } = sequence;
        let bias = params.get(&format!("{}.bias", self.name))?;
        let weight = |back: usize| params.get(&format!("{}.{back}.weight", self.name));
        let weights = (0..self.reach).map(weight).collect::<Result<Vec<Var>>>()?;
        let mut rows = Vec::with_capacity(steps.len());
        let handed = handed(before, self.reach - 1)?.unwrap_or_default();
        let known = [handed, steps].concat();
        let first = if only_last { steps.len().saturating_sub(1) } else { 0 };
        for (t, &step) in steps.iter().enumerate().skip(first) {
            let now = ("steps back", 0);
            let mut parts = vec![once(together, now, step, || tape.linear(step, weights[0], bias))?];
            for back in 1..self.reach.min(handed.len() + t + 1) {
                let step = known[handed.len() + t - back];
                let earlier = ("steps back", back);
                parts.push(once(together, earlier, step, || tape.matmul(step, weights[back]))?);
            }
            rows.push(match parts[..] {
                [one] => one,
                _ => tape.add_all(&parts)?,
            });
        }
        let after = recent(tape, &known, steps, self.reach - 1)?;
        Ok(Passed { steps: rows, after, ..Passed::default() })
    }
}
