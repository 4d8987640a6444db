//! Numbers that JSON cannot write: NaN and the infinities are `null` in files, and are read as NaN. Where a
//! file must have a number that was measured, what is none is refused by the name of its field.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};

use super::evaluation::Metrics;

#[derive(Deserialize)]
struct Number(Option<f64>);

impl From<Number> for f64 {
    fn from(number: Number) -> f64 {
        number.0.unwrap_or(f64::NAN)
    }
}

fn metrics(numbers: BTreeMap<String, Number>) -> Metrics {
    numbers.into_iter().map(|(name, number)| (name, number.into())).collect()
}

/// The most seconds that a file may tell of anything: some thirty years.
const LONGEST: f64 = 1e9;

/// Refuses seconds that nothing can have taken; `field` says where they stand.
pub(super) fn check_seconds(field: impl Fn() -> String, seconds: f64) -> Result<(), String> {
    match (0.0..=LONGEST).contains(&seconds) {
        true => Ok(()),
        false => Err(format!("{} is {seconds}, expected seconds from 0 to {LONGEST:e}", field())),
    }
}

/// Lists of lists of numbers.
pub(super) fn lists<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Vec<Vec<f64>>>, D::Error> {
    let lists: Vec<Vec<Vec<Number>>> = Vec::deserialize(deserializer)?;
    let numbers = |numbers: Vec<Number>| numbers.into_iter().map(f64::from).collect();
    let list = |list: Vec<Vec<Number>>| list.into_iter().map(numbers).collect();
    Ok(lists.into_iter().map(list).collect())
}

/// One number.
pub(super) fn one<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Number::deserialize(deserializer).map(f64::from)
}

/// Numbers by name.
pub(super) fn named<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Metrics, D::Error> {
    BTreeMap::deserialize(deserializer).map(metrics)
}

/// Numbers by name, of several.
pub(super) fn named_of_each<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, Metrics>, D::Error> {
    let all: BTreeMap<String, BTreeMap<String, Number>> = BTreeMap::deserialize(deserializer)?;
    Ok(all.into_iter().map(|(name, numbers)| (name, metrics(numbers))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_is_read_as_nan_and_text_is_refused() {
        let json =
            |text: &'static str| serde_json::Deserializer::from_str(text).into_iter::<serde_json::Value>();
        let value = |text: &'static str| json(text).next().unwrap().unwrap();
        assert!(one(value("null")).unwrap().is_nan());
        assert_eq!(one(value("2.5")).unwrap(), 2.5);
        assert!(one(value("\"2.5\"")).is_err());
        let metrics = named(value(r#"{"mae": null, "mse": 1}"#)).unwrap();
        assert!(metrics["mae"].is_nan() && metrics["mse"] == 1.0);
        let baselines = named_of_each(value(r#"{"mean": {"mae": null}}"#)).unwrap();
        assert!(baselines["mean"]["mae"].is_nan());
        assert!(lists(value("[[[1, null]]]")).unwrap()[0][0][1].is_nan());
    }

    #[test]
    fn seconds_that_cannot_be_are_refused_by_the_name_of_their_field() {
        let check = |seconds| check_seconds(|| "closing".into(), seconds);
        for wrong in [f64::NAN, f64::INFINITY, -1e-9, 1e18] {
            let problem = check(wrong).unwrap_err();
            assert_eq!(problem, format!("closing is {wrong}, expected seconds from 0 to 1e9"));
        }
        assert!(check(0.0).is_ok() && check(LONGEST).is_ok());
    }
}
