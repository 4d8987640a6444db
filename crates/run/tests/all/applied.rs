//! A trained model on other data than it was trained on: as it would have been on its own, where that is in
//! the other; refused where it cannot be.

use std::path::Path;

use kymo_graph::{Progress, Store};
use kymo_run::config::Features;
use kymo_run::session::{load, load_with, settings_from};
use kymo_run::task::Says;
use kymo_run::{Class, Custom, Error, RunContext, Session, Settings, Worker, task};

use super::fixture::{Onlooker, Sketch, outputs, run, settings};

fn on(run: &Path, store: &Path) -> Result<Worker, Error> {
    load_with(run, &[], None, &Progress::silent(), &Custom::default(), Some(store))
}

fn own(run: &Path) -> Worker {
    load(run, &[], None, &Progress::silent()).unwrap()
}

/// The same vertices with other numbers: the last ones come first.
fn turned(sketch: &Sketch) -> Sketch {
    let last = sketch.vertices as u32 - 1;
    let mut other = sketch.clone();
    for moment in &mut other.moments {
        moment.edges = moment.edges.iter().map(|&(source, target)| (last - source, last - target)).collect();
        let width = moment.features.len() / sketch.vertices;
        moment.features = moment.features.chunks(width).rev().flatten().copied().collect();
        moment.targets = moment.targets.iter().rev().map(|&(vertex, value)| (last - vertex, value)).collect();
        moment.labels = moment.labels.iter().rev().map(|&(vertex, class)| (last - vertex, class)).collect();
    }
    other
}

/// Tasks that ask about every vertex.
const OF_VERTICES: [&str; 2] = ["node-regression", "node-classification"];

/// Guards what was measured in training: a store that has grown has other means and deviations, and what is
/// said of the steps that it had before must not depend on them.
#[test]
fn on_a_store_that_has_grown_a_model_says_the_same_of_what_was_there() {
    let folder = tempfile::tempdir().unwrap();
    let plain = Sketch::random(61, 14, 16);
    let mut grown = Sketch::random(61, 14, 24);
    for moment in &mut grown.moments[16..] {
        moment.features.iter_mut().for_each(|value| *value = *value * 50.0 + 7.0);
        moment.targets.iter_mut().for_each(|(_, value)| *value = *value * 50.0 - 9.0);
    }
    for task in task::ALL.iter().map(|task| task.name()) {
        let grown = grown.for_task(task).write(&folder.path().join("grown"));
        let before = plain.for_task(task).write(&folder.path().join("before"));
        for features in [Features::Stored, Features::OneHotDegrees, Features::Both] {
            let mut settings = settings(before.path(), task, "gcn-gru");
            settings.data.features = features;
            let path = folder.path().join(format!("{task}-{features:?}"));
            run(&settings, &path);
            let (mut here, mut there) = (own(&path), on(&path, grown.path()).unwrap());
            let (said, again) = (outputs(&mut here, 4..12), outputs(&mut there, 4..12));
            assert_eq!(said, again, "{task}, {features:?}");
            if OF_VERTICES.contains(&task) {
                // With what is known of a vertex beside its embedding.
                for (outputs, sample) in said.iter().zip(4..12) {
                    let [one, other] = [&here, &there].map(|worker| {
                        let says = Says::Model(outputs, &worker.replica.params);
                        worker.goal().table(sample, says, 1).unwrap().values
                    });
                    assert_eq!(one, other, "{task}, {features:?}, sample {sample}");
                }
            }
            let measured = there.context.measured();
            assert_eq!(measured, here.context.measured(), "{task}, {features:?}");
            let other = Settings { data: there.settings().data.clone(), ..settings };
            let anew = RunContext::open(other, grown.clone()).unwrap().measured();
            assert!(features == Features::OneHotDegrees || measured != anew, "{task}, {features:?}");
        }
    }
}

