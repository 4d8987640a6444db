//! Outputs are never lost, blocked or overwritten: by a typing error, a second process, or one that was
//! killed.

use crate::fixture::Bench;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A `kymo` that runs, and is killed with the test that began it.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        self.0.wait().unwrap();
    }
}

impl Running {
    /// Begins `kymo` in the folder, with a standard input that stays open.
    fn begin(bench: &Bench, args: &str) -> Running {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kymo"));
        command.args(args.split_whitespace()).current_dir(bench.path(""));
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        Running(command.spawn().unwrap())
    }

    /// Begins an `ingest` to `new` that waits for its input, and so stays where it is for as long as a test
    /// wants.
    fn begin_ingest(bench: &Bench, options: &str) -> Running {
        let mut running = Running::begin(bench, &format!("ingest - --format snap --window 1 {options}"));
        running.wait_until(|| bench.names().iter().any(|name| name.starts_with(".new.partial")));
        running
    }

    /// Waits until something is so, as long as the command runs.
    fn wait_until(&mut self, reached: impl Fn() -> bool) {
        while !reached() {
            assert!(self.0.try_wait().unwrap().is_none(), "it ended by itself: {}", self.said());
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// What an ended command said.
    fn said(&mut self) -> String {
        let mut said = String::new();
        self.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        said
    }

    /// Gives the command the rest of its input; whether it succeeded.
    fn end(&mut self, input: &str) -> bool {
        self.0.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        self.0.wait().unwrap().success()
    }
}

/// A name typed wrongly must not begin a run on other data.
#[test]
fn a_run_that_is_not_there_is_not_resumed() {
    let bench = Bench::new();
    bench.make_small();
    bench.done("train small --epochs 1 -o first");
    std::fs::create_dir(bench.path("empty")).unwrap();
    std::fs::create_dir(bench.path("other")).unwrap();
    bench.file("other/notes.txt", "");
    for (name, expected) in [
        ("frist", "--resume: there is no frist; there is first; to begin a run leave --resume out"),
        ("none/frist", "--resume: there is no none/frist; to begin a run leave --resume out"),
        ("empty", "--resume: empty has no run: it is empty; to begin a run leave --resume out"),
        ("small", "--resume: small has no run: it is a store; to begin a run leave --resume out"),
        ("other", "--resume: other has no run: it holds notes.txt; to begin a run leave --resume out"),
    ] {
        assert_eq!(bench.refused(&format!("train -o {name} --resume --epochs 1")), expected);
    }
    assert_eq!(bench.files("other").len(), 1);
    assert!(bench.files("empty").is_empty());
}

/// A run in a store would be deleted when the store is replaced, and a store in a run with the run.
#[test]
fn runs_and_stores_are_kept_apart() {
    let bench = Bench::new();
    bench.make_small();
    bench.done("train small --epochs 1 -o run");
    let (store, run) = (bench.files("small"), bench.files("run"));
    std::fs::create_dir(bench.path("folder")).unwrap();
    let mut inside = vec!["small", "small/run", "small/a/b/../../c", "folder/../small/run"];
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("../small", bench.path("folder/link")).unwrap();
        std::os::unix::fs::symlink("small/later", bench.path("later")).unwrap();
        inside.extend(["folder/link", "folder/link/run", "later", "later/run"]);
    }
    for path in inside {
        let error = bench.refused(&format!("train small --epochs 1 -o {path}"));
        assert!(error.starts_with(&format!("--output: {path} is in the store ")), "{error}");
    }
    let generate = "generate power-law --vertices 60 --edges 200 --steps 20 --overwrite";
    for (path, expected) in [
        ("small/inner", "lies in the store "),
        ("run/inner", "lies in the folder of the run "),
        ("run/data", "lies in the folder of the run "),
        ("run/a/../b", "lies in the folder of the run "),
    ] {
        let error = bench.refused(&format!("{generate} -o {path}"));
        assert!(error.starts_with(&format!("{path}: {expected}")), "{error}");
    }
    assert!(bench.refused(&format!("{generate} -o run")).starts_with("run: exists and is not a store"));
    assert!(bench.files("small") == store && bench.files("run") == run, "what was refused changed something");
}

/// The one store that belongs into a run is made again where it is gone.
#[test]
fn a_run_makes_its_own_data_again() {
    let bench = Bench::new();
    bench.done("train --epochs 1 -o run");
    let first = bench.json("evaluate run");
    std::fs::remove_dir_all(bench.path("run/data")).unwrap();
    assert_eq!(bench.json("evaluate run"), first);
}

#[test]
fn only_a_store_is_deleted_for_a_store() {
    let bench = Bench::new();
    bench.make_small();
    let again = "generate power-law --vertices 50 --edges 200 --steps 10 -o small --overwrite";
    for (name, note) in [("notes.txt", "notes.txt"), ("steps-1.csv", "steps-1.csv")] {
        let path = bench.file(&format!("small/{name}"), "mine");
        let error = bench.refused(again);
        let expected = format!("small: holds more than a store, which would be lost ({note}); ");
        assert!(error.starts_with(&expected), "{error}");
        std::fs::remove_file(path).unwrap();
    }
    // Not even where a folder has the name of one of its files, or another program has a manifest.
    std::fs::create_dir(bench.path("small/lock")).unwrap();
    assert!(bench.refused(again).contains("(lock)"));
    std::fs::remove_dir(bench.path("small/lock")).unwrap();
    std::fs::create_dir(bench.path("page")).unwrap();
    bench.file("page/manifest.json", "{\"name\": \"a page\"}");
    let error = bench.refused("generate power-law -o page --overwrite");
    assert!(error.starts_with("page: exists and is not a store"), "{error}");
    bench.done(again);
}

/// In a container every process has the number 1: what the first one left has the name the next one needs.
#[test]
fn a_killed_writer_blocks_nobody_and_leaves_nothing_for_long() {
    let bench = Bench::new();
    bench.file("events.txt", "1 2 3\n2 3 4\n");
    for options in ["-o new", "-o new --overwrite"] {
        drop(Running::begin_ingest(&bench, options));
        bench.done(&format!("ingest events.txt --format snap --window 1 {options}"));
        assert_eq!(bench.names(), ["events.txt", "new"]);
    }
    // A training that is killed while it makes its data.
    let mut training = Running::begin(&bench, "train --epochs 1 -o run");
    let hidden = |entry: std::fs::DirEntry| entry.file_name().to_string_lossy().starts_with(".data");
    training.wait_until(|| std::fs::read_dir(bench.path("run")).is_ok_and(|run| run.flatten().any(hidden)));
    drop(training);
    bench.done(if bench.path("run/checkpoint.safetensors").exists() {
        "train --epochs 1 -o run --resume"
    } else {
        "train --epochs 1 -o run"
    });
    let left: Vec<String> = bench.files("run").into_keys().filter(|name| name.contains("partial")).collect();
    assert!(left.is_empty() && !bench.path("run/lock").exists(), "{left:?}");
    let names: Vec<_> =
        std::fs::read_dir(bench.path("run")).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert!(!names.iter().any(|name| name.to_string_lossy().starts_with('.')), "{names:?}");
}

/// Of two writers of one name the second is told of the first, and nothing of either is lost.
#[test]
fn one_name_has_one_writer() {
    let bench = Bench::new();
    bench.file("events.txt", "1 2 3\n2 3 4\n");
    for options in ["-o new", "-o new --overwrite"] {
        let mut first = Running::begin_ingest(&bench, options);
        let error = bench.refused(&format!("ingest events.txt --format snap --window 1 {options}"));
        let expected = format!("cannot write new: process {} on ", first.0.id());
        assert!(error.starts_with(&expected), "{error}");
        assert!(first.end("1 2 3\n2 3 4\n3 4 5\n"), "{}", first.said());
        assert_eq!(bench.json("inspect new")["steps"], 3, "the store is that of the first");
        assert_eq!(bench.names(), ["events.txt", "new"]);
    }
    // One that comes to its end later than another began does not replace it unasked.
    std::fs::remove_dir_all(bench.path("new")).unwrap();
    let mut late = Running::begin_ingest(&bench, "-o new");
    std::fs::create_dir(bench.path("new")).unwrap();
    assert!(!late.end("1 2 3\n2 3 4\n"), "an empty folder was replaced");
}

/// Whenever a writer that replaces a store is killed, there is the old store or the new one.
#[test]
fn a_replaced_store_is_there_whenever_its_writer_is_killed() {
    let bench = Bench::new();
    let make = |steps: u64| {
        format!("generate power-law --vertices 300 --edges 900 --steps {steps} --overwrite -o store")
    };
    bench.done(&make(10));
    for moment in 0..12u64 {
        let before = bench.json("inspect store")["steps"].as_u64().unwrap();
        let next = 21 - before % 20;
        let mut writer = Running::begin(&bench, &make(next));
        // Some are killed while they write, some about when they exchange the folders, some have ended.
        if moment % 3 > 0 {
            let manifest = bench.path(".store.partial/manifest.json");
            while !manifest.exists() && writer.0.try_wait().unwrap().is_none() {
                std::hint::spin_loop();
            }
        }
        std::thread::sleep(Duration::from_micros(200 * moment));
        drop(writer);
        let found = bench.json("inspect store")["steps"].as_u64().unwrap();
        assert!(found == before || found == next, "{found} steps, neither {before} nor {next}");
    }
    bench.done(&make(7));
    assert_eq!(
        (bench.json("inspect store")["steps"].as_u64(), bench.names()),
        (Some(7), vec!["store".into()])
    );
}

/// Where folders cannot be exchanged, a kill can leave a store under another name; so did earlier versions.
#[test]
fn a_store_that_was_moved_aside_comes_back() {
    let bench = Bench::new();
    let generate = "generate power-law --vertices 50 --edges 200 --steps 10 -o small";
    for back in ["inspect small", &format!("{generate} --overwrite")] {
        bench.make_small();
        std::fs::rename(bench.path("small"), bench.path(".small.old")).unwrap();
        bench.done(back);
        assert_eq!(bench.names(), ["small"]);
        std::fs::remove_dir_all(bench.path("small")).unwrap();
    }
    bench.make_small();
    std::fs::rename(bench.path("small"), bench.path(".small.old")).unwrap();
    assert!(bench.kymo(generate).err.contains("small: exists already"), "it would have been lost");
    assert_eq!(bench.names(), ["small"]);
}

#[test]
fn a_run_is_trained_by_one_process() {
    let bench = Bench::new();
    bench.make_small();
    let endless = "--epochs 1000000 --set train.patience=0";
    let mut training = Running::begin(&bench, &format!("train small {endless} -o run"));
    training.wait_until(|| bench.path("run/metrics.jsonl").exists());
    let who = format!("cannot write run: process {} on ", training.0.id());
    // Where they are let in, they end at once.
    for command in ["train -o run --resume --epochs 1", "train small -o run --resume --epochs 1"] {
        let error = bench.refused(command);
        assert!(error.starts_with(&who), "{command}: {error}");
    }
    assert!(bench.refused("train small -o run").contains("run has a run already"));
    // Readers are let in.
    bench.done("evaluate run");
    drop(training);
    // What a killed process did not finish does not stay, even if it is never written again.
    bench.file("run/profile.json.partial", "half of");
    bench.file("run/.data.lock", "process 1 on a machine that is no more");
    let epochs = bench.log("run").len() + 1;
    bench.done(&format!("train -o run --resume --epochs {epochs}"));
    assert!(!bench.path("run/lock").exists() && !bench.path("run/profile.json.partial").exists());
    assert!(!bench.path("run/.data.lock").exists());
}

/// Runs that are given no folder choose one; two that choose at the same time choose two.
#[test]
fn runs_without_a_folder_do_not_meet() {
    let bench = Bench::new();
    bench.make_small();
    let runs: Vec<Running> = (0..3).map(|_| Running::begin(&bench, "train small --epochs 1")).collect();
    for mut run in runs {
        assert!(run.end(""), "{}", run.said());
    }
    assert_eq!(std::fs::read_dir(bench.path("runs")).unwrap().count(), 3);
    // One that cannot begin leaves no folder behind.
    bench.refused("train small --window 100");
    assert_eq!(std::fs::read_dir(bench.path("runs")).unwrap().count(), 3);
    std::fs::remove_dir_all(bench.path("runs")).unwrap();
    bench.refused("train small --window 100");
    bench.refused("train small --window 100 -o deep/in/folders");
}

/// Standard output has the table and nothing else.
#[test]
fn predictions_go_to_standard_output() {
    let bench = Bench::new();
    bench.make_small();
    bench.done("train small --epochs 1 -o run");
    bench.done("predict run -o out.csv");
    let table = String::from_utf8(std::fs::read(bench.path("out.csv")).unwrap()).unwrap();
    let mut ways = vec!["-"];
    if cfg!(target_os = "linux") {
        ways.push("/dev/stdout");
    }
    for way in ways {
        for options in ["", "--overwrite"] {
            let answer = bench.done(&format!("predict run -o {way} {options}"));
            assert!(answer.out == table, "{way}: {}", answer.out);
            assert!(answer.err.starts_with("60 predictions about step 20"), "{}", answer.err);
        }
    }
    assert_eq!(bench.names(), ["out.csv", "run", "small"]);
}

/// A rename over a device destroys it.
#[cfg(unix)]
#[test]
fn pipes_and_links_are_written_to_and_stay() {
    use std::os::unix::fs::{FileTypeExt, symlink};
    let bench = Bench::new();
    bench.make_small();
    bench.done("train small --epochs 1 -o run");
    bench.done("predict run -o out.csv");
    let table = std::fs::read(bench.path("out.csv")).unwrap();
    let pipe = bench.path("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for options in ["", "--overwrite"] {
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || std::fs::read(pipe).unwrap()
        });
        bench.done(&format!("predict run -o pipe {options}"));
        assert!(std::fs::metadata(&pipe).unwrap().file_type().is_fifo(), "the pipe was replaced");
        assert!(reader.join().unwrap() == table);
    }
    std::fs::create_dir(bench.path("far")).unwrap();
    bench.file("far/old.csv", "old");
    symlink("far/old.csv", bench.path("link")).unwrap();
    assert_eq!(
        bench.refused("predict run -o link"),
        "--output: link is there already; --overwrite replaces it"
    );
    bench.done("predict run -o link --overwrite");
    assert!(bench.path("link").is_symlink() && std::fs::read(bench.path("far/old.csv")).unwrap() == table);
    let simulate = "simulate --groups 20 --workers 2 --strategy fold --trace";
    let reader = std::thread::spawn(move || std::fs::read(pipe).unwrap());
    bench.done(&format!("{simulate} pipe"));
    assert!(reader.join().unwrap().starts_with(b"{"));
}
