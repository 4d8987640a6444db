//! Graph convolution of several hops: `activation([x, A x, ..., A^K x] W + b)`, a polynomial of the
//! normalised adjacency.
//!
//! Defferrard et al. (NeurIPS 2016) have Chebyshev polynomials of the Laplacian; with a loop at every vertex,
//! as in graph convolution, powers reach the same functions of the adjacency by other weights.

use kymo_tensor::{Result, Tape, Var};

use super::{Activation, Structure};
use crate::frame::{Frame, Matrix};
use crate::graph::Normalisation;
use crate::params::{Bound, Slot};
use crate::reuse::Input;

/// One layer.
pub struct Polynomial {
    /// What its parameters are called.
    pub name: String,
    /// Columns it takes.
    pub input: usize,
    /// Columns it gives.
    pub output: usize,
    /// Steps from neighbour to neighbour, at most.
    pub hops: usize,
    /// How neighbours are weighed.
    pub normalisation: Normalisation,
    /// What is done to the result.
    pub activation: Activation,
}

impl Structure for Polynomial {
    fn slots(&self) -> Vec<Slot> {
        vec![
            Slot::weight(format!("{}.weight", self.name), (self.hops + 1) * self.input, self.output),
            Slot::bias(format!("{}.bias", self.name), self.output),
        ]
    }

    fn width(&self) -> usize {
        self.output
    }

    fn hops(&self) -> usize {
        self.hops
    }

    fn exchange<'a>(&self, tape: &mut Tape<'a>, _: &Bound<'_>, frame: &Frame<'a>, x: Var) -> Result<Var> {
        let (matrix, mut all) = (Matrix::Normalised(self.normalisation), vec![x]);
        let mut reached = x;
        for _ in 0..self.hops {
            // What it reads may follow from the steps before: nothing of it is kept.
            reached = frame.product(tape, Input::State, matrix, reached)?;
            all.push(reached);
        }
        tape.concatenate_columns(&all)
    }

    fn rows(&self, tape: &mut Tape<'_>, params: &Bound<'_>, exchanged: Var) -> Result<Var> {
        let of = |what: &str| params.get(&format!("{}.{what}", self.name));
        self.activation.of_linear(tape, exchanged, of("weight")?, of("bias")?)
    }
}
