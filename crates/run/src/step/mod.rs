//! One iteration of training at one worker: its batches are run, what was learnt is merged, the optimiser
//! takes a step. Puts together what the rooms below it make; knows nothing of epochs, schedules, files and
//! how workers are started.

pub mod context;
pub mod custom;
pub mod estimate;
pub mod runner;
pub mod times;
pub mod worker;

pub use context::RunContext;
pub use custom::Custom;
pub use worker::{Seams, Worker};
