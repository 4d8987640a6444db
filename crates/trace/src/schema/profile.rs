//! `profile.json`: what windows and snapshots cost, measured while training.

use serde::{Deserialize, Serialize};

use super::{number, record};

/// The stages of training, in the order in which profiles list their seconds.
pub const STAGES: [&str; 6] = ["load", "aggregation", "products", "time encoder", "backward", "other"];

/// What the stages are.
pub const EXPLAINED: [&str; STAGES.len()] = [
    "reading a snapshot and its features, and building its matrices",
    "forward: what follows edges (sparse products, attention over neighbours)",
    "forward: dense products and everything else; for a window also its decoder and its loss",
    "forward: what follows time (recurrent cells, attention over time, weights that evolve)",
    "backward: the gradients of all of these",
    "for a window only: what is no operation (sampling pairs, summing gradients, keeping the tape)",
];

/// What was measured of windows, in the order of time.
///
/// Lists of seconds are as long as the list of stages, which is the file's own: earlier files have other
/// stages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProfileRecord {
    /// The version of this layout.
    #[serde(default, serialize_with = "ProfileRecord::write_version")]
    pub version: u32,
    /// The processor, and how many threads a worker has: other machines have other costs.
    pub machine: String,
    /// The names of the stages.
    pub stages: Vec<String>,
    /// What the stages are.
    #[serde(default)]
    pub explained: Vec<String>,
    /// `seconds[w][e][s]`: seconds of stage `s` of window `w` in the `e`-th epoch in which it was measured.
    #[serde(deserialize_with = "number::lists")]
    pub seconds: Vec<Vec<Vec<f64>>>,
    /// `common[w][s]`: median seconds of stage `s` of window `w` that belong to no single snapshot.
    #[serde(default)]
    pub common: Vec<Vec<f64>>,
    /// Seconds that close an iteration (summing gradients, the optimiser's step): the mean over an epoch, and
    /// of several epochs the median.
    #[serde(deserialize_with = "number::one")]
    pub closing: f64,
    /// The part of a snapshot's seconds that two windows save which have it in common and are run together;
    /// missing where that was not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reuse: Option<f64>,
    /// The linear model of the costs, where there are enough windows to fit one.
    #[serde(default)]
    pub model: Option<CostModelRecord>,
    /// What each snapshot that is trained on cost.
    pub snapshots: Vec<SnapshotCost>,
}

record!(
    ProfileRecord,
    1,
    "a profile",
    "restore the file, or measure again by training with a scheduler",
    ProfileRecord::check_values
);

impl ProfileRecord {
    /// Says which field has a value that cannot have been measured.
    fn check_values(&self) -> Result<(), String> {
        let stages = self.stages.len();
        let check = |field: &dyn Fn() -> String, seconds: &[f64]| {
            if seconds.len() != stages {
                let (field, found) = (field(), seconds.len());
                return Err(format!("{field} has {found} numbers, expected one for each of {stages} stages"));
            }
            let numbered = seconds.iter().enumerate();
            numbered
                .into_iter()
                .try_for_each(|(s, &seconds)| number::check_seconds(|| format!("{}[{s}]", field()), seconds))
        };
        for (w, epochs) in self.seconds.iter().enumerate() {
            for (e, seconds) in epochs.iter().enumerate() {
                check(&|| format!("seconds[{w}][{e}]"), seconds)?;
            }
        }
        let (windows, common) = (self.seconds.len(), self.common.len());
        if common != windows && common != 0 {
            return Err(format!("common has {common} windows, expected {windows}, as seconds has"));
        }
        for (w, seconds) in self.common.iter().enumerate() {
            check(&|| format!("common[{w}]"), seconds)?;
        }
        for (number, snapshot) in self.snapshots.iter().enumerate() {
            check(&|| format!("snapshots[{number}].stages"), &snapshot.stages)?;
        }
        number::check_seconds(|| "closing".into(), self.closing)?;
        if let Some(reuse) = self.reuse.filter(|reuse| !(0.0..=1.0).contains(reuse)) {
            return Err(format!("reuse is {reuse}, expected a part from 0 to 1"));
        }
        let Some(CostModelRecord { vertex, edge, snapshot, .. }) = self.model else { return Ok(()) };
        [("vertex", vertex), ("edge", edge), ("snapshot", snapshot)]
            .into_iter()
            .try_for_each(|(name, seconds)| number::check_seconds(|| format!("model.{name}"), seconds))
    }
}

