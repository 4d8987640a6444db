//! Regression: what is usual at a phase of the season, and what the calendar says of the step that is
//! predicted.

use std::path::Path;
use std::sync::Arc;

use kymo_graph::time::TimeUnit;
use kymo_graph::{Progress, Store};
use kymo_run::config::{CalendarName, SeasonName};
use kymo_run::session::{load, load_with};
use kymo_run::task::Says;
use kymo_run::train::evaluate;
use kymo_run::{Custom, Part, Settings, Worker};

use super::fixture::{Sketch, outputs, practise, run, settings, strategies};
use super::leaks::{says, seen_in_training, training};
use super::resume::{left_behind, run_in_pieces};
use super::{batches, oracle};

/// Two past values, two horizons, and a season of six steps, which is two days.
fn regression(store: &Path, season: SeasonName) -> Settings {
    let mut settings = settings(store, "node-regression", "t-gcn");
    (settings.task.past, settings.task.horizons) = ("2".into(), "1,3".into());
    settings.task.season = season;
    settings
}

fn sketch(vertices: usize, steps: usize) -> Sketch {
    Sketch::random(21, vertices, steps).seasonal(6)
}

/// How many known columns the head has, and how many of the calendar.
fn columns(worker: &Worker) -> [usize; 2] {
    let slots = worker.replica.params.slots();
    ["head.past", "head.calendar"]
        .map(|name| slots.iter().filter(|slot| slot.name == name).map(|slot| slot.shape.rows).sum())
}

fn open(settings: &Settings, store: &Arc<Store>) -> Worker {
    Worker::open(settings.clone(), store.clone()).unwrap()
}

#[test]
fn what_is_usual_is_known_where_there_is_a_season() {
    let folder = tempfile::tempdir().unwrap();
    let store = sketch(30, 60).write(&folder.path().join("store"));
    let known = [
        (SeasonName::Off, 2),
        (SeasonName::Ago, 2 + 2),
        (SeasonName::Usual, 2 + 3),
        (SeasonName::Both, 2 + 2 + 3),
    ];
    let mut errors = Vec::new();
    for (season, expected) in known {
        let mut worker = open(&regression(store.path(), season), &store);
        assert_eq!(columns(&worker), [expected, 2], "{season:?}");
        let begun = evaluate(&mut worker, Part::Test).unwrap();
        errors.push(begun.metrics["mse"]);
        // The noise has a variance of 0.12.
        assert!(begun.baselines["seasonal-mean"]["mse"] < 0.2, "{:?}", begun.baselines);
        assert!(begun.baselines["seasonal"]["mse"] > 1.15 * begun.baselines["seasonal-mean"]["mse"]);
    }
    assert!(errors[0] > 2.0 * errors[1] && errors[1] > 1.1 * errors[2] && errors[2] < 0.2, "{errors:?}");
    // Without known values there is nothing of it.
    let mut nothing = regression(store.path(), SeasonName::Both);
    nothing.task.past = "0".into();
    assert_eq!(columns(&open(&nothing, &store)), [0, 0]);
}

/// At each sample that is looked at: what comes after it does not matter, what came before does.
#[test]
fn what_is_usual_and_the_calendar_know_nothing_of_what_comes() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (folder.path().join("one"), folder.path().join("other"));
    let sketch = sketch(20, 60);
    let store = sketch.write(&one);
    let mut settings = regression(&one, SeasonName::Both);
    let worker = open(&settings, &store);
    assert_eq!(columns(&worker), [2 + 2 + 3, 2]);
    let seen = seen_in_training(&settings, &worker);
    let first = training(&settings, &folder.path().join("a"));
    settings.data.store = other.to_string_lossy().into_owned();
    for (keep, is_same) in [(seen, true), (seen - 1, false)] {
        sketch.with_another_future(keep, 99).write(&other);
        let second = training(&settings, &folder.path().join(format!("b{keep}")));
        assert_eq!(first == second, is_same, "{keep}");
    }
    settings.data.store = one.to_string_lossy().into_owned();
    let mut worker = open(&settings, &store);
    practise(&mut worker, 1);
    let validation = worker.split().samples(Part::Validation);
    for sample in [validation.start, validation.start + 3, validation.end, validation.end + 4] {
        let changed = sketch.with_another_future(seen.max(sample + 1), 5).write(&other);
        let mut other = open(&settings, &changed);
        other.replica.params.values = worker.replica.params.values.clone();
        assert!(says(&mut worker, sample) == says(&mut other, sample), "{sample}");
    }
}