/// Guards learnt columns: they go with names, not with numbers, and a vertex that was never met has the mean.
#[test]
fn learnt_columns_are_found_by_the_names_of_vertices() {
    let folder = tempfile::tempdir().unwrap();
    let sketch = Sketch::random(62, 14, 16);
    let store = sketch.write(&folder.path().join("store"));
    let mut settings = settings(store.path(), "node-regression", "gcn");
    settings.data.features = Features::Both;
    let path = folder.path().join("run");
    run(&settings, &path);
    let (mut here, vertices) = (own(&path), sketch.vertices);
    let names = |order: &mut dyn Iterator<Item = u64>| kymo_graph::Ids::Number(order.collect());

    let backwards = folder.path().join("turned");
    turned(&sketch).write_with(&backwards, &names(&mut (100..100 + vertices as u64).rev()));
    let mut there = on(&path, &backwards).unwrap();
    for (one, other) in outputs(&mut here, 4..8).iter().zip(&outputs(&mut there, 4..8)) {
        let other: Vec<f32> = other.iter().rev().copied().collect();
        // Neighbours are summed up in another order.
        let apart = one.iter().zip(&other).map(|(one, other)| (one - other).abs()).fold(0.0, f32::max);
        assert!(apart < 1e-5, "{apart}: {one:?} {other:?}");
    }

    let table = |worker: &Worker| worker.replica.params.get("input.vertices").unwrap().to_vec();
    let (known, columns) = (table(&here), table(&here).len() / vertices);
    let others = folder.path().join("others");
    sketch.write_with(&others, &names(&mut (107..107 + vertices as u64)));
    let found = table(&on(&path, &others).unwrap());
    let (old, new) = found.split_at((vertices - 7) * columns);
    assert_eq!(old, &known[7 * columns..]);
    for row in new.chunks(columns) {
        for (column, &value) in row.iter().enumerate() {
            let all = known.iter().skip(column).step_by(columns);
            let mean = all.map(|&value| f64::from(value)).sum::<f64>() / vertices as f64;
            assert_eq!(value, mean as f32);
        }
    }
    let strangers = folder.path().join("strangers");
    sketch.write_with(&strangers, &names(&mut (500..500 + vertices as u64)));
    let text = on(&path, &strangers).err().unwrap().to_string();
    assert!(text.contains("strangers") && text.contains("has met none of these"), "{text}");
}

#[test]
fn what_does_not_go_with_a_model_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let sketch = Sketch::random(63, 14, 16);
    let store = sketch.write(&folder.path().join("store"));
    let refused = |task: &str, other: &Path, expected: &str| {
        let path = folder.path().join(format!("run-{task}"));
        if !Session::exists(&path) {
            run(&settings(store.path(), task, "gcn"), &path);
        }
        let error = on(&path, other).err().unwrap();
        assert!(error.to_string().contains(expected), "{task}: {error}");
        assert_eq!(error.class(), Class::Settings, "{error}");
    };
    let sparse = folder.path().join("sparse");
    sketch.clone().sparse().write(&sparse);
    refused(
        "node-regression",
        &sparse,
        "the store has 0 columns of features, and the model was trained with",
    );
    let classes = folder.path().join("classes");
    let mut renamed = sketch.clone();
    renamed.classes = vec!["left".into(), "middle".into()];
    renamed.write(&classes);
    refused("node-classification", &classes, "it has a class 'middle', which the model was not trained to");
    renamed.classes = vec!["right".into(), "left".into()];
    renamed.write(&classes);
    refused("node-classification", &classes, "2 classes in another order or number than the 2");
    // Names of classes are nothing to a regression.
    assert!(on(&folder.path().join("run-node-regression"), &classes).is_ok());
    refused("node-regression", &folder.path().join("none"), "there is no such store");
}

