//! What decides who trains what: the strategy applied to the data, what windows cost, and schedules made of
//! that. The plan of an epoch comes from [`kymo_plan::Epochs`] and nowhere else; this room tells it how
//! windows are assigned.

mod contention;
mod controller;
mod cost_cache;
mod cost_model;
mod probe;
mod profile;
mod strategy;

pub use controller::Controller;
pub use profile::costs as measured_costs;
pub use strategy::{Division, Sample, ask, is_possible};
