//! The operations: one file each, and a method of the tape for each.

mod aggregate;
mod by_rows;
mod edge_scores;
mod edge_softmax;
mod gather;
mod head_dots;
mod linear;
mod row_max;
mod scatter;
mod sddmm;
mod spmm;
mod summary;

pub use linear::{multiply, multiply_into, weight_gradient};

/// Rows that one thread works on at a time: few enough that what belongs to them stays in the second-level cache.
pub(crate) const ROWS: usize = 256;
