//! What windows and snapshots cost, measured while training.
//!
//! DyGNeX (5.3, appendix G) measures for some epochs and drops outliers; here a window, or a snapshot, costs
//! the median of its times. The linear model ([`CostModel`]) tells how far costs could have been told
//! beforehand.
//!
//! Reading is timed for each snapshot, and everything else operation by operation, forward and backward
//! ([`kymo_tensor::clock`]): an operation counts for the latest snapshot that it is computed from. Rows are
//! computed in blocks, possibly several at a time; what they took together is scaled down to the seconds that
//! passed. What belongs to no single snapshot (decoder, loss, attention over a whole window, what is no
//! operation) is the window's own and is not divided among snapshots: schedulers and the linear model go by
//! whole windows. Sums over workers and the optimiser's step close an iteration and are in no window.

use std::collections::BTreeMap;
use std::ops::Range;

use kymo_graph::Step;
use kymo_plan::schedule::Reuse;
use kymo_trace::schema::{EXPLAINED, ProfileRecord, STAGES, SnapshotCost};

use super::cost_model::{CostModel, Measured};
use crate::error::Result;
use crate::step::{Stages, WindowTimes};

/// What was measured of windows, in the order of time.
#[derive(Clone, Debug)]
pub struct Profile {
    /// What is written of it.
    record: ProfileRecord,
    /// The linear model of the windows' seconds, once there is one.
    pub model: Option<CostModel>,
    /// Seconds that closed each iteration, on average over an epoch; of several epochs, the median.
    pub closing: f64,
    /// What was measured, window by window.
    times: Vec<Vec<WindowTimes>>,
    /// What closed iterations, epoch by epoch.
    closings: Vec<f64>,
}

/// What was measured so far, as a checkpoint keeps it.
///
/// Seconds of windows are numbers of `f32`, also while they are not saved: a run that is resumed goes on with
/// the numbers it had.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Measurements {
    /// Windows of whole epochs.
    pub whole: Vec<WindowTimes>,
    /// What closed iterations, epoch by epoch.
    pub closings: Vec<f64>,
    /// Windows of the epoch under way, worker by worker.
    pub under_way: Vec<Vec<WindowTimes>>,
    /// Seconds that the epoch under way has taken.
    pub seconds: f64,
}

/// What was measured, as it is kept.
pub(super) fn rounded(mut times: WindowTimes) -> WindowTimes {
    let stages = times.steps.iter_mut().chain([&mut times.common]);
    stages.flatten().for_each(|seconds| *seconds = f64::from(*seconds as f32));
    times
}

/// What each window of a profile costs: the median of its times.
pub fn costs(record: &ProfileRecord) -> Vec<f64> {
    let whole = |times: &Vec<Vec<f64>>| median(times.iter().map(|stages| stages.iter().sum()).collect());
    record.seconds.iter().map(whole).collect()
}

/// Seconds of a stage in an epoch: of each window the median; nothing where the profile has no such stage.
pub fn stage(record: &ProfileRecord, name: &str) -> f64 {
    let Some(place) = record.stages.iter().position(|stage| stage == name) else { return 0.0 };
    let of = |times: &Vec<Vec<f64>>| median(times.iter().map(|stages| stages[place]).collect());
    record.seconds.iter().map(of).sum()
}

/// What windows of a profile save each other that are run together: the measured part of what the snapshots
/// cost that they share (REAL, appendix G); nothing where that was not measured.
pub fn reuse(record: &ProfileRecord, windows: &[Range<Step>]) -> Result<Reuse> {
    let Some(ratio) = record.reuse else { return Ok(Reuse::None) };
    let mut steps = vec![0.0; windows.iter().map(|window| window.end).max().unwrap_or(0)];
    for snapshot in &record.snapshots {
        if let Some(seconds) = steps.get_mut(snapshot.step) {
            *seconds = snapshot.stages.iter().sum();
        }
    }
    Ok(Reuse::from_snapshots(ratio, windows, &steps)?.within(&costs(record)))
}

impl Profile {
    /// Nothing measured of any window.
    pub fn new(windows: usize) -> Profile {
        let record = ProfileRecord {
            machine: machine(rayon::current_num_threads()),
            stages: STAGES.map(String::from).to_vec(),
            explained: EXPLAINED.map(String::from).to_vec(),
            seconds: vec![Vec::new(); windows],
            version: ProfileRecord::VERSION,
            common: Vec::new(),
            closing: 0.0,
            reuse: None,
            model: None,
            snapshots: Vec::new(),
        };
        Profile { record, model: None, closing: 0.0, times: vec![Vec::new(); windows], closings: Vec::new() }
    }

    /// What was measured of these windows in whole epochs before.
    pub fn of(windows: &[Range<Step>], saved: Measurements) -> Profile {
        let mut profile = Profile::new(windows.len());
        for times in saved.whole {
            profile.add(windows.partition_point(|window| window.start < times.start), times);
        }
        saved.closings.into_iter().for_each(|seconds| profile.add_closing(seconds));
        profile
    }

