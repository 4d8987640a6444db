//! What cannot work is refused before there is a run: the message says what to do, and nothing is left
//! behind.

use std::path::Path;

use kymo_graph::Progress;
use kymo_model::metric;
use kymo_run::config::Mode;
use kymo_run::{Session, Settings, task};

use crate::fixture::{FEATURES, Sketch, settings};

/// The complaint about settings, after which there must be no run.
fn refused(settings: Settings, path: &Path) -> String {
    let error = Session::begin(settings, path, &Progress::silent()).err().unwrap();
    assert!(!path.exists(), "{error}: a folder was left behind");
    error.to_string()
}

#[test]
fn windows_that_do_not_fit_and_data_without_truth_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (store, path) = (folder.path().join("store"), folder.path().join("run"));
    let mut sketch = Sketch::random(1, 20, 12);
    for task in task::ALL {
        sketch.for_task(task.name()).write(&store);
        for mode in [Mode::Windows, Mode::Truncated] {
            let mut settings = settings(&store, task.name(), "gcn");
            (settings.train.mode, settings.train.window) = (mode, 8);
            let error = refused(settings, &path);
            assert!(
                error.starts_with("train.window: a window of 8 steps does not fit into the 7 steps"),
                "{error}"
            );
        }
    }
    sketch.moments.iter_mut().for_each(|moment| {
        moment.labels.clear();
        moment.targets.clear();
    });
    sketch.write(&store);
    let error = refused(settings(&store, "node-classification", "gcn"), &path);
    assert!(error.contains("has no classes to predict; ingest them"), "{error}");
    let error = refused(settings(&store, "node-regression", "gcn"), &path);
    assert!(error.contains("has no values to predict; ingest a signal"), "{error}");
    sketch.moments.iter_mut().for_each(|moment| moment.edges.clear());
    sketch.write(&store);
    let error = refused(settings(&store, "link-prediction", "gcn"), &path);
    assert!(error.contains("has no edges to predict"), "{error}");
    let error = refused(settings(&folder.path().join("nowhere"), "link-prediction", "gcn"), &path);
    assert!(error.contains("there is no such store"), "{error}");
}

#[test]
fn numbers_that_are_none_are_named_with_their_place() {
    let folder = tempfile::tempdir().unwrap();
    let (store, path) = (folder.path().join("store"), folder.path().join("run"));
    // In training, and in the last step, which only the test looks at.
    for (found, step) in [(f32::NAN, 3), (f32::INFINITY, 11), (f32::NEG_INFINITY, 0)] {
        let mut sketch = Sketch::random(2, 20, 12);
        sketch.moments[step].features[11 * FEATURES + 2] = found;
        for (task, standardise) in task::ALL.iter().flat_map(|task| [(task, true), (task, false)]) {
            sketch.for_task(task.name()).write(&store);
            let mut settings = settings(&store, task.name(), "gcn");
            settings.data.standardise = standardise;
            let error = refused(settings, &path);
            // Vertices are called as in the input.
            for part in ["vertex 111", &format!("step {step}"), "feature 3", "expected a finite number"] {
                assert!(error.contains(part), "{error}");
            }
        }
        let mut sketch = Sketch::random(2, 20, 12);
        let vertex = sketch.moments[step].targets[5].0;
        sketch.moments[step].targets[5].1 = found;
        sketch.write(&store);
        let error = refused(settings(&store, "node-regression", "gcn"), &path);
        assert!(error.contains(&format!("vertex {} at step {step}", 100 + vertex)), "{error}");
    }
    let mut sketch = Sketch::random(2, 20, 12).sparse();
    sketch.fixed.sparse.as_mut().unwrap().values[7] = f32::NAN;
    sketch.write(&store);
    let error = refused(settings(&store, "link-prediction", "gcn"), &path);
    assert!(error.contains("feature 2") && error.contains("vertex 107"), "{error}");
}

#[test]
fn metrics_of_other_tasks_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let (store, path) = (folder.path().join("store"), folder.path().join("run"));
    for task in task::ALL {
        Sketch::random(3, 20, 12).for_task(task.name()).write(&store);
        let (mut fitting, mut foreign) = (0, 0);
        for metric in metric::ALL {
            let mut settings = settings(&store, task.name(), "gcn");
            settings.task.metrics = vec![metric.name().into()];
            if task.shows().contains(&metric.needs()) {
                task::metrics_of(*task, &settings).unwrap();
                fitting += 1;
                continue;
            }
            foreign += 1;
            let error = refused(settings, &path);
            let expected =
                format!("task.metrics: {} has no metric '{}'; known are", task.name(), metric.name());
            assert!(error.starts_with(&expected), "{error}");
        }
        assert!(fitting > 1 && foreign > 1);
        let mut settings = settings(&store, task.name(), "gcn");
        settings.task.metrics = vec!["beauty".into()];
        assert!(refused(settings, &path).contains("no metric 'beauty'"));
    }
}

#[test]
fn unknown_names_and_memories_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (store, path) = (folder.path().join("store"), folder.path().join("run"));
    Sketch::random(4, 20, 12).write(&store);
    let wrong = |change: fn(&mut Settings)| {
        let mut settings = settings(&store, "node-regression", "gcn");
        change(&mut settings);
        refused(settings, &path)
    };
    assert!(wrong(|s| s.model.name = "gnc".into()).contains("there is no model 'gnc'"));
    assert!(wrong(|s| s.task.name = "chess".into()).contains("there is no task 'chess'"));
    assert!(wrong(|s| s.run.memory = "lots".into()).starts_with("run.memory: "));
    assert!(wrong(|s| s.model.heads = 3).contains("heads cannot share"));
    assert!(wrong(|s| s.task.horizon = 12).contains("cut the data into more steps"));
}
