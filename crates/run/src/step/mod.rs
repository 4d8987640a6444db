//! One iteration of training at one worker: its batches are run, what was learnt is merged, the optimiser
//! takes a step. Puts together what the rooms below it make; knows nothing of epochs, schedules, files and
//! how workers are started.

mod batches;
mod context;
mod custom;
mod estimate;
mod extent;
mod extraction;
mod group;
mod reservoir;
mod runner;
mod seams;
mod times;
mod worker;

pub use context::{RunContext, Sharing};
pub use custom::Custom;
pub use estimate::{check_needs, check_parameters, needs, predicted_bytes};
pub use extent::Extent;
pub use reservoir::Kept;
pub use seams::Seams;
pub use times::{Stages, WindowTimes};
pub use worker::Worker;
