//! What windows and snapshots cost, measured while training.
//!
//! DyGNeX (5.3, appendix G) measures for some epochs and drops outliers; here a window costs the median of its times. The linear
//! model ([`CostModel`]) tells how far costs could have been told beforehand.
//!
//! Reading is measured for each snapshot. The rest is measured for each window only: a model exchanges over all steps of a window in one
//! call, and rows and the way back are fused over the window. So the seconds of a window's structure are shared out to its snapshots by
//! their edges, and those of rows and of the way back by their vertices, of which all have as many. The file says which is which.

use std::collections::BTreeMap;
use std::ops::Range;

use kymo_graph::Step;
use kymo_plan::schedule::{Instance, Limit, Scheduled, find};
use serde::{Deserialize, Serialize};

use crate::cost_model::{CostModel, Measured};
use crate::error::Result;

/// Stages of a window, in the order in which a profile has their seconds: reading its snapshots; the phase in which vertices look at
/// each other; the rest, forth and back, which is one pass over blocks of rows; the way back through the first phase.
pub const STAGES: [&str; 4] = ["load", "structure", "rows", "back"];

/// Seconds of each stage.
pub type Stages = [f64; STAGES.len()];

/// What was measured of windows, in the order of time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// The machine and how many threads a worker has: other machines have other costs.
    pub machine: String,
    /// What the stages are called.
    pub stages: Vec<String>,
    /// Seconds of the stages of each window, one list for every epoch.
    pub seconds: Vec<Vec<Stages>>,
    /// Seconds that closed each iteration, on average.
    pub closing: f64,
    /// The linear model of the windows' seconds, once there is one.
    pub model: Option<CostModel>,
    /// Seconds it took to read each step, one list for every time, in the order of time.
    #[serde(skip)]
    pub reads: Vec<Vec<f64>>,
    /// What each snapshot that is trained on cost.
    pub snapshots: Vec<SnapshotCost>,
    /// How the seconds of snapshots were come by, stage by stage.
    pub shared_out: Vec<String>,
}

/// How the seconds of snapshots are come by, in the order of [`STAGES`].
const SHARED_OUT: [&str; STAGES.len()] =
    ["measured", "of the window, by edges", "of the window, by vertices", "of the window, by vertices"];

/// What a snapshot cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SnapshotCost {
    /// Its step.
    pub step: usize,
    /// Its edges.
    pub edges: f64,
    /// Seconds of its stages: the first is measured, the others are its share of a window's, on average over the windows it is in.
    pub stages: Stages,
}

impl Profile {
    /// Nothing measured of so many windows.
    pub fn new(windows: usize) -> Profile {
        Profile {
            machine: machine(rayon::current_num_threads()),
            stages: STAGES.map(String::from).to_vec(),
            seconds: vec![Vec::new(); windows],
            shared_out: SHARED_OUT.map(String::from).to_vec(),
            ..Profile::default()
        }
    }

    /// Adds the times of a window.
    pub fn add(&mut self, window: usize, stages: Stages) {
        if let Some(times) = self.seconds.get_mut(window) {
            times.push(stages);
        }
    }

    /// Adds the time it took to read a step.
    pub fn add_read(&mut self, step: usize, seconds: f64) {
        if self.reads.len() <= step {
            self.reads.resize(step + 1, Vec::new());
        }
        self.reads[step].push(seconds);
    }

    /// What each window costs: the median of its times.
    pub fn costs(&self) -> Vec<f64> {
        let whole = |times: &Vec<Stages>| median(times.iter().map(|stages| stages.iter().sum()).collect());
        self.seconds.iter().map(whole).collect()
    }

    /// What was measured of windows whose steps have so many edges.
    pub fn measured(&self, windows: &[Range<Step>], edges: &[f64]) -> Vec<Measured> {
        let measured = |((window, stages), seconds): ((&Range<Step>, Stages), f64)| Measured {
            steps: window.len(),
            edges: edges[window.clone()].iter().sum(),
            seconds,
            rows: stages[2] + stages[3],
        };
        windows.iter().zip(self.stage_seconds()).zip(self.costs()).map(measured).collect()
    }

