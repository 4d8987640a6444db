//! What groups cost: from the sizes of snapshots by a linear model, or drawn from a distribution.
//!
//! The linear model is that of DyGNeX (appendix H, equation 31) and REAL (appendix G, equation 16): a
//! snapshot of `N` vertices and `E` edges takes `a1 * N + a2 * E + a3` seconds, and a group as long as its
//! snapshots together.

use std::ops::Range;

use kymo_plan::random::Random;
use kymo_plan::schedule::Reuse;
use serde::Serialize;

use crate::error::{Error, Result, above_zero, from_zero};
use crate::random::{Purpose, around_one, random};

/// How large a snapshot is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Size {
    /// Vertices.
    pub vertices: u64,
    /// Edges.
    pub edges: u64,
}

/// What a snapshot takes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Linear {
    /// Seconds of a vertex (a1).
    pub vertex: f64,
    /// Seconds of an edge (a2).
    pub edge: f64,
    /// Seconds of a snapshot whatever its size (a3).
    pub snapshot: f64,
}

/// The papers do not print theirs. These give the order of magnitude of DyGNeX's table 4 (A100, WD-GCN): 27
/// groups of four snapshots on four workers take 1.19 s for Arxiv, which makes 0.17 s a group, and 3.98 s for
/// Products, 0.57 s a group; with the mean sizes of table 3 these coefficients say 0.16 s and 0.64 s.
impl Default for Linear {
    fn default() -> Self {
        Linear { vertex: 50e-9, edge: 20e-9, snapshot: 5e-3 }
    }
}

impl Linear {
    /// Seconds of a snapshot of this size.
    pub fn seconds(&self, size: Size) -> f64 {
        self.vertex * size.vertices as f64 + self.edge * size.edges as f64 + self.snapshot
    }
}

/// The groups of an epoch.
#[derive(Clone, Debug, PartialEq)]
pub struct Groups {
    /// Seconds of each.
    pub costs: Vec<f64>,
    /// The steps of each.
    pub windows: Vec<Range<usize>>,
    /// Seconds of each step, where they are known.
    pub steps: Option<Vec<f64>>,
}

impl Groups {
    /// Windows of `window` snapshots, `stride` apart, of snapshots of these sizes.
    pub fn of_snapshots(sizes: &[Size], linear: &Linear, window: usize, stride: usize) -> Result<Self> {
        for (name, seconds) in
            [("vertex", linear.vertex), ("edge", linear.edge), ("snapshot", linear.snapshot)]
        {
            from_zero(&format!("seconds per {name}"), seconds)?;
        }
        check_windows(window, stride)?;
        if sizes.len() < window {
            let problem = format!("found {window}, but there are {} steps only", sizes.len());
            return Err(Error::settings("window", problem));
        }
        let steps: Vec<f64> = sizes.iter().map(|&size| linear.seconds(size)).collect();
        let windows: Vec<Range<usize>> =
            (0..=sizes.len() - window).step_by(stride).map(|start| start..start + window).collect();
        let costs = windows.iter().map(|window| steps[window.clone()].iter().sum()).collect();
        Ok(Groups { costs, windows, steps: Some(steps) })
    }

    /// What neighbouring groups save if shared snapshots take `ratio` of their time less (REAL equation 17).
    pub fn reuse(&self, ratio: f64) -> Result<Reuse> {
        check_part("reuse", ratio)?;
        Ok(match &self.steps {
            Some(steps) => Reuse::from_snapshots(ratio, &self.windows, steps)?,
            None => Reuse::from_ratio(ratio, &self.windows, &self.costs)?,
        })
    }

    /// What a pipeline saves whose first stage takes this part of every group's time.
    pub fn pipeline(&self, structure: f64) -> Result<Reuse> {
        check_part("pipeline", structure)?;
        let stages = |&cost: &f64| [structure * cost, (1.0 - structure) * cost];
        Ok(Reuse::from_stages(&self.costs.iter().map(stages).collect::<Vec<_>>())?)
    }
}

