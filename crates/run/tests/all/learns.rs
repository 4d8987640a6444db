//! Models learn what can be learnt, and say so when they cannot.

use std::path::{Path, PathBuf};

use kymo_graph::Progress;
use kymo_graph::cut::WeightRule;
use kymo_graph::generate::{self, Params};
use kymo_graph::ingest;
use kymo_graph::load::{EdgeFeatures, Hints};
use kymo_model::metric;
use kymo_run::config::ClassWeights;
use kymo_run::random::Random;
use kymo_run::session::load;
use kymo_run::task::Says;
use kymo_run::{Error, Part, Session, Settings, Worker, task};
use kymo_trace::schema::RunSummary;

use crate::fixture::{FEATURES, MODES, Onlooker, Sketch, is_of_edges, outputs, run, settings};

/// A graph whose values and classes follow from features, neighbours and the past.
fn generated(folder: &Path) -> PathBuf {
    let kind = generate::find("power-law").unwrap();
    let params =
        Params { vertices: 400, edges: 3_000, steps: 20, features: 8, segments: 2, ..kind.defaults() };
    let path = folder.join("store");
    generate::write(kind, &params, &path, false, &Progress::silent()).unwrap();
    path
}

/// A graph whose edges weigh what the features of both ends come to, by themselves and together.
fn weighted(folder: &Path) -> PathBuf {
    let mut sketch = Sketch::random(11, 60, 40);
    let random = Random::new(3);
    // Features stay, pairs and their weights do not.
    let features = sketch.moments[0].features.clone();
    let of = |vertex: u32, column: usize| features[vertex as usize * FEATURES + column];
    for (t, moment) in (0..).zip(&mut sketch.moments) {
        let drawn = |place: u64| random.stream(t).below(60, place) as u32;
        moment.edges = (0..150).map(|edge| (drawn(2 * edge), drawn(2 * edge + 1))).collect();
        moment.features.clone_from(&features);
        let weight = |&(source, target): &(u32, u32)| {
            let noise = random.stream(1000 + t).share(u64::from(source) * 60 + u64::from(target)) as f32;
            let weight = of(source, 0) - of(target, 1) + 4.0 * of(source, 2) * of(target, 2);
            ((source, target), weight + 0.4 * (noise - 0.5))
        };
        moment.weights = moment.edges.iter().map(weight).collect();
    }
    let path = folder.join("weighted");
    sketch.write(&path);
    path
}

/// Events whose weights follow from what the events of their source carried one step before, as a store with
/// these features of edges.
fn hinted(folder: &Path, name: &str, edge_features: EdgeFeatures) -> PathBuf {
    let random = Random::new(8);
    let hint = |step: u64, source: u64| if random.stream(step).share(source) < 0.5 { -1.0 } else { 1.0 };
    let mut text = String::from("step,source,target,weight,hint\n");
    for step in 1..41 {
        let drawn = |place: u64| random.stream(1000 + step).below(40, place) as u64;
        for event in 0..200 {
            let (source, target) = (drawn(3 * event), drawn(3 * event + 1));
            let noise = random.stream(2000 + step).share(event) - 0.5;
            let weight = 3.0 * hint(step - 1, source) + 0.4 * noise;
            text.push_str(&format!("{},{source},{target},{weight},{}\n", step - 1, hint(step, source)));
        }
    }
    let (file, store) = (folder.join("hinted.csv"), folder.join(name));
    std::fs::write(&file, text).unwrap();
    let hints = Hints { edge_features, ..Hints::default() };
    let settings = ingest::Settings { hints, weight: Some(WeightRule::Last), ..ingest::Settings::default() };
    ingest::ingest(&[file], &store, &settings, &Progress::silent()).unwrap();
    store
}

fn usual(store: &Path, task: &str) -> Settings {
    let mut settings = settings(store, task, "graphsage-linear");
    (settings.model.hidden, settings.train.epochs, settings.train.patience) = (16, 12, 0);
    (settings.link.positives, settings.link.validate_positives, settings.link.evaluate_positives) =
        (400, 100, 400);
    settings
}

/// Fails unless the model is better than every baseline by the metric that decides.
fn beats_the_baselines(summary: &RunSummary, task: &dyn task::Task) {
    let name = task.metrics()[0];
    let higher = metric::find(name).unwrap().higher_is_better();
    let reached = summary.test.metrics[name];
    assert!(!summary.test.baselines.is_empty());
    for (baseline, metrics) in &summary.test.baselines {
        let other = metrics[name];
        let better = if higher { reached > other } else { reached < other };
        assert!(better, "{}: {name} {reached}, {baseline} {other}", task.name());
    }
}

