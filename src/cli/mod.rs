//! The command line: one file a verb.

mod beside;
pub mod choices;
pub mod doctor;
pub mod evaluate;
pub mod generate;
pub mod ingest;
pub mod inspect;
pub mod list;
pub mod numbers;
pub mod plan;
pub mod plot;
pub mod predict;
mod show;
pub mod simulate;
pub mod train;
mod watch;

use std::io::Write;
use std::path::Path;

use clap::{Parser, Subcommand};
use kymo_graph::Error as GraphError;
use kymo_run::{Error, Result};

/// Neural networks on graphs that change over time.
///
/// Kymo turns event files into snapshots (`ingest`), makes synthetic dynamic graphs (`generate`), shows what
/// is in a store of snapshots (`inspect`), shows what it would take to train on it with several workers
/// (`plan`) or on a simulated cluster (`simulate`), trains models on it (`train`), and tells how good they
/// are (`evaluate`) and what they predict (`predict`). `doctor` shows what the machine has.
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
}

#[derive(Subcommand, Debug)]
enum Verb {
    Train(Box<train::Train>),
    Plan(Box<plan::Plan>),
    Simulate(Box<simulate::Simulate>),
    Evaluate(evaluate::Evaluate),
    Predict(predict::Predict),
    Ingest(Box<ingest::Ingest>),
    Inspect(inspect::Inspect),
    Generate(generate::Generate),
    List(list::List),
    Doctor(doctor::Doctor),
}

impl Command {
    /// Does what was asked.
    pub fn run(&self) -> Result<()> {
        if self.threads == Some(0) {
            return Err(Error::settings("--threads", "found 0, expected at least 1"));
        }
        // Everything runs on a thread of the pool: a call from outside would wake it anew for every
        // operation.
        let pool = rayon::ThreadPoolBuilder::new().num_threads(self.threads.unwrap_or(0)).build();
        pool.map_err(|error| Error::settings("--threads", error.to_string()))?.install(|| self.run_verb())
    }

    fn run_verb(&self) -> Result<()> {
        let out = &mut std::io::stdout();
        let done = match &self.verb {
            Verb::Train(args) => train::run(args, out),
            Verb::Plan(args) => plan::run(args, out),
            Verb::Simulate(args) => simulate::run(args, out),
            Verb::Evaluate(args) => evaluate::run(args, out),
            Verb::Predict(args) => predict::run(args, out),
            Verb::Ingest(args) => ingest::run(args, out).map_err(Error::from),
            Verb::Inspect(args) => inspect::run(args, out).map_err(Error::from),
            Verb::Generate(args) => generate::run(args, out).map_err(Error::from),
            Verb::List(args) => list::run(args, out),
            Verb::Doctor(args) => doctor::run(args, out),
        };
        match done.and_then(|()| out.flush().map_err(|error| cannot_print(error).into())) {
            // The reader of our output closed it, as `head` does: that is no failure.
            Err(Error::Graph(GraphError::Resource { source, .. }))
                if source.kind() == std::io::ErrorKind::BrokenPipe =>
            {
                Ok(())
            }
            done => done,
        }
    }
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
