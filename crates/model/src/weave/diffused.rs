//! Gates from diffusion convolutions of input and state (DCRNN, Li et al., ICLR 2018, equations 2 and 3).
//!
//! The state of a vertex depends on the states of its neighbours, so nothing is left for the rows phase.

use kymo_tensor::{Result, Shape, Tape, Var};

use crate::Model;
use crate::graph::{Frame, Graph};
use crate::params::{Bound, Slot};

/// The state before the first step is zero.
pub struct Diffused {
    /// Columns it takes.
    pub input: usize,
    /// Columns of the state.
    pub hidden: usize,
    /// Steps of each random walk.
    pub walks: usize,
}

impl Diffused {
    /// Columns of a diffused matrix: itself, and every step of both walks.
    fn columns(&self) -> usize {
        (2 * self.walks + 1) * (self.input + self.hidden)
    }

    /// `[x, P x, P^2 x, ..., Q x, Q^2 x, ...]` side by side, for both walks `P` and `Q`.
    fn diffuse(&self, tape: &mut Tape<'_>, graph: &Graph, x: Var) -> Result<Var> {
        let mut all = vec![x];
        for walk in graph.diffusion()? {
            let mut reached = x;
            for _ in 0..self.walks {
                reached = tape.spmm_fixed(walk.pattern.clone(), walk.values.clone(), reached)?;
                all.push(reached);
            }
        }
        tape.concat_columns(&all)
    }
}

impl Model for Diffused {
    fn slots(&self) -> Vec<Slot> {
        vec![
            Slot::weight("gate.weight", self.columns(), 2 * self.hidden),
            Slot::bias("gate.bias", 2 * self.hidden),
            Slot::weight("candidate.weight", self.columns(), self.hidden),
            Slot::bias("candidate.bias", self.hidden),
        ]
    }

    fn width(&self) -> usize {
        self.hidden
    }

    fn exchange<'a>(&self, tape: &mut Tape<'a>, params: &Bound<'_>, window: &[Frame<'a>]) -> Result<Vec<Var>> {
        let mut outputs: Vec<Var> = Vec::with_capacity(window.len());
        for frame in window {
            let before = match outputs.last() {
                Some(&state) => state,
                None => tape.filled(Shape::new(frame.graph.vertices(), self.hidden), 0.0),
            };
            let both = tape.concat_columns(&[frame.features, before])?;
            let diffused = self.diffuse(tape, frame.graph, both)?;
            let gates = tape.linear(diffused, params.get("gate.weight")?, params.get("gate.bias")?)?;
            let gates = tape.sigmoid(gates)?;
            let keep = tape.slice_columns(gates, 0..self.hidden)?;
            let reset = tape.slice_columns(gates, self.hidden..2 * self.hidden)?;
            let kept = tape.multiply(reset, before)?;
            let both = tape.concat_columns(&[frame.features, kept])?;
            let diffused = self.diffuse(tape, frame.graph, both)?;
            let candidate = tape.linear(diffused, params.get("candidate.weight")?, params.get("candidate.bias")?)?;
            let candidate = tape.tanh(candidate)?;
            // z h + (1 - z) c = c + z (h - c)
            let difference = tape.subtract(before, candidate)?;
            let step = tape.multiply(keep, difference)?;
            outputs.push(tape.add(candidate, step)?);
        }
        Ok(outputs)
    }

    fn rows(&self, _: &mut Tape<'_>, _: &Bound<'_>, exchanged: &[Var]) -> Result<Vec<Var>> {
        Ok(exchanged.to_vec())
    }
}
