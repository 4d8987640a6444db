//! Results that are none: metrics that are NaN or infinite, and parts of the data without anything to
//! predict.

use std::path::Path;
use std::sync::Arc;

use kymo_graph::store::Fixed;
use kymo_graph::{Progress, Step, Store};
use kymo_model::Slot;
use kymo_model::metric::{Evidence, Needs};
use kymo_run::forward::{Forward, Loss, Outputs};
use kymo_run::launch::InProcess;
use kymo_run::session::load;
use kymo_run::task::{self, Goal, Says, Table, Tallies, Task};
use kymo_run::train::{Ending, evaluate};
use kymo_run::{Class, Custom, Part, Result, Session, Settings, Split};
use kymo_trace::schema::RunFolder;

use super::fixture::{Onlooker, Sketch, settings};

/// Guards a test that is no number: it must not pass for a result, whatever the task and its metrics.
#[test]
fn a_test_that_is_not_finite_ends_as_diverged_and_leaves_no_summary() {
    let folder = tempfile::tempdir().unwrap();
    // Only the last steps, which the test alone looks at, have features that overflow.
    let mut sketch = Sketch::random(61, 20, 14);
    for moment in &mut sketch.moments[12..] {
        moment.features.fill(f32::MAX);
    }
    let stores = sketch.write_both(&folder.path().join("store"));
    for task in task::ALL {
        for workers in [1, 2] {
            let mut settings = settings(stores.of(task.name()).path(), task.name(), "gcn");
            (settings.data.standardise, settings.parallel.workers) = (false, workers);
            // Otherwise what the past of a pair says drowns what the model does.
            (settings.link.history, settings.edge.history) = (false, false);
            settings.task.metrics = vec!["all".into()];
            let path = folder.path().join(format!("{}-{workers}", task.name()));
            let session = Session::begin(settings, &path, &Progress::silent()).unwrap();
            let error = session.train(&mut Onlooker::default()).err();
            let error = error.unwrap_or_else(|| panic!("{} by {workers}: success", task.name()));
            assert_eq!(error.class(), Class::Diverged, "{}: {error}", task.name());
            let text = error.to_string();
            for part in
                [" of the test became ", "with the parameters of epoch ", "metrics.jsonl", "train.clip"]
            {
                assert!(text.contains(part), "{text}");
            }
            let files = RunFolder::open(&path).unwrap();
            assert!(files.summary().unwrap().is_none() && files.epochs().unwrap().len() == 3);
            // What stays can be used, and tells the same again.
            let mut worker = load(&path, &[], None, &Progress::silent()).unwrap();
            evaluate(&mut worker, Part::Validation).unwrap();
            let error = evaluate(&mut worker, Part::Test).unwrap_err();
            assert_eq!(error.class(), Class::Diverged, "{error}");
            assert!(error.to_string().contains("of the test became "), "{error}");
        }
    }
}

/// Empties what a task predicts at the samples of a part.
fn without(sketch: &Sketch, task: &str, samples: std::ops::Range<usize>) -> Sketch {
    let mut sketch = sketch.clone();
    // What a sample predicts is a step ahead.
    for moment in &mut sketch.moments[samples.start + 1..samples.end + 1] {
        match task {
            "node-regression" => moment.targets.clear(),
            "node-classification" => moment.labels.clear(),
            _ => moment.edges.clear(),
        }
    }
    sketch
}

fn refused(settings: Settings, path: &Path) -> String {
    let error = Session::begin(settings, path, &Progress::silent()).err().unwrap();
    assert_eq!(error.class(), Class::Settings, "{error}");
    assert!(!path.exists(), "{error}: a folder was left behind");
    error.to_string()
}

/// Guards parts without labels: no training on nothing, no choice by nothing, no test of nothing.
#[test]
fn a_part_with_nothing_to_predict_is_refused_with_the_counts_of_all() {
    let folder = tempfile::tempdir().unwrap();
    let (store, path) = (folder.path().join("store"), folder.path().join("run"));
    let whole = Sketch::random(62, 20, 14);
    for task in task::ALL {
        let whole = whole.for_task(task.name());
        let settings = settings(&store, task.name(), "gcn");
        let split = Split::by_time(13, &settings).unwrap();
        for part in Part::ALL {
            without(&whole, task.name(), split.samples(part)).write(&store);
            let error = refused(settings.clone(), &path);
            let expected = format!("split: there is nothing to predict in the part for {} (", part.name());
            assert!(error.starts_with(&expected), "{error}");
            let none = format!("{} has 0 at ", part.name());
            assert!(error.contains(&none) && error.matches(" has 0 at ").count() == 1, "{error}");
            for word in ["split.train", "split.validation", "task.horizon", "train.window"] {
                assert!(error.contains(word), "{error}");
            }
            // One label is enough.
            let last = split.samples(part).end - 1;
            without(&whole, task.name(), split.samples(part).start..last).write(&store);
            Session::begin(settings.clone(), &path, &Progress::silent()).unwrap();
            std::fs::remove_dir_all(&path).unwrap();
        }
        // A loss is taken at the last step of a window: labels before the first of these teach nothing.
        let samples = split.samples(Part::Train);
        without(&whole, task.name(), settings.train.window - 1..samples.end).write(&store);
        assert!(refused(settings.clone(), &path).contains("train has 0 at 7 samples"), "{}", task.name());
        let mut at_all = settings.clone();
        at_all.train.loss = kymo_run::config::LossAt::All;
        Session::begin(at_all, &path, &Progress::silent()).unwrap();
        std::fs::remove_dir_all(&path).unwrap();
    }
}

