//! A worker among others: its group, the names of what moves between them, and where its time goes. Touches
//! messages and spans; knows no graph, no model and no task.

mod clock;
mod group;
mod tag;

pub use clock::{Clock, Work};
pub use group::WorkerGroup;
pub use tag::RowTag;
