//! Processes that die, stop or fall silent while they train together: who notices, what is said, and that the
//! training goes on where it was. Skipped where there is no mpirun.
//!
//! Ten seconds are what others may take to end; nothing else is decided by the clock.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

#[allow(dead_code)]
#[path = "../all/fixture.rs"]
mod fixture;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fixture::Bench;

/// Within which all end once one was killed.
const LIMIT: Duration = Duration::from_secs(10);

/// How long anything else may take: a test that waits for longer has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// Epochs that no test lives to see.
const ENDLESS: &str = "--epochs 1000000 --set train.patience=0 --set run.checkpoint_windows=1 --threads 1";

/// Epochs that take seconds.
const LONG: &str = "--epochs 400 --set train.patience=0 --strategy pts --threads 1";

/// One test at a time: each starts as many processes as a small machine can bear.
static TURN: Mutex<()> = Mutex::new(());

/// A folder with a store, if there is an mpirun.
fn bench() -> Option<(Bench, MutexGuard<'static, ()>)> {
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    if Command::new("mpirun").arg("--version").output().is_err() {
        eprintln!("skipped: there is no mpirun");
        return None;
    }
    let bench = Bench::new();
    bench.make_small();
    Some((bench, turn))
}

/// Processes in the folder of a test: all are ended with it.
struct Started<'a> {
    bench: &'a Bench,
    child: Child,
}

impl Drop for Started<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        processes(self.bench).values().for_each(|&id| signal("KILL", id));
    }
}

/// Begins a line of words in the folder; `KYMO` and `MPIRUN` stand for how they are started.
fn start<'a>(bench: &'a Bench, line: &str) -> Started<'a> {
    let kymo = env!("CARGO_BIN_EXE_kymo");
    let line = line.replace("MPIRUN", "mpirun --oversubscribe").replace("KYMO", kymo);
    let mut words = line.split_whitespace();
    let err = std::fs::File::create(bench.path("err")).unwrap();
    let child = Command::new(words.next().unwrap())
        .args(words)
        .current_dir(bench.path(""))
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
        .env("OMPI_MCA_mpi_yield_when_idle", "1")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(err)
        .spawn()
        .unwrap();
    Started { bench, child }
}

impl Started<'_> {
    fn wait_until(&mut self, what: &str, mut reached: impl FnMut(&Bench) -> bool) {
        let begun = Instant::now();
        while !reached(self.bench) {
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none() || reached(self.bench), "ended before {what}: {}", said(self.bench));
            assert!(begun.elapsed() < PATIENCE, "no end of waiting until {what}: {}", said(self.bench));
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// What it exits with; -1 for a signal.
    fn ended(&mut self, limit: Duration) -> i32 {
        let begun = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code().unwrap_or(-1);
            }
            assert!(begun.elapsed() < limit, "still there after {limit:?}: {}", said(self.bench));
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// The processes of a test by name: `mpirun`, and workers by their ranks.
fn processes(bench: &Bench) -> BTreeMap<String, u32> {
    let here = bench.path("").canonicalize().unwrap();
    let read = |path: PathBuf| std::fs::read(path).unwrap_or_default();
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let path = entry.path();
        let Some(id) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        if !std::fs::read_link(path.join("cwd")).is_ok_and(|folder| folder == here) {
            continue;
        }
        let environment = read(path.join("environ"));
        let rank = environment.split(|&byte| byte == 0).find_map(|pair| {
            std::str::from_utf8(pair).ok()?.strip_prefix("OMPI_COMM_WORLD_RANK=").map(String::from)
        });
        match (String::from_utf8_lossy(&read(path.join("comm"))).trim(), rank) {
            ("kymo", Some(rank)) => found.insert(rank, id),
            ("mpirun", _) => found.insert("mpirun".into(), id),
            _ => None,
        };
    }
    found
}

/// Whether a worker is there, and looks for others when it is asked to end.
fn is_ready(bench: &Bench, rank: &str) -> bool {
    let Some(&id) = processes(bench).get(rank) else { return false };
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let mask = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    // SIGTERM is signal 15.
    mask >> 14 & 1 == 1
}

fn signal(name: &str, process: u32) {
    Command::new("kill").args([format!("-{name}"), process.to_string()]).status().unwrap();
}

/// Sends a signal to a process of a test, by its name; fails where it is not there.
fn send(bench: &Bench, name: &str, to: &str) {
    let all = processes(bench);
    signal(name, *all.get(to).unwrap_or_else(|| panic!("no {to} in {all:?}: {}", said(bench))));
}

/// What was said on standard error.
fn said(bench: &Bench) -> String {
    String::from_utf8_lossy(&std::fs::read(bench.path("err")).unwrap()).into_owned()
}

