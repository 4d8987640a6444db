//! `tune.json`: which settings were tried, and how they did.

use serde::{Deserialize, Serialize};

use super::record;

/// Settings that were tried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TuneRecord {
    /// The version of this layout.
    #[serde(default, serialize_with = "TuneRecord::write_version")]
    pub version: u32,
    /// What was asked for, as TOML: all settings of the first trial.
    pub settings: String,
    /// The settings that were tried, each as `KEY=A,B,...` or `KEY=LOW..HIGH`.
    pub space: Vec<String>,
    /// How many trials there are.
    pub trials: usize,
    /// The metric of the validation that decides.
    pub metric: String,
    /// Whether more of it is better.
    pub higher_is_better: bool,
    /// How many trials were trained up to which epoch, one rung after the other.
    pub rungs: Vec<[usize; 2]>,
    /// What came of the trials that were trained so far, in the order of their numbers.
    pub results: Vec<TrialRecord>,
    /// The best of all that were trained to the end, once they are.
    #[serde(default)]
    pub best: Option<usize>,
}

/// A trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrialRecord {
    /// Its number; its run is in the folder `trial-NUMBER`.
    pub trial: usize,
    /// What it has other than the first.
    pub settings: Vec<(String, String)>,
    /// Epochs it was trained for; fewer than asked where its validation stopped getting better.
    pub epochs: usize,
    /// The best validation so far.
    #[serde(default)]
    pub value: Option<f64>,
    /// Why it could not be trained.
    #[serde(default)]
    pub problem: Option<String>,
}

record!(TuneRecord, 1, "what was tried", "tune into a new folder");

#[cfg(test)]
mod tests {
    use super::super::record::tests::check;
    use super::*;

    #[test]
    fn what_was_tried_comes_back() {
        let trial = |trial: usize, value: Option<f64>| TrialRecord {
            trial,
            settings: vec![("model.hidden".into(), "64".into())],
            epochs: 6,
            value,
            problem: value.is_none().then(|| "no".into()),
        };
        let record = TuneRecord {
            version: TuneRecord::VERSION,
            settings: "[model]\n".into(),
            space: vec!["model.hidden=32,64".into()],
            trials: 3,
            metric: "mse".into(),
            higher_is_better: false,
            rungs: vec![[3, 6]],
            results: vec![trial(0, Some(0.5)), trial(1, None)],
            best: Some(0),
        };
        check(&record, "space");
    }
}
