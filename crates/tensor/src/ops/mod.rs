//! The operations: one file each, and a method of the tape for each.

mod by_rows;
mod linear;
pub(crate) mod pieces;
mod product;

pub use linear::{multiply, multiply_into, weight_gradient};

/// Rows that one thread works on at a time: few enough that what belongs to them stays in the second-level cache.
pub(crate) const ROWS: usize = 256;
