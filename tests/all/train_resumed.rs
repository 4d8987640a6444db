//! Runs that go on: with more epochs, from nothing, and never by accident.

use crate::fixture::Bench;

#[test]
fn a_run_is_never_begun_over_another() {
    let bench = Bench::new();
    bench.make_small();
    bench.done("train small --epochs 1 -o run");
    let before = bench.files("run");
    let error = bench.refused("train small --epochs 1 -o run");
    assert!(
        error.starts_with("--output: run has a run already; go on with it (kymo train --resume -o run)"),
        "{error}"
    );
    assert!(bench.files("run") == before);
    assert!(bench.kymo("train small --resume").err.contains("--output"), "a run without a name cannot go on");
}

#[test]
fn going_on_equals_never_having_stopped() {
    let bench = Bench::new();
    bench.make_small();
    bench.make_weighted();
    for (task, mode, schedule) in [
        ("node-regression", "windows --model t-gcn", "constant"),
        ("node-classification", "truncated --model gcn-gru", "step"),
        ("link-prediction", "sequence", "constant"),
        ("edge-regression", "windows --model t-gcn", "step"),
        ("edge-classification", "truncated --model gcn-gru", "constant"),
    ] {
        let store = if task.starts_with("edge-") { "weighted" } else { "small" };
        let train = |run: &str, options: &str| {
            let name = format!("{task}-{run}");
            let how = format!("--mode {mode} --set train.schedule={schedule} --set train.schedule_every=2");
            bench.done(&format!("train {store} --task {task} {how} {options} --resume -o {name}"));
            name
        };
        let whole = train("whole", "--epochs 6");
        // The first of them begins the run: there is nothing to go on with yet.
        train("parts", "--epochs 3");
        let parts = train("parts", "--epochs 6");
        assert!(bench.checkpoint(&whole) == bench.checkpoint(&parts), "{task}");
        assert!(
            bench.of_run(&whole, "settings.toml") == bench.of_run(&parts, "settings.toml"),
            "{task}: settings.toml does not say what was done"
        );
        for (one, other) in bench.log(&whole).iter().zip(bench.log(&parts)) {
            for key in ["epoch", "loss", "validation", "best", "learning_rate"] {
                assert_eq!(one[key], other[key], "{task}");
            }
        }
        assert_eq!(bench.log(&parts).len(), bench.log(&whole).len());
        assert_eq!(bench.json(&format!("evaluate {whole}")), bench.json(&format!("evaluate {parts}")));
    }
}

#[test]
fn a_run_that_is_over_says_its_result_again() {
    let bench = Bench::new();
    bench.make_small();
    let first = bench.json("train small --epochs 2 -o run");
    let checkpoint = bench.checkpoint("run");
    let again = bench.json("train -o run --resume");
    assert_eq!((&again["test"], &again["epochs"]), (&first["test"], &first["epochs"]));
    assert!(bench.checkpoint("run") == checkpoint);
    assert_eq!(bench.log("run").len(), 2);
}

#[test]
fn what_was_computed_cannot_be_changed_afterwards() {
    let bench = Bench::new();
    bench.make_small();
    bench.done("generate power-law --vertices 60 --edges 200 --steps 20 --features 3 -o twin");
    bench.file("run.toml", "[train]\nepochs = 9\n");
    bench.done("train small --epochs 2 --seed 5 -o run");
    let before = bench.files("run");
    for (options, expected) in [
        ("--seed 6", "train.seed: the run in run was begun with another value (train.seed: 5 and 6)"),
        ("--set model.hidden=3", "model.hidden: the run in run was begun with another value"),
        ("--task link-prediction", "task.name: the run in run was begun with another value"),
        ("twin", "data.store: the run in run was begun with another value"),
        ("--config run.toml", "--config: a run goes on with the settings it was begun with"),
        ("--set train.epoch=3", "--set: train.epoch: there is no such setting; did you mean train.epochs?"),
    ] {
        let error = bench.refused(&format!("train {options} -o run --resume"));
        assert!(error.starts_with(expected), "{options}: {error}");
    }
    assert!(bench.files("run") == before);
    // Saying again what is so already is fine.
    bench.done("train small --seed 5 --epochs 3 -o run --resume");
    bench.done("train small --epochs 2 --set train.schedule=cosine -o cosine");
    let error = bench.refused("train -o cosine --resume --epochs 4");
    assert!(
        error.starts_with("train.epochs: the cosine schedule was laid out for another number"),
        "{error}"
    );
}

/// Whatever ends a run between its first files, there is a way on.
#[test]
fn a_run_that_failed_while_it_began_goes_on() {
    let bench = Bench::new();
    bench.make_small();
    bench.done("train small --epochs 2 -o whole");
    // A file where the folder for TensorBoard should be ends the run when its log is there already.
    std::fs::create_dir(bench.path("run")).unwrap();
    bench.file("run/tensorboard", "");
    assert!(bench.refused("train small --epochs 2 -o run").contains("tensorboard"));
    std::fs::remove_file(bench.path("run/tensorboard")).unwrap();
    bench.done("train small --epochs 2 -o run --resume");
    assert!(bench.checkpoint("run") == bench.checkpoint("whole"));
    // A log alone is nothing to go on with, and says so instead of pointing in a circle.
    std::fs::remove_file(bench.path("run/checkpoint.safetensors")).unwrap();
    let error = bench.refused("train small -o run --resume");
    assert_eq!(
        error,
        "--output: run has the log of a run but no checkpoint to go on from; choose another folder"
    );
}
