//! Profiles and schedules that are damaged or of other runs: noticed at the start, by file and field, and
//! nothing is changed or left behind.

use std::path::Path;
use std::sync::Arc;

use kymo_graph::{Progress, Store};
use kymo_run::artifact::{Checkpoint, Folder};
use kymo_run::{Class, Session, Settings};
use serde_json::{Value, json};

use super::fixture::{Onlooker, Sketch, run, settings};
use super::resume::resume;

/// Two epochs of two workers, the first of which is measured.
fn scheduled(store: &Path) -> Settings {
    let mut settings = settings(store, "node-regression", "gcn");
    (settings.parallel.workers, settings.parallel.strategy) = (2, "dygnex".into());
    (settings.parallel.profile_epochs, settings.train.epochs) = (1, 2);
    settings
}

/// A way to damage a file, and what must be said of it.
type Damage = (&'static str, fn(&mut Value), &'static str);

const HUGE: u64 = 1_000_000_000_000_000_000;

const PROFILES: [Damage; 10] = [
    ("version", |file| file["version"] = json!(9), "is a profile of version 9, and this Kymo knows up to 1"),
    ("no number", |file| file["seconds"][1][0][2] = Value::Null, "seconds[1][0][2] is NaN"),
    ("negative", |file| file["seconds"][0][0][0] = json!(-1.0), "seconds[0][0][0] is -1"),
    ("huge", |file| file["closing"] = json!(1e18), "closing is 1000000000000000000"),
    ("fewer windows", |file| drop(remove(&mut file["seconds"])), "windows"),
    ("no times", |file| file["seconds"][2] = json!([]), "seconds[2] is empty"),
    ("beyond the steps", |file| file["snapshots"][1]["step"] = json!(HUGE), "snapshots[1].step is 10000"),
    ("other data", |file| file["snapshots"][3]["edges"] = json!(1), "snapshots[3].edges is 1, step 3 of the"),
    ("stages", |file| drop(remove(&mut file["snapshots"][0]["stages"])), "snapshots[0].stages has 5 numbers"),
    ("kind", |file| file["seconds"] = json!("none"), "is not a profile: invalid type: string"),
];

const SCHEDULES: [Damage; 9] = [
    ("version", |file| file["version"] = json!(9), "is a schedule of version 9, and this Kymo knows up to 1"),
    ("other workers", |file| add_worker(file), "iterations[0] is for 3 workers, expected 2"),
    (
        "one worker more",
        |file| push(&mut file["iterations"][1]),
        "iterations[1] is for 3 workers, expected 2",
    ),
    ("beyond", |file| file["iterations"][0][0] = json!([HUGE]), "iterations[0][0] has window 1000"),
    ("fewer windows", |file| drop(remove(&mut file["iterations"])), "iterations"),
    ("negative", |file| file["predicted"] = json!(-0.5), "predicted is -0.5"),
    ("no number", |file| file["seconds"] = Value::Null, "seconds is NaN"),
    ("huge", |file| file["optimiser_steps"] = json!(HUGE), "optimiser_steps is 1000000000000000000"),
    ("other strategy", |file| file["strategy"] = json!("blad"), "strategy is blad, the run has dygnex"),
];

fn remove(list: &mut Value) -> Option<Value> {
    list.as_array_mut().unwrap().pop()
}

fn push(list: &mut Value) {
    list.as_array_mut().unwrap().push(json!([]));
}

fn add_worker(file: &mut Value) {
    file["iterations"].as_array_mut().unwrap().iter_mut().for_each(push);
}

/// Damages a file in every way, each of which must be named; the file is restored in the end.
fn each_is_named(path: &Path, damages: &[Damage], refused: impl Fn() -> kymo_run::Error) {
    let whole = std::fs::read(path).unwrap();
    let name = path.file_name().unwrap().to_str().unwrap();
    let named = |what: &str, expected: &str| {
        let error = refused();
        let text = error.to_string();
        assert_eq!(error.class(), Class::Input, "{name}, {what}: {text}");
        assert!(text.contains(name) && text.contains(expected), "{name}, {what}: {text}");
    };
    for (what, damage, expected) in damages {
        let mut file: Value = serde_json::from_slice(&whole).unwrap();
        damage(&mut file);
        std::fs::write(path, serde_json::to_vec_pretty(&file).unwrap()).unwrap();
        named(what, expected);
    }
    // Between two values, because a number that is cut may be complained about in other words.
    let half =
        whole.len() / 2 - whole[..whole.len() / 2].iter().rev().position(|byte| *byte == b',').unwrap();
    for length in [0, 1, half, whole.len() - 3] {
        std::fs::write(path, &whole[..length]).unwrap();
        named("truncated", "EOF while parsing");
    }
    std::fs::write(path, &whole).unwrap();
}

fn begin(settings: &Settings, path: &Path) -> kymo_run::Error {
    let error = Session::begin(settings.clone(), path, &Progress::silent()).err().unwrap();
    assert!(!path.exists(), "{error}: a folder was left behind");
    error
}

