//! A worker among others: its group, the names of what moves between them, and where its time goes. Touches
//! messages and spans; knows no graph, no model and no task.

pub mod clock;
pub mod group;
pub mod tag;

pub use clock::{Clock, Work};
pub use group::WorkerGroup;
pub use tag::RowTag;
