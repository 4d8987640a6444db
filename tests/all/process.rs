//! The command as a process: signals, standard output and standard error that fail, terminals, quiet.

use crate::fixture::{Answer, Bench};
use std::fs::{File, OpenOptions};
use std::process::{Child, Command, Stdio};

/// Epochs that no test lives to see.
const ENDLESS: &str = "--epochs 1000000 --set train.patience=0";
/// A model that goes through all steps.
const THROUGH: &str = "--task link-prediction --model gcn-gru --mode sequence --hidden 8";

fn kymo(bench: &Bench, args: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kymo"));
    command.args(args.split_whitespace()).current_dir(bench.path("")).env_remove("COLUMNS");
    command
}

/// Where nothing can be written.
fn full() -> File {
    OpenOptions::new().write(true).open("/dev/full").unwrap()
}

/// A pipe that nobody reads.
fn closed() -> Stdio {
    let mut reader = Command::new("true").stdin(Stdio::piped()).spawn().unwrap();
    let pipe = reader.stdin.take().unwrap();
    reader.wait().unwrap();
    pipe.into()
}

/// A shell that begins `kymo` in its own place.
fn shell(bench: &Bench, before: &str, args: &str, after: &str) -> Command {
    let mut command = Command::new("sh");
    let script = format!("{before} exec \"$KYMO\" {args} {after}");
    command.args(["-c", &script]).env("KYMO", env!("CARGO_BIN_EXE_kymo")).current_dir(bench.path(""));
    command
}

fn send(signal: &str, child: &Child) {
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
}

