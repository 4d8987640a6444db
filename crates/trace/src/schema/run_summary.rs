//! `summary.json`: the outcome of a run that finished.

use serde::{Deserialize, Serialize};

use super::evaluation::{Evaluation, Metrics};
use super::group::GroupReport;
use super::{number, record};

/// The outcome of a run that finished.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunSummary {
    /// The version of this layout. In version 0 the imbalance of the workers' times is that of the busiest to
    /// the least busy worker; since version 1 it is that of the busiest worker to the mean.
    #[serde(default, serialize_with = "RunSummary::write_version")]
    pub version: u32,
    /// The model: a name of `kymo list models`.
    pub model: String,
    /// Parameters that were trained.
    pub parameters: usize,
    /// Epochs that were trained.
    pub epochs: usize,
    /// The epoch with the best validation, counted from 1; its parameters are those that are tested.
    pub best_epoch: usize,
    /// The metrics of the validation with those parameters.
    #[serde(deserialize_with = "number::named")]
    pub validation: Metrics,
    /// The test with those parameters.
    pub test: Evaluation,
    /// What windows were scheduled by: `measured`, `edges`, `cached`, or the path of a profile, as in
    /// `parallel.costs`; `null` where they were not scheduled. A run by `edges` or by a profile can be
    /// repeated to the bit.
    #[serde(default)]
    pub costs: Option<String>,
    /// Seconds spent on each kind of work, in the order in which they are shown.
    pub seconds: Vec<(String, f64)>,
    /// The share of these seconds that is neither training nor predicting, from 0 to 1.
    pub overhead: f64,
    /// The most bytes that the process held; 0 where the system does not tell.
    pub memory: u64,
    /// The most bytes that were allocated on a GPU, where one was used.
    #[serde(default)]
    pub device_memory: Option<u64>,
    /// How snapshots were held and read, at the first worker; missing in earlier files.
    #[serde(default)]
    pub snapshots: Option<SnapshotsHeld>,
    /// What each worker did, where there were several.
    #[serde(default)]
    pub workers: Option<GroupReport>,
}

/// How snapshots were held and read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SnapshotsHeld {
    /// Bytes of snapshots, features and products in memory in the end.
    pub bytes: u64,
    /// Bytes that all snapshots would take if each had its edges, matrices and features to itself.
    pub whole: u64,
    /// Steps in memory in the end.
    pub steps: usize,
    /// Seconds that reading and preparing snapshots took, at all threads that did it.
    pub reading: f64,
    /// Seconds that training and evaluation waited for snapshots.
    pub waited: f64,
}

impl SnapshotsHeld {
    /// The share of reading that nobody waited for, where something was read.
    pub fn hidden(&self) -> Option<f64> {
        (self.reading > 0.0).then(|| (1.0 - self.waited / self.reading).max(0.0))
    }
}

record!(RunSummary, 1, "the summary of a run", "restore the file, or train the model again");

#[cfg(test)]
mod tests {
    use super::super::evaluation::tests::{evaluation, metrics};
    use super::super::group::tests::group;
    use super::super::record::tests::check;
    use super::*;

    #[test]
    fn summaries_come_back_with_and_without_workers() {
        let alone = RunSummary {
            version: RunSummary::VERSION,
            model: "graphsage-linear".into(),
            parameters: 6241,
            epochs: 8,
            best_epoch: 7,
            validation: metrics(0.7),
            test: evaluation(),
            costs: None,
            seconds: vec![("training".into(), 0.2), ("loading".into(), 0.1)],
            overhead: 0.1 / 0.3,
            memory: 47_292_416,
            device_memory: None,
            snapshots: None,
            workers: None,
        };
        check(&alone, "model");
        let together = RunSummary {
            costs: Some("edges".into()),
            device_memory: Some(1 << 30),
            snapshots: Some(SnapshotsHeld { bytes: 5, whole: 20, steps: 3, reading: 4.0, waited: 1.0 }),
            workers: Some(group()),
            ..alone
        };
        check(&together, "test");
        let value = serde_json::to_value(&together).unwrap();
        assert_eq!(value["seconds"][1], serde_json::json!(["loading", 0.1]));
        assert_eq!(together.snapshots.unwrap().hidden(), Some(0.75));
        assert_eq!(SnapshotsHeld::default().hidden(), None, "nothing was read");
        let waited = SnapshotsHeld { reading: 1.0, waited: 1.5, ..Default::default() };
        assert_eq!(waited.hidden(), Some(0.0));
    }
}
