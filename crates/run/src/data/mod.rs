//! What is learnt from: the split, the features of vertices, where snapshots come from and which of them stay
//! in memory. Touches the store; knows no task, no optimiser and no schedule.

pub(crate) mod builtin;
mod degrees;
mod dense;
mod features;
mod scale;
mod segment;
mod snapshots;
mod source;
mod split;
mod stored;
mod survey;

pub use features::Inputs;
pub use segment::Segment;
pub use snapshots::{Loaded, Snapshots, largest_step};
pub use source::{Piece, SnapshotSource, WholeSteps};
pub use split::{Part, Split};
