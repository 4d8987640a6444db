//! Where a worker can be given other parts.

use std::sync::Arc;

use crate::data::SnapshotSource;
use crate::halo::{Exact, HaloPolicy};
use crate::merge::{AllReduce, Merge};

/// What may be replaced in a worker without touching the rest.
pub struct Seams {
    /// How workers agree on what they learnt.
    pub merge: Box<dyn Merge>,
    /// How rows of other workers arrive.
    pub halo: Arc<dyn HaloPolicy>,
    /// Where snapshots come from; whole steps of the store where nothing is given.
    pub source: Option<Arc<dyn SnapshotSource>>,
}

impl Default for Seams {
    fn default() -> Self {
        Seams { merge: Box::new(AllReduce), halo: Arc::new(Exact), source: None }
    }
}
