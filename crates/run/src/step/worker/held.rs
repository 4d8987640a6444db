//! What a worker holds: snapshots, buffers, rows that it sent before (DGC, section 5.2); and how what is
//! spread over workers comes together for a checkpoint.

use kymo_trace::schema::{SnapshotsHeld, StaleRecord};

use super::Worker;
use crate::data::{Reading, whole_bytes};
use crate::error::Result;
use crate::halo::Stale;
use crate::step::reservoir::Kept;

impl Worker {
    /// Bytes of the buffers that steps take turns in, and of what batches are taken out of snapshots with.
    pub fn buffer_bytes(&self) -> usize {
        self.runner.arena().bytes() + self.runner.extraction().bytes()
    }

    /// How often batches came again that were kept.
    pub fn batches_kept(&self) -> Kept {
        self.runner.extraction().kept()
    }

    /// How snapshots were held and read so far.
    pub fn snapshots_held(&self) -> SnapshotsHeld {
        let snapshots = self.snapshots();
        let Reading { spent, waited } = snapshots.reading();
        SnapshotsHeld {
            bytes: snapshots.held_bytes() as u64,
            whole: whole_bytes(self.context.store.manifest(), self.context.inputs.constant_width()),
            steps: snapshots.held_steps(),
            reading: spent,
            waited,
        }
    }

    /// Bytes that the worker holds: its part of the snapshots, buffers, parameters, what the optimiser
    /// remembers, and rows that were sent before where they are kept.
    pub fn held_bytes(&self) -> usize {
        let last_rows = self.stale().map_or(0, Stale::bytes);
        self.snapshots().held_bytes() + self.buffer_bytes() + self.replica.bytes() + last_rows
    }

    /// Rows of neighbours that may be stale, where they may.
    pub fn stale(&self) -> Option<&Stale> {
        self.stale.as_deref()
    }

    /// Ends an epoch that had this mean loss: what was saved by stale rows, where they may be. All workers
    /// come here together.
    pub fn end_epoch(&self, loss: f64) -> Result<Option<StaleRecord>> {
        self.stale().map(|stale| stale.end_epoch(&self.group, loss)).transpose()
    }

    /// Gathers the state of all vertices at every worker, and rows that were sent before at the first one,
    /// for a checkpoint. All workers come here together.
    pub fn gather_state(&mut self) -> Result<()> {
        self.kept = match self.stale() {
            Some(stale) => stale.gathered(&self.group)?,
            None => None,
        };
        let Some(cells) = self.runner.cells() else { return Ok(()) };
        if let Some(state) = self.state.take() {
            let memory = self.context.memory.clone().unwrap_or_default();
            self.state = Some(state.gathered(&memory, cells)?);
        }
        Ok(())
    }
}
