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
    /// Epochs that were done when it was followed for the first time; nothing in files written before this
    /// was told.
    #[serde(default)]
    pub epoch: Option<usize>,
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

record!(
    ScheduleRecord,
    1,
    "a schedule",
    "restore the file, or train the model again",
    ScheduleRecord::check_values
);

impl ScheduleRecord {
    /// Says which field has a value that no schedule has.
    fn check_values(&self) -> Result<(), String> {
        let seconds = [("seconds", self.seconds), ("predicted", self.predicted), ("bound", self.bound)];
        seconds
            .into_iter()
            .chain([("milliseconds", self.milliseconds), ("calibration", self.calibration.unwrap_or(0.0))])
            .try_for_each(|(field, seconds)| number::check_seconds(|| field.into(), seconds))?;
        let workers = self.iterations.first().map_or(0, Vec::len);
        let windows = self.iterations.iter().flatten().map(Vec::len).sum();
        check_iterations(&self.iterations, windows, workers)?;
        match self.optimiser_steps <= self.iterations.len() {
            true => Ok(()),
            false => Err(format!(
                "optimiser_steps is {}, but there are {} iterations",
                self.optimiser_steps,
                self.iterations.len()
            )),
        }
    }
}

/// Refuses iterations that do not train each of `windows` once, with `workers`; says where.
pub fn check_iterations(
    iterations: &[Vec<Vec<usize>>],
    windows: usize,
    workers: usize,
) -> Result<(), String> {
    let mut seen = vec![false; windows];
    for (i, bins) in iterations.iter().enumerate() {
        if bins.len() != workers {
            return Err(format!("iterations[{i}] is for {} workers, expected {workers}", bins.len()));
        }
        for (j, bin) in bins.iter().enumerate() {
            for &window in bin {
                let Some(seen) = seen.get_mut(window) else {
                    return Err(format!("iterations[{i}][{j}] has window {window}, there are {windows}"));
                };
                if std::mem::replace(seen, true) {
                    return Err(format!("iterations[{i}][{j}] has window {window} once more"));
                }
            }
        }
    }
    match seen.iter().position(|seen| !seen) {
        Some(window) => Err(format!("iterations has window {window} nowhere, there are {windows}")),
        None => Ok(()),
    }
}

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
            epoch: Some(4),
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
        assert_eq!(read.epoch, None);
        assert!(read.gap.is_nan());
    }

    /// Guards what is run or drawn by a damaged file: each wrong value is named by its field.
    #[test]
    fn values_that_cannot_be_are_refused_by_field() {
        let whole = r#"{"strategy": "blad", "seconds": 1, "predicted": 2, "bound": 0.5, "gap": 1,
            "optimiser_steps": 2, "milliseconds": 3, "iterations": [[[0, 1], [2]], [[3], []]]}"#;
        from_json::<ScheduleRecord>(whole.as_bytes()).unwrap();
        let cases = [
            ("\"seconds\": 1", "\"seconds\": null", "seconds is NaN"),
            ("\"predicted\": 2", "\"predicted\": -2", "predicted is -2"),
            ("\"bound\": 0.5", "\"bound\": 1e18", "bound is 1000000000000000000"),
            ("\"milliseconds\": 3", "\"milliseconds\": null", "milliseconds is NaN"),
            ("\"gap\"", "\"calibration\": -1, \"gap\"", "calibration is -1"),
            ("steps\": 2", "steps\": 1000000000000000000", "optimiser_steps is 1000000000000000000, but"),
            ("[3]", "[1000000000000000000]", "iterations[1][0] has window 1000000000000000000, there are 4"),
            ("[3]", "[4]", "iterations[1][0] has window 4, there are 4"),
            ("[3]", "[2]", "iterations[1][0] has window 2 once more"),
            ("[[3], []]", "[[3]]", "iterations[1] is for 1 workers, expected 2"),
            ("[3]", "[-1]", "invalid value: integer `-1`, expected usize at line 2"),
        ];
        for (from, to, expected) in cases {
            let damaged = whole.replacen(from, to, 1);
            assert_ne!(damaged, whole);
            let problem = from_json::<ScheduleRecord>(damaged.as_bytes()).unwrap_err();
            assert!(problem.contains(&format!("is not a schedule: {expected}")), "{to}: {problem}");
        }
        let problem = check_iterations(&[vec![vec![0], vec![2]]], 3, 2).unwrap_err();
        assert_eq!(problem, "iterations has window 1 nowhere, there are 3");
    }
}