    /// What was measured in whole epochs.
    pub fn measurements(&self) -> Measurements {
        let whole = self.times.iter().flatten().cloned().collect();
        Measurements { whole, closings: self.closings.clone(), ..Measurements::default() }
    }

    /// What is written of it.
    pub fn record(&self) -> ProfileRecord {
        let model = self.model.map(Into::into);
        ProfileRecord { model, closing: self.closing, ..self.record.clone() }
    }

    /// Adds what was measured of a window.
    pub fn add(&mut self, window: usize, times: WindowTimes) {
        if let (Some(seconds), Some(all)) = (self.record.seconds.get_mut(window), self.times.get_mut(window))
        {
            seconds.push(times.total().to_vec());
            all.push(times);
        }
    }

    /// Takes in what neighbouring windows save that are run together: of each pair, told by the number of the
    /// first, the part of the seconds of both. The part of a common snapshot's seconds that this comes to;
    /// nothing where windows have none.
    pub fn add_savings(&mut self, windows: &[Range<Step>], saved: &[(usize, f64)]) -> Option<f64> {
        let costs = self.costs();
        let seconds: BTreeMap<Step, f64> =
            self.record.snapshots.iter().map(|cost| (cost.step, cost.stages.iter().sum())).collect();
        let ratio = |&(first, saved): &(usize, f64)| {
            let common = windows[first + 1].start..windows[first].end;
            let of = |step: Step| seconds.get(&step).copied().unwrap_or(0.0);
            let common: f64 = common.map(of).sum();
            (common > 0.0).then(|| saved * (costs[first] + costs[first + 1]) / common)
        };
        let ratios: Vec<f64> = saved.iter().filter_map(ratio).collect();
        self.record.reuse = (!ratios.is_empty()).then(|| median(ratios).clamp(0.0, 1.0));
        self.record.reuse
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
        costs(&self.record)
    }

    /// What was measured of windows, with the edges of their steps.
    pub fn measured(&self, windows: &[Range<Step>], edges: &[f64]) -> Vec<Measured> {
        let measured = |((window, times), seconds): ((&Range<Step>, &Vec<WindowTimes>), f64)| {
            let [_, aggregation, products, time, backward, _] = medians(times.iter().map(WindowTimes::total));
            // The backward pass was spent on rows as far as the forward pass was.
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
        self.record.common = self.times.iter().map(common).collect();
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
        self.record.snapshots = snapshots.into_iter().map(cost).collect();
    }
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
        assert_eq!(profile.record().common, vec![vec![0.0, 0.0, 0.002, 0.0, 0.0, 0.001]; 20]);
        let snapshots = profile.record().snapshots;
        assert_eq!(snapshots.len(), 21);
        snapshots.iter().for_each(|cost| assert_eq!(cost.stages, whole(cost.step)));
        // What is written can be read, and tells the same costs.
        let text = serde_json::to_string(&profile.record()).unwrap();
        let read: ProfileRecord = serde_json::from_str(&text).unwrap();
        assert_eq!((costs(&read), read.closing), (profile.costs(), 0.5));
        // Two neighbours have one snapshot in common, and saved a tenth of the time of both.
        let windows: Vec<Range<Step>> = (0..20).map(|start| start..start + 2).collect();
        let (saved, of) = (0.1 * (profile.costs()[4] + profile.costs()[5]), whole(5).iter().sum::<f64>());
        let ratio = profile.add_savings(&windows, &[(4, 0.1)]).unwrap();
        assert!((ratio - saved / of).abs() < 1e-12);
        let found = reuse(&profile.record(), &windows).unwrap();
        assert!((found.saved(4, 5) - saved).abs() < 1e-12 && found.saved(4, 6) == 0.0);
        assert_eq!(reuse(&read, &windows).unwrap(), Reuse::None);
        // Never more than either costs, whatever was measured; and nothing where nothing is in common.
        assert_eq!(profile.add_savings(&windows, &[(4, 3.0)]), Some(1.0));
        let apart: Vec<Range<Step>> = (0..20).map(|start| 2 * start..2 * start + 2).collect();
        assert_eq!(profile.add_savings(&apart, &[(4, 0.1)]), None);
        let far: Vec<Range<Step>> = (0..20).map(|start| 9 * start..9 * start + 2).collect();
        assert_eq!(profile.add_savings(&far, &[(1, 0.1)]), None);
        let earlier = r#"{
            "machine": "", "stages": ["load", "structure", "rows", "back"], "seconds": [[[1, 2, 3, 4]]],
            "closing": 0, "model": null, "shared_out": [],
            "snapshots": [{"step": 0, "edges": 1, "stages": [1, 2, 3, 4]}]
        }"#;
        assert_eq!(costs(&serde_json::from_str::<ProfileRecord>(earlier).unwrap()), [10.0]);
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
