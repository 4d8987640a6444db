//! `kymo launch`: what is started again, how often, and what is passed on. Shell scripts stand for trainings.

use crate::fixture::{Answer, Bench};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Launches a script that first notes that it was started.
fn launch(bench: &Bench, options: &str, script: &str) -> (Answer, usize) {
    bench.file("script", format!("echo >> starts\n{script}\n"));
    let _ = std::fs::remove_file(bench.path("starts"));
    let answer = bench.kymo(&format!("launch --pause 0 {options} -- sh script"));
    (answer, starts(bench))
}

fn starts(bench: &Bench) -> usize {
    std::fs::read_to_string(bench.path("starts")).unwrap_or_default().lines().count()
}

#[test]
fn what_a_new_start_may_mend_is_started_again() {
    let bench = Bench::new();
    for (end, code) in [("exit 5", 5), ("exit 4", 4), ("exit 1", 1), ("kill -9 $$", 137)] {
        let (answer, starts) = launch(&bench, "--retries 2", end);
        assert_eq!((answer.code, starts), (code, 3), "{end}: {}", answer.err);
        let lines: Vec<&str> = answer.err.lines().collect();
        assert!(lines.len() == 3 && lines[0].starts_with("launch: try 1 of 3 ended after 0 s"), "{lines:?}");
        assert!(lines[1].contains("starting it again in 0.0 s"), "{lines:?}");
        assert!(lines[2].contains("that was the last"), "{lines:?}");
    }
    let (answer, starts) = launch(&bench, "--retries 2 -q", "exit 5");
    assert_eq!((answer.code, starts, answer.err.as_str()), (5, 3, ""), "quiet");
    let (answer, starts) = launch(&bench, "--retries 0", "exit 5");
    assert_eq!((answer.code, starts), (5, 1));
}

#[test]
fn what_would_end_the_same_way_is_not_and_neither_is_success() {
    let bench = Bench::new();
    for code in [2, 3, 6, 70, 130, 143] {
        let (answer, starts) = launch(&bench, "", &format!("exit {code}"));
        assert_eq!((answer.code, starts), (code, 1), "{}", answer.err);
        assert!(answer.err.contains("would end the same way"), "{}", answer.err);
    }
    let (answer, starts) = launch(&bench, "", "[ $(wc -l < starts) = 2 ] || exit 5");
    assert_eq!((answer.code, starts), (0, 2), "the second one succeeds");
    assert_eq!(answer.err.lines().count(), 1, "success needs no words: {}", answer.err);
}

/// A training that would begin anew each time, programs that are not there and pauses that cannot be are
/// refused before anything is started.
#[test]
fn what_could_not_go_on_is_refused() {
    let bench = Bench::new();
    let error = bench.refused("launch -- mpirun -n 2 kymo train small -o run");
    assert!(
        error.starts_with("COMMAND: kymo train") && error.contains("both -o RUN and --resume"),
        "{error}"
    );
    assert!(bench.refused("launch -- ./no-such-program").contains("no program ./no-such-program"));
    for pause in ["-1", "nan", "1e300"] {
        assert!(bench.refused(&format!("launch --pause={pause} -- true")).starts_with("--pause: "));
    }
}

/// Open MPI's processes yield while they wait, unless the user wants it otherwise.
#[test]
fn settings_of_the_user_stay() {
    let bench = Bench::new();
    let script = "printf $OMPI_MCA_mpi_yield_when_idle > said";
    launch(&bench, "", script);
    assert_eq!(std::fs::read_to_string(bench.path("said")).unwrap(), "1");
    let mut command = Command::new(env!("CARGO_BIN_EXE_kymo"));
    command.args(["launch", "--", "sh", "script"]).env("OMPI_MCA_mpi_yield_when_idle", "0");
    bench.command(&mut command);
    assert_eq!(std::fs::read_to_string(bench.path("said")).unwrap(), "0");
}

/// A signal reaches the command, and is the end, also where the command exits with what would be tried again;
/// in a pause it ends the pause.
#[test]
fn signals_are_passed_on_and_end_it() {
    let bench = Bench::new();
    let waits = "trap 'echo got > got; exit 5' TERM; touch ready; while :; do sleep 0.01; done";
    for (script, pause) in [(waits, "0"), ("touch ready; exit 5", "600")] {
        bench.file("script", format!("echo >> starts\n{script}\n"));
        let mut child = Command::new(env!("CARGO_BIN_EXE_kymo"))
            .args(["launch", "--pause", pause, "--", "sh", "script"])
            .current_dir(bench.path(""))
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        while !bench.path("ready").exists() {
            std::thread::sleep(Duration::from_millis(1));
        }
        Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(5));
        assert_eq!((starts(&bench), bench.path("got").exists()), (1, true), "{script}");
        std::fs::remove_file(bench.path("starts")).unwrap();
        std::fs::remove_file(bench.path("ready")).unwrap();
    }
}

/// A launcher that does not end though all it has started has: it is killed, and started again.
#[cfg(target_os = "linux")]
#[test]
fn a_launcher_that_hangs_is_killed() {
    let bench = Bench::new();
    std::fs::create_dir(bench.path("bin")).unwrap();
    std::os::unix::fs::symlink("/bin/sh", bench.path("bin/mpirun")).unwrap();
    // A shell that has asked for no exit code yet, and waits for what nobody writes.
    bench.file("hangs", "echo >> starts\nsleep 2 &\nread line < pipe\n");
    bench.command(Command::new("mkfifo").arg("pipe"));
    let answer = bench.kymo("launch --retries 1 --pause 0 -- bin/mpirun hangs");
    assert_eq!((answer.code, starts(&bench)), (137, 2), "{}", answer.err);
    assert_eq!(answer.err.matches("it has not: it is killed").count(), 2, "{}", answer.err);
}
