//! How the number of edges moves over the steps.
//!
//! BLAD and REAL (section 7.1) let the snapshots cut out of a static graph follow the trend of the Stack
//! Overflow dataset without printing it; here it is growth with a season of twelve steps and a little
//! fluctuation.

use std::fmt;
use std::str::FromStr;

use super::random::{Purpose, random};
use crate::error::{Error, Result};
use crate::snapshot::Step;

/// A course of the number of edges; over all steps the mean is about the number asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trend {
    /// The same number at every step.
    Flat,
    /// Steady growth from half to one and a half of the mean.
    Linear,
    /// Growth with seasons and a little fluctuation.
    Stackoverflow,
}

/// The trend of Stack Overflow: from `1 - GROWTH` to `1 + GROWTH` of the mean, with a season and a
/// fluctuation.
const GROWTH: f64 = 0.4;
const SEASON: f64 = 0.05;
const SEASON_STEPS: f64 = 12.0;
const FLUCTUATION: f64 = 0.01;

impl Trend {
    /// Every trend, in the order of the help.
    pub const ALL: &[Trend] = &[Trend::Flat, Trend::Linear, Trend::Stackoverflow];

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Trend::Flat => "flat",
            Trend::Linear => "linear",
            Trend::Stackoverflow => "stackoverflow",
        }
    }

    /// What it is, in one line.
    pub fn about(self) -> &'static str {
        match self {
            Trend::Flat => "the same number of edges at every step",
            Trend::Linear => "steady growth from half to one and a half of the mean",
            Trend::Stackoverflow => "growth with a season of twelve steps and a little fluctuation",
        }
    }

    /// The highest share of the mean that any step can reach.
    pub fn peak(self) -> f64 {
        match self {
            Trend::Flat => 1.0,
            Trend::Linear => 1.5,
            Trend::Stackoverflow => 1.0 + GROWTH + SEASON + FLUCTUATION,
        }
    }

    /// How many edges the step should have, of `steps` steps with `mean` edges on average.
    pub fn edges(self, mean: usize, step: Step, steps: usize, seed: u64) -> usize {
        // Of a single step the middle of the course is taken, so that it has the mean.
        let course = if steps > 1 { 2.0 * step as f64 / (steps - 1) as f64 - 1.0 } else { 0.0 };
        let share = match self {
            Trend::Flat => return mean,
            Trend::Linear => 1.0 + 0.5 * course,
            Trend::Stackoverflow => {
                let season = (std::f64::consts::TAU * step as f64 / SEASON_STEPS).sin();
                let fluctuation = 2.0 * random(seed, Purpose::Trend).share(step as u64) - 1.0;
                1.0 + GROWTH * course + SEASON * season + FLUCTUATION * fluctuation
            }
        };
        (mean as f64 * share).round() as usize
    }
}

impl fmt::Display for Trend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Trend {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Self::ALL.iter().copied().find(|trend| trend.name() == name).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|trend| trend.name()).collect();
            Error::settings(
                "--trend",
                format!("there is no trend `{name}`; choose one of {}", names.join(", ")),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_and_unknown_ones_are_refused() {
        for &trend in Trend::ALL {
            assert_eq!(trend.to_string().parse::<Trend>().unwrap(), trend);
            assert_eq!(serde_json::to_string(&trend).unwrap(), format!("\"{trend}\""));
            assert!(!trend.about().is_empty());
        }
        let error = "upward".parse::<Trend>().unwrap_err().to_string();
        assert!(error.contains("upward") && error.contains("linear"), "{error}");
    }

    #[test]
    fn the_mean_is_about_what_was_asked_for_and_no_step_passes_the_peak() {
        for &trend in Trend::ALL {
            for steps in [1, 2, 5, 12, 50, 100] {
                let counts: Vec<usize> = (0..steps).map(|t| trend.edges(10_000, t, steps, 1)).collect();
                let mean = counts.iter().sum::<usize>() as f64 / steps as f64;
                assert!((mean / 10_000.0 - 1.0).abs() < 0.05, "{trend} over {steps} steps: {mean}");
                assert!(counts.iter().all(|&count| count as f64 <= 10_000.0 * trend.peak()));
            }
        }
    }

    #[test]
    fn the_courses_have_their_shapes() {
        let course =
            |trend: Trend| -> Vec<usize> { (0..100).map(|t| trend.edges(1000, t, 100, 1)).collect() };
        assert!(course(Trend::Flat).iter().all(|&count| count == 1000));
        let linear = course(Trend::Linear);
        assert_eq!((linear[0], linear[99]), (500, 1500));
        assert!(linear.is_sorted());
        let seasonal = course(Trend::Stackoverflow);
        assert!(seasonal[99] > 2 * seasonal[0]);
        assert!(!seasonal.is_sorted(), "a season falls as well as rises");
    }
}
