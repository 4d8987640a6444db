//! Nothing of what comes after training is known in training, and nothing of what comes after a sample at the
//! sample.

use std::path::Path;

use kymo_run::artifact::Checkpoint;
use kymo_run::artifact::Folder;
use kymo_run::config::{ClassWeights, Features, Mode};
use kymo_run::task::{self, Says};
use kymo_run::{Part, Settings, Worker};

use crate::fixture::{MODES, Sketch, is_of_edges, outputs, practise, run, settings};

/// Settings under which everything that is measured on the training steps is used.
fn measured(store: &Path, task: &str, model: &str, features: Features) -> Settings {
    let mut settings = settings(store, task, model);
    settings.data.features = features;
    (settings.data.standardise, settings.data.lags) = (true, 2);
    (settings.link.history, settings.link.historical) = (true, 0.5);
    settings.task.class_weights = ClassWeights::Balanced;
    settings.task.past = "3".into();
    settings.model.dropout = 0.2;
    settings
}

/// Everything that training leaves behind: the losses of the epochs, and the last parameters.
pub fn training(settings: &Settings, path: &Path) -> (Vec<u64>, Vec<(String, Vec<u32>)>) {
    let (lines, _) = run(settings, path);
    let arrays = Checkpoint::read(&Folder::checkpoint_of(path)).unwrap().arrays;
    let parameters = arrays.into_iter().filter(|(name, _)| name.starts_with("parameter."));
    let bits = |values: Vec<f32>| values.iter().map(|value| value.to_bits()).collect();
    (
        lines.iter().map(|line| line.loss.to_bits()).collect(),
        parameters.map(|(name, array)| (name, bits(array.values))).collect(),
    )
}

/// The steps that training may look at: up to the truth of its last sample.
pub fn seen_in_training(settings: &Settings, worker: &Worker) -> usize {
    let name = settings.task.name.as_str();
    let horizon = match name == kymo_run::config::LINK_PREDICTION || is_of_edges(name) {
        true => 1,
        false => settings.task.all_horizons().unwrap().into_iter().max().unwrap(),
    };
    worker.split().samples(Part::Train).end + horizon
}

#[test]
fn what_comes_after_training_does_not_change_it() {
    let folder = tempfile::tempdir().unwrap();
    let plain = Sketch::random(1, 30, 18);
    let (one, other) = (folder.path().join("one"), folder.path().join("other"));
    let mut number = 0;
    for task in task::ALL {
        let sketch = plain.for_task(task.name());
        let store = sketch.write(&one);
        for (mode, features, horizon, several) in [
            (Mode::Windows, Features::Both, 1, "1,3"),
            (Mode::Truncated, Features::Degrees, 2, ""),
            (Mode::Sequence, Features::Learnt, 1, ""),
        ] {
            number += 1;
            let mut settings = measured(&one, task.name(), "gcn-gru", features);
            (settings.train.mode, settings.task.horizon) = (mode, horizon);
            if task.name() == "node-regression" {
                settings.task.horizons = several.into();
            }
            let worker = Worker::open(settings.clone(), store.clone()).unwrap();
            let seen = seen_in_training(&settings, &worker);
            assert!(seen + 2 < sketch.moments.len(), "something must come after training");
            sketch.with_another_future(seen, 99).write(&other);
            let path = |name: &str| folder.path().join(format!("{name}{number}"));
            let first = training(&settings, &path("a"));
            settings.data.store = other.to_string_lossy().into_owned();
            let second = training(&settings, &path("b"));
            assert!(first == second, "{} {mode:?} {features:?}", task.name());
            // What training does look at changes it: the test would notice.
            sketch.with_another_future(seen - 1, 99).write(&other);
            assert!(first.1 != training(&settings, &path("c")).1, "{} {mode:?}", task.name());
        }
    }
}

/// What a model says at a sample, as it would be written: for links with the history of the pairs.
pub fn says(worker: &mut Worker, sample: usize) -> (Vec<Vec<u32>>, Vec<Vec<String>>) {
    let outputs = outputs(worker, sample..sample + 1).pop().unwrap();
    let table = worker.goal().table(sample, Says::Model(&outputs, &worker.replica.params), 1000).unwrap();
    (table.vertices, table.values)
}

/// Another future of `keep` steps. Tasks of edges are told which edges come next, not what they weigh: these
/// stay those of the next step.
fn another_future(sketch: &Sketch, task: &str, keep: usize, sample: usize) -> Sketch {
    let mut other = sketch.with_another_future(keep, 5);
    if is_of_edges(task) && keep == sample + 1 {
        other.moments[keep].edges.clone_from(&sketch.moments[keep].edges);
        let weighs = |&pair: &(u32, u32)| (pair, -3.5 * sketch.moments[keep].weights[&pair]);
        other.moments[keep].weights = sketch.moments[keep].edges.iter().map(weighs).collect();
    }
    other
}

