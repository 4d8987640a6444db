//! Whole runs on small data: one binary, so that it is linked once.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

mod alike;
mod applied;
mod averaging;
mod batches;
mod damaged;
mod finite;
mod fixture;
mod flat;
mod gpu;
mod gradients;
mod horizons;
mod in_degrees;
mod leaks;
mod learns;
mod modes;
mod needs;
mod oracle;
mod plans;
mod portions;
mod profile;
mod reading;
mod recycled;
mod refused;
mod repeated;
mod resume;
mod scheduled;
mod seams;
mod season;
mod stages;
mod stale;
mod stale_room;
mod together;
mod workers;
mod workers_odd;
