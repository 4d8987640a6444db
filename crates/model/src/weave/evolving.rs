//! Weights that evolve (EvolveGCN, Pareja et al., AAAI 2020): the weight of a convolution is the state of a
//! recurrent cell.
//!
//! `-O` (equation 5 of the paper) feeds a matrix LSTM with the weight itself: input and hidden state are the
//! same matrix, so their two products are one. `-H` (equation 4) feeds a matrix GRU with the vertices that
//! score highest. The columns of the weight are the samples of the cells: matrices multiply from the left,
//! and biases are matrices. The authors' code and PyTorch Geometric Temporal use a GRU for `-O` as well, and
//! the latter keeps the weight from one call to the next; here the paper is followed, and a window begins
//! with the first weight.

use kymo_tensor::{Result, Shape, Stage, Tape, Var};

use crate::frame::{Frame, Matrix, each};
use crate::graph::Normalisation;
use crate::memory::{Extent, Memory, Passed, handed};
use crate::params::{Bound, Slot};
use crate::reuse::Input;
use crate::structure::{Activation, aggregates_first};
use crate::{Exchanged, Model};

/// What drives the weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evolution {
    /// They themselves: EvolveGCN-O.
    Weights,
    /// The embeddings of the vertices: EvolveGCN-H.
    Vertices,
}

/// Convolutions whose weights evolve.
pub struct Evolving {
    /// Columns of the input and of every layer's output.
    pub widths: Vec<usize>,
    /// What drives the weights.
    pub evolution: Evolution,
    /// How neighbours are weighed.
    pub normalisation: Normalisation,
    /// What is done to the result of the last layer; those before it have the positive part.
    pub last: Activation,
}

/// The weight of a layer as it stands.
#[derive(Clone, Copy)]
struct Weight {
    weight: Var,
    cell: Option<Var>,
}

impl Evolving {
    fn layers(&self) -> impl Iterator<Item = (usize, usize, usize)> + '_ {
        self.widths.windows(2).enumerate().map(|(layer, widths)| (layer, widths[0], widths[1]))
    }

    /// Matrices that a layer hands over.
    fn kept(&self) -> usize {
        match self.evolution {
            Evolution::Weights => 2,
            Evolution::Vertices => 1,
        }
    }

    /// The matrix LSTM: gates i, f, g, o below each other.
    fn driven_by_itself(
        tape: &mut Tape<'_>,
        params: &Bound<'_>,
        layer: usize,
        now: Weight,
    ) -> Result<Weight> {
        let input = tape.shape(now.weight).rows;
        let product = tape.matmul(params.get(&format!("evolve.{layer}.state"))?, now.weight)?;
        let gates = tape.add(product, params.get(&format!("evolve.{layer}.bias"))?)?;
        let part =
            |tape: &mut Tape<'_>, number: usize| tape.slice_rows(gates, number * input..(number + 1) * input);
        let (enter, keep, new, out) = (part(tape, 0)?, part(tape, 1)?, part(tape, 2)?, part(tape, 3)?);
        let (enter, new, out) = (tape.sigmoid(enter)?, tape.tanh(new)?, tape.sigmoid(out)?);
        let mut cell = tape.multiply(enter, new)?;
        if let Some(before) = now.cell {
            let keep = tape.sigmoid(keep)?;
            let kept = tape.multiply(keep, before)?;
            cell = tape.add(kept, cell)?;
        }
        let shown = tape.tanh(cell)?;
        Ok(Weight { weight: tape.multiply(out, shown)?, cell: Some(cell) })
    }

    /// The matrix GRU: gates z, r and the candidate below each other.
    fn driven_by_vertices(
        tape: &mut Tape<'_>,
        params: &Bound<'_>,
        layer: usize,
        now: Weight,
        summary: Var,
    ) -> Result<Weight> {
        let input = tape.shape(now.weight).rows;
        let of = |what: &str| params.get(&format!("evolve.{layer}.{what}"));
        let heard = tape.matmul(of("input")?, summary)?;
        let heard = tape.add(heard, of("bias")?)?;
        let part = |tape: &mut Tape<'_>, of: Var, number: usize| {
            tape.slice_rows(of, number * input..(number + 1) * input)
        };
        let state = of("state")?;
        let gate = |tape: &mut Tape<'_>, number: usize, state_input: Var| -> Result<Var> {
            let matrix = part(tape, state, number)?;
            let product = tape.matmul(matrix, state_input)?;
            let heard = part(tape, heard, number)?;
            tape.add(heard, product)
        };
        let (update, reset) = (gate(tape, 0, now.weight)?, gate(tape, 1, now.weight)?);
        let (update, reset) = (tape.sigmoid(update)?, tape.sigmoid(reset)?);
        let kept = tape.multiply(reset, now.weight)?;
        let candidate = gate(tape, 2, kept)?;
        let candidate = tape.tanh(candidate)?;
        // (1 - z) W + z c = W + z (c - W)
        let difference = tape.subtract(candidate, now.weight)?;
        let change = tape.multiply(update, difference)?;
        Ok(Weight { weight: tape.add(now.weight, change)?, cell: None })
    }
}

