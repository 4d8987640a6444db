//! The operations: one file each, and a method of the tape for each.

mod activation;
mod aggregate;
mod by_rows;
mod columns;
mod dropout;
mod edge_scores;
mod edge_softmax;
mod elementwise;
mod gather;
mod head_dots;
mod linear;
pub(crate) mod pieces;
mod product;
mod reduce;
mod row_max;
mod rows;
mod scatter;
mod sddmm;
mod spmm;
mod summary;

pub use linear::{multiply, multiply_into, weight_gradient};

/// Rows that one thread works on at a time: few enough that what belongs to them stays in the second-level cache.
pub(crate) const ROWS: usize = 256;
