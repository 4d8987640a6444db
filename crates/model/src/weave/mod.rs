//! Weaves: the ways to put a structure encoder and a time encoder together, and to put what
//! comes of it above each other.

mod blocks;
mod convolved;
mod diffused;
mod evolving;
mod gated;
mod stacked;

pub use blocks::Blocks;
pub use convolved::Convolved;
pub use diffused::Diffused;
pub use evolving::{Evolution, Evolving};
pub use gated::Gated;
pub use stacked::Stacked;