/// How the costs of synthetic groups are distributed; the mean is always 1, in the unit that is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Distribution {
    /// Growth over the epoch with noise, as in graphs that grow.
    #[default]
    Trend,
    /// Evenly from half to one and a half of the mean.
    Uniform,
    /// Normal.
    Normal,
    /// Few groups are much costlier than the rest.
    Heavy,
}

/// The trend: the curve of `kymo generate --trend stackoverflow`, with more noise since group times are less
/// smooth than edges.
const GROWTH: f64 = 0.4;
const SEASON: f64 = 0.05;
const SEASON_GROUPS: f64 = 12.0;
const FLUCTUATION: f64 = 0.05;
/// The normal distribution's deviation, and the least that it gives.
const DEVIATION: f64 = 0.25;
const LEAST: f64 = 0.05;
/// The exponent of the heavy one, and the most that it gives before it is scaled.
const EXPONENT: f64 = 2.0;
const HEAVIEST: f64 = 20.0;

impl Distribution {
    /// Every distribution, in the order of the help.
    pub const ALL: [Distribution; 4] =
        [Distribution::Trend, Distribution::Uniform, Distribution::Normal, Distribution::Heavy];

    /// Its name in settings and files.
    pub fn name(self) -> &'static str {
        match self {
            Distribution::Trend => "trend",
            Distribution::Uniform => "uniform",
            Distribution::Normal => "normal",
            Distribution::Heavy => "heavy",
        }
    }

    /// What it is, in one line.
    pub fn about(self) -> &'static str {
        match self {
            Distribution::Trend => {
                "grows from 0.6 to 1.4 of the mean, season of 12 groups (5 %), noise (5 %)"
            }
            Distribution::Uniform => "evenly from 0.5 to 1.5 of the mean",
            Distribution::Normal => "normal, deviation a quarter of the mean, at least a twentieth of it",
            Distribution::Heavy => "Pareto with exponent 2, cut at 20 times the least",
        }
    }

    /// The cost of group `at` of `count`.
    fn draw(self, at: usize, count: usize, random: Random) -> f64 {
        let position = at as u64;
        match self {
            Distribution::Trend => {
                let rise = GROWTH * (2.0 * (at as f64 + 0.5) / count as f64 - 1.0);
                let season = SEASON * (std::f64::consts::TAU * at as f64 / SEASON_GROUPS).sin();
                (1.0 + rise + season) * around_one(random, position, FLUCTUATION)
            }
            Distribution::Uniform => 0.5 + random.share(position),
            Distribution::Normal => (1.0 + DEVIATION * random.normal(position)).max(LEAST),
            Distribution::Heavy => {
                // A Pareto between 1 and the heaviest, by its inverse; then its mean is brought to 1.
                let least = HEAVIEST.powf(-EXPONENT);
                let value = (1.0 - random.share(position) * (1.0 - least)).powf(-1.0 / EXPONENT);
                let mean =
                    EXPONENT / (EXPONENT - 1.0) * (1.0 - HEAVIEST.powf(1.0 - EXPONENT)) / (1.0 - least);
                value / mean
            }
        }
    }
}

/// Synthetic groups.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Synthetic {
    /// How many.
    pub groups: usize,
    /// How their costs are distributed.
    pub distribution: Distribution,
    /// Seconds of a group on average.
    pub mean: f64,
    /// Snapshots of a group.
    pub window: usize,
    /// Steps from the start of a group to that of the next.
    pub stride: usize,
    /// The seed of all random numbers.
    pub seed: u64,
}

impl Synthetic {
    /// Draws them.
    pub fn groups(&self) -> Result<Groups> {
        if self.groups == 0 {
            return Err(Error::settings("groups", "found 0, expected at least 1"));
        }
        above_zero("mean", self.mean)?;
        check_windows(self.window, self.stride)?;
        if self.groups.checked_mul(self.stride).and_then(|end| end.checked_add(self.window)).is_none() {
            return Err(Error::settings("stride", format!("found {}, expected a smaller one", self.stride)));
        }
        let random = random(self.seed, Purpose::Costs);
        let cost = |at| self.mean * self.distribution.draw(at, self.groups, random);
        let window = |at| at * self.stride..at * self.stride + self.window;
        let windows = (0..self.groups).map(window).collect();
        Ok(Groups { costs: (0..self.groups).map(cost).collect(), windows, steps: None })
    }
}

