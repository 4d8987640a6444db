//! A long short-term memory whose gates hear the states of neighbours (GC-LSTM, Chen et al., 2018):
//! `i, f, g, o = x W + h U + A h U_1 + ... + A^K h U_K + b`, then as in any such cell.
//!
//! The paper has Chebyshev polynomials of the Laplacian; these are polynomials of the normalised adjacency of
//! the same degree, with a loop at every vertex, as in graph convolution. What the cell remembers stays with
//! its vertex, as in PyTorch Geometric Temporal.

use kymo_tensor::{Result, Stage, Tape, Var};

use crate::frame::{Frame, Matrix, each};
use crate::graph::Normalisation;
use crate::memory::{Extent, Memory, Passed, handed};
use crate::params::{Bound, Slot};
use crate::reuse::Input;
use crate::{Exchanged, Model};

/// The state before the first step is zero.
pub struct Convolved {
    /// Columns the first layer takes.
    pub input: usize,
    /// Columns of the state.
    pub hidden: usize,
    /// Cells above each other: each reads the states of the one below.
    pub layers: usize,
    /// How far gates hear: steps from neighbour to neighbour.
    pub hops: usize,
    /// How neighbours are weighed.
    pub normalisation: Normalisation,
}

impl Convolved {
    /// What the parameters of a layer are called, and the columns it takes.
    fn layer(&self, number: usize) -> (String, usize) {
        match number {
            0 => (String::new(), self.input),
            _ => (format!("layer.{number}."), self.hidden),
        }
    }

    /// `[A h, A^2 h, ...]`.
    fn heard<'a>(&self, tape: &mut Tape<'a>, frame: &Frame<'a>, state: Var) -> Result<Vec<Var>> {
        let mut all: Vec<Var> = Vec::with_capacity(self.hops);
        for _ in 0..self.hops {
            let from = all.last().copied().unwrap_or(state);
            all.push(frame.product(tape, Input::State, Matrix::Normalised(self.normalisation), from)?);
        }
        Ok(all)
    }
}

impl Model for Convolved {
    fn slots(&self) -> Vec<Slot> {
        let layer = |number| {
            let ((prefix, input), gates) = (self.layer(number), 4 * self.hidden);
            [
                Slot::weight(format!("{prefix}gate.input"), input, gates),
                Slot::weight(format!("{prefix}gate.heard"), self.hops * self.hidden, gates),
                Slot::weight(format!("{prefix}gate.state"), self.hidden, gates),
                Slot::bias(format!("{prefix}gate.bias"), gates),
            ]
        };
        (0..self.layers).flat_map(layer).collect()
    }

    fn width(&self) -> usize {
        self.hidden
    }

    fn memory(&self) -> Option<Memory> {
        // Of each cell h and c, side by side.
        Some(Memory { exchange: vec![Extent::Vertices(2 * self.hidden); self.layers], rows: Vec::new() })
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
            let of = |what: &str| params.get(&format!("{prefix}gate.{what}"));
            let (input, bias, state) = (of("input")?, of("bias")?, of("state")?);
            let with_heard = tape.concatenate_rows(&[input, of("heard")?])?;
            let mut before: Option<Var> = handed.map(|before| before[number]);
            rows = each(tape, window, |tape, step, frame| {
                let cell = match before {
                    Some(cell) => Some(frame.carry(tape, cell)?),
                    None => None,
                };
                // Nothing is heard before the first step.
                let heard = match cell {
                    Some(cell) => {
                        let state = tape.staged(Stage::Time, |tape| tape.lstm_output(cell))?;
                        self.heard(tape, frame, state)?
                    }
                    None => Vec::new(),
                };
                tape.staged(Stage::Time, |tape| {
                    let gates = match heard.is_empty() {
                        true => tape.linear(rows[step], input, bias)?,
                        false => tape.linear_of(&[&[rows[step]], &heard[..]].concat(), with_heard, bias)?,
                    };
                    let cell = tape.lstm_cell_of_gates(gates, cell, state)?;
                    before = Some(cell);
                    tape.lstm_output(cell)
                })
            })?;
            after.extend(before);
        }
        Ok(Passed { steps: rows, after, ..Passed::default() })
    }

    fn rows(&self, _: &mut Tape<'_>, _: &Bound<'_>, exchanged: Exchanged<'_>) -> Result<Passed> {
        Ok(Passed { steps: exchanged.steps.to_vec(), ..Passed::default() })
    }
}
