//! How much of a GPU's memory training will need, found out by going through a window without computing
//! anything.

use std::sync::Arc;

use kymo_tensor::estimate::MemoryEstimate;

use super::context::RunContext;
use super::worker::Worker;
use crate::data::Part;
use crate::error::Result;

/// The most bytes that training would take of a GPU that has `device_bytes`.
///
/// Snapshots that are not in the window that is gone through are taken to be like those that are.
pub fn predicted_bytes(context: &Arc<RunContext>, device_bytes: usize) -> Result<usize> {
    let estimate = MemoryEstimate::new();
    let mut worker = Worker::estimating(context.clone(), estimate.clone(), device_bytes)?;
    let Some(window) = context.windows().last().cloned() else { return Ok(0) };
    // What is kept of products is copied once: by the time that all snapshots are there, it is long done.
    worker.step(window.clone(), 0, 0.0)?;
    estimate.forget_most();
    worker.step(window.clone(), 0, 0.0)?;
    let (most, stays) = (estimate.most(), estimate.now());
    // All steps up to the last sample are loaded once, and stay as far as there is room for them.
    let steps = worker.split().samples(Part::Test).end;
    let others = worker.snapshots().fitting(window.len()).min(steps).saturating_sub(window.len());
    let parameters = 4 * worker.parameters() * (2 + worker.replica.optimiser.copies());
    Ok(most + stays / window.len().max(1) * others + parameters)
}
