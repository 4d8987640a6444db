//! The examples do what they say. They are compiled into the tests: no second cargo has to build them.

use kymo::Run;

use crate::fixture::Bench;

#[allow(dead_code)]
#[path = "../../examples/custom_model.rs"]
pub mod custom_model;
#[allow(dead_code)]
#[path = "../../examples/custom_task.rs"]
pub mod custom_task;
#[allow(dead_code)]
#[path = "../../examples/read_store.rs"]
mod read_store;
#[allow(dead_code)]
#[path = "../../examples/train.rs"]
mod train;

#[test]
fn train_stops_goes_on_and_predicts() {
    let bench = Bench::new();
    train::run(&bench.path("run")).unwrap();
    assert_eq!(Run::load(bench.path("run")).unwrap().summary().unwrap().epochs, 6);
    // A line for each of the 2000 vertices of the built-in data, below the header.
    let predictions = std::fs::read_to_string(bench.path("run/predictions.csv")).unwrap();
    assert_eq!(predictions.lines().count(), 2001);
}

#[test]
fn a_model_of_ones_own_beats_the_baselines() {
    let bench = Bench::new();
    custom_model::run(&bench.path("run")).unwrap();
    let test = Run::load(bench.path("run")).unwrap().summary().unwrap().test;
    assert!(test.baselines.values().all(|baseline| test.metrics["mse"] < 0.5 * baseline["mse"]), "{test:?}");
}

#[test]
fn a_task_of_ones_own_can_be_learnt() {
    let bench = Bench::new();
    custom_task::run(&bench.path("")).unwrap();
    let test = Run::load(bench.path("run")).unwrap().summary().unwrap().test;
    assert!(test.metrics["mse"] < test.baselines["as-before"]["mse"], "{test:?}");
}

#[test]
fn stores_are_read() {
    let bench = Bench::new();
    read_store::run(&bench.path("store")).unwrap();
}