/// Waits until something is so, as long as the command runs.
fn wait_until(child: &mut Child, mut reached: impl FnMut() -> bool) {
    while !reached() {
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// Whether a process has a handler for a signal.
#[cfg(target_os = "linux")]
fn catches(id: u32, signal: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or("0");
    u64::from_str_radix(mask.trim(), 16).unwrap() >> (signal - 1) & 1 == 1
}

fn epochs(bench: &Bench, run: &str) -> usize {
    let text = std::fs::read(bench.path(run).join("metrics.jsonl")).unwrap_or_default();
    text.iter().filter(|&&byte| byte == b'\n').count()
}

/// Standard error that is full, closed, or a pipe that nobody reads does not end the training.
#[test]
fn training_needs_nobody_who_listens() {
    let bench = Bench::new();
    bench.make_small();
    let train = |run: &str| format!("train small --epochs 2 -o {run}");
    let mut loud = kymo(&bench, &train("full"));
    assert_eq!(bench.command(loud.stderr(full())).code, 0);
    let mut pipe = kymo(&bench, &train("pipe"));
    let mut child = pipe.stderr(closed()).stdout(Stdio::null()).spawn().unwrap();
    assert!(child.wait().unwrap().success());
    let mut gone = shell(&bench, "", &train("gone"), "2>&-");
    assert!(gone.stdout(Stdio::null()).status().unwrap().success());
    for run in ["full", "pipe", "gone"] {
        assert_eq!(epochs(&bench, run), 2, "{run}");
    }
    // An error keeps its code where nobody can read it.
    let status = kymo(&bench, "list models --threads 0").stderr(full()).status().unwrap();
    assert_eq!(status.code(), Some(2));
}

/// A full disk behind standard output is an error of the machine, a reader that has gone is none.
#[test]
fn standard_output_may_be_full_or_closed() {
    let bench = Bench::new();
    bench.make_small();
    bench.done("train small --epochs 1 -o run");
    for args in [
        "inspect small",
        "inspect small --json",
        "list settings",
        "evaluate run",
        "plan small --workers 2",
        "simulate --groups 20 --strategy psg",
        "completions bash",
        "man",
        "--help",
        "train --help",
        "--version",
        "train small --epochs 1 -o never",
    ] {
        let output = kymo(&bench, args).stdout(full()).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(4), "kymo {args}: {said}");
        assert!(said.starts_with("error: cannot write standard output: "), "kymo {args}: {said}");
        if !args.contains("never") {
            let output = kymo(&bench, args).stdout(closed()).output().unwrap();
            assert!(output.status.success() && output.stderr.is_empty(), "kymo {args}");
        }
    }
    // Nobody reads what is about to be trained: it is trained all the same.
    let output = kymo(&bench, "train small --epochs 2 -o piped").stdout(closed()).output().unwrap();
    assert_eq!((output.status.code(), epochs(&bench, "piped")), (Some(0), 2));
}

/// Ends a training by a signal: its code, and what it said last.
#[cfg(target_os = "linux")]
fn stopped_training(bench: &Bench, signal: &str, options: &str) -> (Option<i32>, String) {
    let mut command = kymo(bench, &format!("train small {ENDLESS} {options} -o run"));
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let pipe = child.stderr.take().unwrap();
    // Read while it runs: a pipe that is full would stop it.
    let reader = std::thread::spawn(move || std::io::read_to_string(pipe).unwrap());
    wait_until(&mut child, || epochs(bench, "run") >= 2);
    send(signal, &child);
    let code = child.wait().unwrap().code();
    (code, reader.join().unwrap().lines().last().unwrap().to_owned())
}

/// Every signal that stops has the code that shells give it, and to be stopped is no error.
#[cfg(target_os = "linux")]
#[test]
fn each_signal_has_its_exit_code() {
    for (signal, code) in [("-INT", 130), ("-TERM", 143), ("-HUP", 129)] {
        let bench = Bench::new();
        bench.make_small();
        let (found, said) = stopped_training(&bench, signal, "--quiet");
        assert_eq!((found, said.as_str()), (Some(code), "stopped; go on with: kymo train -o run --resume"));
        bench.done("train -o run --resume --epochs 1");
    }
}

/// What a parent ignores for its child, as nohup does, stays ignored; other signals still stop it.
#[cfg(target_os = "linux")]
#[test]
fn signals_that_were_ignored_stay_ignored() {
    for (ignored, stops, code) in [("HUP", "-TERM", 143), ("INT", "-TERM", 143), ("TERM", "-INT", 130)] {
        let bench = Bench::new();
        bench.make_small();
        let args = format!("train small {ENDLESS} --quiet -o run");
        let mut command = shell(&bench, &format!("trap '' {ignored};"), &args, "");
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        wait_until(&mut child, || epochs(&bench, "run") >= 1);
        send(&format!("-{ignored}"), &child);
        let so_far = epochs(&bench, "run");
        wait_until(&mut child, || epochs(&bench, "run") >= so_far + 3);
        send(stops, &child);
        assert_eq!(child.wait().unwrap().code(), Some(code), "{ignored} ignored");
    }
}

/// Evaluations and predictions end at the first signal, without a result.
#[cfg(target_os = "linux")]
#[test]
fn evaluations_and_predictions_stop_when_they_are_told_to() {
    let bench = Bench::new();
    bench.done("generate power-law --vertices 300 --edges 1000 --steps 3000 --features 3 -o long");
    let split = "--set split.train=0.01 --set split.validation=0.01";
    bench.done(&format!("train long --model gcn-gru --mode sequence --hidden 64 {split} --epochs 1 -o run"));
    for (signal, number, code) in [("-INT", 2, 130), ("-TERM", 15, 143)] {
        for args in ["evaluate run --metrics all", "predict run -o links.csv"] {
            let mut command = kymo(&bench, args);
            let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            let id = child.id();
            wait_until(&mut child, || catches(id, number));
            send(signal, &child);
            let output = child.wait_with_output().unwrap();
            let said = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(code), "kymo {args}: {said}");
            assert_eq!(said, "stopped; nothing was written\n", "kymo {args}");
            assert!(output.stdout.is_empty() && !bench.path("links.csv").exists(), "kymo {args}");
        }
    }
}

