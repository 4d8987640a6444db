//! What is learnt from: the split, the features of vertices, where snapshots come from and which of them stay
//! in memory. Touches the store; knows no task, no optimiser and no schedule.

pub(crate) mod builtin;
mod features;
mod snapshots;
mod source;
mod split;

pub use features::Inputs;
pub use snapshots::{Loaded, Snapshots, largest_step};
pub use source::{Piece, SnapshotSource, WholeSteps};
pub use split::{Part, Split};
