//! What windows cost: measured while training, and as a linear function of their edges.
//!
//! DyGNeX (5.3, appendix G) measures for some epochs and drops outliers; here a window costs the median of its times. The cost
//! model `seconds = a * edges + b` tells how far costs could have been told beforehand: it is fitted to four of five windows, and
//! its error is that on the fifth. Every window has all vertices, so their number is part of `b`.

use kymo_plan::schedule::{Instance, Limit, Scheduled, find};
use serde::{Deserialize, Serialize};

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
}

/// `seconds = edges * each + constant`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct CostModel {
    /// Seconds of an edge.
    pub each: f64,
    /// Seconds of a window whatever its edges.
    pub constant: f64,
    /// Its mean error on windows it was not fitted to, relative to their seconds.
    pub error: f64,
}

impl Profile {
    /// Nothing measured of so many windows.
    pub fn new(windows: usize) -> Profile {
        let stages = STAGES.map(String::from).to_vec();
        Profile { machine: machine(), stages, seconds: vec![Vec::new(); windows], ..Profile::default() }
    }

    /// Adds the times of a window.
    pub fn add(&mut self, window: usize, stages: Stages) {
        if let Some(times) = self.seconds.get_mut(window) {
            times.push(stages);
        }
    }

    /// What each window costs: the median of its times.
    pub fn costs(&self) -> Vec<f64> {
        let whole = |times: &Vec<Stages>| median(times.iter().map(|stages| stages.iter().sum()).collect());
        self.seconds.iter().map(whole).collect()
    }

    /// Fits the linear model to windows of so many edges.
    pub fn fit(&mut self, edges: &[f64]) {
        let costs = self.costs();
        let pairs: Vec<(f64, f64)> =
            edges.iter().copied().zip(costs).filter(|(_, cost)| *cost > 0.0).collect();
        let (held, fitted): (Vec<_>, Vec<_>) =
            pairs.iter().enumerate().partition(|(number, _)| number % 5 == 4);
        let line = |pairs: &[(usize, &(f64, f64))]| {
            let count = pairs.len().max(1) as f64;
            let mean =
                |of: fn(&(f64, f64)) -> f64| pairs.iter().map(|(_, pair)| of(pair)).sum::<f64>() / count;
            let (x, y) = (mean(|pair| pair.0), mean(|pair| pair.1));
            let variance: f64 = pairs.iter().map(|(_, pair)| (pair.0 - x) * (pair.0 - x)).sum();
            let covariance: f64 = pairs.iter().map(|(_, pair)| (pair.0 - x) * (pair.1 - y)).sum();
            let each = if variance > 0.0 { covariance / variance } else { 0.0 };
            (each, y - each * x)
        };
        if fitted.is_empty() || held.is_empty() {
            return;
        }
        let (each, constant) = line(&fitted);
        let off = |(_, pair): &(usize, &(f64, f64))| (each * pair.0 + constant - pair.1).abs() / pair.1;
        let error = held.iter().map(off).sum::<f64>() / held.len() as f64;
        self.model = Some(CostModel { each, constant, error });
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

/// This machine's processor, where it tells, and the threads of this worker.
fn machine() -> String {
    let facts = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = facts.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or_default();
    let name = name.trim_start_matches([' ', '\t', ':']);
    format!(
        "{} threads of {}",
        rayon::current_num_threads(),
        if name.is_empty() { std::env::consts::ARCH } else { name }
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outliers_are_dropped_and_the_model_tells_its_error() {
        let mut profile = Profile::new(20);
        let edges: Vec<f64> = (0..20).map(|window| 1000.0 + 50.0 * f64::from(window)).collect();
        for epoch in 0..3 {
            for (window, edges) in edges.iter().enumerate() {
                let hiccup = if window == 7 && epoch == 1 { 5.0 } else { 0.0 };
                profile.add(window, [0.02, 1e-5 * edges, 0.0, hiccup]);
            }
        }
        assert!((profile.costs()[7] - (1e-5 * edges[7] + 0.02)).abs() < 1e-12);
        profile.fit(&edges);
        let model = profile.model.unwrap();
        assert!(
            (model.each - 1e-5).abs() < 1e-9 && (model.constant - 0.02).abs() < 1e-6 && model.error < 1e-9
        );
        let found = profile.schedule("dygnex-g", 3, 2, &Limit::default()).unwrap();
        let mut groups: Vec<usize> = found.schedule.iterations.concat().concat();
        groups.sort_unstable();
        assert_eq!(groups, (0..20).collect::<Vec<_>>());
    }
}
