//! GraphSAGE (Hamilton et al., 2017): a vertex's own row and a summary of its in-neighbours, each with a
//! weight of its own.
//!
//! With a skip connection it is the layer of ROLAND (You et al., KDD 2022): the mean over neighbours of a
//! linear map of both rows, and the own row added to it. Where a layer gives other columns than it takes, a
//! linear map of the own row would have to be added: that is the weight it has already. A vertex without
//! neighbours has its own part all the same.

use kymo_tensor::{Result, Tape, Var};

use super::{Activation, Structure};
use crate::frame::{Frame, Matrix};
use crate::params::{Bound, Slot};
use crate::reuse::Input;

/// How neighbours are summarised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gather {
    /// By their mean, whatever the weights of their edges.
    #[default]
    Mean,
    /// By the highest value of each column after a layer of their own.
    Pool,
}

/// One layer.
pub struct Sage {
    /// Its number among the layers, from 0.
    pub layer: usize,
    /// What its parameters are called.
    pub name: String,
    /// Columns it takes.
    pub input: usize,
    /// Columns it gives.
    pub output: usize,
    /// How neighbours are summarised.
    pub gather: Gather,
    /// Whether the own row is added to the result, where it has as many columns.
    pub skips: bool,
    /// What is done to the result.
    pub activation: Activation,
}

impl Structure for Sage {
    fn slots(&self) -> Vec<Slot> {
        let name = &self.name;
        let mut slots = vec![
            Slot::weight(format!("{name}.self"), self.input, self.output),
            Slot::weight(format!("{name}.neighbour"), self.input, self.output),
            Slot::bias(format!("{name}.bias"), self.output),
        ];
        if self.gather == Gather::Pool {
            slots.push(Slot::weight(format!("{name}.pool.weight"), self.input, self.input));
            slots.push(Slot::bias(format!("{name}.pool.bias"), self.input));
        }
        slots
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
        let of = |what: &str| params.get(&format!("{}.{what}", self.name));
        let heard = match self.gather {
            Gather::Mean => frame.product(tape, Input::Layer(self.layer), Matrix::Mean, x)?,
            Gather::Pool => {
                let (weight, bias) = (of("pool.weight")?, of("pool.bias")?);
                let layer = frame.extend_layer(tape, x, |tape, x| tape.linear_relu(x, weight, bias))?;
                tape.row_max(frame.graph.plain()?, layer.all)?
            }
        };
        tape.concatenate_columns(&[x, heard])
    }

    fn rows(&self, tape: &mut Tape<'_>, params: &Bound<'_>, exchanged: Var) -> Result<Var> {
        let of = |what: &str| params.get(&format!("{}.{what}", self.name));
        let weight = tape.concatenate_rows(&[of("self")?, of("neighbour")?])?;
        let bias = of("bias")?;
        if !self.skips || self.input != self.output {
            return self.activation.of_linear(tape, exchanged, weight, bias);
        }
        let own = tape.slice_columns(exchanged, 0..self.input)?;
        let made = tape.linear(exchanged, weight, bias)?;
        let sum = tape.add(made, own)?;
        self.activation.apply(tape, sum)
    }
}
