//! A gated convolution over the last steps (STGCN, Yu et al., IJCAI 2018, section 3.3), in the form of
//! PyTorch Geometric Temporal: `relu(p * sigmoid(q) + r)`, where each of the three is a linear function of
//! the last steps with weights of its own.
//!
//! The paper's convolution gives fewer steps than it takes. This one looks back alone and takes what was
//! before the first step for zeros, so that there is an output for every step, and none of them knows what
//! comes after it.

use kymo_tensor::{Result, Tape, Var};

use super::{Sequence, Time};
use crate::memory::{Passed, handed, recent};
use crate::params::{Bound, Slot};
use crate::together::once_of;

/// One layer.
pub struct Convolution {
    /// What its parameters are called.
    pub name: String,
    /// Columns it takes.
    pub input: usize,
    /// Columns it gives.
    pub output: usize,
    /// Steps it looks at, the current one included.
    pub kernel: usize,
}

impl Convolution {
    /// Of a step and those before it, as far as they are known, the latest first.
    fn convolve(&self, tape: &mut Tape<'_>, params: &Bound<'_>, seen: &[Var]) -> Result<Var> {
        let of = |what: &str| params.get(&format!("{}.{what}", self.name));
        let (mut weight, width) = (of("weight")?, self.output);
        if seen.len() < self.kernel {
            weight = tape.slice_rows(weight, 0..seen.len() * self.input)?;
        }
        let all = tape.linear_of(seen, weight, of("bias")?)?;
        let passed = tape.slice_columns(all, 0..width)?;
        let gate = tape.slice_columns(all, width..2 * width)?;
        let beside = tape.slice_columns(all, 2 * width..3 * width)?;
        let gate = tape.sigmoid(gate)?;
        let passed = tape.multiply(passed, gate)?;
        let sum = tape.add(passed, beside)?;
        tape.relu(sum)
    }
}

impl Time for Convolution {
    fn slots(&self) -> Vec<Slot> {
        // Rows for the current step, then for each step back; columns for what passes, its gate, and what is
        // added.
        vec![
            Slot::weight(format!("{}.weight", self.name), self.kernel * self.input, 3 * self.output),
            Slot::bias(format!("{}.bias", self.name), 3 * self.output),
        ]
    }

    fn width(&self) -> usize {
        self.output
    }

    fn memory(&self) -> Option<Vec<usize>> {
        Some(vec![self.input; self.kernel - 1])
    }

    fn run(&self, tape: &mut Tape<'_>, params: &Bound<'_>, sequence: Sequence<'_>) -> Result<Passed> {
        let Sequence { steps, before, together, only_last } = sequence;
        let handed = handed(before, self.kernel - 1)?.unwrap_or_default();
        let known = [handed, steps].concat();
        let first = if only_last { steps.len().saturating_sub(1) } else { 0 };
        let mut rows = Vec::with_capacity(steps.len());
        for now in handed.len() + first..known.len() {
            let seen: Vec<Var> = known[..=now].iter().rev().take(self.kernel).copied().collect();
            let convolve = || self.convolve(tape, params, &seen);
            rows.push(once_of(together, ("convolution", 0), &seen, convolve)?);
        }
        let after = recent(tape, &known, steps, self.kernel - 1)?;
        Ok(Passed { steps: rows, after, ..Passed::default() })
    }
}