/// What a snapshot cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SnapshotCost {
    /// Its step.
    pub step: usize,
    /// Its number of edges.
    pub edges: f64,
    /// Median seconds of its stages, over all windows it is in.
    pub stages: Vec<f64>,
}

/// A linear model of what a snapshot of `N` vertices and `E` edges costs: `vertex * N + edge * E + snapshot`
/// seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CostModelRecord {
    /// Seconds of a vertex (a1 in the papers).
    pub vertex: f64,
    /// Seconds of an edge (a2).
    pub edge: f64,
    /// Seconds of a snapshot whatever its size (a3).
    pub snapshot: f64,
    /// Its mean error on windows it was not fitted to, relative to their seconds.
    pub error: f64,
    /// The number of those windows.
    pub held_out: usize,
}

#[cfg(test)]
mod tests {
    use super::super::record::{from_json, tests::check};
    use super::*;

    #[test]
    fn profiles_come_back_and_those_with_other_stages_are_read() {
        let profile = ProfileRecord {
            version: ProfileRecord::VERSION,
            machine: "1 threads of a processor".into(),
            stages: STAGES.map(String::from).to_vec(),
            explained: EXPLAINED.map(String::from).to_vec(),
            seconds: vec![vec![vec![0.1, 0.2, 0.3, 0.4, 0.5, 0.6]; 2]; 3],
            common: vec![vec![0.0, 0.1, 0.0, 0.0, 0.1, 0.6]; 3],
            closing: 1e-3,
            reuse: Some(0.4),
            model: Some(CostModelRecord {
                vertex: 1e-9,
                edge: 2e-9,
                snapshot: 3e-3,
                error: 0.1,
                held_out: 4,
            }),
            snapshots: vec![SnapshotCost { step: 5, edges: 7.0, stages: vec![0.1; 6] }],
        };
        check(&profile, "seconds");
        check(&ProfileRecord { model: None, ..profile }, "closing");
        let earlier = r#"{"machine": "", "stages": ["load", "structure", "rows", "back"],
            "seconds": [[[1, 2, 3, 4]]], "closing": 0, "model": null, "shared_out": [],
            "snapshots": [{"step": 0, "edges": 1, "stages": [1, 2, 3, 4]}]}"#;
        let read: ProfileRecord = from_json(earlier.as_bytes()).unwrap();
        assert_eq!((read.version, read.stages.len(), read.explained.len()), (0, 4, 0));
        assert_eq!(read.snapshots[0].stages, [1.0, 2.0, 3.0, 4.0]);
    }

    /// Guards schedules made of a damaged file: each wrong value is named by its field.
    #[test]
    fn values_that_cannot_be_are_refused_by_field() {
        let whole = r#"{"machine": "", "stages": ["load", "back"], "seconds": [[[1, 2]], [[3, 4]]],
            "common": [[0, 0], [0, 0]], "closing": 0.5, "model": {"vertex": 0, "edge": 0, "snapshot": 0,
            "error": 0, "held_out": 1}, "snapshots": [{"step": 7, "edges": 1, "stages": [1, 2]}]}"#;
        from_json::<ProfileRecord>(whole.as_bytes()).unwrap();
        let cases = [
            ("[3, 4]", "[3, null]", "seconds[1][0][1] is NaN"),
            ("[3, 4]", "[-3, 4]", "seconds[1][0][0] is -3"),
            ("[3, 4]", "[3, 1e18]", "seconds[1][0][1] is 1000000000000000000"),
            ("[3, 4]", "[3]", "seconds[1][0] has 1 numbers, expected one for each of 2 stages"),
            ("[0, 0], [0, 0]", "[0, 0]", "common has 1 windows, expected 2"),
            ("[0, 0], [0, 0]", "[0, 0], [0, -1]", "common[1][1] is -1"),
            ("0.5", "null", "closing is NaN"),
            ("\"edge\": 0", "\"edge\": -1", "model.edge is -1"),
            ("\"stages\": [1, 2]}", "\"stages\": [1, 2, 3]}", "snapshots[0].stages has 3 numbers"),
            ("7,", "1e30,", "invalid type: floating point `1e+30`, expected usize at line 3"),
        ];
        for (from, to, expected) in cases {
            let damaged = whole.replacen(from, to, 1);
            assert_ne!(damaged, whole);
            let problem = from_json::<ProfileRecord>(damaged.as_bytes()).unwrap_err();
            assert!(problem.contains(&format!("is not a profile: {expected}")), "{to}: {problem}");
        }
    }
}
