//! `schedule.json`: which worker trains which windows, and what the scheduler expected of it.

use serde::{Deserialize, Serialize};

use super::{number, record};

/// A schedule and what is known of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScheduleRecord {
    /// The version of this layout.
    #[serde(default, serialize_with = "ScheduleRecord::write_version")]
    pub version: u32,
    /// The strategy that was asked for.
    pub strategy: String,
    /// The scheduler that made it, which is another where the strategy fell back to one; empty in files
    /// written before this was told.
    #[serde(default)]
    pub by: String,
    /// Something to know about how it was made, such as why the strategy fell back to another scheduler.
    #[serde(default)]
    pub note: Option<String>,
    /// Seconds of an epoch: of every iteration its slowest worker and what closes it.
    #[serde(deserialize_with = "number::one")]
    pub seconds: f64,
    /// Predicted seconds of an epoch: less than `seconds` where workers share cores, because those that are
    /// done leave theirs to the others. 0 in files written before this was predicted.
    #[serde(default, deserialize_with = "number::one")]
    pub predicted: f64,
    /// Seconds that the first epoch by this schedule took for each second predicted; nothing before that
    /// epoch. Windows now run beside others than those they were measured beside; later epochs are expected
    /// to take `predicted` times this.
    #[serde(default)]
    pub calibration: Option<f64>,
    /// Seconds that no schedule can beat.
    #[serde(deserialize_with = "number::one")]
    pub bound: f64,
    /// The proven gap between `seconds` and `bound`, as a share of the bound.
    #[serde(deserialize_with = "number::one")]
    pub gap: f64,
    /// Optimiser steps in an epoch.
    pub optimiser_steps: usize,
    /// Milliseconds it took to find.
    #[serde(deserialize_with = "number::one")]
    pub milliseconds: f64,
    /// `iterations[i][j]`: the windows that worker `j` trains in iteration `i`, in order.
    pub iterations: Vec<Vec<Vec<usize>>>,
}

record!(ScheduleRecord, 1, "a schedule", "restore the file, or train the model again");

#[cfg(test)]
mod tests {
    use super::super::record::{from_json, tests::check};
    use super::*;

    #[test]
    fn schedules_come_back_and_those_without_later_fields_are_read() {
        let schedule = ScheduleRecord {
            version: ScheduleRecord::VERSION,
            strategy: "dygnex-l".into(),
            by: "dygnex-g".into(),
            note: Some("the integer program found nothing in time".into()),
            seconds: 0.3,
            predicted: 0.2,
            calibration: Some(1.1),
            bound: 0.25,
            gap: 0.2,
            optimiser_steps: 2,
            milliseconds: 0.5,
            iterations: vec![vec![vec![0, 1], vec![2]], vec![vec![], vec![3]]],
        };
        check(&schedule, "iterations");
        check(&ScheduleRecord { note: None, calibration: None, ..schedule }, "bound");
        let first = r#"{"strategy": "blad", "seconds": 1, "bound": 0, "gap": null, "optimiser_steps": 1,
            "milliseconds": 1, "iterations": [[[0]]]}"#;
        let read: ScheduleRecord = from_json(first.as_bytes()).unwrap();
        assert_eq!((read.version, read.by.as_str(), read.predicted, read.calibration), (0, "", 0.0, None));
        assert!(read.gap.is_nan());
    }
}
