//! Structure between two convolutions over time (STGCN, Yu et al., IJCAI 2018, section 3.4): a block of it.
//!
//! Neighbours look at what the first convolution made, so that one belongs to the exchange; the second
//! belongs to the rows. The paper normalises the result of a block over all vertices, and PyTorch Geometric
//! Temporal over the windows of a batch, for each vertex by itself: what comes of a vertex would depend on
//! which others, or which windows, are computed with it. It is left out here.

use kymo_tensor::{Result, Stage, Tape, Var};

use crate::frame::{Frame, each};
use crate::memory::{Extent, Memory, Passed};
use crate::params::{Bound, Slot};
use crate::structure::Structure;
use crate::time::{Convolution, Sequence, Time};
use crate::together::once;
use crate::{Exchanged, Model};

/// Time, structure, time.
pub struct Sandwiched {
    /// Across snapshots, of the features.
    pub first: Convolution,
    /// Within a snapshot, of what the first made.
    pub structure: Box<dyn Structure>,
    /// Across snapshots, of what structure made.
    pub last: Convolution,
}

impl Model for Sandwiched {
    fn slots(&self) -> Vec<Slot> {
        [self.first.slots(), self.structure.slots(), self.last.slots()].concat()
    }

    fn width(&self) -> usize {
        self.last.width()
    }

    fn hops(&self) -> Option<usize> {
        Some(self.structure.hops())
    }

    fn memory(&self) -> Option<Memory> {
        let exchange = self.first.memory()?.into_iter().map(Extent::Vertices).collect();
        Some(Memory { exchange, rows: self.last.memory()? })
    }

    fn exchange<'a>(
        &self,
        tape: &mut Tape<'a>,
        params: &Bound<'_>,
        window: &[Frame<'a>],
        before: &[Var],
    ) -> Result<Passed> {
        let mut after = before.to_vec();
        let steps = each(tape, window, |tape, _, frame| {
            for earlier in &mut after {
                *earlier = frame.carry(tape, *earlier)?;
            }
            let together = frame.common.and_then(|common| common.of_several());
            let sequence = Sequence { steps: &[frame.features], before: &after, together, only_last: true };
            let passed = tape.staged(Stage::Time, |tape| self.first.run(tape, params, sequence))?;
            after = passed.after;
            let x = passed.steps[0];
            frame.once(("structure", 0), x, || self.structure.exchange(tape, params, frame, x))
        })?;
        Ok(Passed { steps, after, ..Passed::default() })
    }

    fn rows(&self, tape: &mut Tape<'_>, params: &Bound<'_>, exchanged: Exchanged<'_>) -> Result<Passed> {
        let Exchanged { mut steps, before, together, only_last, .. } = exchanged;
        if only_last {
            steps = &steps[steps.len().saturating_sub(self.last.kernel)..];
        }
        let encode =
            |&step: &Var| once(together, ("encoded", 0), step, || self.structure.rows(tape, params, step));
        let encoded: Vec<Var> = steps.iter().map(encode).collect::<Result<_>>()?;
        let sequence = Sequence { steps: &encoded, before, together, only_last };
        tape.staged(Stage::Time, |tape| self.last.run(tape, params, sequence))
    }
}
