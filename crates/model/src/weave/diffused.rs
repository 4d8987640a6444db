//! Gates from diffusion convolutions of input and state (DCRNN, Li et al., ICLR 2018, equations 2 and 3).
//!
//! The state of a vertex depends on the states of its neighbours, so nothing is left for the rows phase.

use kymo_tensor::{Result, Shape, Stage, Tape, Var};

use crate::frame::{Frame, Matrix, each};
use crate::memory::{Extent, Memory, Passed, handed};
use crate::params::{Bound, Slot};
use crate::reuse::Input;
use crate::{Exchanged, Model};

/// The state before the first step is zero.
pub struct Diffused {
    /// Columns it takes.
    pub input: usize,
    /// Columns of the state.
    pub hidden: usize,
    /// Cells above each other; each reads the states of the one below.
    pub layers: usize,
    /// Steps of each random walk.
    pub walks: usize,
}

impl Diffused {
    /// What the parameters of a layer are called, and the columns it diffuses: its input and its state,
    /// themselves and after every step of both walks.
    fn layer(&self, number: usize) -> (String, usize) {
        let (prefix, input) = match number {
            0 => (String::new(), self.input),
            _ => (format!("layer.{number}."), self.hidden),
        };
        (prefix, (2 * self.walks + 1) * (input + self.hidden))
    }

    /// `[x, P x, P^2 x, ..., Q x, Q^2 x, ...]` for both walks `P` and `Q`.
    fn diffuse<'a>(&self, tape: &mut Tape<'a>, frame: &Frame<'a>, x: Var) -> Result<Vec<Var>> {
        let mut all = vec![x];
        for walk in [Matrix::Along, Matrix::Against] {
            let mut reached = x;
            for _ in 0..self.walks {
                reached = frame.product(tape, Input::State, walk, reached)?;
                all.push(reached);
            }
        }
        Ok(all)
    }
}

impl Model for Diffused {
    fn slots(&self) -> Vec<Slot> {
        let layer = |number| {
            let (prefix, columns) = self.layer(number);
            [
                Slot::weight(format!("{prefix}gate.weight"), columns, 2 * self.hidden),
                Slot::bias(format!("{prefix}gate.bias"), 2 * self.hidden),
                Slot::weight(format!("{prefix}candidate.weight"), columns, self.hidden),
                Slot::bias(format!("{prefix}candidate.bias"), self.hidden),
            ]
        };
        (0..self.layers).flat_map(layer).collect()
    }

    fn width(&self) -> usize {
        self.hidden
    }

    fn uses_out_edges(&self) -> bool {
        true
    }

    fn memory(&self) -> Option<Memory> {
        Some(Memory { exchange: vec![Extent::Vertices(self.hidden); self.layers], rows: Vec::new() })
    }

    fn exchange<'a>(
        &self,
        tape: &mut Tape<'a>,
        params: &Bound<'_>,
        window: &[Frame<'a>],
        before: &[Var],
    ) -> Result<Passed> {
        let mut rows: Vec<Var> = window.iter().map(|frame| frame.features).collect();
        let handed = handed(before, self.layers)?;
        let mut after = Vec::with_capacity(self.layers);
        for number in 0..self.layers {
            let (prefix, _) = self.layer(number);
            let of = |what: &str| params.get(&format!("{prefix}{what}"));
            let mut before: Option<Var> = handed.map(|before| before[number]);
            rows = each(tape, window, |tape, step, frame| {
                let state = match before {
                    Some(state) => frame.carry(tape, state)?,
                    None => tape.filled(Shape::new(frame.graph.vertices(), self.hidden), 0.0),
                };
                // The input is diffused once for both; it stands before the state at every step of every
                // walk.
                let heard = self.diffuse(tape, frame, rows[step])?;
                let beside = |states: Vec<Var>| -> Vec<Var> {
                    heard.iter().zip(states).flat_map(|(&input, state)| [input, state]).collect()
                };
                let diffused = beside(self.diffuse(tape, frame, state)?);
                let (keep, kept) = tape.staged(Stage::Time, |tape| -> Result<(Var, Var)> {
                    let gates = tape.linear_of(&diffused, of("gate.weight")?, of("gate.bias")?)?;
                    let gates = tape.sigmoid(gates)?;
                    let keep = tape.slice_columns(gates, 0..self.hidden)?;
                    let reset = tape.slice_columns(gates, self.hidden..2 * self.hidden)?;
                    Ok((keep, tape.multiply(reset, state)?))
                })?;
                let diffused = beside(self.diffuse(tape, frame, kept)?);
                let row = tape.staged(Stage::Time, |tape| {
                    let weight = of("candidate.weight")?;
                    let candidate = tape.linear_of(&diffused, weight, of("candidate.bias")?)?;
                    let candidate = tape.tanh(candidate)?;
                    // z h + (1 - z) c = c + z (h - c)
                    let difference = tape.subtract(state, candidate)?;
                    let change = tape.multiply(keep, difference)?;
                    tape.add(candidate, change)
                })?;
                before = Some(row);
                Ok(row)
            })?;
            after.extend(before);
        }
        Ok(Passed { steps: rows, after, ..Passed::default() })
    }

    fn rows(&self, _: &mut Tape<'_>, _: &Bound<'_>, exchanged: Exchanged<'_>) -> Result<Passed> {
        Ok(Passed { steps: exchanged.steps.to_vec(), ..Passed::default() })
    }
}
