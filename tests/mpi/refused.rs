//! Processes that do not mean the same run, and errors of those that do not speak.

use crate::fixture::Bench;
use crate::launch::{KYMO, Mpi, copy, error_of, host};

const TRAIN: &str = "train --epochs 1 --model t-gcn --threads 1 -o run";

/// The error of three processes, which must leave no run behind.
fn refused(mpi: &Mpi, bench: &Bench, line: &str) -> String {
    let answer = mpi.shell(bench, 3, line);
    let error = error_of(&answer).to_owned();
    assert!(!bench.path("run").exists() && answer.out.is_empty(), "{error}{}", answer.out);
    error
}

#[test]
fn different_settings_are_refused() {
    let (Some(mpi), bench) = (Mpi::here(), Bench::new()) else { return };
    bench.make_small();
    let line = format!("exec $KYMO {TRAIN} small --seed $((RANK / 2 + 5))");
    let expected = format!("worker 2 on {} differs from worker 0: train.seed: 5 at worker 0, 6 at", host());
    let error = refused(&mpi, &bench, &line);
    assert!(error.contains(&expected), "{error}");
    // What only decides how workers deal with each other must be the same as well.
    let line = format!("exec $KYMO {TRAIN} small --set parallel.deadline=$((RANK + 5))");
    let error = refused(&mpi, &bench, &line);
    assert!(error.contains("worker 1") && error.contains("parallel.deadline: 5"), "{error}");
    // A number of workers that is not that of the processes is a contradiction, not a wish.
    let error = refused(&mpi, &bench, &format!("exec $KYMO {TRAIN} small --workers 2"));
    assert!(error.contains("parallel.workers: found 2, but 3 were started"), "{error}");
}

#[test]
fn different_stores_are_refused_and_copies_are_not() {
    let (Some(mpi), bench) = (Mpi::here(), Bench::new()) else { return };
    bench.make_small();
    let make = "generate power-law --vertices 60 --edges 200 --steps 20 --features 3 --seed 9 -o";
    bench.done(&format!("{make} disk-1"));
    for rank in [0, 2] {
        copy(&bench.path("small"), &bench.path(&format!("disk-{rank}")));
    }
    let line = format!("exec $KYMO {TRAIN} disk-$RANK");
    let error = refused(&mpi, &bench, &line);
    let expected = format!("worker 1 on {} differs from worker 0: checksum of the store: ", host());
    assert!(error.contains(&expected), "{error}");
    std::fs::remove_dir_all(bench.path("disk-1")).unwrap();
    copy(&bench.path("small"), &bench.path("disk-1"));
    let answer = mpi.shell(&bench, 3, &line);
    assert_eq!(answer.code, 0, "{}", answer.err);
}

#[cfg(target_os = "linux")]
#[test]
fn different_programs_are_refused() {
    let (Some(mpi), bench) = (Mpi::here(), Bench::new()) else { return };
    bench.make_small();
    for rank in 0..3 {
        let path = bench.path(&format!("kymo-{rank}"));
        std::fs::copy(KYMO, &path).unwrap();
        if rank == 2 {
            // What comes after the last section is not loaded: it does the same, but is another file.
            let bytes = [std::fs::read(&path).unwrap(), b"another build".to_vec()].concat();
            std::fs::write(&path, bytes).unwrap();
        }
    }
    let error = refused(&mpi, &bench, &format!("exec ./kymo-$RANK {TRAIN} small"));
    let expected = format!("worker 2 on {} differs from worker 0: program: ", host());
    assert!(error.contains(&expected), "{error}");
}

/// Guards errors of processes that are silent: the first one tells them, once.
#[test]
fn the_first_process_tells_the_error_of_another() {
    let (Some(mpi), bench) = (Mpi::here(), Bench::new()) else { return };
    bench.make_small();
    for rank in 0..3 {
        copy(&bench.path("small"), &bench.path(&format!("disk-{rank}")));
    }
    // The manifest is that of the others.
    for file in bench.files("disk-1").keys().filter(|name| name.ends_with(".safetensors")) {
        let path = bench.path("disk-1").join(file);
        let bytes = std::fs::read(&path).unwrap();
        std::fs::write(&path, &bytes[..bytes.len() - 8]).unwrap();
    }
    let error = refused(&mpi, &bench, &format!("exec $KYMO {TRAIN} disk-$RANK"));
    let expected = format!("worker 1 on {} has stopped: ", host());
    assert!(error.starts_with(&expected) && error.contains("disk-1/"), "{error}");
    // What one of them finds out last of all leaves nothing behind either: each may have another memory.
    let line = format!("exec $KYMO {TRAIN} small --memory $((RANK == 1 ? 9 : 99999))KiB");
    let error = refused(&mpi, &bench, &line);
    assert!(error.starts_with(&format!("{expected}run.memory: ")), "{error}");
}

/// Guards errors of the first process, which the others hear of as well, and errors of all.
#[test]
fn the_first_process_tells_its_own_errors_once() {
    let (Some(mpi), bench) = (Mpi::here(), Bench::new()) else { return };
    bench.make_small();
    let error = refused(&mpi, &bench, &format!("exec $KYMO {TRAIN} nowhere-$RANK"));
    assert!(error.starts_with("data.store: nowhere-0: there is no such store"), "{error}");
    bench.done(&format!("{TRAIN} small"));
    let before = bench.files("run");
    let answer = mpi.kymo(&bench, 3, &format!("{TRAIN} small"));
    assert!(error_of(&answer).starts_with("--output: run has a run already"), "{}", answer.err);
    assert!(bench.files("run") == before);
}