#[test]
fn what_comes_after_a_sample_does_not_change_what_is_said_there() {
    let folder = tempfile::tempdir().unwrap();
    let plain = Sketch::random(2, 30, 16);
    let (one, other) = (folder.path().join("one"), folder.path().join("other"));
    for task in task::ALL {
        let sketch = plain.for_task(task.name());
        let store = sketch.write(&one);
        for mode in MODES {
            let mut settings = measured(&one, task.name(), "t-gcn", Features::Both);
            settings.train.mode = mode;
            let mut worker = Worker::open(settings.clone(), store.clone()).unwrap();
            let seen = seen_in_training(&settings, &worker);
            practise(&mut worker, 1);
            let validation = worker.split().samples(Part::Validation);
            let samples = [0, validation.start - 1, validation.start, validation.end - 1, validation.end];
            for sample in samples {
                let changed =
                    another_future(&sketch, task.name(), seen.max(sample + 1), sample).write(&other);
                let mut other = Worker::open(settings.clone(), changed).unwrap();
                other.replica.params.values = worker.replica.params.values.clone();
                assert!(
                    says(&mut worker, sample) == says(&mut other, sample),
                    "{} {mode:?} {sample}",
                    task.name()
                );
            }
        }
    }
}

#[test]
fn what_the_baselines_say_does_not_change_either() {
    let folder = tempfile::tempdir().unwrap();
    let plain = Sketch::random(3, 30, 16);
    let (one, other) = (folder.path().join("one"), folder.path().join("other"));
    for task in task::ALL {
        let sketch = plain.for_task(task.name());
        let store = sketch.write(&one);
        let settings = settings(&one, task.name(), "gcn");
        let worker = Worker::open(settings.clone(), store.clone()).unwrap();
        let sample = worker.split().samples(Part::Test).start;
        let changed = another_future(&sketch, task.name(), sample + 1, sample).write(&other);
        let changed = Worker::open(settings, changed).unwrap();
        for baseline in worker.goal().baselines() {
            let table =
                |worker: &Worker| worker.goal().table(sample, Says::Baseline(baseline), 1000).unwrap();
            assert_eq!(table(&worker).values, table(&changed).values, "{baseline}");
        }
    }
}

#[test]
fn classes_that_never_change_are_learnt_from_other_vertices_than_they_are_judged_by() {
    let folder = tempfile::tempdir().unwrap();
    let mut sketch = Sketch::random(4, 24, 5);
    sketch.moments.iter_mut().for_each(|moment| moment.labels.clear());
    sketch.fixed.classes = (0..24).map(|vertex| (vertex * 7 % 5) % 2).collect();
    let store = folder.path().join("store");
    let mut settings = measured(&store, "node-classification", "gcn", Features::Both);
    (settings.train.epochs, settings.task.class_weights) = (1, ClassWeights::None);
    for told in [false, true] {
        if told {
            sketch.fixed.splits = (0..24u8).map(|vertex| vertex % 4).collect();
        }
        let look = |sketch: &Sketch| {
            let mut worker = Worker::open(settings.clone(), sketch.write(&store)).unwrap();
            let losses = practise(&mut worker, 1);
            let mut accuracy = |part| kymo_run::train::measure(&mut worker, part).unwrap()["accuracy"];
            (losses, accuracy(Part::Validation), accuracy(Part::Test))
        };
        // What baselines say of every vertex, whose classes are known to them by training alone.
        let told_by = |sketch: &Sketch| {
            let worker = Worker::open(settings.clone(), sketch.write(&store)).unwrap();
            let sample = worker.split().samples(Part::Test).start;
            let table = |baseline| worker.goal().table(sample, Says::Baseline(baseline), 0).unwrap().values;
            worker.goal().baselines().into_iter().map(table).collect::<Vec<_>>()
        };
        let (before, said) = (look(&sketch), told_by(&sketch));
        assert_eq!(said.len(), 3, "majority, vote and propagation");
        // Vertices without a part, for training, for validation, for the test.
        let mut counts = [0; 4];
        for vertex in 0..24 {
            let mut turned = sketch.clone();
            turned.fixed.classes[vertex] = 1 - turned.fixed.classes[vertex];
            let after = look(&turned);
            let part = match (after.0 == before.0, after.1 == before.1, after.2 == before.2) {
                (true, true, true) => 0,
                (false, _, _) => 1,
                (true, false, true) => 2,
                (true, true, false) => 3,
                (true, false, false) => panic!("vertex {vertex} judges twice"),
            };
            counts[part] += 1;
            assert!(part == 1 || told_by(&turned) == said, "a baseline knows the class of vertex {vertex}");
            assert!(!told || part == vertex % 4, "vertex {vertex} is in part {part}");
        }
        assert!(counts[1..].iter().all(|&count| count > 0) && (told || counts[0] == 0), "{counts:?}");
    }
}
