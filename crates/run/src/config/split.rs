//! Which samples are for what, as settings say it.

use serde::{Deserialize, Serialize};

use super::describe::{Choice, Kind, Setting, choice, section};

section! {
    /// Which steps are for what: shares in the order of time, or of vertices where classes never change.
    Split {
        /// The share that is trained on.
        train: f64 = 0.7,
        /// The share that decides when to stop; the rest is for the test.
        validation: f64 = 0.15,
        /// What shares in the order of time are shares of.
        by: SplitBy = SplitBy::Steps,
    }
}

choice! {
    /// What shares in the order of time are shares of.
    SplitBy {
        /// Steps.
        Steps = "steps",
        /// Events, as the Temporal Graph Benchmark has it; a step with which a share ends belongs to it
        /// whole.
        Events = "events",
    }
}
