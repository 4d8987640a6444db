//! What is learnt from: the split, the features of vertices, where snapshots come from and which of them stay
//! in memory. Touches the store; knows no task, no optimiser and no schedule.

mod ahead;
pub(crate) mod builtin;
mod course;
mod degrees;
mod dense;
mod features;
mod measured;
mod parts;
mod room;
mod scale;
mod segment;
mod shared;
mod snapshots;
mod source;
mod split;
mod stored;
mod survey;

pub use degrees::in_degrees;
pub use features::{Inputs, LEARNT};
pub use measured::{Measured, NUMBERS, known_by};
pub use room::{Room, Sizes, largest_step, left_to_keep, snapshots_in_memory, whole_bytes};
pub use segment::Segment;
pub use snapshots::{Loaded, Reading, Snapshots, Surroundings};
pub use source::{Piece, SnapshotSource, StepRows, WholeSteps};
pub use split::{Part, Split};
