//! Weaves: the ways to put a structure encoder and a time encoder together, and to put what
//! comes of it above each other.

mod attended;
mod blocks;
mod convolved;
mod diffused;
mod evolving;
mod gated;
mod sandwiched;
mod stacked;

pub use attended::Attended;
pub use blocks::Blocks;
pub use convolved::Convolved;
pub use diffused::Diffused;
pub use evolving::{Evolution, Evolving};
pub use gated::Gated;
pub use sandwiched::Sandwiched;
pub use stacked::Stacked;
