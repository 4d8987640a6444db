//! The command line: one file a verb.

mod beside;
pub mod choices;
pub mod completions;
pub mod console;
pub mod doctor;
pub mod evaluate;
pub mod generate;
mod guard;
pub mod ingest;
pub mod inspect;
pub mod launch;
mod layout;
pub mod list;
pub mod man;
pub mod numbers;
mod pace;
pub mod plan;
pub mod plot;
pub mod predict;
pub mod process;
mod results;
mod show;
pub mod simulate;
pub mod train;
pub mod tune;
mod waiting;
mod watch;

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};

use clap::{Parser, Subcommand};
use console::Console;
use kymo_graph::Error as GraphError;
use kymo_run::launch::{Processes, most_threads};
use kymo_run::{Error, Result};

/// Neural networks on graphs that change over time.
///
/// Kymo turns event files into snapshots (`ingest`), makes synthetic dynamic graphs (`generate`), shows what
/// is in a store of snapshots (`inspect`), shows what it would take to train on it with several workers
/// (`plan`) or on a simulated cluster (`simulate`), trains models on it (`train`), looks for good settings
/// (`tune`), and tells how good models are (`evaluate`) and what they predict (`predict`). `launch` starts a
/// training again that was killed, and `doctor` shows what the machine has.
#[derive(Parser, Debug)]
#[command(name = "kymo", version, max_term_width = 100, disable_help_subcommand = true)]
#[command(after_help = "Begin with:\n  \
                  kymo train\n  \
                  kymo ingest events.csv -o mine\n  \
                  kymo train mine --task link-prediction")]
pub struct Command {
    #[command(subcommand)]
    verb: Verb,
    /// Threads to use; the results are the same for any number [default: one for each core]
    #[arg(long, global = true, value_name = "N")]
    threads: Option<usize>,
    /// Show no progress, notes or summaries. Errors remain, and what was asked for: tables, reports and JSON;
    /// of `train` the best epoch and its test, of `ingest`, `generate` and `predict` nothing but their files
    #[arg(short, long, global = true)]
    quiet: bool,
    /// The exit code of the signal that stopped the work.
    #[arg(skip)]
    received: Arc<AtomicUsize>,
    /// Whether another process says what went wrong.
    #[arg(skip)]
    silent: Arc<AtomicBool>,
    /// What another process exited with, if this one is to do the same; otherwise 0.
    #[arg(skip)]
    told: Arc<AtomicU8>,
}

#[derive(Subcommand, Debug)]
enum Verb {
    Train(Box<train::Train>),
    Launch(launch::Launch),
    Tune(Box<tune::Tune>),
    Plan(Box<plan::Plan>),
    Simulate(Box<simulate::Simulate>),
    Evaluate(evaluate::Evaluate),
    Predict(predict::Predict),
    Ingest(Box<ingest::Ingest>),
    Inspect(inspect::Inspect),
    Generate(generate::Generate),
    List(list::List),
    Doctor(doctor::Doctor),
    Completions(completions::Completions),
    Man(man::Man),
}

impl Command {
    /// Does what was asked.
    pub fn run(&self) -> Result<()> {
        let processes = match &self.verb {
            Verb::Train(args) => train::join(args)?,
            Verb::Doctor(_) => doctor::join()?,
            _ => None,
        };
        let threads = match (self.threads()?, &processes) {
            (0, Some(processes)) => threads_beside(processes.beside()),
            (threads, _) => threads,
        };
        // Everything runs on a thread of the pool: a call from outside would wake it anew for every
        // operation.
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let pool = pool.map_err(|error| Error::settings("--threads", error.to_string()))?;
        pool.install(|| self.run_verb(processes.as_ref()))
    }

    /// The number of threads; 0 is one for each core. Rayon's own variable is checked, too: a machine that
    /// cannot give a thread what it needs kills the process instead of saying so.
    fn threads(&self) -> Result<usize> {
        let said = || std::env::var("RAYON_NUM_THREADS").ok()?.parse().ok();
        let (name, threads) = match self.threads {
            Some(threads) => ("--threads", threads),
            None => ("RAYON_NUM_THREADS", said().unwrap_or(0)),
        };
        if self.threads == Some(0) {
            return Err(Error::settings(name, "found 0, expected at least 1"));
        }
        most_threads(threads).map_err(|problem| Error::settings(name, problem))
    }

    fn run_verb(&self, processes: Option<&Processes>) -> Result<()> {
        let out = &mut Console::standard();
        (out.quiet, out.received) = (self.quiet, self.received.clone());
        let done = self.act(processes, out);
        self.silent.store(out.silent, Ordering::Relaxed);
        if let (Err(_), Some(processes)) = (&done, processes) {
            self.told.store(processes.told(), Ordering::Relaxed);
        }
        done?;
        Ok(out.flush().map_err(cannot_print)?)
    }

    fn act(&self, processes: Option<&Processes>, out: &mut Console) -> Result<()> {
        match &self.verb {
            Verb::Train(args) => train::run(args, processes, out),
            Verb::Launch(args) => {
                self.told.store(launch::run(args, out)?, Ordering::Relaxed);
                Ok(())
            }
            Verb::Tune(args) => tune::run(args, out),
            Verb::Plan(args) => plan::run(args, out),
            Verb::Simulate(args) => simulate::run(args, out),
            Verb::Evaluate(args) => evaluate::run(args, out),
            Verb::Predict(args) => predict::run(args, out),
            Verb::Ingest(args) => ingest::run(args, out).map_err(Error::from),
            Verb::Inspect(args) => inspect::run(args, out),
            Verb::Generate(args) => generate::run(args, out).map_err(Error::from),
            Verb::List(args) => list::run(args, out),
            Verb::Doctor(args) => doctor::run(args, processes, out),
            Verb::Completions(args) => completions::run(args, out),
            Verb::Man(args) => man::run(args, out),
        }
    }
}

/// The threads of a process beside others of its machine: one for each core that it was given, or its share
/// of all of them where it was given none of its own.
fn threads_beside(processes: usize) -> usize {
    let given = std::thread::available_parallelism().map_or(1, usize::from);
    let facts = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cores = facts.lines().filter(|line| line.starts_with("processor")).count();
    if given < cores { given } else { (given / processes.max(1)).max(1) }
}

/// Standard output could not be written to.
fn cannot_print(error: std::io::Error) -> GraphError {
    GraphError::resource("cannot write", Path::new("standard output"))(error)
}

/// Prints a value as JSON.
fn print_json(out: &mut dyn Write, value: &impl serde::Serialize) -> Result<(), GraphError> {
    let text = serde_json::to_string_pretty(value).map_err(|error| {
        GraphError::settings("--json", format!("cannot write the result as JSON: {error}"))
    })?;
    writeln!(out, "{text}").map_err(cannot_print)
}