/// A run finds its store where both were moved to, goes on where it is told of the new place, and says so
/// where it is not.
#[test]
fn runs_and_stores_are_moved_together_and_apart() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let store = Sketch::random(65, 14, 16).write(&at("first/store"));
    let mut short = settings(store.path(), "node-regression", "gcn");
    short.train.epochs = 2;
    run(&short, &at("first/run"));
    let opened =
        |run: &str| load(&at(run), &[], None, &Progress::silent()).map(|worker| worker.replica.version());
    let resume = |epochs: &str, store: Option<&str>| {
        let path = store.map(|store| at(store).to_string_lossy().into_owned());
        let mut changes = vec![("train.epochs".to_owned(), epochs.to_owned(), "test".to_owned())];
        changes.extend(path.map(|path| ("data.store".to_owned(), path, "test".to_owned())));
        let session = Session::resume(&at("second/run"), &changes, &Progress::silent())?;
        session.train(&mut Onlooker::default()).map(drop)
    };
    let steps = opened("first/run").unwrap();
    std::fs::rename(at("first"), at("second")).unwrap();
    assert_eq!(opened("second/run").unwrap(), steps);
    resume("3", None).unwrap();
    // It knows the new place, and that there is another store in it now.
    Sketch::random(66, 14, 16).write(&at("first/store"));
    let error = resume("4", Some("first/store")).err().unwrap().to_string();
    assert!(error.starts_with("data.store: the run in "), "{error}");
    std::fs::rename(at("second/store"), at("elsewhere")).unwrap();
    for error in [opened("second/run").err().unwrap(), resume("4", None).err().unwrap()] {
        let text = error.to_string();
        assert!(text.contains("is not there") && text.contains("STORE"), "{text}");
        assert_eq!(error.class(), Class::Settings);
    }
    let error = resume("4", Some("first/store")).err().unwrap().to_string();
    assert!(error.contains("the data has changed since the run began"), "{error}");
    resume("4", Some("elsewhere")).unwrap();
    assert!(opened("second/run").unwrap() >= steps);
}

/// Guards `train.from`: a run begins with the parameters and the scales of another, which stays as it is, and
/// goes on from a checkpoint with the same bits as without a stop.
#[test]
fn a_run_begins_with_the_parameters_of_another() {
    let folder = tempfile::tempdir().unwrap();
    let before = Sketch::random(64, 14, 16).write(&folder.path().join("before"));
    let grown = Sketch::random(64, 14, 24).write(&folder.path().join("grown"));
    let first = folder.path().join("first");
    run(&settings(before.path(), "node-regression", "gcn-gru"), &first);
    let file = std::fs::read(kymo_run::artifact::Folder::checkpoint_of(&first)).unwrap();
    let mut settings = settings_from(&first).unwrap();
    settings.data.store = grown.path().to_str().unwrap().into();
    assert!(settings.train.from.ends_with("first") && settings.model.name == "gcn-gru");

    let begin = |name: &str| Session::begin(settings.clone(), &folder.path().join(name), &Progress::silent());
    let mut session = begin("second").unwrap();
    let (worker, mut own) = (session.worker().unwrap(), own(&first));
    assert_eq!(worker.replica.params.values, own.replica.params.values);
    assert_eq!(worker.context.measured(), own.context.measured());
    assert_eq!(outputs(worker, 4..12), outputs(&mut own, 4..12));
    session.train(&mut Onlooker::default()).unwrap();
    assert_eq!(std::fs::read(kymo_run::artifact::Folder::checkpoint_of(&first)).unwrap(), file);

    // The second stops and goes on when the first is gone.
    begin("stopped").unwrap().train(&mut Onlooker::until(2)).unwrap();
    std::fs::rename(&first, folder.path().join("elsewhere")).unwrap();
    super::resume::resume(&folder.path().join("stopped"), &[])
        .unwrap()
        .train(&mut Onlooker::default())
        .unwrap();
    let [whole, pieces] =
        ["second", "stopped"].map(|name| super::resume::left_behind(&folder.path().join(name)));
    assert!(whole == pieces);
    let error = begin("third").err().unwrap();
    assert!(error.to_string().starts_with("train.from: there is no "), "{error}");
    assert!(!folder.path().join("third").exists());
    assert!(settings_from(&first).unwrap_err().to_string().starts_with("--from: there is no "));
}

