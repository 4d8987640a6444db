//! Training over epochs: the loop, validation, the test, and who watches. Everything it needs is made below;
//! it decides when to validate, when to save and when to stop, and knows nothing of how workers were started.

mod evaluate;
mod finish;
mod infer;
mod meeting;
mod observer;
mod training_loop;

pub use evaluate::{evaluate, measure};
pub use infer::{embeddings, outputs};
pub use observer::{EpochProgress, Observer, Silent};
pub use training_loop::{Ending, train};
