//! Plans: which worker owns what, and the rows that move between workers because of it.
//!
//! Ownership is decided here and nowhere else. A [`Partitioner`] makes a [`Layout`] out of a store and a
//! seed; a [`Route`] or a [`HaloRows`] follows from layouts, and every worker can work out its own without
//! asking the others. A [`Strategy`] is the name a user gives to all of that. This crate never holds a
//! tensor.

pub mod batch;
pub mod cut;
pub mod epoch;
pub mod error;
pub mod layout;
pub mod partition;
mod parts;
pub mod plan;
pub mod portions;
pub mod price;
pub mod route;
pub mod schedule;
pub mod shares;
pub mod strategy;
pub mod work;

pub use batch::{Batch, Drawn, Neighbourhood, Portion, Targets, Window, overlapping};
pub use epoch::{Assignment, EpochPlan, Epochs, Iteration, VertexBatches, evaluator};
pub use error::{Error, Result};
pub use kymo_graph::random;
pub use layout::{Layout, Owners, Worker};
pub use partition::{Ask, Partition, Partitioner, Traffic};
pub use plan::{Plan, Share};
pub use portions::Portions;
pub use price::price;
pub use route::{HaloRows, Route};
pub use shares::{Cut, ModelNeeds, Ownership, Shares};
pub use strategy::{Scheme, Strategy};
pub use work::{Movement, Moves, Work};