    /// The median seconds of each window's stages.
    fn stage_seconds(&self) -> Vec<Stages> {
        let stage = |times: &[Stages], stage: usize| median(times.iter().map(|times| times[stage]).collect());
        self.seconds.iter().map(|times| std::array::from_fn(|at| stage(times, at))).collect()
    }

    /// Fits the linear model and shares out what windows cost to their snapshots.
    pub fn fit(&mut self, windows: &[Range<Step>], edges: &[f64], vertices: usize) {
        self.model = CostModel::fit(&self.measured(windows, edges), vertices);
        let mut snapshots: BTreeMap<Step, (f64, Stages)> = BTreeMap::new();
        for (window, stages) in windows.iter().zip(self.stage_seconds()) {
            let all: f64 = edges[window.clone()].iter().sum();
            let even = 1.0 / window.len().max(1) as f64;
            for step in window.clone() {
                let by_edges = if all > 0.0 { edges[step] / all } else { even };
                let (seen, sums) = snapshots.entry(step).or_default();
                *seen += 1.0;
                for (at, share) in [(1, by_edges), (2, even), (3, even)] {
                    sums[at] += share * stages[at];
                }
            }
        }
        let cost = |(step, (seen, sums)): (Step, (f64, Stages))| {
            let mut stages = sums.map(|sum| sum / seen);
            stages[0] = median(self.reads.get(step).cloned().unwrap_or_default());
            SnapshotCost { step, edges: edges[step], stages }
        };
        self.snapshots = snapshots.into_iter().map(cost).collect();
    }

    /// The answer of a scheduler to what was measured.
    pub fn schedule(&self, scheduler: &str, workers: usize, most: usize, limit: &Limit) -> Result<Scheduled> {
        let mut instance = Instance::new(self.costs(), workers);
        instance.most = most;
        instance.overhead = self.closing;
        Ok(find(scheduler)?.schedule(&instance, limit)?)
    }
}

fn median(mut sorted: Vec<f64>) -> f64 {
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        length if length % 2 == 1 => sorted[length / 2],
        length => (sorted[length / 2 - 1] + sorted[length / 2]) / 2.0,
    }
}

/// This machine's processor, where it tells, and the threads of a worker.
pub(crate) fn machine(threads: usize) -> String {
    let facts = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = facts.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or_default();
    let name = name.trim_start_matches([' ', '\t', ':']);
    format!("{} threads of {}", threads, if name.is_empty() { std::env::consts::ARCH } else { name })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outliers_are_dropped_and_snapshots_get_their_shares() {
        let mut profile = Profile::new(20);
        let edges: Vec<f64> = (0..21).map(|step| 1000.0 + 50.0 * f64::from(step)).collect();
        let windows: Vec<Range<Step>> = (0..20).map(|start| start..start + 2).collect();
        for epoch in 0..3 {
            for (number, window) in windows.iter().enumerate() {
                let hiccup = if number == 7 && epoch == 1 { 5.0 } else { 0.0 };
                let structure = 1e-5 * edges[window.clone()].iter().sum::<f64>();
                profile.add(number, [0.02, structure, 0.04, hiccup]);
                window.clone().for_each(|step| profile.add_read(step, 0.01));
            }
        }
        let expected = 1e-5 * (edges[7] + edges[8]) + 0.06;
        assert!((profile.costs()[7] - expected).abs() < 1e-12);
        profile.fit(&windows, &edges, 100);
        let model = profile.model.unwrap();
        assert!((model.edge - 1e-5).abs() < 1e-9 && model.error < 1e-9, "{model:?}");
        assert_eq!(profile.snapshots.len(), 21);
        for cost in &profile.snapshots {
            let whole = [0.01, 1e-5 * edges[cost.step], 0.02, 0.0];
            assert!(cost.stages.iter().zip(whole).all(|(one, other)| (one - other).abs() < 1e-9), "{cost:?}");
        }
        let found = profile.schedule("dygnex-g", 3, 2, &Limit::default()).unwrap();
        let mut groups: Vec<usize> = found.schedule.iterations.concat().concat();
        groups.sort_unstable();
        assert_eq!(groups, (0..20).collect::<Vec<_>>());
    }
}