/// Epochs in the log of a run that may not have one yet.
fn epochs(bench: &Bench, run: &str) -> usize {
    let text = std::fs::read(bench.path(run).join("metrics.jsonl")).unwrap_or_default();
    text.iter().filter(|&&byte| byte == b'\n').count()
}

fn all_end(bench: &Bench) {
    those_end(bench, |_| true);
}

fn workers_end(bench: &Bench) {
    those_end(bench, |name| name != "mpirun");
}

fn those_end(bench: &Bench, which: impl Fn(&str) -> bool) {
    let begun = Instant::now();
    while processes(bench).keys().any(|name| which(name)) {
        assert!(begun.elapsed() < LIMIT, "still there: {:?}", processes(bench));
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn host() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap().trim().to_owned()
}

/// The run came to what one comes to that was left alone.
fn equals_the_uninterrupted(bench: &Bench, run: &str) {
    bench.done(&format!("train small --workers 2 {LONG} -o whole -q"));
    assert!(bench.checkpoint(run) == bench.checkpoint("whole"), "other bits");
    let facts = |run: &str| {
        let fact = |line: &serde_json::Value| ["epoch", "loss", "validation"].map(|key| line[key].clone());
        bench.log(run).iter().map(fact).collect::<Vec<_>>()
    };
    assert_eq!(facts(run), facts("whole"));
}

/// With plain mpirun: whichever is killed, in training or while all join, rank and host are named, and no
/// worker is left; in training mpirun ends with the code of a kill.
#[test]
fn a_killed_rank_ends_all_under_mpirun() {
    let Some((bench, _turn)) = bench() else { return };
    for (victim, training) in [("1", true), ("0", true), ("1", false), ("0", false)] {
        let run = format!("run-{victim}-{training}");
        let mut all = start(&bench, &format!("MPIRUN -n 3 KYMO train small {ENDLESS} -o {run}"));
        all.wait_until("the kill", |bench| match training {
            true => epochs(bench, &run) >= 2,
            // Who has not come so far ends without a word, and mpirun does not always have one.
            false => ["0", "1", "2"].iter().all(|rank| is_ready(bench, rank)),
        });
        send(&bench, "KILL", victim);
        if training {
            assert_eq!(all.ended(LIMIT), 137, "{}", said(&bench));
            all_end(&bench);
        } else {
            // mpirun of Open MPI 4 may hang for one that dies while it connects; its workers do not.
            workers_end(&bench);
        }
        let words = format!("error: worker {victim} on {} has died", host());
        // mpirun passes on what workers have said, perhaps after they have ended.
        let begun = Instant::now();
        while !said(&bench).contains(&words) && begun.elapsed() < LIMIT {
            std::thread::sleep(Duration::from_millis(5));
        }
        let said = said(&bench);
        assert_eq!(said.matches(&words).count(), 1, "{victim} {training}: {said}");
    }
}

/// Where mpirun does not end the others, they do it themselves: each with the code for a lost peer, one of
/// them says which and where.
#[test]
fn those_who_lose_a_rank_end_by_themselves() {
    let Some((bench, _turn)) = bench() else { return };
    bench.file("worker", "\"$@\"\necho $? > code-$OMPI_COMM_WORLD_RANK\n");
    for victim in [1, 0, 2] {
        let run = format!("run-{victim}");
        let mut all = start(
            &bench,
            &format!(
                "MPIRUN --mca orte_enable_recovery 1 -n 3 sh worker KYMO train small {ENDLESS} -o {run}"
            ),
        );
        all.wait_until("the kill", |bench| epochs(bench, &run) >= 2);
        send(&bench, "KILL", &victim.to_string());
        all.ended(LIMIT);
        let codes = [0, 1, 2].map(|rank| {
            std::fs::read_to_string(bench.path(&format!("code-{rank}"))).unwrap().trim().to_owned()
        });
        let expected = [0, 1, 2].map(|rank| if rank == victim { "137" } else { "5" });
        assert_eq!(codes, expected, "{}", said(&bench));
        let (said, words) = (said(&bench), format!("error: worker {victim} on {} has died", host()));
        assert_eq!(said.matches(&words).count(), 1, "{said}");
        assert_eq!(said.matches("error: ").count(), 1, "{said}");
    }
}

/// A process of which nothing is heard any more, as when its machine disappears: lost after the time that was
/// set, and named.
#[test]
fn a_silent_rank_is_lost_after_the_deadline() {
    let Some((bench, _turn)) = bench() else { return };
    for victim in ["1", "0"] {
        let run = format!("run-{victim}");
        let line = format!("MPIRUN -n 2 KYMO train small {ENDLESS} --set parallel.deadline=2 -o {run}");
        let mut all = start(&bench, &line);
        all.wait_until("the stop", |bench| epochs(bench, &run) >= 2);
        send(&bench, "STOP", victim);
        assert_eq!(all.ended(2 * LIMIT), 5, "{}", said(&bench));
        let words = format!("worker {victim} on {} has been silent for 2 s", host());
        assert!(said(&bench).contains(&words), "{}", said(&bench));
        all_end(&bench);
    }
}

/// One that is stopped for a while is named, goes on, and changes nothing.
#[test]
fn a_stopped_rank_is_named_and_goes_on() {
    let Some((bench, _turn)) = bench() else { return };
    let mut all = start(&bench, &format!("MPIRUN -n 2 KYMO train small {LONG} -o run"));
    all.wait_until("the stop", |bench| epochs(bench, "run") >= 2);
    send(&bench, "STOP", "1");
    let named = format!("worker 1 on {}", host());
    all.wait_until("it is named", |bench| said(bench).contains(&format!("waiting for {named} for 10 s\n")));
    send(&bench, "CONT", "1");
    all.wait_until("it is back", |bench| said(bench).contains(&format!("{named} is back after 1")));
    assert_eq!(all.ended(PATIENCE), 0, "{}", said(&bench));
    equals_the_uninterrupted(&bench, "run");
}

/// Two workers and mpirun itself are killed one after the other: the training is started again each time, and
/// comes to the same bits.
#[test]
fn a_launched_training_survives_three_kills() {
    let Some((bench, _turn)) = bench() else { return };
    let line = format!("MPIRUN -n 2 KYMO train small {LONG} -o run --resume");
    let mut all = start(&bench, &format!("KYMO launch --retries 3 --pause 0.1 -- {line}"));
    for (done, victim) in [(20, "1"), (60, "0"), (100, "mpirun")] {
        all.wait_until("a kill", |bench| epochs(bench, "run") >= done && processes(bench).contains_key("1"));
        send(&bench, "KILL", victim);
        let words = format!("try {} of 4 ended", done / 40 + 1);
        all.wait_until("it is started again", |bench| said(bench).contains(&words));
    }
    assert_eq!(all.ended(PATIENCE), 0, "{}", said(&bench));
    assert!(!said(&bench).contains("try 4"), "success needs no words: {}", said(&bench));
    equals_the_uninterrupted(&bench, "run");
}

/// What a new start would not mend is said once, with mpirun's words, and exits with its code.
#[test]
fn errors_that_would_come_again_are_not_tried_again() {
    let Some((bench, _turn)) = bench() else { return };
    for (options, code) in [("small --hidden 0", 2), ("nothing", 2), ("damaged", 3)] {
        std::fs::create_dir_all(bench.path("damaged")).unwrap();
        bench.file("damaged/manifest.json", "{");
        let line = format!("MPIRUN -n 2 KYMO train {options} -o run --resume");
        let mut all = start(&bench, &format!("KYMO launch --pause 0 -- {line}"));
        assert_eq!(all.ended(PATIENCE), code, "{}", said(&bench));
        let said = said(&bench);
        assert_eq!(said.matches("launch: try").count(), 1, "{said}");
        assert!(said.contains("a new start would end the same way"), "{said}");
    }
}

/// mpirun is killed: its workers end, and the run is free for the next who takes it up.
#[test]
fn workers_end_with_their_launcher() {
    let Some((bench, _turn)) = bench() else { return };
    let mut all = start(&bench, &format!("MPIRUN -n 2 KYMO train small {ENDLESS} -o run"));
    all.wait_until("the kill", |bench| epochs(bench, "run") >= 2);
    send(&bench, "KILL", "mpirun");
    all.ended(LIMIT);
    all_end(&bench);
    let more = epochs(&bench, "run") + 1;
    bench.done(&format!("train -o run --resume --epochs {more}"));
}

/// The same where MPI itself does not look after it: the worker sees that it has another parent.
#[test]
fn a_worker_without_its_launcher_ends() {
    let Some((bench, _turn)) = bench() else { return };
    let kymo = env!("CARGO_BIN_EXE_kymo");
    bench.file(
        "starter",
        format!("OMPI_COMM_WORLD_RANK=0 {kymo} train small {ENDLESS} -o run 2> words &\nsleep 600\n"),
    );
    let mut all = start(&bench, "sh starter");
    all.wait_until("the kill", |bench| epochs(bench, "run") >= 2);
    let (id, worker) = (all.child.id(), processes(&bench)["0"]);
    signal("KILL", id);
    all.ended(LIMIT);
    all_end(&bench);
    let words = std::fs::read_to_string(bench.path("words")).unwrap();
    let expected = format!("error: the launcher, process {id}, has ended, and this worker with it");
    assert!(words.contains(&expected), "{worker}: {words}");
}
