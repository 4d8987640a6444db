//! Tasks of edges: what an edge of the next step is worth (edge regression), or of which class it is (edge
//! classification), given that it exists. The value of an edge is its weight.
//!
//! The question at step `t` is about the edges of step `t + 1`. Everything here answers as of `t`: the only
//! thing that is known of `t + 1` is which pairs are its edges, never what they weigh.

mod class;
mod classes;
mod facts;
#[cfg(test)]
mod fixture;
mod goal;
mod past;
mod survey;
mod value;

pub use class::EdgeClassification;
pub use value::EdgeRegression;

use kymo_graph::{Step, Vertex};
use kymo_model::metric::{Evidence, Needs};
use kymo_tensor::{Result as Computed, Tape, Var};

use super::pairs::Names;
use crate::error::Result;
use facts::Known;

/// The parameters of the decoder.
const NAMES: Names = Names {
    of_vertices: ["edge.source", "edge.target", "edge.bias"],
    facts: "edge.facts",
    out: ["edge.out", "edge.out_bias"],
    direct: Some("edge.direct"),
};

/// Shows facts and truths of edges of the training part, one after the other.
type Rows<'a> = dyn Fn(&mut dyn FnMut(&[f32], f32)) -> Result<()> + 'a;

/// What tells the two tasks apart: how a weight is read, what is said of it, and who else says it.
trait Kind: Send + Sync {
    /// How many numbers stand for a value where values are summed up.
    fn numbers(&self) -> usize;

    /// Adds them, times a factor, to what is there.
    fn encode(&self, weight: f32, factor: f64, numbers: &mut [f64]);

    /// Their means in training, and what a difference from those is multiplied by.
    fn centre(&self) -> (&[f32], f32);

    /// How many scores the decoder gives an edge.
    fn scores(&self) -> usize;

    /// What is true of an edge of this weight, as metrics see it.
    fn truth(&self, weight: f32) -> f32;

    /// How much an edge counts in the loss.
    fn weight(&self, truth: f32) -> f32;

    /// The sum of the errors of some edges, times `scale`.
    fn errors(&self, tape: &mut Tape<'_>, scores: Var, truth: &[f32], scale: f32) -> Computed<Var>;

    /// The scores of the decoder as metrics see them.
    fn read(&self, scores: &mut [f32]);

    /// What metrics are shown of what was said, and how it is called.
    fn evidence<'a>(
        &self,
        said: &'a [f32],
        truth: &'a [f32],
        classes: &'a mut Vec<u32>,
    ) -> (Needs, Evidence<'a>);

    /// The names of the columns of what is said.
    fn header(&self) -> &'static [&'static str];

    /// What was said of an edge, as it is written.
    fn cells(&self, said: &[f32]) -> Vec<String>;

    /// What is true of an edge, as it is written.
    fn told(&self, truth: f32) -> String;

    /// What a model has to beat.
    fn baselines(&self) -> Vec<&'static str>;

    /// Adds what a baseline says of an edge, as metrics see it; false where there is no such baseline, or it
    /// was not fitted.
    fn baseline(&self, name: &str, edge: Asked<'_>, said: &mut Vec<f32>) -> bool;

    /// Fits what baselines need to be fitted on the training part.
    fn fit(&self, _name: &str, _known: Known<'_>, _rows: &Rows<'_>) -> Result<()> {
        Ok(())
    }

    /// What the decoder begins with: the weights of facts past its hidden layer, row after row, and what is
    /// added to them.
    fn start(&self, facts: usize, rows: &Rows<'_>) -> Result<[Vec<f32>; 2]>;

    /// What was measured of the training part.
    fn measured(&self) -> Vec<f32>;

    /// Takes what was measured elsewhere: whether it is anything that is measured.
    fn adopt(&mut self, measured: &[f32]) -> bool;
}

/// An edge that is asked about, and what is known then.
#[derive(Clone, Copy)]
struct Asked<'a> {
    known: Known<'a>,
    source: Vertex,
    target: Vertex,
    /// The last step that is known.
    t: Step,
}
