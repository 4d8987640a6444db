//! A line of `metrics.jsonl`: what was measured in one epoch.

use serde::{Deserialize, Serialize};

use super::evaluation::Metrics;
use super::stale::StaleRecord;
use super::{number, record};

/// What was measured in one epoch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EpochRecord {
    /// The version of this layout.
    #[serde(default, serialize_with = "EpochRecord::write_version")]
    pub version: u32,
    /// The epoch, counted from 1.
    pub epoch: usize,
    /// The mean loss over its windows.
    #[serde(deserialize_with = "number::one")]
    pub loss: f64,
    /// The learning rate after it.
    pub learning_rate: f32,
    /// The metrics of the validation after it.
    #[serde(deserialize_with = "number::named")]
    pub validation: Metrics,
    /// Whether its validation is the best so far.
    pub best: bool,
    /// Seconds it took, validation included.
    pub seconds: f64,
    /// Edges trained on per second of training, each counted at every step of every window.
    pub edges_per_second: f64,
    /// Bytes that the process held after it; 0 where the system does not tell.
    pub memory: u64,
    /// What was saved by stale rows; missing where all are exact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stale: Option<StaleRecord>,
}

record!(EpochRecord, 1, "the record of an epoch", "remove the line");

#[cfg(test)]
mod tests {
    use super::super::evaluation::tests::metrics;
    use super::super::record::{from_json, tests::check};
    use super::*;

    #[test]
    fn records_come_back_and_losses_may_be_null() {
        let record = EpochRecord {
            version: EpochRecord::VERSION,
            epoch: 3,
            loss: 0.1,
            learning_rate: 0.01,
            validation: metrics(0.3),
            best: true,
            seconds: 0.25,
            edges_per_second: 1e7,
            memory: 44_539_904,
            stale: None,
        };
        check(&record, "epoch");
        assert!(!serde_json::to_string(&record).unwrap().contains("stale"));
        let stale = StaleRecord { sent: 5, saved: 7, error: 0.01, threshold: 0.5, distance: 1.5 };
        check(&EpochRecord { stale: Some(stale), ..record.clone() }, "epoch");
        let text = serde_json::to_vec(&EpochRecord { loss: f64::INFINITY, ..record }).unwrap();
        assert!(from_json::<EpochRecord>(&text).unwrap().loss.is_nan());
    }
}
