//! Files beside the graph: labels, static features, and signals by step. Each names vertices of a graph read
//! before.

mod features;
mod labels;
mod signal;

pub use features::{FeatureLayout, FeatureTable, read_features};
pub use labels::{Labels, Split, read_labels};
pub use signal::read_signal;

/// Whether the first field of a file says that the first column holds vertices.
fn names_vertices(field: &[u8]) -> bool {
    let names: &[&[u8]] = &[b"id", b"node", b"vertex", b"node_id", b"nodeid", b"vertex_id"];
    names.iter().any(|name| field.eq_ignore_ascii_case(name))
}
