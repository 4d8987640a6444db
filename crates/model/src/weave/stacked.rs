//! Structure first, then time: every snapshot is encoded by itself, and the encodings of a vertex are read in
//! order.

use kymo_tensor::{Result, Stage, Tape, Var};

use crate::frame::{Frame, each};
use crate::memory::{Memory, Passed};
use crate::params::{Bound, Slot};
use crate::structure::Structure;
use crate::time::{Sequence, Time};
use crate::together::once;
use crate::{Exchanged, Model};

/// A structure encoder below a time encoder, or alone.
pub struct Stacked {
    /// Within a snapshot.
    pub structure: Box<dyn Structure>,
    /// Across snapshots.
    pub time: Option<Box<dyn Time>>,
}

impl Model for Stacked {
    fn slots(&self) -> Vec<Slot> {
        let time = self.time.iter().flat_map(|time| time.slots());
        self.structure.slots().into_iter().chain(time).collect()
    }

    fn width(&self) -> usize {
        self.time.as_ref().map_or(self.structure.width(), |time| time.width())
    }

    fn hops(&self) -> Option<usize> {
        Some(self.structure.hops())
    }

    fn memory(&self) -> Option<Memory> {
        let rows = self.time.as_ref().map_or(Some(Vec::new()), |time| time.memory())?;
        Some(Memory { exchange: Vec::new(), rows })
    }

    fn ahead<'a>(&self, tape: &mut Tape<'a>, params: &Bound<'_>, frames: &[Frame<'a>]) -> Result<()> {
        self.structure.ahead(tape, params, frames)
    }

    fn exchange<'a>(
        &self,
        tape: &mut Tape<'a>,
        params: &Bound<'_>,
        window: &[Frame<'a>],
        _: &[Var],
    ) -> Result<Passed> {
        let steps = each(tape, window, |tape, _, frame| {
            let x = frame.features;
            frame.once(("structure", 0), x, || self.structure.exchange(tape, params, frame, x))
        })?;
        Ok(Passed { steps, ..Passed::default() })
    }

    fn rows(&self, tape: &mut Tape<'_>, params: &Bound<'_>, exchanged: Exchanged<'_>) -> Result<Passed> {
        let together = exchanged.together;
        let encode =
            |&step: &Var| once(together, ("encoded", 0), step, || self.structure.rows(tape, params, step));
        let encoded: Vec<Var> = exchanged.steps.iter().map(encode).collect::<Result<_>>()?;
        let Exchanged { before, only_last, .. } = exchanged;
        let sequence = Sequence { steps: &encoded, before, together, only_last };
        match &self.time {
            Some(time) => tape.staged(Stage::Time, |tape| time.run(tape, params, sequence)),
            None => Ok(Passed { steps: encoded, ..Passed::default() }),
        }
    }
}
