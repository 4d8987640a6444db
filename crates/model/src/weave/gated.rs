//! Gates from a graph convolution (T-GCN, Zhao et al., T-ITS 2020): the input of a gated recurrent unit is
//! `A x W + b`.
//!
//! The equations are those of the paper, with the reset gate before the product: `z, r = sigmoid(g + h U)`,
//! `n = tanh(g + (r h) U)`, `h' = z h + (1 - z) n`. A convolution followed by a linear map, as in the paper
//! and in PyTorch Geometric Temporal, is one matrix here: the product of the two. Several layers are plain
//! convolutions before the gates.

use kymo_tensor::{Result, Tape, Var};

use crate::frame::{Frame, Matrix, each};
use crate::graph::Normalisation;
use crate::memory::{Memory, Passed, handed};
use crate::params::{Bound, Slot};
use crate::reuse::Input;
use crate::structure::{Structure, aggregates_first};
use crate::together::once;
use crate::{Exchanged, Model};

/// The state before the first step is zero.
pub struct Gated {
    /// How many layers there are before the gates.
    pub layers: usize,
    /// These layers.
    pub before: Option<Box<dyn Structure>>,
    /// Columns the gates take.
    pub input: usize,
    /// Columns of the state.
    pub hidden: usize,
    /// How neighbours are weighed.
    pub normalisation: Normalisation,
}

impl Model for Gated {
    fn slots(&self) -> Vec<Slot> {
        let before = self.before.iter().flat_map(|layers| layers.slots());
        let gates = [
            Slot::weight("gate.input", self.input, 3 * self.hidden),
            Slot::bias("gate.bias", 3 * self.hidden),
            Slot::weight("gate.state", self.hidden, 3 * self.hidden),
        ];
        before.chain(gates).collect()
    }

    fn width(&self) -> usize {
        self.hidden
    }

    fn hops(&self) -> Option<usize> {
        Some(1 + self.before.as_ref().map_or(0, |layers| layers.hops()))
    }

    fn memory(&self) -> Option<Memory> {
        Some(Memory { exchange: Vec::new(), rows: vec![self.hidden] })
    }

    fn exchange<'a>(
        &self,
        tape: &mut Tape<'a>,
        params: &Bound<'_>,
        window: &[Frame<'a>],
        _: &[Var],
    ) -> Result<Passed> {
        let steps = each(tape, window, |tape, _, frame| {
            frame.once(("structure", 0), frame.features, || {
                let mut x = frame.features;
                if let Some(before) = &self.before {
                    x = before.exchange(tape, params, frame, x)?;
                    x = before.rows(tape, params, x)?;
                }
                if !aggregates_first(self.input, 3 * self.hidden, tape.wants_gradient(x)) {
                    let (unweighted, weight) = (x, params.get("gate.input")?);
                    x = frame
                        .once_of_rows(("weighted", self.layers), x, || tape.matmul(unweighted, weight))?;
                }
                frame.product(tape, Input::Layer(self.layers), Matrix::Normalised(self.normalisation), x)
            })
        })?;
        Ok(Passed { steps, ..Passed::default() })
    }

    fn rows(&self, tape: &mut Tape<'_>, params: &Bound<'_>, exchanged: Exchanged<'_>) -> Result<Passed> {
        let (input, bias, state) =
            (params.get("gate.input")?, params.get("gate.bias")?, params.get("gate.state")?);
        let mut before = handed(exchanged.before, 1)?.map(|before| before[0]);
        let mut rows = Vec::with_capacity(exchanged.steps.len());
        for &step in exchanged.steps {
            // The columns tell which order was chosen; where both sides are equally wide the first one was.
            let multiplies = tape.shape(step).columns == self.input;
            // On a GPU a cell that multiplies the input itself gains more than a product that is shared.
            let is_fused = exchanged.together.is_none() || !tape.is_on_host();
            let after = if multiplies && is_fused {
                tape.gated_cell_with_input(step, input, bias, before, state)?
            } else {
                let gates = once(exchanged.together, ("gates", 0), step, || match multiplies {
                    true => tape.linear(step, input, bias),
                    false => tape.add_row(step, bias),
                })?;
                tape.gated_cell(gates, before, state)?
            };
            before = Some(after);
            rows.push(after);
        }
        Ok(Passed { after: before.into_iter().collect(), steps: rows, ..Passed::default() })
    }
}
