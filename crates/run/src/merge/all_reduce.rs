//! Every worker follows the mean gradient over the windows of all workers.

use super::{GradientSum, Merge, Merged};
use crate::error::Result;
use crate::workers::WorkerGroup;

/// Sums gradients over all workers, in the order of their ranks, in every iteration: replicas stay the same
/// to the bit.
pub struct AllReduce;

impl Merge for AllReduce {
    fn gradients(&mut self, sum: &mut GradientSum, group: &WorkerGroup) -> Result<Merged> {
        group.all_reduce(sum.numbers())?;
        Ok(sum.mean())
    }
}
