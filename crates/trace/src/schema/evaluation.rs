//! An evaluation: the metrics of a model on a part of the data, beside those of baselines.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::number;

/// Metrics by name, as `kymo list metrics` has them. A value that is not finite is `null` in files and read
/// as NaN.
pub type Metrics = BTreeMap<String, f64>;

/// The metrics of a model and of baselines that learn nothing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Evaluation {
    /// The task: a name of `kymo list tasks`.
    pub task: String,
    /// The part of the data: `train`, `validation` or `test`.
    pub split: String,
    /// The metrics of the model.
    #[serde(deserialize_with = "number::named")]
    pub metrics: Metrics,
    /// The metrics of each baseline.
    #[serde(deserialize_with = "number::named_of_each")]
    pub baselines: BTreeMap<String, Metrics>,
    /// Those of rules that know nothing of what is asked, by those metrics that take little time: where one
    /// does well, the metric says little. Most tasks have none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty", deserialize_with = "number::named_of_each")]
    pub attacks: BTreeMap<String, Metrics>,
    /// The same for parts of what was judged, each apart from the others: links by whether training has seen
    /// their ends, values by how far ahead they lie. Runs of earlier versions have none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slices: Vec<Slice>,
}

/// The metrics on a part of what was judged.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Slice {
    /// What the part is called.
    pub name: String,
    /// How many values or links it has.
    pub count: u64,
    /// The metrics of the model that can be taken on a part.
    #[serde(deserialize_with = "number::named")]
    pub metrics: Metrics,
    /// Those of each baseline.
    #[serde(deserialize_with = "number::named_of_each")]
    pub baselines: BTreeMap<String, Metrics>,
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::schema) fn metrics(value: f64) -> Metrics {
        [("mae".to_owned(), value), ("mse".to_owned(), value * value)].into()
    }

    pub(in crate::schema) fn evaluation() -> Evaluation {
        Evaluation {
            task: "node-regression".into(),
            split: "test".into(),
            metrics: metrics(0.1),
            baselines: [("last-value".to_owned(), metrics(1.7))].into(),
            attacks: [("random".to_owned(), metrics(1.8))].into(),
            slices: vec![Slice {
                name: "horizon 3".into(),
                count: 12,
                metrics: metrics(0.2),
                baselines: [("last-value".to_owned(), metrics(1.9))].into(),
            }],
        }
    }

    #[test]
    fn evaluations_come_back() {
        let text = serde_json::to_string(&evaluation()).unwrap();
        assert_eq!(serde_json::from_str::<Evaluation>(&text).unwrap(), evaluation());
        // What earlier versions wrote is still read.
        let before = Evaluation { slices: Vec::new(), attacks: BTreeMap::new(), ..evaluation() };
        let text = serde_json::to_string(&before).unwrap();
        assert!(!text.contains("slices") && !text.contains("attacks"));
        assert_eq!(serde_json::from_str::<Evaluation>(&text).unwrap(), before);
        let text = serde_json::to_string(&Evaluation { metrics: metrics(f64::NAN), ..evaluation() }).unwrap();
        assert!(serde_json::from_str::<Evaluation>(&text).unwrap().metrics["mae"].is_nan());
    }
}
