//! Weaves: the ways to put a structure encoder and a time encoder together.

mod diffused;
mod evolving;
mod gated;
mod stacked;

pub use diffused::Diffused;
pub use evolving::{Evolution, Evolving};
pub use gated::Gated;
pub use stacked::Stacked;