impl Model for Evolving {
    fn slots(&self) -> Vec<Slot> {
        let mut slots = Vec::new();
        for (layer, input, output) in self.layers() {
            slots.push(Slot::weight(format!("structure.{layer}.weight"), input, output));
            slots.push(Slot::bias(format!("structure.{layer}.bias"), output));
            let gates = match self.evolution {
                Evolution::Weights => 4,
                Evolution::Vertices => 3,
            };
            slots.push(Slot::weight(format!("evolve.{layer}.state"), gates * input, input));
            slots.push(Slot::weight(format!("evolve.{layer}.bias"), gates * input, output));
            if self.evolution == Evolution::Vertices {
                slots.push(Slot::weight(format!("evolve.{layer}.input"), gates * input, input));
                slots.push(Slot::weight(format!("evolve.{layer}.score"), input, 1));
            }
        }
        slots
    }

    fn width(&self) -> usize {
        self.widths.last().copied().unwrap_or(0)
    }

    fn hops(&self) -> Option<usize> {
        // The highest of all vertices may be anywhere.
        (self.evolution == Evolution::Weights).then_some(self.widths.len().saturating_sub(1))
    }

    fn memory(&self) -> Option<Memory> {
        let layer = |(_, input, output)| vec![Extent::Matrix(Shape::new(input, output)); self.kept()];
        Some(Memory { exchange: self.layers().flat_map(layer).collect(), rows: Vec::new() })
    }

    fn exchange<'a>(
        &self,
        tape: &mut Tape<'a>,
        params: &Bound<'_>,
        window: &[Frame<'a>],
        before: &[Var],
    ) -> Result<Passed> {
        let kept = self.kept();
        let handed = handed(before, kept * self.layers().count())?;
        let begin = |(layer, _, _)| match handed {
            Some(before) => {
                let mine = &before[kept * layer..kept * (layer + 1)];
                Ok(Weight { weight: mine[0], cell: mine.get(1).copied() })
            }
            None => Ok(Weight { weight: params.get(&format!("structure.{layer}.weight"))?, cell: None }),
        };
        let mut weights: Vec<Weight> = self.layers().map(begin).collect::<Result<_>>()?;
        let last = weights.len().saturating_sub(1);
        let mut shared = Vec::with_capacity(window.len());
        let steps = each(tape, window, |tape, _, frame| {
            let mut x = frame.features;
            for (layer, input, output) in self.layers() {
                let before = weights[layer];
                let now = tape.staged(Stage::Time, |tape| match self.evolution {
                    Evolution::Weights => Self::driven_by_itself(tape, params, layer, before),
                    Evolution::Vertices => {
                        let score = params.get(&format!("evolve.{layer}.score"))?;
                        let summary = frame.summary(tape, x, score, output)?;
                        Self::driven_by_vertices(tape, params, layer, before, summary)
                    }
                })?;
                weights[layer] = now;
                let matrix = Matrix::Normalised(self.normalisation);
                let first = aggregates_first(input, output, tape.wants_gradient(x));
                if !first {
                    x = tape.matmul(x, now.weight)?;
                }
                // Weights evolve from the beginning of the window.
                x = frame.product(tape, Input::State, matrix, x)?;
                if layer == last {
                    // What is left treats every vertex by itself; it needs the weight of this step.
                    shared.push(now.weight);
                    break;
                }
                let bias = params.get(&format!("structure.{layer}.bias"))?;
                x = match first {
                    true => tape.linear_relu(x, now.weight, bias)?,
                    false => {
                        let sum = tape.add_row(x, bias)?;
                        Activation::Relu.apply(tape, sum)?
                    }
                };
            }
            Ok(x)
        })?;
        let after = weights.into_iter().flat_map(|now| [Some(now.weight), now.cell]).flatten().collect();
        Ok(Passed { steps, shared, after })
    }

    fn rows(&self, tape: &mut Tape<'_>, params: &Bound<'_>, exchanged: Exchanged<'_>) -> Result<Passed> {
        let Some((last, input, _)) = self.layers().last() else {
            return Ok(Passed { steps: exchanged.steps.to_vec(), ..Passed::default() });
        };
        let bias = params.get(&format!("structure.{last}.bias"))?;
        let mut steps = Vec::with_capacity(exchanged.steps.len());
        for (&step, &weight) in exchanged.steps.iter().zip(exchanged.shared) {
            // The columns tell which order was chosen; where both sides are equally wide the first one was.
            steps.push(match tape.shape(step).columns == input {
                true => self.last.of_linear(tape, step, weight, bias)?,
                false => {
                    let sum = tape.add_row(step, bias)?;
                    self.last.apply(tape, sum)?
                }
            });
        }
        Ok(Passed { steps, ..Passed::default() })
    }
}
