//! How workers agree on what they learnt in an iteration. Touches gradients, parameters and the group; knows
//! no window and no task.

mod all_reduce;
mod gradient;

pub use all_reduce::AllReduce;
pub use gradient::{GradientSum, Merged};

use crate::error::Result;
use crate::replica::Replica;
use crate::workers::WorkerGroup;

/// A way to agree.
pub trait Merge: Send {
    /// Before the step of the optimiser: turns what this worker added up into the mean gradient that it will
    /// follow.
    fn gradients(&mut self, sum: &mut GradientSum, group: &WorkerGroup) -> Result<Merged>;

    /// After the step of the optimiser.
    fn parameters(&mut self, _replica: &mut Replica, _group: &WorkerGroup) -> Result<()> {
        Ok(())
    }
}