#[test]
fn classes_that_never_change_need_vertices_in_every_part() {
    let folder = tempfile::tempdir().unwrap();
    let (store, path) = (folder.path().join("store"), folder.path().join("run"));
    let mut sketch = Sketch::random(63, 20, 14);
    sketch.moments.iter_mut().for_each(|moment| moment.labels.clear());
    let classes: Vec<i32> = (0..20).map(|vertex| vertex % 2).collect();
    for (number, part) in Part::ALL.into_iter().enumerate() {
        let split = |vertex: usize| 1 + ((vertex % 2 + number + 1) % 3) as u8;
        let splits = (0..20).map(split).collect();
        sketch.fixed = Fixed { classes: classes.clone(), splits, ..Fixed::default() };
        sketch.write(&store);
        let error = refused(settings(&store, "node-classification", "gcn"), &path);
        let expected = format!("split: there is nothing to predict in the part for {} (", part.name());
        assert!(
            error.starts_with(&expected) && error.contains(&format!("{} has 0 at", part.name())),
            "{error}"
        );
    }
}

/// Node regression whose baselines say what is no number, or whose test shows nothing.
struct Odd {
    shows_test: bool,
}

struct OddGoal(Box<dyn Goal>, bool);

impl Task for Odd {
    fn name(&self) -> &'static str {
        "odd"
    }

    fn about(&self) -> &'static str {
        "node regression with odd baselines"
    }

    fn metrics(&self) -> &'static [&'static str] {
        &["mse"]
    }

    fn shows(&self) -> &'static [Needs] {
        &[Needs::Values]
    }

    fn open(&self, store: &Arc<Store>, settings: &Settings) -> Result<Box<dyn Goal>> {
        Ok(Box::new(OddGoal(task::find("node-regression")?.open(store, settings)?, self.shows_test)))
    }
}

impl Goal for OddGoal {
    fn split(&self) -> &Split {
        self.0.split()
    }

    fn slots(&self, width: usize) -> Vec<Slot> {
        self.0.slots(width)
    }

    fn loss<'a>(
        &self,
        forward: &mut Forward<'_, 'a>,
        at: &[(usize, Step)],
        salt: u64,
    ) -> Result<Option<Loss<'a>>> {
        self.0.loss(forward, at, salt)
    }

    fn outputs<'a>(&self, forward: &mut Forward<'_, 'a>) -> Result<Outputs<'a>> {
        self.0.outputs(forward)
    }

    fn judge(&self, part: Part, sample: Step, says: Says<'_>, tallies: &mut Tallies) -> Result<()> {
        match says {
            Says::Model(..) if part == Part::Test && !self.1 => Ok(()),
            Says::Model(..) => self.0.judge(part, sample, says, tallies),
            Says::Baseline(_) => {
                tallies.add(Needs::Values, &Evidence::Values { predicted: &[f32::NAN], truth: &[0.0] });
                Ok(())
            }
        }
    }

    fn baselines(&self) -> Vec<&'static str> {
        vec!["odd"]
    }

    fn table(&self, sample: Step, says: Says<'_>, top: usize) -> Result<Table> {
        self.0.table(sample, says, top)
    }
}

fn with_task(odd: Odd, store: &Path, path: &Path) -> Result<Ending> {
    let mut settings = settings(store, "odd", "gcn");
    settings.train.epochs = 1;
    let custom = Custom::default().with_task(odd);
    let session = Session::begin_with(settings, path, &Progress::silent(), &custom, &InProcess(1))?;
    session.train(&mut Onlooker::default())
}

#[test]
fn a_baseline_that_is_not_finite_is_told_as_such() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sketch::random(64, 20, 14).write(&folder.path().join("store"));
    let path = folder.path().join("run");
    let Ending::Finished(summary) = with_task(Odd { shows_test: true }, store.path(), &path).unwrap() else {
        panic!("nobody asked to stop");
    };
    assert!(summary.test.baselines["odd"]["mse"].is_nan());
    let read = RunFolder::open(&path).unwrap().summary().unwrap().unwrap();
    assert!(read.test.baselines["odd"]["mse"].is_nan() && read.test.metrics == summary.test.metrics);
    let text = std::fs::read_to_string(path.join("summary.json")).unwrap();
    assert!(text.contains("\"mse\": null"), "{text}");
}

#[test]
fn a_test_that_shows_nothing_is_no_success() {
    let folder = tempfile::tempdir().unwrap();
    let store = Sketch::random(65, 20, 14).write(&folder.path().join("store"));
    let path = folder.path().join("run");
    let error = with_task(Odd { shows_test: false }, store.path(), &path).err().unwrap();
    assert_eq!(error.class(), Class::Settings, "{error}");
    assert!(
        error.to_string().starts_with("split: there was nothing to judge in the part for test (2 samples)"),
        "{error}"
    );
    assert!(!path.join("summary.json").exists());
}
