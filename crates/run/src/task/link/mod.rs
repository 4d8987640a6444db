//! What link prediction needs besides a model: what was known when, pairs that are no links, and rules to
//! beat.
//!
//! The question at step `t` is which edges step `t + 1` has. Everything here answers as of `t` and never
//! looks further; the only thing that may be known of `t + 1` is which pairs are its edges, so that none of
//! them is taken for an absent one.

#[cfg(test)]
mod attack_tests;
mod attacks;
mod balanced;
mod beforehand;
mod by_source;
mod decoder;
mod edgebank;
mod events;
#[cfg(test)]
mod fixture;
mod goal;
mod history;
mod judge;
mod lookback;
mod pasts;
mod recent;
mod rules;
mod sample;
mod tgb;

pub use attacks::{CHANCE, stands_out};
pub use beforehand::attacked;
pub use by_source::BySource;
pub use goal::LinkPrediction;
#[cfg(test)]
use history::History;
pub use recent::Recent;
pub use sample::{Purpose, Sampler};
