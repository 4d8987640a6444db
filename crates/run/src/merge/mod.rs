//! How workers agree on what they learnt in an iteration. Touches gradients, parameters and the group; knows
//! no window and no task.

mod all_reduce;
mod averaging;
mod gradient;

pub use all_reduce::AllReduce;
pub use averaging::Averaging;
pub use gradient::{GradientSum, Merged};

use kymo_trace::schema::AveragingRecord;

use crate::error::Result;
use crate::replica::Replica;
use crate::workers::WorkerGroup;

/// A way to agree.
pub trait Merge: Send {
    /// Before the step of the optimiser: turns what this worker added up into the mean gradient that it will
    /// follow.
    fn gradients(&mut self, sum: &mut GradientSum, group: &WorkerGroup) -> Result<Merged>;

    /// Whether each worker follows what it has learnt by itself until all meet.
    fn is_local(&self) -> bool {
        false
    }

    /// After an iteration, whether the optimiser made a step in it or not.
    fn parameters(&mut self, _replica: &mut Replica, _group: &WorkerGroup) -> Result<()> {
        Ok(())
    }

    /// Says that workers go on from here until they meet: of an epoch, counted from 0, this many windows are
    /// done.
    fn go_on(&mut self, _epoch: usize, _window: usize, _workers: usize) -> Result<()> {
        Ok(())
    }

    /// All workers come together at this place in training, and have the same parameters from then on: what
    /// all have seen since they met before, and when they heard of each other meanwhile. Nothing where they
    /// never went apart.
    fn meet(
        &mut self,
        _replica: &mut Replica,
        _group: &WorkerGroup,
        _place: (usize, usize),
    ) -> Result<Option<(Merged, AveragingRecord)>> {
        Ok(None)
    }
}
