//! A run that is killed, interrupted or ended computes the bits of one that was left alone.
//!
//! The runs are asked for more epochs than anyone waits for, so that every kill lands inside; how far they
//! came decides how long the run is that they are compared with.

use crate::fixture::Bench;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Epochs that no test lives to see.
const ENDLESS: &str = "--epochs 1000000 --set train.patience=0 --set run.checkpoint_windows=2";

/// Begins `kymo` in the folder.
fn spawn(bench: &Bench, args: &str) -> Child {
    Command::new(env!("CARGO_BIN_EXE_kymo"))
        .args(args.split_whitespace())
        .current_dir(bench.path(""))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Waits until something is so, as long as the command runs.
fn wait_until(child: &mut Child, mut reached: impl FnMut() -> bool) {
    while !reached() {
        expect_running(child);
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Fails with what the command said where it has ended by itself.
fn expect_running(child: &mut Child) {
    if child.try_wait().unwrap().is_some() {
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        panic!("the run ended by itself: {said}");
    }
}

/// The lines of the log, of a run that may not have one yet.
fn lines(bench: &Bench, run: &str) -> usize {
    let text = std::fs::read(bench.path(run).join("metrics.jsonl")).unwrap_or_default();
    text.iter().filter(|&&byte| byte == b'\n').count()
}

/// Lets a run that was ended often finish the epoch after the last one logged, and compares it with one that
/// was left alone.
fn equals_the_uninterrupted(bench: &Bench, task: &str, go_on: &str) {
    let epochs = lines(bench, "run") + 1;
    bench.done(&format!("{go_on} --epochs {epochs}"));
    bench.done(&format!("train store {task} {ENDLESS} --set train.epochs={epochs} -o whole"));
    assert!(bench.checkpoint("run") == bench.checkpoint("whole"), "{task}");
    assert!(bench.of_run("run", "settings.toml") == bench.of_run("whole", "settings.toml"), "{task}");
    let facts = |run: &str| {
        let fact = |line: &serde_json::Value| {
            [line["epoch"].clone(), line["loss"].clone(), line["validation"].clone()]
        };
        bench.log(run).iter().map(fact).collect::<Vec<_>>()
    };
    assert_eq!(facts("run"), facts("whole"), "{task}");
    let names: Vec<String> = bench.files("run").into_keys().collect();
    assert!(!names.iter().any(|name| name.ends_with(".partial")), "{names:?}");
}

fn make_store(bench: &Bench) {
    bench.done("generate power-law --vertices 300 --edges 1500 --steps 20 --features 3 -o store");
}

/// Kills: while it begins, between and during epochs and checkpoints.
pub fn survives_kills(task: &str, kills: std::ops::Range<usize>) {
    let bench = Bench::new();
    make_store(&bench);
    let (checkpoint, resume) =
        (bench.path("run/checkpoint.safetensors"), format!("train store {task} {ENDLESS} -o run --resume"));
    for moment in kills {
        let mut child = spawn(&bench, &resume);
        // The first ones are killed wherever they are, most likely while they read the store.
        let changes = if moment < 3 { 0 } else { 1 + moment % 4 };
        let (mut seen, mut last) = (0, std::fs::read(&checkpoint).ok());
        wait_until(&mut child, || {
            let now = std::fs::read(&checkpoint).ok();
            seen += usize::from(now != last);
            last = now;
            seen >= changes
        });
        std::thread::sleep(Duration::from_millis((moment * 7 % 10) as u64));
        expect_running(&mut child);
        child.kill().unwrap();
        child.wait().unwrap();
    }
    equals_the_uninterrupted(&bench, task, "train -o run --resume");
}

#[test]
fn kills_cost_nothing_but_time() {
    survives_kills("--task node-regression", 0..10);
}

#[test]
fn kills_lose_no_state_that_windows_hand_over() {
    survives_kills("--task node-classification --mode truncated --window 2 --model gcn-gru", 0..10);
}

#[test]
fn kills_do_not_change_the_pairs_that_are_drawn() {
    survives_kills("--task link-prediction --set model.dropout=0.1", 0..10);
}

#[test]
fn built_in_data_that_was_not_finished_is_made_again() {
    let bench = Bench::new();
    let mut child = spawn(&bench, "train --epochs 1 -o run");
    wait_until(&mut child, || bench.path("run").exists());
    child.kill().unwrap();
    child.wait().unwrap();
    // There is nothing to resume yet, unless the kill came late.
    let began = bench.path("run/checkpoint.safetensors").exists();
    bench.done(&format!("train --epochs 1 -o run {}", if began { "--resume" } else { "" }));
    bench.done("train --epochs 1 -o whole");
    assert!(bench.checkpoint("run") == bench.checkpoint("whole"));
    assert!(bench.files("run/data") == bench.files("whole/data"));
}

/// Ends a run by a signal, and goes on with the command that it names.
#[cfg(unix)]
pub fn stops_at(signal: &str, how: &str, options: &str) {
    let bench = Bench::new();
    make_store(&bench);
    let task = &format!("--task node-regression --set run.checkpoint_epochs=1000 {how}");
    let mut child = spawn(&bench, &format!("train store {task} {ENDLESS} {options} -o run"));
    wait_until(&mut child, || lines(&bench, "run") >= 2);
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    let code = if signal == "-TERM" { 143 } else { 130 };
    assert_eq!(output.status.code(), Some(code), "{text}");
    let said = text.lines().last().unwrap();
    assert_eq!(said, "stopped; go on with: kymo train -o run --resume");
    assert!(options.is_empty() || text.lines().count() == 1, "{text}");
    equals_the_uninterrupted(&bench, task, said.split("kymo ").nth(1).unwrap());
}

#[cfg(unix)]
#[test]
fn an_interrupted_run_says_how_to_go_on() {
    stops_at("-INT", "", "");
}

#[cfg(unix)]
#[test]
fn a_run_that_is_told_to_end_says_how_to_go_on() {
    stops_at("-TERM", "", "--json");
}
