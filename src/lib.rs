//! Kymo trains neural networks on graphs that change over time.
//!
//! This crate is the front page: it gives all layers under one name and holds the command. The flow is
//! `ingest -> store -> plan -> run -> report`.
//!
//! ```
//! use kymo::graph::{Progress, generate};
//!
//! # fn main() -> Result<(), kymo::graph::Error> {
//! # let folder = std::env::temp_dir().join(format!("kymo-doc-{}", std::process::id()));
//! let kind = generate::find("uniform").expect("a known kind");
//! let params = generate::Params { vertices: 100, edges: 400, steps: 5, ..kind.defaults() };
//! let store = generate::write(kind, &params, &folder, false, &Progress::silent())?;
//! let last = store.snapshot(4)?;
//! assert_eq!(store.delta(4)?.apply(&store.snapshot(3)?).ok(), Some(last));
//! # std::fs::remove_dir_all(&folder).ok();
//! # Ok(())
//! # }
//! ```

pub mod cli;

pub use kymo_graph as graph;
pub use kymo_model as model;
pub use kymo_plan as plan;
pub use kymo_run as run;
pub use kymo_sim as sim;
pub use kymo_tensor as tensor;
pub use kymo_trace as trace;
