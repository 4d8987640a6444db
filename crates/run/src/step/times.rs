//! What was measured of one window: the seconds of each of its snapshots, and those that were for no single
//! one.

use kymo_graph::Step;
use kymo_tensor::clock::{self, Times};
use kymo_trace::schema::STAGES;
use serde::{Deserialize, Serialize};

/// Seconds of each stage.
pub type Stages = [f64; STAGES.len()];

/// What was measured of a window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WindowTimes {
    /// Its first step.
    pub start: Step,
    /// Seconds of each of its snapshots.
    pub steps: Vec<Stages>,
    /// Seconds that were for no single one.
    pub common: Stages,
}

impl WindowTimes {
    /// What it took to read each snapshot, what the tape counted, and the seconds from the beginning of the
    /// window to its end.
    pub fn new(start: Step, reads: &[f64], counted: &Times, seconds: f64) -> WindowTimes {
        let stages = |load: f64, [aggregation, products, time, backward]: clock::Seconds| {
            [load, aggregation, products, time, backward, 0.0]
        };
        let step = |(number, &load): (usize, &f64)| {
            stages(load, counted.steps.get(number).copied().unwrap_or_default())
        };
        let mut common = stages(0.0, counted.window);
        common[STAGES.len() - 1] = (seconds - reads.iter().sum::<f64>() - counted.total()).max(0.0);
        WindowTimes { start, steps: reads.iter().enumerate().map(step).collect(), common }
    }

    /// Seconds of the stages of the whole window.
    pub fn total(&self) -> Stages {
        let all = || self.steps.iter().chain([&self.common]);
        std::array::from_fn(|stage| all().map(|stages| stages[stage]).sum())
    }
}
