//! What windows and snapshots cost, measured while training.
//!
//! DyGNeX (5.3, appendix G) measures for some epochs and drops outliers; here a window, or a snapshot, costs the median of its times. The
//! linear model ([`CostModel`]) tells how far costs could have been told beforehand.
//!
//! Reading is timed for each snapshot, and everything else operation by operation, forth and back ([`kymo_tensor::clock`]): an operation is
//! for the latest snapshot that it is computed from. Rows are worked out in blocks, possibly several at a time; what they took together is
//! brought down to the seconds that passed. What is for no single snapshot (decoder, loss, attention over a whole window, what is
//! no operation) is the window's own and is not shared out: schedulers and the linear model go by whole windows. Sums over workers and the
//! optimiser's step close an iteration and are in no window.

mod times;

pub use times::{EXPLAINED, STAGES, Stages, WindowTimes};

use std::collections::BTreeMap;
use std::ops::Range;

use kymo_graph::Step;
use kymo_plan::schedule::{Instance, Limit, Scheduled, find};
use serde::{Deserialize, Serialize};

use crate::cost_model::{CostModel, Measured};
use crate::error::Result;

/// What was measured of windows, in the order of time.
///
/// Lists of seconds are as long as the list of stages: whoever reads a file of an earlier version finds that one's stages.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// The machine and how many threads a worker has: other machines have other costs.
    pub machine: String,
    /// What the stages are called.
    pub stages: Vec<String>,
    /// What they are.
    #[serde(default)]
    pub explained: Vec<String>,
    /// Seconds of the stages of each window, one list for every epoch.
    pub seconds: Vec<Vec<Vec<f64>>>,
    /// Median seconds of the stages of each window that were for no single snapshot.
    #[serde(default)]
    pub common: Vec<Vec<f64>>,
    /// Seconds that closed each iteration, on average over an epoch; of several epochs, the median.
    pub closing: f64,
    /// The linear model of the windows' seconds, once there is one.
    pub model: Option<CostModel>,
    /// What each snapshot that is trained on cost.
    pub snapshots: Vec<SnapshotCost>,
    /// What was measured, window by window.
    #[serde(skip)]
    times: Vec<Vec<WindowTimes>>,
    /// What closed iterations, epoch by epoch.
    #[serde(skip)]
    closings: Vec<f64>,
}

/// What a snapshot cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SnapshotCost {
    /// Its step.
    pub step: usize,
    /// Its edges.
    pub edges: f64,
    /// Median seconds of its stages, over all windows it is in.
    pub stages: Vec<f64>,
}

impl Profile {
    /// Nothing measured of so many windows.
    pub fn new(windows: usize) -> Profile {
        Profile {
            machine: machine(rayon::current_num_threads()),
            stages: STAGES.map(String::from).to_vec(),
            explained: EXPLAINED.map(String::from).to_vec(),
            seconds: vec![Vec::new(); windows],
            times: vec![Vec::new(); windows],
            ..Profile::default()
        }
    }

    /// Adds what was measured of a window.
    pub fn add(&mut self, window: usize, times: WindowTimes) {
        if let (Some(seconds), Some(all)) = (self.seconds.get_mut(window), self.times.get_mut(window)) {
            seconds.push(times.total().to_vec());
            all.push(times);
        }
    }

    /// Adds the seconds that closed each iteration of an epoch.
    pub fn add_closing(&mut self, seconds: f64) {
        self.closings.push(seconds);
        self.closing = median(self.closings.clone());
    }

    /// Whether something is known of every window.
    pub fn is_complete(&self) -> bool {
        self.times.iter().all(|times| !times.is_empty())
    }

    /// What each window costs: the median of its times.
    pub fn costs(&self) -> Vec<f64> {
        let whole = |times: &Vec<Vec<f64>>| median(times.iter().map(|stages| stages.iter().sum()).collect());
        self.seconds.iter().map(whole).collect()
    }

    /// What was measured of windows whose steps have so many edges.
    pub fn measured(&self, windows: &[Range<Step>], edges: &[f64]) -> Vec<Measured> {
        let measured = |((window, times), seconds): ((&Range<Step>, &Vec<WindowTimes>), f64)| {
            let [_, aggregation, products, time, backward, _] = medians(times.iter().map(WindowTimes::total));
            // The way back is that of rows as far as the way forth was.
            let (rows, edges) = (products + time, edges[window.clone()].iter().sum());
            let back = backward * rows / (rows + aggregation).max(f64::MIN_POSITIVE);
            Measured { steps: window.len(), edges, seconds, rows: rows + back }
        };
        windows.iter().zip(&self.times).zip(self.costs()).map(measured).collect()
    }

