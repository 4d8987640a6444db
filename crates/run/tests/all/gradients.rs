//! The gradient that is followed is that of the loss: all the way from the data to the step of the optimiser.

use std::collections::BTreeSet;

use kymo_run::config::{ClassWeights, Features, Mode, OptimiserName};
use kymo_run::{Worker, task};

use crate::fixture::{Sketch, is_of_edges, settings};

#[test]
fn steps_go_along_the_gradient_of_the_loss_of_every_task() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let stores = Sketch::random(1, 20, 12).write_both(&path);
    for task in task::ALL {
        let store = stores.of(task.name());
        for (mode, model) in [(Mode::Windows, "gcn-gru"), (Mode::Truncated, "t-gcn")] {
            let mut settings = settings(store.path(), task.name(), model);
            settings.train.mode = mode;
            settings.data.features = Features::Both;
            settings.task.class_weights = ClassWeights::Balanced;
            settings.link.weight = 2.5;
            // Without momentum yet and without a limit, the first step of this optimiser is the gradient
            // itself.
            settings.train.optimiser = OptimiserName::Sgd;
            (settings.train.learning_rate, settings.train.clip) = (1.0, 0.0);
            let step = |change: Option<(usize, &[f32], f32)>| {
                let mut worker = Worker::open(settings.clone(), store.clone()).unwrap();
                // What begins with zeros counts for nothing at first, as the embedding in a regression, or is
                // on the kink of a rectifier, as biases where weights add up to nothing; here it does not.
                let names: Vec<String> =
                    worker.replica.params.slots().iter().map(|slot| slot.name.clone()).collect();
                for (name, zeros) in names.iter().zip(&mut worker.replica.params.values) {
                    let counts = name == "head.weight" || is_of_edges(task.name());
                    if counts && zeros.iter().all(|&weight| weight == 0.0) {
                        let numbers = (0..).zip(zeros);
                        numbers
                            .for_each(|(number, weight)| *weight = 0.08 * ((number * 37 % 11) as f32 - 4.7));
                    }
                }
                if let Some((slot, direction, length)) = change {
                    let values = worker.replica.params.values[slot].iter_mut();
                    values.zip(direction).for_each(|(value, along)| *value += length * along);
                }
                let before = worker.replica.params.values.clone();
                let loss = worker.step(2..5, 7, 1.0).unwrap().unwrap();
                (f64::from(loss), before, worker)
            };
            let (_, before, worker) = step(None);
            for (number, slot) in worker.replica.params.slots().iter().enumerate() {
                let after = &worker.replica.params.values[number];
                let gradient: Vec<f32> = before[number].iter().zip(after).map(|(a, b)| a - b).collect();
                let norm = gradient.iter().map(|&value| f64::from(value).powi(2)).sum::<f64>().sqrt();
                let name = format!("{} {model} {}", task.name(), slot.name);
                assert!(norm > 1e-5, "{name} has no gradient");
                // Along the gradient the loss changes most, so that its rounding weighs least.
                let direction: Vec<f32> =
                    gradient.iter().map(|&value| (f64::from(value) / norm) as f32).collect();
                let length = 2e-3f32;
                let [more, less] = [length, -length].map(|length| step(Some((number, &direction, length))).0);
                let slope = (more - less) / (2.0 * f64::from(length));
                assert!(
                    (slope - norm).abs() < 0.02 * norm + 2e-5,
                    "{name}: {slope} along a gradient of {norm}"
                );
            }
        }
    }
}

#[test]
fn links_count_as_much_as_they_weigh() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Sketch::random(1, 20, 12).write(&path);
    let loss = |weight: f64| {
        let mut settings = settings(&path, "link-prediction", "gcn-gru");
        settings.link.weight = weight;
        f64::from(Worker::open(settings, store.clone()).unwrap().step(2..5, 7, 0.01).unwrap().unwrap())
    };
    let [without, once, thrice] = [0.0, 1.0, 3.0].map(loss);
    assert!(once > without && ((thrice - without) - 3.0 * (once - without)).abs() < 1e-5 * thrice);
}

#[test]
fn absent_targets_are_recent_where_that_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let mut sketch = Sketch::random(1, 20, 12);
    // A vertex is a target in few steps, so that the recent ones are not all there were.
    for (t, moment) in (0..).zip(&mut sketch.moments) {
        moment.edges.retain(|&(_, target)| target / 5 == t % 4);
    }
    let store = sketch.write(&path);
    let drawn = |recent: usize| -> BTreeSet<u32> {
        let mut settings = settings(&path, "link-prediction", "gcn-gru");
        (settings.link.recent, settings.link.historical, settings.link.negatives) = (recent, 0.0, 50);
        let goal = task::find("link-prediction").unwrap().open(&store, &settings).unwrap();
        let (_, pairs) = goal.pairs(&[(0, 6)], 3).unwrap().remove(0);
        let absent = pairs.into_iter().filter(|pair| !sketch.moments[7].edges.contains(pair));
        absent.map(|(_, target)| target).collect()
    };
    let of = |steps: std::ops::RangeInclusive<usize>| -> BTreeSet<u32> {
        sketch.moments[steps].iter().flat_map(|moment| &moment.edges).map(|pair| pair.1).collect()
    };
    assert!(!of(6..=6).is_empty() && of(6..=6).len() < of(0..=6).len());
    assert_eq!(drawn(1), of(6..=6));
    assert_eq!(drawn(2), of(5..=6));
    assert_eq!(drawn(0), of(0..=6));
}