/// Every way to divide the work, batches of vertices, and runs in pieces.
#[test]
fn however_it_is_computed_it_comes_to_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let store = sketch(14, 44).write(&folder.path().join("store"));
    for strategy in strategies() {
        let mut settings = oracle::plain(store.path(), "node-regression", "t-gcn");
        (settings.task.past, settings.task.horizons) = ("2".into(), "1,3".into());
        settings.train.stride = 3;
        assert_eq!(columns(&open(&settings, &store)), [2 + 2 + 3, 2]);
        oracle::check(&settings, &store, strategy.name, 3);
    }
    let mut settings = batches::plain(&store, "node-regression", "graphsage-linear");
    (settings.task.past, settings.task.horizons) = ("2".into(), "1,3".into());
    batches::check(&settings, &store, 5);
    let settings = regression(store.path(), SeasonName::Both);
    let (whole, parts) = (folder.path().join("whole"), folder.path().join("parts"));
    run(&settings, &whole);
    run_in_pieces(&settings, &parts, &[1, 0, 3]);
    assert!(left_behind(&whole) == left_behind(&parts));
}

/// On a store that has grown, what is looked at is what was found in training.
#[test]
fn a_season_goes_with_the_model() {
    let folder = tempfile::tempdir().unwrap();
    let (plain, grown) = (sketch(14, 44), sketch(14, 60).with_another_future(44, 3));
    let store = plain.write(&folder.path().join("store"));
    let grown = grown.write(&folder.path().join("grown"));
    let path = folder.path().join("run");
    run(&regression(store.path(), SeasonName::Both), &path);
    let on = |store: &Store| {
        load_with(&path, &[], None, &Progress::silent(), &Custom::default(), Some(store.path()))
    };
    let (mut here, mut there) = (load(&path, &[], None, &Progress::silent()).unwrap(), on(&grown).unwrap());
    assert_eq!(columns(&there), [2 + 2 + 3, 2]);
    assert_eq!(here.context.measured(), there.context.measured());
    for sample in [5, 20, 40] {
        let said = outputs(&mut here, sample..sample + 1);
        assert_eq!(said, outputs(&mut there, sample..sample + 1), "{sample}");
        assert!(says(&mut here, sample) == says(&mut there, sample), "{sample}");
    }
    // Without a unit of time there is no hour of the day.
    let unknown = Sketch { unit: TimeUnit::Step, ..plain }.write(&folder.path().join("unknown"));
    let mut worker = on(&unknown).unwrap();
    let said = outputs(&mut worker, 20..21).pop().unwrap();
    let says = Says::Model(&said, &worker.replica.params);
    let error = worker.goal().table(20, says, 1).err().unwrap().to_string();
    assert!(error.contains("task.calendar") && error.contains("hours of the day"), "{error}");
}

/// Only cycles that steps can tell apart, that training has seen twice, and whose times are known before.
#[test]
fn the_calendar_is_that_of_the_steps() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let of = |unit: TimeUnit, steps: usize, time: fn(usize) -> [f64; 2]| {
        let store = Sketch { unit, time: Some(time), ..Sketch::random(3, 5, steps) }.write(&path);
        let settings = regression(&path, SeasonName::Off);
        let auto = columns(&open(&settings, &store))[1];
        let mut off = settings;
        off.task.calendar = CalendarName::Off;
        assert_eq!(columns(&open(&off, &store)), [2, 0]);
        auto
    };
    const HOURLY: fn(usize) -> [f64; 2] = |step| [step, step + 1].map(|step| 3600.0 * step as f64);
    const DAILY: fn(usize) -> [f64; 2] = |step| [step, step + 1].map(|step| step as f64);
    const GROWING: fn(usize) -> [f64; 2] = |step| [step, step + 1].map(|step| 3600.0 * (step * step) as f64);
    // Three harmonics of a day; of a week too, where there are two.
    assert_eq!([of(TimeUnit::S, 90, HOURLY), of(TimeUnit::S, 40, HOURLY)], [6, 0]);
    assert_eq!(of(TimeUnit::S, 500, HOURLY), 12);
    // Days of a week; weeks as days count, and a year that was seen once.
    assert_eq!([of(TimeUnit::D, 60, DAILY), of(TimeUnit::Date, 60, DAILY)], [6, 0]);
    assert_eq!([of(TimeUnit::Step, 90, HOURLY), of(TimeUnit::S, 90, GROWING)], [0, 0]);
}

/// All vertices go up and down with the hour, for a reason that the last value does not tell.
#[test]
fn what_follows_the_hour_is_known_beforehand() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let mut sketch = Sketch::random(22, 12, 90);
    for (step, moment) in sketch.moments.iter_mut().enumerate() {
        let own = [9.0, -2.0, 4.0][step % 3];
        moment.targets.iter_mut().for_each(|(_, value)| *value = 0.1 * *value + own);
    }
    let store = sketch.write(&path);
    let mse = |calendar: CalendarName| {
        let mut settings = regression(&path, SeasonName::Off);
        (settings.task.past, settings.task.calendar) = ("1".into(), calendar);
        evaluate(&mut open(&settings, &store), Part::Test).unwrap().metrics["mse"]
    };
    let (with, without) = (mse(CalendarName::Auto), mse(CalendarName::Off));
    assert!(with < 0.1 && without > 2.0 * with, "{with} {without}");
}
