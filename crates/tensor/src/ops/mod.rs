//! The operations: one file each, and a method of the tape for each.

mod activation;
mod aggregate;
mod attention;
mod attention_loops;
mod by_rows;
#[cfg(test)]
mod cell_tests;
mod columns;
mod cross_entropy;
mod dropout;
mod edge_scores;
mod edge_softmax;
mod elementwise;
mod gated;
mod gather;
mod graph_attention;
mod graph_attention_back;
mod graph_attention_loops;
mod gru;
mod head_dots;
mod linear;
mod loss;
mod lstm;
pub(crate) mod pieces;
mod product;
mod recurrent;
mod reduce;
mod row_max;
mod rows;
mod scatter;
mod sddmm;
mod spmm;
mod summary;
mod turned;

pub use dropout::Places;
pub use linear::{multiply, multiply_into, weight_gradient};
pub use spmm::{multiply_sparse, multiply_sparse_transposed};

/// Rows that one thread works on at a time: few enough that what belongs to them stays in the second-level cache.
pub(crate) const ROWS: usize = 256;