    /// Fits the linear model, and works out what each snapshot cost.
    pub fn fit(&mut self, windows: &[Range<Step>], edges: &[f64], vertices: usize) {
        self.model = CostModel::fit(&self.measured(windows, edges), vertices);
        let common = |times: &Vec<WindowTimes>| medians(times.iter().map(|times| times.common)).to_vec();
        self.common = self.times.iter().map(common).collect();
        let mut snapshots: BTreeMap<Step, Vec<Stages>> = BTreeMap::new();
        for times in self.times.iter().flatten() {
            for (step, &stages) in (times.start..).zip(&times.steps) {
                snapshots.entry(step).or_default().push(stages);
            }
        }
        let cost = |(step, times): (Step, Vec<Stages>)| SnapshotCost {
            step,
            edges: edges[step],
            stages: medians(times.into_iter()).to_vec(),
        };
        self.snapshots = snapshots.into_iter().map(cost).collect();
    }

    /// The answer of a scheduler to what was measured.
    pub fn schedule(&self, scheduler: &str, workers: usize, most: usize, limit: &Limit) -> Result<Scheduled> {
        schedule(self.costs(), self.closing, scheduler, [workers, most], limit)
    }
}

/// The answer of a scheduler to windows that cost so many seconds, where so many more close an iteration in which each of so many workers
/// has at most so many windows.
pub fn schedule(
    costs: Vec<f64>,
    closing: f64,
    scheduler: &str,
    [workers, most]: [usize; 2],
    limit: &Limit,
) -> Result<Scheduled> {
    let mut instance = Instance::new(costs, workers);
    instance.most = most;
    instance.overhead = closing;
    Ok(find(scheduler)?.schedule(&instance, limit)?)
}

/// The median seconds of each stage.
fn medians(times: impl Iterator<Item = Stages>) -> Stages {
    let times: Vec<Stages> = times.collect();
    std::array::from_fn(|stage| median(times.iter().map(|stages| stages[stage]).collect()))
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
    fn outliers_are_dropped_and_snapshots_keep_what_was_measured_of_them() {
        let mut profile = Profile::new(20);
        let edges: Vec<f64> = (0..21).map(|step| 1000.0 + 50.0 * f64::from(step)).collect();
        let windows: Vec<Range<Step>> = (0..20).map(|start| start..start + 2).collect();
        let whole = |step: Step| [0.01, 1e-5 * edges[step], 0.02, 0.0, 0.01, 0.0];
        for epoch in 0..3 {
            for (number, window) in windows.iter().enumerate() {
                let hiccup = if number == 7 && epoch == 1 { 5.0 } else { 0.0 };
                let steps = window.clone().map(whole).collect();
                let common = [0.0, 0.0, 0.002, 0.0, 0.0, 0.001 + hiccup];
                profile.add(number, WindowTimes { start: window.start, steps, common });
            }
        }
        assert!(profile.is_complete() && !Profile::new(1).is_complete());
        [0.5, 9.0, 0.25].into_iter().for_each(|seconds| profile.add_closing(seconds));
        assert_eq!(profile.closing, 0.5);
        let expected = 1e-5 * (edges[7] + edges[8]) + 0.083;
        assert!((profile.costs()[7] - expected).abs() < 1e-12);
        profile.fit(&windows, &edges, 100);
        let model = profile.model.unwrap();
        assert!((model.edge - 1e-5).abs() < 1e-9 && model.error < 1e-9, "{model:?}");
        assert_eq!(profile.common, vec![vec![0.0, 0.0, 0.002, 0.0, 0.0, 0.001]; 20]);
        assert_eq!(profile.snapshots.len(), 21);
        profile.snapshots.iter().for_each(|cost| assert_eq!(cost.stages, whole(cost.step)));
        let found = profile.schedule("dygnex-g", 3, 2, &Limit::default()).unwrap();
        let mut groups: Vec<usize> = found.schedule.iterations.concat().concat();
        groups.sort_unstable();
        assert_eq!(groups, (0..20).collect::<Vec<_>>());
        // What is written can be read, and so can what versions before this one wrote.
        let text = serde_json::to_string(&profile).unwrap();
        assert_eq!(serde_json::from_str::<Profile>(&text).unwrap().costs(), profile.costs());
        let earlier = r#"{"machine": "", "stages": ["load", "structure", "rows", "back"], "seconds": [[[1, 2, 3, 4]]],
            "closing": 0, "model": null, "shared_out": [], "snapshots": [{"step": 0, "edges": 1, "stages": [1, 2, 3, 4]}]}"#;
        assert_eq!(serde_json::from_str::<Profile>(earlier).unwrap().costs(), [10.0]);
    }

    #[test]
    fn what_is_no_operation_is_the_rest_of_the_window() {
        let counted =
            kymo_tensor::Times { steps: vec![[0.1, 0.2, 0.3, 0.4]; 2], window: [0.0, 0.5, 0.0, 0.5] };
        let times = WindowTimes::new(3, &[0.25; 3], &counted, 5.0);
        assert_eq!(times.steps[1], [0.25, 0.1, 0.2, 0.3, 0.4, 0.0]);
        assert_eq!(times.steps[2], [0.25, 0.0, 0.0, 0.0, 0.0, 0.0]);
        assert!((times.total().iter().sum::<f64>() - 5.0).abs() < 1e-12 && times.common[2] == 0.5);
    }
}
