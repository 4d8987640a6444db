//! Workers that follow gradients of their own come together (DynaHB, Algorithm 2): at the end of an epoch,
//! and where a checkpoint is written.

use kymo_plan::Iteration;

use super::observer::Pace;
use crate::artifact::{Course, Folder, Position};
use crate::error::Result;
use crate::step::Worker;

/// What all workers had seen of an epoch when they met, where they go ways of their own in between.
pub(super) struct Met {
    loss: f64,
    losses: usize,
    edges: f64,
}

impl Met {
    /// What has been seen of an epoch at this position.
    pub(super) fn at(position: &Position) -> Met {
        Met { loss: position.loss, losses: position.losses, edges: 0.0 }
    }

    /// All workers come together, where they went apart: what each has counted by itself since gives way to
    /// what all have seen. Whether somebody wishes to stop.
    pub(super) fn meet(
        &mut self,
        worker: &mut Worker,
        (epoch, window): (usize, usize),
        course: &mut Course,
        pace: &mut Pace,
        folder: &mut Option<Folder>,
    ) -> Result<bool> {
        let Some((seen, record)) = worker.meet(epoch, window)? else { return Ok(false) };
        (self.loss, self.losses) = (self.loss + seen.loss, self.losses + seen.losses);
        self.edges += seen.edges as f64;
        (course.position.loss, course.position.losses, pace.edges) = (self.loss, self.losses, self.edges);
        if let Some(folder) = folder {
            folder.record_averaging(record)?;
        }
        Ok(seen.stop)
    }
}

/// Windows whose gradients make a step of a worker: its own, where it follows no others.
pub(super) fn learnt(worker: &Worker, iteration: &Iteration) -> usize {
    match worker.settings().averages() {
        true => iteration.of(worker.group.rank()).iter().map(|batch| batch.windows.len()).sum(),
        false => iteration.windows().len(),
    }
}
