//! METIS on all snapshots merged: the baseline "Metis" of DistDy (section 5.1).
//!
//! A link weighs as many steps as it exists at, a vertex its load. Vertices without links even out the loads.

use super::links::Links;
use super::{Ask, Partition, Partitioner, multilevel};
use crate::error::Result;
use crate::layout::Layout;

/// METIS on the merged graph.
pub(super) struct Metis;

impl Partitioner for Metis {
    fn name(&self) -> &'static str {
        "metis"
    }

    fn about(&self) -> &'static str {
        "METIS on all snapshots merged into one graph"
    }

    fn partition(&self, ask: &Ask<'_>) -> Result<Partition> {
        ask.check()?;
        let links = Links::over(ask.store, ask.looked())?;
        if let Some(other) = ask.instead_of_metis(links.pairs.len() as u64)? {
            return Ok(other);
        }
        let loads = ask.vertex_loads()?;
        let parts = multilevel::parts(&links, &loads, ask.workers, ask.seed)?;
        let owners = multilevel::deal_rest(parts, &loads, ask.workers);
        Ok(Layout::by_vertex(ask.workers, ask.store.steps(), owners)?.into())
    }
}
