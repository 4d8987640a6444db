//! `plan.json`: what every worker was expected to do in an epoch, and which windows it was given.

use std::ops::Range;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{number, record};

/// What all workers were expected to do in an epoch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanRecord {
    /// The version of this layout.
    #[serde(default, serialize_with = "PlanRecord::write_version")]
    pub version: u32,
    /// The strategy that divides the work: a name of `kymo list strategies`.
    pub strategy: String,
    /// One entry for each worker.
    pub workers: Vec<PlannedWorker>,
    /// Windows of an epoch.
    pub windows: usize,
    /// Iterations of an epoch, which are steps of the optimiser.
    pub iterations: usize,
    /// Predicted seconds of an epoch.
    #[serde(deserialize_with = "number::one")]
    pub seconds: f64,
    /// Seconds of an epoch that no schedule can beat, where windows are scheduled.
    #[serde(default)]
    pub bound: Option<f64>,
    /// Edges between vertices of different workers, over all steps that are trained on.
    pub edge_cut: u64,
    /// Who trains what, in order.
    #[serde(default)]
    pub epoch: PlannedEpoch,
}

record!(PlanRecord, 1, "a plan", "restore the file, or make the plan again (kymo plan)");

/// What one worker was expected to do in an epoch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlannedWorker {
    /// Vertices and steps that it works on, each counted in every window.
    pub cells: u64,
    /// Edges that end there.
    pub edges: u64,
    /// Bytes it sends.
    pub sent: PlannedBytes,
    /// Bytes of memory it needs at least: the snapshots of a window, what is computed with them, parameters.
    pub memory: u64,
    /// Bytes of memory with which all its snapshots and products stay; 0 in earlier files.
    #[serde(default)]
    pub most: u64,
    /// Seconds of computing.
    #[serde(deserialize_with = "number::one")]
    pub seconds: f64,
}

/// Bytes that a worker was expected to send in an epoch, by what they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedBytes {
    /// Rows of neighbours, and their gradients.
    pub neighbours: u64,
    /// States that move with their vertices from step to step, and their gradients.
    pub states: u64,
    /// Rows that move between structure and time encoders, and their gradients.
    pub shuffled: u64,
    /// Rows that all workers need, and their gradients.
    pub collected: u64,
    /// Rows of the other ends of pairs that a task asks about, and their gradients.
    pub pairs: u64,
    /// Vertex numbers that go with collected rows.
    pub named: u64,
    /// Gradients of parameters.
    pub gradients: u64,
}

/// The iterations of one epoch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlannedEpoch {
    /// The epoch it is planned for.
    pub epoch: usize,
    /// Its iterations, in order.
    pub iterations: Vec<PlannedIteration>,
}

/// One iteration: what leads to one step of the optimiser.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlannedIteration {
    /// `workers[w]`: the batches of worker `w`, in order.
    pub workers: Vec<Vec<PlannedBatch>>,
}

/// Windows that a worker trains together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlannedBatch {
    /// The windows.
    pub windows: Vec<PlannedWindow>,
    /// Which targets are trained on, where not all are; its layout belongs to the planner and may change
    /// without a new version.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub targets: Value,
    /// Which neighbours are looked at, where not all are; its layout belongs to the planner and may change
    /// without a new version.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub neighbourhood: Value,
}

/// A window of a batch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlannedWindow {
    /// Its number, in the order of time.
    pub number: usize,
    /// Its steps: from `start`, up to and without `end`.
    pub steps: Range<usize>,
    /// What sets its random numbers apart from those of other windows and epochs.
    pub salt: u64,
}

#[cfg(test)]
mod tests {
    use super::super::record::{from_json, tests::check};
    use super::*;

    fn plan() -> PlanRecord {
        let window = |number: usize| PlannedWindow { number, steps: number..number + 4, salt: u64::MAX };
        let all = PlannedBatch { windows: vec![window(0), window(1)], ..Default::default() };
        let some = PlannedBatch {
            windows: vec![window(2)],
            targets: serde_json::json!({ "vertices": [1, 2] }),
            neighbourhood: serde_json::json!([10, 5]),
        };
        let sent = PlannedBytes {
            neighbours: 1,
            states: 2,
            shuffled: 3,
            collected: 4,
            pairs: 5,
            named: 6,
            gradients: 7,
        };
        let worker = PlannedWorker { cells: 10, edges: 20, sent, memory: 30, most: 40, seconds: 0.5 };
        PlanRecord {
            version: PlanRecord::VERSION,
            strategy: "pts".into(),
            workers: vec![worker; 2],
            windows: 3,
            iterations: 1,
            seconds: 0.1,
            bound: Some(0.05),
            edge_cut: 9,
            epoch: PlannedEpoch {
                epoch: 0,
                iterations: vec![PlannedIteration { workers: vec![vec![all], vec![some]] }],
            },
        }
    }

    #[test]
    fn plans_come_back_and_what_is_the_default_is_left_out() {
        check(&plan(), "edge_cut");
        let value = serde_json::to_value(plan()).unwrap();
        let workers = &value["epoch"]["iterations"][0]["workers"];
        let window = serde_json::json!({ "number": 1, "steps": { "start": 1, "end": 5 }, "salt": u64::MAX });
        assert_eq!(workers[0][0]["windows"][1], window);
        assert_eq!(workers[0][0].as_object().unwrap().len(), 1);
        assert_eq!(workers[1][0]["neighbourhood"], serde_json::json!([10, 5]));
    }

    /// What serde writes for `kymo_plan::Plan`, without and with an epoch.
    #[test]
    fn what_the_planner_writes_is_read() {
        let sent = r#"{"neighbours": 1, "states": 2, "shuffled": 3, "collected": 4, "pairs": 5, "named": 6,
            "gradients": 7}"#;
        let worker = format!(
            r#"{{"cells": 10, "edges": 20, "sent": {sent}, "memory": 30, "most": 40, "seconds": 0.5}}"#
        );
        let plan_of = |epoch: &str| {
            let text = format!(
                r#"{{"strategy": "pts", "workers": [{worker}, {worker}], "windows": 3, "iterations": 1,
                "seconds": 0.1, "bound": null, "edge_cut": 9{epoch}}}"#
            );
            from_json::<PlanRecord>(text.as_bytes()).unwrap()
        };
        let without = PlanRecord { version: 0, bound: None, epoch: PlannedEpoch::default(), ..plan() };
        assert_eq!(plan_of(""), without);
        let batch = r#"{"windows": [{"number": 0, "steps": {"start": 2, "end": 6}, "salt": 3}]}"#;
        let epoch = format!(r#", "epoch": {{"epoch": 1, "iterations": [{{"workers": [[{batch}], []]}}]}}"#);
        let read = plan_of(&epoch).epoch;
        assert_eq!((read.epoch, read.iterations[0].workers.len()), (1, 2));
        let window = &read.iterations[0].workers[0][0].windows[0];
        assert_eq!((window.steps.clone(), window.salt), (2..6, 3));
        assert!(read.iterations[0].workers[0][0].targets.is_null());
    }
}
