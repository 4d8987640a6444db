//! Snapshots first, then sequences: PSS-TS of DGC (section 2.2), from Chakaravarthy et al. (SC 2021).
//!
//! No neighbour and no hidden state has to move, but every embedding does, once, between the two encoders.

use super::sequence::Sequences;
use super::snapshot::Snapshots;
use super::{Ask, Partition, Partitioner};
use crate::error::Result;

/// Snapshots for the structure encoder, sequences for the time encoder.
pub(super) struct SnapshotsThenSequences;

impl Partitioner for SnapshotsThenSequences {
    fn name(&self) -> &'static str {
        "snapshot-sequence"
    }

    fn about(&self) -> &'static str {
        "whole snapshots for the structure encoder, whole sequences for the time encoder"
    }

    fn partition(&self, ask: &Ask<'_>) -> Result<Partition> {
        let structure = Snapshots.partition(ask)?.structure;
        let time = Sequences.partition(ask)?.structure;
        Ok(Partition { structure, time: Some(time), note: None })
    }
}
