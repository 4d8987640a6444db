//! What a model does to one window, in numbers that need no tensors: which rows move, and how much there is
//! to compute.

use serde::Serialize;

/// Rows that move at a step of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Moves {
    /// Those of neighbours elsewhere, before a layer of structure.
    Neighbours,
    /// States that structure needs, from the owner at the step before.
    Carried,
    /// States that rows leave behind, from the owner at the step before.
    Handed,
    /// What structure made of them, to where rows are computed.
    Shuffled,
    /// What rows made of them, back to where structure is encoded, for a block above.
    Restored,
    /// At most this many of each worker, to all others.
    Collected(usize),
}

/// One movement of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Movement {
    /// Which rows.
    pub moves: Moves,
    /// Numbers in a row.
    pub columns: usize,
    /// Whether a gradient comes back the same way.
    pub back: bool,
}

/// What one window asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Work {
    /// The movements at each step of a window.
    pub steps: Vec<Vec<Movement>>,
    /// Movements of what the window before left behind, where windows follow each other.
    pub brought: Vec<Movement>,
    /// Numbers in a row of the other end of a pair that the task asks about.
    pub paired: usize,
    /// Numbers that workers add up after every iteration.
    pub reduced: usize,
    /// Numbers in a row of features.
    pub features: usize,
    /// Numbers of each edge that go through sparse products, of all layers: forward, and backward. What is
    /// kept from epoch to epoch goes through none.
    pub aggregated: [usize; 2],
    /// Multiplications for each vertex and step, in the forward pass.
    pub products: usize,
    /// Bytes of buffers that a window takes for each vertex, and whatever their number.
    pub buffers: [u64; 2],
    /// Bytes of products that may be kept for each vertex and step.
    pub reused: u64,
    /// Bytes of an edge and of a vertex in a snapshot as the model has it held, features aside; those of a
    /// snapshot with everything where that is not known.
    pub held: Option<[u64; 2]>,
    /// The same of a part of a snapshot that workers share: columns of its matrices may be needed apart, here
    /// and elsewhere.
    pub held_in_part: Option<[u64; 2]>,
    /// Bytes of parameters, gradients and what the optimiser remembers.
    pub replicated: usize,
}

impl Work {
    /// Bytes of a vertex in all exchanges between neighbours at a step, each counted once: steps of a window
    /// have the same ones, but for those that a first step has not.
    pub fn bytes_between_neighbours(&self) -> u64 {
        let of_step = |movements: &Vec<Movement>| -> Vec<(usize, usize)> {
            let between = movements.iter().filter(|movement| movement.moves == Moves::Neighbours);
            between.map(|movement| movement.columns).enumerate().collect()
        };
        let all: std::collections::BTreeSet<(usize, usize)> = self.steps.iter().flat_map(of_step).collect();
        all.iter().map(|(_, columns)| 4 * *columns as u64).sum()
    }
}
