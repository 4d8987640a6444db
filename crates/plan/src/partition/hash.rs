//! Vertices by a hash of their number: no look at the graph, no balance beyond that of chance. A baseline of
//! DistDy (section 5.1), and what AliGraph and DistDGL do without a partitioner.

use super::{Ask, Partition, Partitioner};
use crate::error::Result;
use crate::layout::{Layout, Worker};
use crate::random::mix;

/// Vertices by a hash.
pub(super) struct Hash;

impl Partitioner for Hash {
    fn name(&self) -> &'static str {
        "hash"
    }

    fn about(&self) -> &'static str {
        "vertices by a hash of their number"
    }

    fn partition(&self, ask: &Ask<'_>) -> Result<Partition> {
        ask.check()?;
        let seed = mix(ask.seed);
        let owner = |vertex: u64| {
            let word = mix(seed.wrapping_add((vertex + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)));
            ((u128::from(word) * ask.workers as u128) >> 64) as Worker
        };
        let owners = (0..ask.store.vertices() as u64).map(owner).collect();
        Ok(Layout::by_vertex(ask.workers, ask.store.steps(), owners)?.into())
    }
}
