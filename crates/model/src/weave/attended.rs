//! Attention over the steps of a window, above a model that remembers (A3T-GCN, Bai et al., ISPRS
//! International Journal of Geo-Information 2021): the embedding of a step is the mean of the states up to
//! it, weighed by a softmax of their scores, `c_t = sum over s of softmax_s(a . h_s) h_s`.
//!
//! A step looks at itself and at those before it, so that the last one of a window has what the paper has.
//! The paper makes scores by two linear maps, which are one vector here: their product (the constant falls
//! out of a softmax). The authors' code scores a step for all vertices, by a weight for each of them; here a
//! vertex scores its own states. PyTorch Geometric Temporal learns a score for each place in a window, and
//! its states begin anew at every step.

use kymo_tensor::{Result, Stage, Tape, Var};

use crate::frame::Frame;
use crate::memory::{Memory, Passed};
use crate::params::{Bound, Slot};
use crate::{Exchanged, Model};

/// What scores are called.
const SCORE: &str = "attention.score";

/// A model and attention over what it makes.
pub struct Attended(pub Box<dyn Model>);

impl Attended {
    /// The mean of the states up to each step.
    fn attend(&self, tape: &mut Tape<'_>, params: &Bound<'_>, states: &[Var]) -> Result<Vec<Var>> {
        let Some(&first) = states.first() else { return Ok(Vec::new()) };
        let (shape, width) = (tape.shape(first), self.width());
        // Products are divided by the root of the width, and all rows ask the same.
        let score = tape.scale(params.get(SCORE)?, (width as f32).sqrt())?;
        let nothing = tape.filled(shape, 0.0);
        let query = tape.add_row(nothing, score)?;
        let all = tape.attention(&vec![query; states.len()], states, states, 1, true)?;
        (0..states.len()).map(|t| tape.slice_columns(all, t * width..(t + 1) * width)).collect()
    }
}

impl Model for Attended {
    fn slots(&self) -> Vec<Slot> {
        let mut slots = self.0.slots();
        slots.push(Slot::weight(SCORE, 1, self.width()));
        slots
    }

    fn width(&self) -> usize {
        self.0.width()
    }

    fn uses_out_edges(&self) -> bool {
        self.0.uses_out_edges()
    }

    /// All states of a window are looked at, and no others.
    fn hops(&self) -> Option<usize> {
        self.0.hops()
    }

    fn memory(&self) -> Option<Memory> {
        None
    }

    fn ahead<'a>(&self, tape: &mut Tape<'a>, params: &Bound<'_>, frames: &[Frame<'a>]) -> Result<()> {
        self.0.ahead(tape, params, frames)
    }

    fn exchange<'a>(
        &self,
        tape: &mut Tape<'a>,
        params: &Bound<'_>,
        window: &[Frame<'a>],
        _: &[Var],
    ) -> Result<Passed> {
        self.0.exchange(tape, params, window, &[])
    }

    fn rows(&self, tape: &mut Tape<'_>, params: &Bound<'_>, exchanged: Exchanged<'_>) -> Result<Passed> {
        let all = Exchanged { before: &[], only_last: false, ..exchanged };
        let states = self.0.rows(tape, params, all)?.steps;
        let steps = tape.staged(Stage::Time, |tape| self.attend(tape, params, &states))?;
        Ok(Passed { steps, ..Passed::default() })
    }
}
