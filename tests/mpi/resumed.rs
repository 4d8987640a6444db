//! Runs that go on with as many processes, with others, and on threads.

use crate::fixture::Bench;
use crate::launch::{Mpi, same_bits};

const TRAIN: &str = "train small --model gcn-gru --window 3 --hidden 8 --threads 1";

/// Guards what a checkpoint must have: begun, stopped and resumed is the same as never stopped, whether
/// workers are threads or processes.
#[test]
fn as_many_workers_reach_the_bits_of_the_run_that_never_stopped() {
    let (Some(mpi), bench) = (Mpi::here(), Bench::new()) else { return };
    bench.make_small();
    // A state that is spread over the workers, and one that every worker has for itself.
    for (name, how) in [("cut", "--mode truncated --strategy pss"), ("whole", "--strategy psg")] {
        let names = ["never", "processes", "mixed"].map(|run| format!("{name}-{run}"));
        let [never, processes, mixed] = &names;
        mpi.done(&bench, 3, &format!("{TRAIN} {how} --epochs 4 -o {never}"));
        mpi.done(&bench, 3, &format!("{TRAIN} {how} --epochs 2 -o {processes}"));
        mpi.done(&bench, 3, &format!("train --epochs 4 --threads 1 -o {processes} --resume"));
        bench.done(&format!("{TRAIN} {how} --workers 3 --epochs 2 -o {mixed}"));
        mpi.done(&bench, 3, &format!("train --epochs 4 --threads 1 -o {mixed} --resume"));
        for other in [processes, mixed] {
            same_bits(&bench, never, other, other);
            let settings = [never, other].map(|run| bench.of_run(run, "settings.toml"));
            assert!(settings[0] == settings[1], "{other}: settings.toml does not say what was done");
        }
    }
}

/// Guards `--resume` with what is left of a machine: fewer workers, more, another strategy.
#[test]
fn other_workers_and_another_strategy_finish_a_run() {
    let (Some(mpi), bench) = (Mpi::here(), Bench::new()) else { return };
    bench.make_small();
    mpi.done(&bench, 3, &format!("{TRAIN} --strategy pts --epochs 2 -o run"));
    let begun = bench.log("run");
    let two = bench.json("train -o run --resume --workers 2 --epochs 4");
    assert_eq!((&two["epochs"], two["workers"]["workers"].as_array().unwrap().len()), (&4.into(), 2));
    mpi.done(&bench, 4, "train -o run --resume --strategy psg --epochs 6");
    let log = bench.log("run");
    assert!(log.len() == 6 && log[..2] == begun[..], "{log:?}");
    let summary: serde_json::Value = serde_json::from_slice(&bench.of_run("run", "summary.json")).unwrap();
    assert_eq!((&summary["workers"]["strategy"], &summary["epochs"]), (&"psg".into(), &6.into()));
    assert_eq!(summary["workers"]["workers"].as_array().unwrap().len(), 4);
    // Training went on: the loss of the first epoch is not reached again.
    let loss = |line: &serde_json::Value| line["loss"].as_f64().unwrap();
    assert!(log.iter().skip(1).all(|line| loss(line) < loss(&log[0])), "{log:?}");
    let evaluated = bench.json("evaluate run");
    assert_eq!(evaluated["metrics"]["mse"], summary["test"]["metrics"]["mse"]);
}
