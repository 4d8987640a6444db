//! Runs of `kymo` in several processes, beside the same run on threads.

use std::path::Path;
use std::process::Command;

use crate::fixture::{Answer, Bench};

pub const KYMO: &str = env!("CARGO_BIN_EXE_kymo");

/// The launcher, where there is one.
pub struct Mpi {
    program: String,
    /// More processes than cores, which let each other work.
    options: &'static [&'static str],
}

impl Mpi {
    /// The launcher of this machine, or nothing with a message.
    pub fn here() -> Option<Mpi> {
        let program = std::env::var("KYMO_MPIRUN").unwrap_or("mpirun".into());
        let Ok(answer) = Command::new(&program).arg("--version").output() else {
            eprintln!("skipped: {program} is not here; install Open MPI, or name another with KYMO_MPIRUN");
            return None;
        };
        let is_open_mpi = String::from_utf8_lossy(&answer.stdout).contains("Open MPI");
        let options: &[&str] = match is_open_mpi {
            true => &["--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"],
            false => &[],
        };
        Some(Mpi { program, options })
    }

    /// Runs `kymo` in this many processes, in the folder of the bench.
    pub fn kymo(&self, bench: &Bench, ranks: usize, args: &str) -> Answer {
        let args: Vec<&str> = args.split_whitespace().collect();
        self.run(bench, ranks, &[&[KYMO][..], &args].concat())
    }

    /// Runs a line of shell at every rank; it finds its rank in `$RANK` and the command in `$KYMO`.
    pub fn shell(&self, bench: &Bench, ranks: usize, line: &str) -> Answer {
        let line = format!("RANK=${{OMPI_COMM_WORLD_RANK:-$PMI_RANK}}; {line}");
        self.run(bench, ranks, &["sh", "-c", &line])
    }

    fn run(&self, bench: &Bench, ranks: usize, program: &[&str]) -> Answer {
        let mut command = Command::new(&self.program);
        command.args(["-n", &ranks.to_string()]).args(self.options).args(program);
        // Tests may run as root in a container, which Open MPI refuses otherwise.
        command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        bench.command(command.env("KYMO", KYMO).env_remove("COLUMNS"))
    }

    /// Runs `kymo`, and expects success and that one process speaks.
    pub fn done(&self, bench: &Bench, ranks: usize, args: &str) -> Answer {
        let answer = self.kymo(bench, ranks, args);
        assert_eq!(answer.code, 0, "{ranks} ranks: kymo {args}: {}", answer.err);
        let ends = answer.out.matches("best of ").count();
        assert_eq!(ends, 1, "{ranks} ranks: kymo {args}: {}", answer.out);
        answer
    }
}

/// The one error that an answer has; mpirun adds lines of its own.
pub fn error_of(answer: &Answer) -> &str {
    let errors: Vec<&str> = answer.err.lines().filter_map(|line| line.strip_prefix("error: ")).collect();
    assert!(errors.len() == 1 && answer.code != 0, "exit {}: {}", answer.code, answer.err);
    errors[0]
}

/// The name of this machine, as MPI tells it.
pub fn host() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap().trim().to_owned()
}

/// Fails unless two runs have the same numbers, to the bit: everything in the log that is no time, and the
/// whole checkpoint.
pub fn same_bits(bench: &Bench, one: &str, other: &str, what: &str) {
    let (first, second) = (bench.log(one), bench.log(other));
    assert_eq!(first.len(), second.len(), "{what}");
    for (first, second) in first.iter().zip(&second) {
        for key in ["epoch", "loss", "validation", "best", "learning_rate"] {
            assert_eq!(first[key], second[key], "{what}: {key}");
        }
    }
    assert!(bench.checkpoint(one) == bench.checkpoint(other), "{what}: the checkpoints differ");
}

/// A copy of a store.
pub fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let (entry, to) = (entry.unwrap().path(), to.to_path_buf());
        let to = to.join(entry.file_name().unwrap());
        match entry.is_dir() {
            true => copy(&entry, &to),
            false => drop(std::fs::copy(&entry, &to).unwrap()),
        }
    }
}
