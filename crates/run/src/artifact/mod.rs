//! What a run leaves on disk: its folder, its checkpoint, and what a checkpoint holds. Training writes here;
//! nothing here trains. The files that others read have their schemas in [`kymo_trace::schema`].

mod applied;
mod checkpoint;
mod course;
mod folder;
mod stale;

pub use checkpoint::{Array, Checkpoint};
pub use course::{Best, Course, Position, Saved};
pub use folder::Folder;
