//! What decides who trains what: the strategy applied to the data, what windows cost, and schedules made of
//! that. The plan of an epoch comes from [`kymo_plan::Epochs`] and nowhere else; this room tells it how
//! windows are assigned.

mod contention;
mod controller;
mod cost_cache;
mod cost_model;
mod costs;
mod curve;
mod probe;
mod profile;
mod profiling;
mod search;
mod stage;
mod strategy;
mod told;

pub use controller::Controller;
pub use costs::{absolute as absolute_costs, check_left};
pub use curve::{Curve, SumCurve, fitted};
pub use probe::work;
pub use profile::{Measurements, costs as measured_costs, stage as measured_stage};
pub use strategy::{Division, Question, Sample, ask, is_possible};