/// Guards what a checkpoint says was measured: it has a checksum, but what can be made can be forged.
#[test]
fn what_was_measured_is_checked() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sketch::random(66, 14, 16).write(&folder.path().join("store"));
    let path = folder.path().join("run");
    run(&settings(store.path(), "node-regression", "gcn"), &path);
    let file = kymo_run::artifact::Folder::checkpoint_of(&path);
    let whole = std::fs::read(&file).unwrap();
    for (name, at, value) in [
        ("measured.task", 0, f32::NAN),
        ("measured.task", 2, 0.0),
        ("measured.task", 3, 1.0),
        ("measured.task", 3, -5.0),
        ("measured.task", 6, 0.5),
        ("measured.inputs", 1, f32::INFINITY),
        ("measured.task", usize::MAX, 0.0),
        ("measured.inputs", usize::MAX, 0.0),
    ] {
        let mut checkpoint = kymo_run::artifact::Checkpoint::read(&file).unwrap();
        let array = checkpoint.arrays.get_mut(name).unwrap();
        match array.values.get_mut(at) {
            Some(place) => *place = value,
            None => drop(checkpoint.arrays.remove(name)),
        }
        checkpoint.write(&file).unwrap();
        let resumed = super::resume::resume(&path, &[]).err().unwrap();
        for error in [load(&path, &[], None, &Progress::silent()).err().unwrap(), resumed] {
            assert_eq!(error.class(), Class::Input, "{name}: {error}");
            let text = error.to_string();
            assert!(text.contains("checkpoint.safetensors") && text.contains("it is damaged"), "{text}");
        }
        std::fs::write(&file, &whole).unwrap();
    }
    own(&path);
    // Shares of classes are such, and as many as there are classes.
    let path = folder.path().join("classes");
    run(&settings(store.path(), "node-classification", "gcn"), &path);
    let file = kymo_run::artifact::Folder::checkpoint_of(&path);
    let forgeries: [fn(&mut Vec<f32>); 2] = [|shares| shares[0] = -0.5, |shares| shares[1] = 1.5];
    for forge in forgeries {
        let whole = std::fs::read(&file).unwrap();
        let mut checkpoint = kymo_run::artifact::Checkpoint::read(&file).unwrap();
        forge(&mut checkpoint.arrays.get_mut("measured.task").unwrap().values);
        checkpoint.write(&file).unwrap();
        let error = load(&path, &[], None, &Progress::silent()).err().unwrap().to_string();
        assert!(error.contains("it is damaged"), "{error}");
        std::fs::write(&file, &whole).unwrap();
    }
    own(&path);
}

/// The number of columns is asked for memory before anything else is known.
#[test]
fn more_columns_than_there_can_be_are_damage() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sketch::random(67, 14, 16).write(&folder.path().join("store"));
    let mut settings = settings(store.path(), "node-regression", "gcn");
    settings.data.features = Features::OneHotDegrees;
    let path = folder.path().join("run");
    run(&settings, &path);
    let file = kymo_run::artifact::Folder::checkpoint_of(&path);
    let mut checkpoint = kymo_run::artifact::Checkpoint::read(&file).unwrap();
    checkpoint.facts["origin"]["columns"] = u64::MAX.into();
    checkpoint.write(&file).unwrap();
    let error = load(&path, &[], None, &Progress::silent()).err().unwrap();
    assert!(error.class() == Class::Input && error.to_string().contains("it is damaged"), "{error}");
}

/// A store that was copied elsewhere is the same data.
#[test]
fn a_store_may_move() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("store");
    Sketch::random(65, 14, 16).write(&place);
    let path = folder.path().join("run");
    run(&settings(&place, "node-regression", "gcn"), &path);
    let expected = outputs(&mut own(&path), 4..8);
    let moved = folder.path().join("moved");
    std::fs::rename(&place, &moved).unwrap();
    assert!(load(&path, &[], None, &Progress::silent()).is_err());
    assert_eq!(outputs(&mut on(&path, &moved).unwrap(), 4..8), expected);
    assert!(Store::open(&moved).is_ok());
}
