//! Schedules on simulated clusters: what an epoch would take on workers that are not at hand.
//!
//! `costs` models what groups cost, `cluster` and `network` the machines, and `clock` runs a schedule in
//! virtual time. As in DyGNeX (section 5.4) and REAL (section 7.5) a group takes the same time on any number
//! of workers, and the all-reduce of the gradients is all their communication.

pub mod clock;
pub mod cluster;
pub mod costs;
pub mod error;
pub mod network;
mod random;

pub use clock::{Simulated, simulate, simulate_with_timeline};
pub use cluster::{Cluster, Stragglers};
pub use costs::{Distribution, Groups, Linear, Size, Synthetic};
pub use error::{Error, Result};
pub use network::{AllReduce, Shape};
