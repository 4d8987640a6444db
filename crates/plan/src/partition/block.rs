//! Blocks of consecutive vertices with balanced loads: good where neighbours have near numbers, as crawled
//! graphs often do.

use super::{Ask, Partition, Partitioner, runs};
use crate::error::Result;
use crate::layout::Layout;

/// Blocks of consecutive vertices.
pub(super) struct Block;

impl Partitioner for Block {
    fn name(&self) -> &'static str {
        "block"
    }

    fn about(&self) -> &'static str {
        "blocks of consecutive vertices, the heaviest as light as possible"
    }

    fn partition(&self, ask: &Ask<'_>) -> Result<Partition> {
        ask.check()?;
        let owners = runs::owners(&ask.vertex_loads()?, ask.workers);
        Ok(Layout::by_vertex(ask.workers, ask.store.steps(), owners)?.into())
    }
}