/// The progress of an evaluation is that of the work, and stops it.
#[test]
fn the_progress_of_evaluations_reaches_its_end() {
    use kymo::graph::Progress;
    use kymo::{Part, Predict, Run};
    let bench = Bench::new();
    bench.make_small();
    for (run, how) in [("windows", ""), ("through", THROUGH)] {
        bench.done(&format!("train small {how} --epochs 1 -o {run}"));
        let load = |progress: &Progress| Run::load(bench.path(run)).unwrap().progress(progress);
        let progress = Progress::default();
        load(&progress).evaluate(Part::Test).unwrap();
        let (total, done) = progress.work();
        // A model and two baselines on three steps.
        assert!(total == done && done >= 9, "{run}: {done} of {total}");
        let progress = Progress::default();
        load(&progress).predict(Predict::next()).unwrap();
        let (total, done) = progress.work();
        assert_eq!((total, done), if run == "windows" { (1, 1) } else { (20, 20) });
        progress.stop();
        let stopped = [
            load(&progress).evaluate(Part::Test).err().unwrap(),
            load(&progress).predict(Predict::next()).err().unwrap(),
        ];
        assert!(stopped.iter().all(|error| error.class() == kymo::run::Class::Stopped), "{stopped:?}");
    }
}

/// More threads than any machine gives are refused before they kill the process.
#[test]
fn too_many_threads_are_a_mistake_in_the_settings() {
    let bench = Bench::new();
    bench.make_small();
    let cores = std::thread::available_parallelism().unwrap();
    let most =
        format!("found 50000, expected at most {}: this machine has {cores} core", 256.max(4 * cores.get()));
    for args in ["list models --threads 50000", "train small --threads 50000 -o run"] {
        assert!(bench.refused(args).starts_with(&format!("--threads: {most}")), "kymo {args}");
    }
    let said = bench.refused("train small --workers 50000 -o run");
    assert!(said.starts_with(&format!("parallel.workers: {most}")), "{said}");
    let mut by_rayon = kymo(&bench, "list models");
    let Answer { code, err, .. } = bench.command(by_rayon.env("RAYON_NUM_THREADS", "50000"));
    assert!(code == 2 && err.starts_with(&format!("error: RAYON_NUM_THREADS: {most}")), "{err}");
    bench.done("list models --threads 256");
}

/// Quiet leaves results and errors, and nothing else.
#[test]
fn quiet_leaves_results_and_errors() {
    let bench = Bench::new();
    let silent = |args: &str| {
        let answer = bench.done(args);
        assert_eq!((answer.out.as_str(), answer.err.as_str()), ("", ""), "kymo {args}");
    };
    bench.file("events.txt", "1 2 0\n2 3 10\n3 1 25\n");
    silent("ingest events.txt --format snap -o events --quiet");
    silent("-q generate power-law --vertices 60 --edges 200 --steps 20 --features 3 -o small");
    let trained = bench.done("train small --epochs 2 -o run --quiet");
    let lines: Vec<&str> = trained.out.lines().collect();
    assert!(lines[0].starts_with("best of 2 epochs: ") && lines[1].starts_with("test "), "{}", trained.out);
    // The model, every baseline, and nothing about any of them: it beats them all here.
    let baselines = bench.json("evaluate run")["baselines"].as_object().unwrap().len();
    assert_eq!((lines.len(), trained.err.as_str()), (3 + baselines, ""), "{}", trained.out);
    assert_eq!(bench.done("evaluate run -q").out, bench.done("evaluate run").out);
    assert!(trained.out.ends_with(&bench.done("evaluate run").out));
    silent("predict run -o values.csv --quiet");
    assert!(bench.path("values.csv").exists());
    silent("man pages --quiet");
    assert_eq!(bench.done("inspect small --quiet").out, bench.done("inspect small").out);
    assert!(bench.refused("inspect none --quiet").contains("there is no such store"));
    assert!(bench.json("train small --epochs 1 -o json --quiet")["test"].is_object());
}

