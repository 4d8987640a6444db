//! Training: the only place where graphs, models, tasks and workers meet.
//!
//! The modules are rooms, listed here from the bottom to the top; each may use those above it in this list
//! and no others (`tests/all/rooms.rs` of the project holds that). ARCHITECTURE.md walks through them along
//! one step of training.
//!
//! | room | what it is for |
//! |---|---|
//! | `error` | what can go wrong, sorted by who must act |
//! | `config` | settings: what a user may ask for |
//! | `workers` | a worker among others: messages, tags, where the time goes |
//! | `halo` | rows of other workers, where a window is cut into cells |
//! | `data` | split, features, where snapshots come from, which of them stay in memory |
//! | `forward` | one forward pass, and the recurrent state around it |
//! | `task` | what is predicted: losses, baselines, predictions |
//! | `replica` | parameters and optimiser, on the host or on a GPU |
//! | `merge` | how workers agree on what they learnt |
//! | `step` | one iteration at one worker |
//! | `schedule` | who trains what: strategies, measured costs, schedules |
//! | `artifact` | what is saved: folder, checkpoint |
//! | `train` | the loop over epochs, evaluation |
//! | `launch` | how workers start and report |
//! | `session` | a run from its folder |
//! | `tune` | which settings are tried, and which of them are trained on |

pub mod artifact;
pub mod config;
pub mod data;
pub mod error;
pub mod forward;
pub mod halo;
pub mod launch;
pub mod merge;
pub mod replica;
pub mod schedule;
pub mod session;
pub mod step;
pub mod task;
pub mod train;
pub mod tune;
pub mod workers;

pub use config::Settings;
pub use data::{Part, Split};
pub use error::{Class, Error, Result};
pub use kymo_graph::random;
pub use session::Session;
pub use step::{Custom, RunContext, Worker};
