//! The verbs of the command, and what they share to print for people.

pub mod inspect;
pub mod numbers;
pub mod plot;
