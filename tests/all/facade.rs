//! The library's façade: runs with a model and a task of one's own resume and share work like any other, and
//! what is wrong is refused by name.

use kymo::{Class, EpochRecord, Error, Observer, Part, Predict, Row, Run, Silent, Trained};

use crate::examples::custom_model::{NAME, make};
use crate::examples::custom_task::Popularity;
use crate::fixture::Bench;

/// Asks to stop after an epoch.
struct Once(bool);

impl Observer for Once {
    fn epoch(&mut self, _: &EpochRecord) {
        self.0 = true;
    }

    fn stop(&self) -> bool {
        self.0
    }
}

fn own(bench: &Bench, folder: &str) -> Run {
    let run = Run::on(bench.path("small")).with_model(NAME, make).with_task(Popularity);
    run.hidden(8).window(3).epochs(3).folder(bench.path(folder))
}

#[test]
fn own_models_and_tasks_resume_to_the_same_bits() {
    let bench = Bench::new();
    bench.make_small();
    let mut whole = own(&bench, "whole").train(&mut Silent).unwrap();
    let stopped = own(&bench, "parts").train(&mut Once(false)).err().unwrap();
    assert!(matches!(&stopped, Error::Stopped(folder) if *folder == bench.path("parts")), "{stopped}");
    let resume = || Run::resume(bench.path("parts"));
    let mut parts = resume().with_model(NAME, make).with_task(Popularity).train(&mut Silent).unwrap();
    let (test, again) = (whole.evaluate(Part::Test).unwrap(), parts.evaluate(Part::Test).unwrap());
    assert_eq!(test, again);
    assert_eq!(test, whole.summary().unwrap().test);
    let rows =
        |trained: &mut Trained| -> Vec<Row> { trained.predict(Predict::after(7)).unwrap().rows().collect() };
    let (one, other) = (rows(&mut whole), rows(&mut parts));
    assert_eq!(one, other);
    assert_eq!(one.len(), 60);
}

#[test]
fn several_workers_learn_what_one_learns() {
    let bench = Bench::new();
    bench.make_small();
    for (blocks, strategy) in [(1, "pss"), (1, "pts"), (2, "pss"), (2, "pss-ts")] {
        let run = |folder: &str| own(&bench, &format!("{folder}-{strategy}-{blocks}")).blocks(blocks);
        let alone = run("alone").train(&mut Silent).unwrap().summary().unwrap();
        let shared = run("shared").workers(2, strategy).train(&mut Silent).unwrap();
        let shared = shared.summary().unwrap();
        assert_eq!(shared.workers.unwrap().strategy, strategy);
        for (name, value) in &alone.test.metrics {
            let other = shared.test.metrics[name];
            assert!((value - other).abs() < 1e-3 * value.abs(), "{strategy} {name}: {value} and {other}");
        }
    }
}

#[test]
fn opened_without_them_a_run_says_what_is_missing() {
    let bench = Bench::new();
    bench.make_small();
    own(&bench, "run").train(&mut Silent).unwrap();
    let path = bench.path("run");
    let no_model = format!("model.name: the run in {} has a model of its own, '{NAME}'", path.display());
    let no_task = format!("task.name: the run in {} has a task of its own, 'popularity'", path.display());
    let load = || Run::load(&path).unwrap();
    let says = |error: Error, text: &str| {
        assert_eq!(error.class(), Class::Settings);
        assert!(error.to_string().starts_with(text), "{error}");
    };
    says(load().evaluate(Part::Test).err().unwrap(), &no_model);
    says(load().with_model(NAME, make).evaluate(Part::Test).err().unwrap(), &no_task);
    says(Run::resume(&path).epochs(5).train(&mut Silent).err().unwrap(), &no_model);
    let error = bench.refused("evaluate run");
    assert!(error.contains(&format!("'{NAME}', which is not built in; pass it again")), "{error}");
    let other = load().with_model("other", make).with_task(Popularity).evaluate(Part::Test);
    says(other.err().unwrap(), "model.name: the run has 'mean-rnn', but the model that was given is 'other'");
    let taken = own(&bench, "taken").with_model("gcn", make).train(&mut Silent);
    says(taken.err().unwrap(), "model.name: 'gcn' is built in; give the model another name");
    assert!(!bench.path("taken").exists());
}

#[test]
fn mistakes_in_settings_name_the_key() {
    let bench = Bench::new();
    bench.make_small();
    let says = |run: Run, text: &str| {
        let error = run.train(&mut Silent).err().unwrap();
        assert_eq!(error.class(), Class::Settings);
        assert!(error.to_string().contains(text), "{error}");
    };
    says(own(&bench, "run").set("model.hiden", 8), "Run: model.hiden: there is no such setting; did you");
    says(own(&bench, "run").set("train.clip", "often"), "Run: train.clip: found");
    says(own(&bench, "run").epochs(3).workers(0, "psg"), "parallel.workers: found 0, expected at least 1");
    assert!(Run::load(bench.path("run")).is_err_and(|error| error.to_string().contains("has no run")));
    let mut trained = own(&bench, "run").train(&mut Silent).unwrap();
    let error = |asked| trained.predict(asked).err().unwrap().to_string();
    let [step, top] = [Predict::after(20), Predict::next().top(0)].map(error);
    assert_eq!(step, "step: found 20, but the steps of the store are 0 to 19");
    assert_eq!(top, "top: found 0, expected at least 1");
}
