//! Training: the only place where graphs, models, tasks and workers meet.

pub mod builtin;
pub mod carried;
pub mod cells;
pub mod checkpoint;
pub mod clock;
pub mod error;
pub mod evaluate;
pub mod file;
pub mod folder;
pub mod frames;
pub mod gradient;
pub mod inputs;
pub mod layers;
pub mod learner;
pub mod link;
pub mod outputs;
pub mod parallel;
pub mod pass;
pub mod probe;
pub mod random;
pub mod saved;
pub mod session;
pub mod settings;
pub mod shared;
pub mod split;
pub mod task;
pub mod team;
pub mod teamwork;
pub mod train;

pub use error::{Error, Result};
pub use learner::Learner;
pub use session::Session;
pub use settings::Settings;
pub use split::{Part, Split};
