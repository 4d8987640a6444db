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
mod dense;
mod dropout;
mod edge_scores;
mod edge_softmax;
mod edges;
mod elementwise;
mod fused;
mod gated;
mod gated_on;
mod gather;
mod graph_attention;
mod graph_attention_back;
mod graph_attention_loops;
mod graph_attention_on;
mod gru;
mod gru_on;
mod head_dots;
mod increment;
mod lazy;
mod linear;
mod loss;
mod lstm;
mod lstm_on;
pub(crate) mod pieces;
mod pointwise;
mod product;
mod recurrent;
mod recurrent_on;
mod reduce;
mod refresh;
mod row_max;
mod rows;
mod scatter;
mod sddmm;
mod selective;
mod spanned_attention;
mod spanned_loops;
mod spmm;
mod summary;
mod sums;
mod thin;
mod turned;

use crate::cuda::Source;
pub(crate) use gather::{expect_indices, for_each_row};
pub(crate) use lazy::{Lazy, LazyProduct};
pub(crate) use pointwise::gather_by;
pub(crate) use selective::Repeats;
pub(crate) use sums::{factored, permuted};

pub(crate) use aggregate::Entries;
pub use dropout::Places;
pub use linear::{multiply, multiply_into, weight_gradient};
pub use spmm::{multiply_sparse, multiply_sparse_transposed};

/// Rows that one thread works on at a time: few enough that what belongs to them stays in the second-level
/// cache.
pub(crate) const ROWS: usize = 256;

/// All files of kernels: of the operations that have some, and of what they share.
pub(crate) const KERNELS: &[&Source] = &[
    &attention::ATTENTION,
    &crate::cuda::tape::FILL,
    &crate::cuda::transpose::TRANSPOSE,
    &crate::optim::UPDATE,
    &cross_entropy::ENTROPY,
    &dense::DENSE,
    &edges::EDGES,
    &fused::FUSED,
    &graph_attention_on::GRAPH_ATTENTION,
    &head_dots::HEAD_DOTS,
    &loss::LOSS,
    &pointwise::POINTWISE,
    &recurrent_on::CELLS,
    &reduce::REDUCE,
    &row_max::ROW_MAX,
    &summary::SUMMARY,
    &sums::SUMS,
    &thin::THIN,
];
