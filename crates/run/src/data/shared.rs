//! Segments of features that several steps share: each is read once for as long as a step is in memory that
//! needs it.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use kymo_graph::{Step, Store};
use kymo_tensor::Pool;

use super::features::Inputs;
use super::segment::Segment;
use crate::error::Result;

/// The segments of a run that are in memory.
pub(super) struct Segments {
    store: Arc<Store>,
    inputs: Arc<Inputs>,
    places: Vec<Mutex<Weak<Segment>>>,
    pool: Pool,
}

impl Segments {
    /// None of them yet; their arrays are those of a pool.
    pub fn new(store: Arc<Store>, inputs: Arc<Inputs>, pool: Pool) -> Segments {
        let places = inputs.segments().iter().map(|_| Mutex::default()).collect();
        Segments { store, inputs, places, pool }
    }

    /// The segment of step `t`. Who comes while another reads it waits for that.
    pub fn at(&self, t: Step) -> Result<Arc<Segment>> {
        let number = self.inputs.segment_of(t);
        let mut place = self.places[number].lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(segment) = place.upgrade() {
            return Ok(segment);
        }
        let segment = Arc::new(self.inputs.read_segment(&self.store, number, &self.pool)?);
        *place = Arc::downgrade(&segment);
        Ok(segment)
    }
}
