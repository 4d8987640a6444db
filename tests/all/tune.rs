//! `kymo tune`: the validation decides, what was stopped goes on to the same result, and how many trials are
//! trained at a time changes nothing.

use std::sync::atomic::{AtomicUsize, Ordering};

use kymo::graph::Progress;
use kymo::trace::schema::{RunFolder, TuneRecord};
use kymo::{Class, Run, Tune, Tuned};

use crate::fixture::Bench;

const SPACE: [&str; 2] = ["model.hidden=4,8,16", "train.learning_rate=0.001..0.1"];

fn search(bench: &Bench, folder: &str) -> Tune {
    let run = Run::on(bench.path("small")).model("gcn-gru").epochs(15).set("train.patience", 0);
    Tune::new(run.settings().unwrap(), bench.path(folder)).over(&SPACE).trials(7)
}

fn silent(search: Tune) -> Tuned {
    search.run(&|_, _| ()).unwrap()
}

#[test]
fn the_best_by_validation_is_trained_to_the_end() {
    let bench = Bench::new();
    bench.make_small();
    let tuned = silent(search(&bench, "tuned"));
    let TuneRecord { rungs, results, best, .. } = &tuned.record;
    assert_eq!(rungs[..], [[7, 5], [3, 15]]);
    assert_eq!(results.len(), 7);
    // What is said of each trial is what its run says, and the first has the settings as they are.
    for trial in results {
        let records = RunFolder::open(tuned.folder(trial.trial)).unwrap().epochs().unwrap();
        assert_eq!(records.len(), trial.epochs);
        let least = records.iter().map(|epoch| epoch.validation["mse"]).fold(f64::MAX, f64::min);
        assert_eq!(trial.value, Some(least));
        assert_eq!(trial.settings.len(), if trial.trial == 0 { 0 } else { 2 });
        let settings = Run::load(tuned.folder(trial.trial)).unwrap().worker().unwrap().settings().clone();
        for (key, value) in &trial.settings {
            let expected = match key.as_str() {
                "model.hidden" => settings.model.hidden.to_string(),
                _ => settings.train.learning_rate.to_string(),
            };
            assert_eq!(value, &expected, "{key}");
        }
    }
    // After five epochs the three that went on were ahead of the four that did not.
    let after_five = |trial: usize| {
        let records = RunFolder::open(tuned.folder(trial)).unwrap().epochs().unwrap();
        records[..5].iter().map(|epoch| epoch.validation["mse"]).fold(f64::MAX, f64::min)
    };
    let (on, off): (Vec<_>, Vec<_>) = results.iter().partition(|trial| trial.epochs == 15);
    assert_eq!((on.len(), off.len()), (3, 4));
    let worst = on.iter().map(|trial| after_five(trial.trial)).fold(0.0, f64::max);
    assert!(off.iter().all(|trial| after_five(trial.trial) >= worst));
    let winner = on.iter().min_by(|one, other| one.value.unwrap().total_cmp(&other.value.unwrap()));
    assert_eq!(Some(winner.unwrap().trial), *best);
    assert_eq!(tuned.best().unwrap().summary().unwrap().epochs, 15);
}

#[test]
fn stopped_or_two_at_a_time_it_comes_to_the_same() {
    let bench = Bench::new();
    bench.make_small();
    let whole = silent(search(&bench, "whole")).record;
    let two = silent(search(&bench, "two").jobs(2)).record;
    assert_eq!(whole, two);
    // Stopped after the third trial, and again in the last rung.
    for stops in [3, 6] {
        let (progress, heard) = (Progress::silent(), AtomicUsize::new(0));
        let stopped = search(&bench, "parts").progress(&progress).run(&|_, _| {
            if heard.fetch_add(1, Ordering::Relaxed) + 1 == stops {
                progress.stop();
            }
        });
        assert_eq!(stopped.unwrap_err().class(), Class::Stopped);
    }
    assert_eq!(silent(search(&bench, "parts")).record, whole);
}

#[test]
fn settings_that_cannot_be_are_told_and_others_go_on() {
    let bench = Bench::new();
    bench.make_small();
    let found = bench.json(
        "tune small --model gcn-gru --hidden 4 --epochs 3 --trials 8 --over train.window=2,500 -o tuned",
    );
    let results = found["results"].as_array().unwrap();
    let failed: Vec<_> = results.iter().filter(|trial| !trial["problem"].is_null()).collect();
    assert!(!failed.is_empty() && failed.len() < 8);
    for trial in failed {
        assert_eq!(trial["settings"][0][1], "500");
        assert!(trial["problem"].as_str().unwrap().contains("train.window"), "{trial}");
        assert!(trial["value"].is_null());
    }
    assert!(found["best"].is_u64());
}

#[test]
fn the_command_says_what_it_does_and_refuses_what_cannot_be() {
    let bench = Bench::new();
    bench.make_small();
    let tune = "tune small --model gcn --window 3 --epochs 2 --trials 2";
    let said = bench.done(&format!("{tune} -o tuned"));
    for part in ["as given", "the best is tuned/trial-00", "last-value", "kymo evaluate tuned/trial-00"] {
        assert!(said.out.contains(part), "{part}: {}", said.out);
    }
    assert!(said.err.contains("2 trials: 2 for 2 epochs; the validation decides by mse"), "{}", said.err);
    // What is said as an option is not tried.
    assert!(said.err.contains("tried are train.learning_rate=0.002..0.03, model.hidden="), "{}", said.err);
    assert_eq!(said.err.lines().filter(|line| line.starts_with("trial ")).count(), 2, "{}", said.err);
    assert!(bench.refused(&format!("{tune} -o tuned")).contains("go on with --resume"));
    assert_eq!(bench.done(&format!("{tune} -o tuned --resume --quiet")).err, "");
    let other = bench.refused(&format!("{tune} --seed 2 -o tuned --resume"));
    assert!(other.contains("other settings, trials or values"), "{other}");
    let refused = |options: &str| bench.refused(&format!("tune small {options} -o new"));
    assert!(refused("--trials 0").contains("--trials"));
    assert!(refused("--jobs 0").contains("--jobs"));
    assert!(refused("--over model.hidden").contains("expected KEY=A,B"));
    assert!(refused("--task by-luck").contains("there is no task"));
    assert!(refused("--window 500").contains("train.window"));
    assert!(bench.refused("tune nowhere -o new").contains("nowhere"));
}
