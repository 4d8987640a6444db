//! How training is watched: progress within an epoch, records of whole epochs, and the wish to stop.

use std::time::Instant;

use kymo_trace::schema::EpochRecord;

use crate::artifact::Position;

/// Is told how training goes, and may ask it to stop.
pub trait Observer: Send {
    /// An iteration is over.
    fn progress(&mut self, _progress: &EpochProgress) {}

    /// An epoch is over.
    fn epoch(&mut self, _record: &EpochRecord) {}

    /// Whether to stop after the iteration that is under way.
    fn stop(&self) -> bool {
        false
    }

    /// Something that is neither an epoch nor an error was found out.
    fn note(&mut self, _note: &str) {}
}

/// An observer that looks at nothing and never stops.
pub struct Silent;

impl Observer for Silent {}

/// Where training is.
#[derive(Clone, Debug)]
pub struct EpochProgress {
    /// The epoch, counted from 1.
    pub epoch: usize,
    /// Epochs at most.
    pub epochs: usize,
    /// Windows of the epoch that are done.
    pub window: usize,
    /// Windows of an epoch.
    pub windows: usize,
    /// The mean loss of the epoch so far.
    pub loss: f64,
    /// Edges that were trained on per second, each counted at every step of every window.
    pub edges_per_second: f64,
}

/// How fast an epoch goes.
pub(super) struct Pace {
    begun: Instant,
    /// Edges that were trained on so far.
    pub edges: f64,
}

impl Pace {
    pub fn begin() -> Pace {
        Pace { begun: Instant::now(), edges: 0.0 }
    }

    pub fn seconds(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }

    pub fn progress(&self, position: &Position, epochs: usize, windows: usize) -> EpochProgress {
        EpochProgress {
            epoch: position.epoch + 1,
            epochs,
            window: position.window,
            windows,
            loss: position.loss / position.losses.max(1) as f64,
            edges_per_second: self.edges / self.seconds().max(1e-9),
        }
    }
}
