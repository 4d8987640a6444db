//! Whole sequences: PTS of DGC (section 2.2). A vertex belongs to the same worker at all steps.
//!
//! Vertices are assigned from the heaviest to the lightest, in a snake: 0 1 2, 2 1 0, 0 1 2. The paper deals
//! out the same number of sequences; so does the snake, and it balances loads besides.

use kymo_graph::Vertex;

use super::{Ask, Partition, Partitioner};
use crate::error::Result;
use crate::layout::{Layout, Worker};

/// Sequences of vertices, dealt by load.
pub(super) struct Sequences;

impl Partitioner for Sequences {
    fn name(&self) -> &'static str {
        "sequence"
    }

    fn about(&self) -> &'static str {
        "whole sequences of vertices, assigned by load"
    }

    fn partition(&self, ask: &Ask<'_>) -> Result<Partition> {
        ask.check()?;
        let loads = ask.vertex_loads()?;
        let mut order: Vec<Vertex> = (0..loads.len() as Vertex).collect();
        order.sort_by_key(|&vertex| std::cmp::Reverse(loads[vertex as usize]));
        let mut owners: Vec<Worker> = vec![0; loads.len()];
        for (index, &vertex) in order.iter().enumerate() {
            let (round, place) = (index / ask.workers, index % ask.workers);
            let worker = if round.is_multiple_of(2) { place } else { ask.workers - 1 - place };
            owners[vertex as usize] = worker as Worker;
        }
        Ok(Layout::by_vertex(ask.workers, ask.store.steps(), owners)?.into())
    }
}
