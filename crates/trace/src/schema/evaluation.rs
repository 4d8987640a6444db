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
        }
    }

    #[test]
    fn evaluations_come_back() {
        let text = serde_json::to_string(&evaluation()).unwrap();
        assert_eq!(serde_json::from_str::<Evaluation>(&text).unwrap(), evaluation());
        let text = serde_json::to_string(&Evaluation { metrics: metrics(f64::NAN), ..evaluation() }).unwrap();
        assert!(serde_json::from_str::<Evaluation>(&text).unwrap().metrics["mae"].is_nan());
    }
}
