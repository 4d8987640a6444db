//! What an epoch saved by rows that neighbours elsewhere had before, and how far they were off (DGC, section
//! 5.2).

use serde::{Deserialize, Serialize};

use super::number;

/// Rows of neighbours in an epoch in which they could be stale, over all workers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StaleRecord {
    /// Bytes sent: rows of neighbours and their gradients.
    pub sent: u64,
    /// Bytes that exact rows and their gradients would have been besides.
    pub saved: u64,
    /// The root mean square of the distances of rows that were not sent to what is elsewhere, over the root
    /// mean square of these rows; 0 where all were sent.
    #[serde(deserialize_with = "number::one")]
    pub error: f64,
    /// How far rows could be off.
    #[serde(deserialize_with = "number::one")]
    pub threshold: f64,
    /// The largest distance of a row to what was sent of it last, whether it was sent again or not.
    #[serde(deserialize_with = "number::one")]
    pub distance: f64,
}