#[test]
fn damaged_files_of_a_run_are_named_when_it_is_to_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sketch::random(51, 14, 16).write(&folder.path().join("store"));
    let path = folder.path().join("run");
    run(&scheduled(store.path()), &path);
    let more = [("train.epochs".into(), "3".into(), "--epochs".into())];
    let refused = || {
        let log = std::fs::read(path.join("metrics.jsonl")).unwrap();
        let error = resume(&path, &more).err().unwrap();
        assert_eq!(std::fs::read(path.join("metrics.jsonl")).unwrap(), log, "{error}: the run was changed");
        error
    };
    each_is_named(&path.join("profile.json"), &PROFILES, refused);
    each_is_named(&path.join("schedule.json"), &SCHEDULES, refused);
    resume(&path, &more).unwrap().train(&mut Onlooker::default()).unwrap();
}

#[test]
fn a_profile_to_schedule_by_is_checked_before_there_is_a_run() {
    let folder = tempfile::tempdir().unwrap();
    let store = |seed: u64, steps: usize| -> Arc<Store> {
        Sketch::random(seed, 14, steps).write(&folder.path().join(format!("store{seed}-{steps}")))
    };
    let (here, path) = (store(52, 16), folder.path().join("by-file"));
    run(&scheduled(here.path()), &folder.path().join("run"));
    let profile = folder.path().join("run/profile.json");
    let mut settings = scheduled(here.path());
    settings.parallel.costs = profile.to_str().unwrap().into();
    each_is_named(&profile, &PROFILES, || begin(&settings, &path));
    // The profile of another store, with other numbers of windows, and with the same.
    for (other, expected) in [(store(52, 20), "windows, the run has"), (store(53, 16), "].edges is ")] {
        settings.data.store = other.path().to_str().unwrap().into();
        let text = begin(&settings, &path).to_string();
        assert!(text.contains("profile.json: ") && text.contains(expected), "{text}");
        assert!(text.contains("it was measured on other data"), "{text}");
    }
    settings.parallel.costs = "edgs".into();
    let error = begin(&settings, &path);
    let expected = "parallel.costs: there is no file edgs; expected measured, edges, or the profile.json";
    assert!(error.class() == Class::Settings && error.to_string().starts_with(expected), "{error}");
    (settings.parallel.costs, settings.parallel.cached_costs) = ("edges".into(), true);
    let expected = "parallel.cached_costs: goes with parallel.costs = \"measured\" only, found \"edges\"";
    assert_eq!(begin(&settings, &path).to_string(), expected);
}

/// A checkpoint has a checksum, but what can be made can be forged: no index of it may be followed blindly.
#[test]
fn a_checkpoint_with_a_forged_schedule_or_profile_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sketch::random(54, 14, 16).write(&folder.path().join("store"));
    let path = folder.path().join("run");
    run(&scheduled(store.path()), &path);
    let mut measured = scheduled(store.path());
    measured.parallel.profile_epochs = 3;
    let other = folder.path().join("measured");
    run(&measured, &other);
    let forge = |path: &Path, forge: fn(&mut Value), expected: &str| {
        let file = Folder::checkpoint_of(path);
        let whole = std::fs::read(&file).unwrap();
        let mut checkpoint = Checkpoint::read(&file).unwrap();
        forge(&mut checkpoint.facts);
        checkpoint.write(&file).unwrap();
        let error = resume(path, &[]).err().unwrap();
        assert_eq!(error.class(), Class::Input, "{error}");
        assert!(error.to_string().contains(expected), "{error}");
        std::fs::write(&file, whole).unwrap();
    };
    forge(&path, |facts| facts["scheduled"][0][0] = json!([HUGE]), "iterations[0][0] has window 1000");
    forge(&path, |facts| push(&mut facts["scheduled"][0]), "iterations[0] is for 3 workers, expected 2");
    forge(&other, |facts| facts["profile"]["seconds"] = json!(-1.0), "negative or no numbers");
    forge(&other, |facts| facts["profile"]["windows"][0][0] = json!(HUGE), "from 1000000000000000000");
    forge(&other, |facts| facts["profile"]["windows"][0][1] = json!(HUGE), "that the run has not");
    forge(&other, |facts| facts["profile"]["windows"][0][2] = json!(HUGE), "that the run has not");
    resume(&path, &[]).unwrap();
    resume(&other, &[]).unwrap();
}

/// What an optimiser keeps must go with the parameters: it ended as a bug of the program.
#[test]
fn a_checkpoint_with_a_forged_optimiser_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sketch::random(55, 14, 8).write(&folder.path().join("store"));
    let path = folder.path().join("run");
    let mut one = settings(store.path(), "node-regression", "gcn");
    one.train.epochs = 2;
    run(&one, &path);
    let file = Folder::checkpoint_of(&path);
    let whole = std::fs::read(&file).unwrap();
    let forgeries: [fn(&mut Checkpoint); 3] = [
        |checkpoint| drop(checkpoint.arrays.remove("optimiser.00001")),
        |checkpoint| {
            let array = checkpoint.arrays.get_mut("optimiser.00000").unwrap();
            (array.shape, array.values) = (vec![1], vec![0.0]);
        },
        |checkpoint| checkpoint.facts["steps"] = json!(u64::MAX),
    ];
    for forge in forgeries {
        let mut checkpoint = Checkpoint::read(&file).unwrap();
        forge(&mut checkpoint);
        checkpoint.write(&file).unwrap();
        let error = resume(&path, &[]).err().unwrap();
        assert_eq!(error.class(), Class::Input, "{error}");
        assert!(error.to_string().contains("what it keeps of the optimiser"), "{error}");
        std::fs::write(&file, &whole).unwrap();
    }
    resume(&path, &[]).unwrap();
}
