//! What a user may ask for: settings, their checks and descriptions, and where they come from. Knows nothing
//! of the rest of this crate but its errors.

mod averaging;
mod benchmark;
pub(crate) mod break_even;
pub mod bytes;
pub(crate) mod change_costs;
mod check;
pub mod describe;
pub(crate) mod device;
mod follows;
mod horizons;
pub mod machine;
mod names;
pub mod overlay;
mod settings;
mod split;
mod stale;

pub use averaging::Averaging;
pub use benchmark::{Memory, Weigh};
pub use break_even::BreakEven;
pub use bytes::memory;
pub use names::*;
pub use settings::*;
pub use split::{Split, SplitBy};
pub use stale::StaleRule;