/// What is asked for as JSON is JSON and nothing else, whatever the verb.
#[test]
fn json_stands_alone_on_standard_output() {
    let bench = Bench::new();
    bench.file("events.txt", "1 2 0\n2 3 10\n3 1 25\n");
    bench.make_small();
    for args in [
        "ingest events.txt --format snap -o events",
        "generate uniform --vertices 20 --edges 40 --steps 5 -o uniform",
        "train small --epochs 2 -o run",
        "train -o run --resume --epochs 3",
        "train small --epochs 2 --workers 2 --strategy dygnex -o shared",
        "evaluate run",
        "inspect small",
        "plan small --workers 2",
        "simulate --groups 20",
        "list models",
        "list settings",
    ] {
        // The fixture reads all of standard output as one value, and wants standard error empty.
        bench.json(args);
    }
}

/// Nothing is wider than COLUMNS, in reports and in tables.
#[test]
fn what_is_printed_fits_the_terminal() {
    let bench = Bench::new();
    bench.make_small();
    bench.done("train small --epochs 1 -o run");
    for args in [
        "inspect small --steps",
        "plan small --workers 3",
        "plan small --workers 3 --strategy pts",
        "plan small --workers 3 --strategy dygnex-g",
        "simulate --groups 50 --workers 2,4 --gantt",
        "train small --epochs 2 --workers 2 --strategy psg --metrics all -o RUN",
        "evaluate run --metrics all",
        "list models",
        "list metrics",
    ] {
        for columns in ["40", "60", "80", "200"] {
            let mut command = kymo(&bench, &args.replace("RUN", &format!("run-{columns}")));
            let answer = bench.command(command.env("COLUMNS", columns));
            assert_eq!(answer.code, 0, "{}", answer.err);
            let fits = |line: &str| line.chars().count() <= columns.parse().unwrap();
            assert!(answer.out.lines().all(fits), "{columns} columns of kymo {args}:\n{}", answer.out);
        }
    }
}

/// Scripts of all shells know the verbs and their options, and bash can read its own.
#[test]
fn shells_can_complete_the_command() {
    let bench = Bench::new();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = bench.done(&format!("completions {shell}")).out;
        for word in ["simulate", "learning-rate", "edge-life", "quiet"] {
            assert!(script.contains(word), "{word} is not in the script for {shell}");
        }
    }
    let script = bench.file("kymo.bash", bench.done("completions bash").out);
    let asked = "COMP_WORDS=(kymo tra) COMP_CWORD=1; _kymo kymo tra kymo; echo ${COMPREPLY[@]}";
    let mut bash = Command::new("bash");
    bash.args(["-c", &format!("source {}; {asked}", script.display())]);
    assert_eq!(bench.command(&mut bash).out, "train\n");
}

/// There is a page for the command and one for each verb, and none is replaced unasked.
#[test]
fn manual_pages_are_written_and_never_replaced_unasked() {
    let bench = Bench::new();
    let printed = bench.done("man").out;
    assert!(printed.contains(".TH kymo 1") && printed.contains("kymo\\-train(1)"), "{printed}");
    assert!(bench.done("man pages").out.ends_with(" in pages\n"));
    let pages = bench.files("pages");
    let help = bench.done("--help").out;
    let verbs = help.split("Commands:").nth(1).unwrap().split("\n\n").next().unwrap();
    let verbs: Vec<&str> = verbs.lines().filter_map(|line| line.split_whitespace().next()).collect();
    for verb in ["train", "evaluate", "completions", "man"] {
        assert!(pages.contains_key(&format!("kymo-{verb}.1")), "{verb}: {:?}", pages.keys());
    }
    assert!(verbs.len() >= 12 && pages.len() >= 13, "{verbs:?}");
    assert_eq!(pages["kymo.1"], printed.as_bytes());
    std::fs::remove_file(bench.path("pages/kymo.1")).unwrap();
    bench.file("pages/kymo-train.1", "mine");
    assert!(bench.refused("man pages").contains("kymo-train.1 is there already; --overwrite replaces it"));
    assert!(!bench.path("pages/kymo.1").exists(), "a refusal writes nothing");
    bench.done("man pages --overwrite");
    assert_eq!(bench.files("pages"), pages);
}
