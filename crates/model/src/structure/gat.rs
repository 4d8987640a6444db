//! Graph attention (Velickovic et al., 2018): neighbours are weighed by a softmax of scores, per head.
//!
//! The score of an edge from `j` to `i` is `leaky_relu(a_source . W x_j + a_target . W x_i)`; every vertex
//! has a self-loop.

use std::sync::Arc;

use kymo_tensor::{Result, Shape, Spans, Tape, Var};

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

/// Under what the result is found where it was made ahead.
const ATTENTION: (&str, usize) = ("attention", 0);

impl Gat {
    /// Scores of rows, scores of columns, and what is summed by them.
    fn scored<'a>(
        &self,
        tape: &mut Tape<'a>,
        params: &Bound<'_>,
        frame: &Frame<'a>,
        x: Var,
    ) -> Result<[Var; 3]> {
        let of = |what: &str| params.get(&format!("{}.{what}", self.name));
        let (weight, source, target) = (of("weight")?, of("source")?, of("target")?);
        if x == frame.features && self.input <= self.width() {
            // a . (W x) = (W a) . x, and features are narrower than what is made of them. No gradient passes
            // through the wide rows then.
            let all = frame.extend(tape, x)?;
            let (source, target) = (tape.head_dots(weight, source)?, tape.head_dots(weight, target)?);
            let (source, target) = (tape.matmul(all, source)?, tape.matmul(x, target)?);
            return Ok([target, source, tape.matmul(all, weight)?]);
        }
        let x = frame.extend_layer(tape, x, |tape, x| tape.matmul(x, weight))?;
        Ok([tape.head_dots(x.own, target)?, tape.head_dots(x.all, source)?, x.all])
    }
}

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
        frame.once(ATTENTION, x, || {
            let [left, right, all] = self.scored(tape, params, frame, x)?;
            tape.graph_attention(frame.graph.with_loops()?, left, right, all, SLOPE)
        })
    }

    fn ahead<'a>(&self, tape: &mut Tape<'a>, params: &Bound<'_>, frames: &[Frame<'a>]) -> Result<()> {
        let is_whole = |frame: &Frame<'a>| frame.halo.is_none() && frame.common.is_some();
        if !tape.is_on_host() || !tape.is_alike() || !frames.iter().all(is_whole) {
            return Ok(());
        }
        for alike in frames.chunk_by(|one, next| one.features == next.features) {
            let (Some(frame), true) = (alike.first(), alike.len() > 1) else { continue };
            let patterns = alike.iter().map(|frame| frame.graph.with_loops()).collect::<Result<Vec<_>>>()?;
            let spans = Arc::new(Spans::new(&patterns)?);
            let scored = self.scored(tape, params, frame, frame.features)?;
            let Some(steps) = tape.graph_attention_of_spans(spans, scored, SLOPE)? else { continue };
            for (frame, step) in alike.iter().zip(steps) {
                frame.once(ATTENTION, frame.features, || Ok(step))?;
            }
        }
        Ok(())
    }

    fn rows(&self, tape: &mut Tape<'_>, params: &Bound<'_>, exchanged: Var) -> Result<Var> {
        let x = tape.add_row(exchanged, params.get(&format!("{}.bias", self.name))?)?;
        self.activation.apply(tape, x)
    }
}
