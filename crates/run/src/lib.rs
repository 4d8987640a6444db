//! Training: the only place where graphs, models, tasks and workers meet.

pub mod builtin;
pub mod checkpoint;
pub mod clock;
pub mod error;
pub mod evaluate;
pub mod file;
pub mod folder;
pub mod frames;
pub mod inputs;
pub mod layers;
pub mod learner;
pub mod link;
pub mod pass;
pub mod random;
pub mod saved;
pub mod session;
pub mod settings;
pub mod split;
pub mod task;
pub mod train;

pub use error::{Error, Result};
pub use learner::Learner;
pub use session::Session;
pub use settings::Settings;
pub use split::{Part, Split};
