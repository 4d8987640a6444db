//! Structure first, then time: every snapshot is encoded by itself, and the encodings of a vertex are read in order.

use kymo_tensor::{Result, Tape, Var};

use crate::Model;
use crate::graph::Frame;
use crate::params::{Bound, Slot};
use crate::structure::Structure;
use crate::time::Time;

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

    fn exchange<'a>(
        &self,
        tape: &mut Tape<'a>,
        params: &Bound<'_>,
        window: &[Frame<'a>],
    ) -> Result<Vec<Var>> {
        window
            .iter()
            .map(|frame| self.structure.exchange(tape, params, frame.graph, frame.features))
            .collect()
    }

    fn rows(&self, tape: &mut Tape<'_>, params: &Bound<'_>, exchanged: &[Var]) -> Result<Vec<Var>> {
        let encoded: Vec<Var> =
            exchanged.iter().map(|&step| self.structure.rows(tape, params, step)).collect::<Result<_>>()?;
        match &self.time {
            Some(time) => time.run(tape, params, &encoded),
            None => Ok(encoded),
        }
    }
}
