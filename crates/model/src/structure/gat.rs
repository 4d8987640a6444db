//! Graph attention (Velickovic et al., 2018): neighbours are weighed by a softmax of scores, per head.
//!
//! The score of an edge from `j` to `i` is `leaky_relu(a_source . W x_j + a_target . W x_i)`; every vertex
//! has a self-loop.

use kymo_tensor::{Result, Shape, Tape, Var};

use super::{Activation, Structure};
use crate::frame::Frame;
use crate::params::{Bound, Initial, Slot};

/// One layer; the heads lie side by side.
pub struct Gat {
    /// What its parameters are called.
    pub name: String,
    /// Columns it takes.
    pub input: usize,
    /// Heads.
    pub heads: usize,
    /// Columns of a head.
    pub dimension: usize,
    /// What is done to the result.
    pub activation: Activation,
}

/// The slope of the scores below zero.
const SLOPE: f32 = 0.2;

impl Structure for Gat {
    fn slots(&self) -> Vec<Slot> {
        let limit = (6.0 / (self.heads + self.dimension) as f32).sqrt();
        let scores = |end: &str| Slot {
            name: format!("{}.{end}", self.name),
            shape: Shape::new(self.heads, self.dimension),
            initial: Initial::Uniform(limit),
        };
        vec![
            Slot::weight(format!("{}.weight", self.name), self.input, self.width()),
            scores("source"),
            scores("target"),
            Slot::bias(format!("{}.bias", self.name), self.width()),
        ]
    }

    fn width(&self) -> usize {
        self.heads * self.dimension
    }

    fn exchange<'a>(
        &self,
        tape: &mut Tape<'a>,
        params: &Bound<'_>,
        frame: &Frame<'a>,
        x: Var,
    ) -> Result<Var> {
        let of = |what: &str| params.get(&format!("{}.{what}", self.name));
        let pattern = frame.graph.with_loops()?;
        let weight = of("weight")?;
        let (source, target) = (of("source")?, of("target")?);
        if x == frame.features && self.input <= self.width() {
            // a . (W x) = (W a) . x, and features are narrower than what is made of them. No gradient passes
            // through the wide rows then.
            let all = frame.extend(tape, x)?;
            let (source, target) = (tape.head_dots(weight, source)?, tape.head_dots(weight, target)?);
            let (source, target) = (tape.matmul(all, source)?, tape.matmul(x, target)?);
            let all = tape.matmul(all, weight)?;
            return tape.graph_attention(pattern, target, source, all, SLOPE);
        }
        let x = frame.extend_layer(tape, x, |tape, x| tape.matmul(x, weight))?;
        let (source, target) = (tape.head_dots(x.all, source)?, tape.head_dots(x.own, target)?);
        tape.graph_attention(pattern, target, source, x.all, SLOPE)
    }

    fn rows(&self, tape: &mut Tape<'_>, params: &Bound<'_>, exchanged: Var) -> Result<Var> {
        let x = tape.add_row(exchanged, params.get(&format!("{}.bias", self.name))?)?;
        self.activation.apply(tape, x)
    }
}
