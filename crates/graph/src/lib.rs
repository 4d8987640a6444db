//! Dynamic graphs: what is read, how it is cut into steps, how steps are stored and how they differ.
//!
//! This crate knows no tensors and no workers. Data flows one way: [`load`] reads rows, [`cut`] turns them
//! into steps, [`store`] keeps the steps, [`stats`] describes them; [`generate`] makes steps out of nothing.

pub mod cut;
pub mod delta;
pub mod diffmap;
pub mod error;
pub mod event;
pub mod generate;
pub mod ids;
pub mod ingest;
pub mod load;
pub mod presence;
pub mod progress;
pub mod random;
pub mod snapshot;
pub mod stats;
pub mod step;
pub mod store;
pub mod time;

pub use delta::{Delta, Reweighted};
pub use diffmap::Diffmap;
pub use error::{Error, Place, Result};
pub use ids::Ids;
pub use presence::Presence;
pub use progress::Progress;
pub use snapshot::{Csr, Edge, Snapshot, Step, Vertex};
pub use stats::Stats;
pub use step::{FeatureChange, StepData, StepEdges};
pub use store::Store;
