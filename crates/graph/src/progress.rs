//! Progress reports of long work, and how it is told to stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::error::{Error, Result};

/// Counters that work increases and a display reads; cheap to clone, shared by all clones.
#[derive(Clone, Debug, Default)]
pub struct Progress(Arc<Counters>);

#[derive(Debug, Default)]
struct Counters {
    total: AtomicU64,
    done: AtomicU64,
    rows: AtomicU64,
    steps: AtomicU64,
    stop: Arc<AtomicBool>,
}

impl Progress {
    /// A progress that is not reported.
    pub fn silent() -> Self {
        Self::default()
    }

    /// Announces `units` more of work (bytes to read, steps to make).
    pub fn announce(&self, units: u64) {
        self.0.total.fetch_add(units, Ordering::Relaxed);
    }

    /// Reports `units` of work as done.
    pub fn advance(&self, units: u64) {
        self.0.done.fetch_add(units, Ordering::Relaxed);
    }

    /// Work announced and work done.
    pub fn work(&self) -> (u64, u64) {
        (self.0.total.load(Ordering::Relaxed), self.0.done.load(Ordering::Relaxed))
    }

    /// Reports rows as read.
    pub fn add_rows(&self, rows: u64) {
        self.0.rows.fetch_add(rows, Ordering::Relaxed);
    }

    /// Rows read so far.
    pub fn rows(&self) -> u64 {
        self.0.rows.load(Ordering::Relaxed)
    }

    /// Reports a step as written.
    pub fn add_step(&self) {
        self.0.steps.fetch_add(1, Ordering::Relaxed);
    }

    /// Steps written so far.
    pub fn steps(&self) -> u64 {
        self.0.steps.load(Ordering::Relaxed)
    }

    /// Asks the work to stop at its next convenient place.
    pub fn stop(&self) {
        self.0.stop.store(true, Ordering::Relaxed);
    }

    /// The flag that [`Progress::stop`] sets, for those who can do no more than set a flag: signal handlers.
    pub fn stop_flag(&self) -> Arc<AtomicBool> {
        self.0.stop.clone()
    }

    /// Fails when the work has been asked to stop.
    pub fn check(&self) -> Result<()> {
        if self.0.stop.load(Ordering::Relaxed) { Err(Error::Interrupted) } else { Ok(()) }
    }
}
