//! What a model moves and computes for a cell: the weights of edges in space and in time (DGC section 4.1:
//! "the total amount of traffic for embedding sharing", found by profiling).
//!
//! Numbers are those of the model alone, never of the machine that asks: every process cuts the graph by
//! itself, and all have to come to the same answer.

use crate::price::Rates;
use crate::shares::ModelNeeds;
use crate::work::{Movement, Moves, Work};

/// What a model moves between cells and computes for them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Traffic {
    /// Bytes of a neighbour's row at a step, over all layers, forward and backward.
    pub spatial: u64,
    /// Bytes of a vertex's state that structure asks for at the next step, forward and backward.
    pub carried: u64,
    /// Bytes of a vertex's state that its row at the next step begins with, forward and backward.
    pub handed: u64,
    /// Bytes of what structure made of a vertex at a step, on its way to where rows are computed, and back.
    pub shuffled: u64,
    /// What is asked of those who share a window.
    pub needs: ModelNeeds,
    /// Seconds for an edge that leads to a cell.
    pub edge_seconds: f64,
    /// Seconds of structure for a cell, its edges aside.
    pub cell_seconds: f64,
    /// Seconds of a cell's row, once structure is encoded.
    pub row_seconds: f64,
    /// Seconds for a byte between two workers.
    pub byte_seconds: f64,
    /// Bytes of a cell and of an edge that are held while a window is trained on.
    pub held: [u64; 2],
    /// Bytes that a worker has for these, where there is a limit.
    pub memory: Option<u64>,
}

impl Default for Traffic {
    /// That of a layer of graph convolution and a GRU, both 32 columns wide.
    fn default() -> Self {
        let row = |moves| Movement { moves, columns: 32, back: true };
        let work = Work {
            steps: vec![vec![row(Moves::Neighbours), row(Moves::Handed), row(Moves::Shuffled)]],
            products: 7 * 32 * 32,
            ..Work::default()
        };
        let needs = ModelNeeds { out_edges: false, carries_state: true };
        Traffic::of(&work, needs, Rates::default())
    }
}

impl Traffic {
    /// What a model does that was run on a single vertex, at these rates.
    pub fn of(work: &Work, needs: ModelNeeds, rates: Rates) -> Traffic {
        // All steps are alike but for the first, which has nothing to carry.
        let step = || work.steps.last().into_iter().flatten();
        let bytes = |wanted: &[Moves]| -> u64 {
            let all = step().filter(|movement| wanted.contains(&movement.moves));
            all.map(|movement| 4 * movement.columns as u64 * if movement.back { 2 } else { 1 }).sum()
        };
        let spatial = bytes(&[Moves::Neighbours]);
        // What of products of features is kept from epoch to epoch depends on the machine: they are counted.
        let aggregated = (spatial / 4) as f64 + work.features as f64;
        let structure = aggregated / rates.aggregated;
        Traffic {
            spatial,
            carried: bytes(&[Moves::Carried]),
            handed: bytes(&[Moves::Handed]),
            shuffled: bytes(&[Moves::Shuffled, Moves::Restored]),
            needs,
            edge_seconds: structure,
            cell_seconds: structure,
            row_seconds: 3.0 * work.products as f64 / rates.products,
            byte_seconds: 1.0 / rates.wire,
            // A cell's share of what a window has for its vertex; an edge is two numbers.
            held: [work.buffers[0] / work.steps.len().max(1) as u64 + 8, 8],
            memory: None,
        }
    }

    /// Bytes that follow, on average, from a vertex that has another owner at the next step, in training on
    /// windows of this length.
    ///
    /// A state moves once. Where nothing is carried, what structure made of a vertex goes to its owner at the
    /// last step, from all steps of the window before the change: of windows that begin at every step, half
    /// of their length.
    pub fn temporal(&self, window: usize) -> u64 {
        match self.needs.carries_state {
            true => self.carried + self.handed,
            false => self.shuffled * (window.max(2) as u64 - 1) / 2,
        }
    }

    /// Bytes between the owners of an edge's ends: its source's row, and its target's where a model looks
    /// along edges in both directions.
    pub fn edge(&self) -> u64 {
        if self.needs.out_edges { 2 * self.spatial } else { self.spatial }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(movements: &[(Moves, usize, bool)]) -> Work {
        let movement = |&(moves, columns, back): &(Moves, usize, bool)| Movement { moves, columns, back };
        let last = movements.iter().map(movement).collect();
        Work { steps: vec![Vec::new(), last], features: 3, products: 100, ..Work::default() }
    }

    #[test]
    fn bytes_are_those_of_the_last_step_and_gradients_come_back() {
        let all = [
            (Moves::Neighbours, 3, false),
            (Moves::Neighbours, 8, true),
            (Moves::Carried, 5, true),
            (Moves::Handed, 2, false),
            (Moves::Shuffled, 4, true),
        ];
        let needs = |carries_state, out_edges| ModelNeeds { out_edges, carries_state };
        let rates = Rates { products: 300.0, aggregated: 10.0, wire: 4.0, latency: 0.0 };
        let carries = Traffic::of(&work(&all), needs(true, false), rates);
        assert_eq!((carries.spatial, carries.shuffled), (12 + 64, 32));
        assert_eq!((carries.carried, carries.handed), (40, 8));
        assert_eq!((carries.temporal(9), carries.edge()), (48, 76));
        assert_eq!((carries.edge_seconds, carries.row_seconds, carries.byte_seconds), (2.2, 1.0, 0.25));
        let gathers = Traffic::of(&work(&all), needs(false, true), rates);
        // Of windows of five steps, 1, 2, 3 or 4 are before the change.
        assert_eq!((gathers.temporal(5), gathers.temporal(1), gathers.edge()), (64, 16, 152));
    }
}