fn check_part(setting: &str, found: f64) -> Result<()> {
    if (0.0..=1.0).contains(&found) {
        return Ok(());
    }
    Err(Error::settings(setting, format!("found {found}, expected a part of the time, from 0 to 1")))
}

fn check_windows(window: usize, stride: usize) -> Result<()> {
    for (setting, found) in [("window", window), ("stride", stride)] {
        if found == 0 {
            return Err(Error::settings(setting, "found 0, expected at least 1"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn synthetic(groups: usize, distribution: Distribution) -> Synthetic {
        Synthetic { groups, distribution, mean: 0.5, window: 4, stride: 1, seed: 3 }
    }

    #[test]
    fn distributions_have_their_mean_and_their_names() {
        for distribution in Distribution::ALL {
            let costs = synthetic(100_000, distribution).groups().unwrap().costs;
            let mean = costs.iter().sum::<f64>() / costs.len() as f64;
            assert!((mean / 0.5 - 1.0).abs() < 0.02, "{}: {mean}", distribution.name());
            assert!(costs.iter().all(|&cost| cost > 0.0));
            assert_eq!(costs, synthetic(100_000, distribution).groups().unwrap().costs);
            assert!(!distribution.about().is_empty());
        }
        let trend = synthetic(1000, Distribution::Trend).groups().unwrap().costs;
        let mean = |costs: &[f64]| costs.iter().sum::<f64>() / costs.len() as f64;
        assert!(mean(&trend[900..]) > 1.8 * mean(&trend[..100]));
    }

    #[test]
    fn windows_cost_what_their_snapshots_do() {
        let sizes: Vec<Size> = (1..=6).map(|edges| Size { vertices: 10, edges }).collect();
        let linear = Linear { vertex: 0.1, edge: 1.0, snapshot: 2.0 };
        let groups = Groups::of_snapshots(&sizes, &linear, 3, 2).unwrap();
        assert_eq!(groups.windows, [0..3, 2..5]);
        assert_eq!(groups.costs, [9.0 + 6.0, 9.0 + 12.0]);
        assert_eq!(groups.reuse(0.5).unwrap().saved(0, 1), 0.5 * 6.0);
        assert_eq!(groups.pipeline(0.2).unwrap().saved(0, 1), 0.2 * 21.0);
        assert_eq!(groups.pipeline(0.0).unwrap(), Reuse::None);
    }

    #[test]
    fn the_default_coefficients_are_of_the_order_they_claim() {
        let group = |vertices, edges| 4.0 * Linear::default().seconds(Size { vertices, edges });
        assert!((group(169_340, 1_317_917) - 0.16).abs() < 0.005);
        assert!((group(167_570, 7_268_265) - 0.64).abs() < 0.01);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let sizes = [Size { vertices: 1, edges: 1 }; 3];
        let linear = Linear::default();
        let bad = Linear { edge: -1.0, ..linear };
        let good = synthetic(3, Distribution::Uniform);
        let refused = [
            ("window", Groups::of_snapshots(&sizes, &linear, 4, 1)),
            ("window", Groups::of_snapshots(&sizes, &linear, 0, 1)),
            ("stride", Groups::of_snapshots(&sizes, &linear, 1, 0)),
            ("seconds per edge", Groups::of_snapshots(&sizes, &bad, 1, 1)),
            ("groups", Synthetic { groups: 0, ..good }.groups()),
            ("mean", Synthetic { mean: 0.0, ..good }.groups()),
            ("stride", Synthetic { stride: usize::MAX, ..good }.groups()),
        ];
        for (word, result) in refused {
            let error = result.unwrap_err().to_string();
            assert!(error.starts_with(word), "{error}");
        }
        assert!(good.groups().unwrap().pipeline(1.5).is_err());
        assert!(good.groups().unwrap().reuse(1.5).is_err());
    }
}
