//! Graph convolution (Kipf and Welling, 2017): `activation(A x W + b)`.

use kymo_tensor::{Result, Tape, Var};

use super::{Activation, Structure};
use crate::frame::{Frame, Matrix};
use crate::graph::Normalisation;
use crate::params::{Bound, Slot};
use crate::reuse::Input;

/// One layer.
pub struct Gcn {
    /// Its number among the layers, from 0.
    pub layer: usize,
    /// What its parameters are called.
    pub name: String,
    /// Columns it takes.
    pub input: usize,
    /// Columns it gives.
    pub output: usize,
    /// How neighbours are weighed.
    pub normalisation: Normalisation,
    /// What is done to the result.
    pub activation: Activation,
}

/// Whether `(A x) W` is cheaper than `A (x W)`, by the columns that go through the sparse product.
///
/// Where no gradient flows into `x`, aggregating first needs no sparse product in the backward pass, which
/// halves its cost; it also moves the dense product into the rows phase.
pub fn aggregates_first(input: usize, output: usize, wants_gradient: bool) -> bool {
    if wants_gradient { input <= output } else { input <= 2 * output }
}

impl Structure for Gcn {
    fn slots(&self) -> Vec<Slot> {
        vec![
            Slot::weight(format!("{}.weight", self.name), self.input, self.output),
            Slot::bias(format!("{}.bias", self.name), self.output),
        ]
    }

    fn width(&self) -> usize {
        self.output
    }

    fn exchange<'a>(
        &self,
        tape: &mut Tape<'a>,
        params: &Bound<'_>,
        frame: &Frame<'a>,
        x: Var,
    ) -> Result<Var> {
        let x = match aggregates_first(self.input, self.output, tape.wants_gradient(x)) {
            true => x,
            false => {
                let weight = params.get(&format!("{}.weight", self.name))?;
                frame.once_of_rows(("weighted", self.layer), x, || tape.matmul(x, weight))?
            }
        };
        frame.product(tape, Input::Layer(self.layer), Matrix::Normalised(self.normalisation), x)
    }

    fn rows(&self, tape: &mut Tape<'_>, params: &Bound<'_>, exchanged: Var) -> Result<Var> {
        let bias = params.get(&format!("{}.bias", self.name))?;
        // The columns tell which order was chosen; where both sides are equally wide the first one was.
        if tape.shape(exchanged).columns == self.input {
            let weight = params.get(&format!("{}.weight", self.name))?;
            return self.activation.of_linear(tape, exchanged, weight, bias);
        }
        let x = tape.add_row(exchanged, bias)?;
        self.activation.apply(tape, x)
    }
}