#[test]
fn models_beat_the_baselines_on_every_task() {
    let folder = tempfile::tempdir().unwrap();
    let (store, weighted) = (generated(folder.path()), weighted(folder.path()));
    for task in task::ALL {
        let store = if is_of_edges(task.name()) { &weighted } else { &store };
        let (_, summary) = run(&usual(store, task.name()), &folder.path().join(task.name()));
        beats_the_baselines(&summary, *task);
    }
}

#[test]
fn what_features_of_edges_tell_is_learnt() {
    let folder = tempfile::tempdir().unwrap();
    let task = task::find("edge-regression").unwrap();
    let reached = |name: &str, features: EdgeFeatures| {
        let store = hinted(folder.path(), name, features);
        let (_, summary) = run(&usual(&store, task.name()), &folder.path().join(format!("{name}-run")));
        summary.test.metrics[task.metrics()[0]]
    };
    let without = reached("without", EdgeFeatures::None);
    let with = reached("with", EdgeFeatures::Named(vec!["hint".into()]));
    assert!(with < 0.6 * without, "{with} with features of edges, {without} without");
}

#[test]
fn balanced_classes_change_the_loss_and_are_learnt() {
    let folder = tempfile::tempdir().unwrap();
    let store = generated(folder.path());
    let task = task::find("node-classification").unwrap();
    let mut settings = usual(&store, task.name());
    settings.train.epochs = 1;
    let (plain, _) = run(&settings, &folder.path().join("plain"));
    settings.task.class_weights = ClassWeights::Balanced;
    settings.train.epochs = 8;
    let (balanced, summary) = run(&settings, &folder.path().join("balanced"));
    assert_ne!(plain[0].loss, balanced[0].loss);
    assert!(balanced[7].loss < balanced[0].loss);
    beats_the_baselines(&summary, task);
}

/// Where classes never change, a model begins with what labels that spread say, and not at random.
#[test]
fn classes_begin_with_what_is_known_around_a_vertex() {
    let folder = tempfile::tempdir().unwrap();
    let mut sketch = Sketch::random(9, 40, 6);
    for (t, moment) in (0..).zip(&mut sketch.moments) {
        moment.labels.clear();
        // A ring of each class, and one edge between them.
        let ring = |vertex: u32| (vertex, (vertex + 2 * (1 + t % 3)) % 40);
        moment.edges = (0..40).map(ring).chain([(0, 1)]).collect();
    }
    sketch.fixed.classes = (0..40).map(|vertex| vertex % 2).collect();
    let store = sketch.write(&folder.path().join("store"));
    let mut worker =
        Worker::open(settings(store.path(), "node-classification", "gcn-gru"), store.clone()).unwrap();
    let sample = worker.split().samples(Part::Test).start;
    let outputs = outputs(&mut worker, sample..sample + 1).pop().unwrap();
    let classes = |says| -> Vec<String> {
        let values = worker.goal().table(sample, says, 0).unwrap().values;
        values.into_iter().map(|row| row[0].clone()).collect()
    };
    let said = classes(Says::Model(&outputs, &worker.replica.params));
    assert_eq!(said, classes(Says::Baseline("label-propagation")));
    assert!((2..40).all(|vertex| said[vertex] == said[vertex % 2]) && said[0] != said[1], "{said:?}");
}

#[test]
fn a_run_that_diverges_says_so_and_keeps_its_last_good_epoch() {
    let folder = tempfile::tempdir().unwrap();
    let stores = Sketch::random(1, 30, 13).write_both(&folder.path().join("store"));
    for task in task::ALL {
        let store = stores.of(task.name()).path();
        // In a single window there is no loss that would tell what the step has done.
        for mode in MODES {
            let mut settings = settings(store, task.name(), "gcn");
            (settings.train.learning_rate, settings.train.clip) = (1e30, 0.0);
            settings.train.mode = mode;
            let path = folder.path().join(format!("{}{mode:?}", task.name()));
            let session = Session::begin(settings, &path, &Progress::silent()).unwrap();
            let error = session.train(&mut Onlooker::default()).err().unwrap();
            assert!(matches!(error, Error::Diverged(_)), "{} {mode:?}: {error}", task.name());
            let text = error.to_string();
            // Scores that are huge still have an order, for an epoch.
            let place =
                text.contains("in the window of steps") || text.contains("with the parameters of epoch ");
            assert!(text.contains("Lower train.learning_rate") && place, "{text}");
            let worker = load(&path, &[], None, &Progress::silent()).unwrap();
            assert!(worker.replica.params.values.iter().flatten().all(|value| value.is_finite()));
            Session::resume(&path, &[], &Progress::silent()).unwrap();
        }
    }
}
