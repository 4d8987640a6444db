//! The oracle: whatever is trained, processes compute the bits that threads compute.

use kymo_model::zoo;
use kymo_plan::{Scheme, Strategy, strategy};
use kymo_run::task;

use crate::fixture::Bench;
use crate::launch::{Mpi, same_bits};

/// All strategies that were built in.
fn strategies() -> impl Iterator<Item = &'static Strategy> {
    strategy::ALL.iter().filter(|strategy| strategy.is_built())
}

/// A small store with features, values and classes.
fn small(bench: &Bench) {
    bench.done("generate power-law --vertices 30 --edges 90 --steps 14 --features 3 -o small");
}

/// Few numbers, few windows; schedules that do not follow the clock.
const BRIEF: &str = "--epochs 2 --window 3 --threads 1 --set parallel.costs=edges";

/// Trains on threads and in processes, and compares.
fn check(mpi: &Mpi, bench: &Bench, ranks: usize, name: &str, how: &str) {
    let store = if how.contains("--task edge-") { "weighted" } else { "small" };
    let train = format!("train {store} {BRIEF} {how}");
    let (threads, processes) = (format!("{name}-threads"), format!("{name}-processes"));
    bench.done(&format!("{train} --workers {ranks} -o {threads}"));
    mpi.done(bench, ranks, &format!("{train} -o {processes}"));
    same_bits(bench, &threads, &processes, &format!("{ranks} workers: {how}"));
}

#[test]
fn every_strategy_gives_the_bits_of_threads() {
    let (Some(mpi), bench) = (Mpi::here(), Bench::new()) else { return };
    small(&bench);
    for (turn, strategy) in strategies().enumerate() {
        // Two layers, so that rows of neighbours are exchanged; wide, so that gradients are summed in slices.
        let how = format!("--model t-gcn --layers 2 --hidden 32 --strategy {}", strategy.name);
        check(&mpi, &bench, 2 + turn % 3, strategy.name, &how);
    }
}

#[test]
fn every_model_gives_the_bits_of_threads() {
    let (Some(mpi), bench) = (Mpi::here(), Bench::new()) else { return };
    small(&bench);
    for (turn, recipe) in zoo::ALL.iter().enumerate() {
        for (other, strategy) in ["psg", "pss-ts"].into_iter().enumerate() {
            let (name, model) = (format!("{}-{strategy}", recipe.name), recipe.name);
            let how = format!("--model {model} --hidden 8 --strategy {strategy} --set model.dropout=0.2");
            check(&mpi, &bench, 2 + (turn + other) % 3, &name, &how);
        }
    }
}

#[test]
fn every_task_and_mode_gives_the_bits_of_threads() {
    let (Some(mpi), bench) = (Mpi::here(), Bench::new()) else { return };
    small(&bench);
    bench.make_weighted();
    let mut turn = 0;
    for task in task::ALL {
        for mode in ["windows", "sequence", "truncated"] {
            for name in ["psg", "vertex-hash"] {
                let cuts = matches!(strategy::find(name).unwrap().scheme, Scheme::Cells { .. });
                // A state that goes from window to window cannot be at two workers.
                if mode == "truncated" && !cuts {
                    continue;
                }
                let task = task.name();
                let how = format!("--task {task} --mode {mode} --model gcn-gru --hidden 8 --strategy {name}");
                check(&mpi, &bench, 2 + turn % 3, &format!("{task}-{mode}-{name}"), &how);
                turn += 1;
            }
        }
    }
}

/// Models that threads averaged as the clock had it are averaged by processes after the same iterations.
#[test]
fn averages_are_repeated_by_processes() {
    let (Some(mpi), bench) = (Mpi::here(), Bench::new()) else { return };
    small(&bench);
    for (turn, strategy) in ["psg", "dynahb"].into_iter().enumerate() {
        let ranks = 2 + turn;
        let how = format!("--model t-gcn --hidden 8 --strategy {strategy} --set run.checkpoint_windows=3");
        let live = format!("live-{strategy}");
        let by_clock = format!("--workers {ranks} --set averaging.seconds=1e-9 -o {live}");
        bench.done(&format!("train small {BRIEF} {how} {by_clock}"));
        let again = format!("{how} --set averaging.replay={live}/averaging.jsonl");
        check(&mpi, &bench, ranks, &format!("{strategy}-again"), &again);
    }
}

/// Sums in whatever order MPI takes: close to the others, not the same bits. Gradients of 96 columns are
/// enough for it to be asked.
#[test]
fn sums_of_mpi_come_to_the_same_losses() {
    let (Some(mpi), bench) = (Mpi::here(), Bench::new()) else { return };
    small(&bench);
    for (ranks, strategy) in [(3, "psg"), (4, "pts")] {
        let train = format!("train small {BRIEF} --model t-gcn --hidden 96 --strategy {strategy}");
        mpi.done(&bench, ranks, &format!("{train} -o {strategy}-ordered"));
        mpi.done(&bench, ranks, &format!("{train} --set parallel.sums=native -o {strategy}-native"));
        let logs = ["ordered", "native"].map(|sums| bench.log(&format!("{strategy}-{sums}")));
        assert_eq!(logs[0].len(), logs[1].len());
        for (ordered, native) in logs[0].iter().zip(&logs[1]) {
            let [ordered, native] = [ordered, native].map(|line| line["loss"].as_f64().unwrap());
            let allowed = 1e-4 * ordered.abs();
            assert!((ordered - native).abs() <= allowed, "{strategy}: losses {ordered} and {native}");
        }
    }
}

/// Guards the figures that a plan is told: measured between the processes, printed once.
#[test]
fn the_doctor_measures_the_wire() {
    let (Some(mpi), bench) = (Mpi::here(), Bench::new()) else { return };
    let answer = mpi.kymo(&bench, 2, "doctor --json");
    assert_eq!(answer.code, 0, "{}", answer.err);
    let report: serde_json::Value = serde_json::from_str(&answer.out).unwrap();
    let wire = &report["wire"];
    assert!(wire["processes"] == 2 && wire["hosts"] == 1, "{report}");
    assert!(wire["rate"].as_f64().unwrap() > 0.0 && wire["latency"].as_f64().unwrap() > 0.0, "{report}");
}
