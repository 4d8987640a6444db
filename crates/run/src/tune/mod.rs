//! Looking for good settings: which are tried, and which of them are trained on.

mod halving;
mod space;

pub use halving::{Rung, rungs, survivors};
pub use space::{Axis, Space, USUAL};
