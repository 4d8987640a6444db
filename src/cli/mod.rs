//! The command line: one file a verb.

pub mod generate;
pub mod ingest;
pub mod inspect;
pub mod list;
pub mod numbers;
pub mod plot;
mod watch;

use std::io::Write;
use std::path::Path;

use clap::{Parser, Subcommand};
use kymo_graph::{Error, Result};

/// Neural networks on graphs that change over time.
///
/// Kymo turns event files into snapshots (`ingest`), makes synthetic dynamic graphs (`generate`) and shows what is in a
/// store of snapshots (`inspect`).
#[derive(Parser, Debug)]
#[command(name = "kymo", version, max_term_width = 100, disable_help_subcommand = true)]
#[command(after_help = "Begin with:\n  kymo generate arxiv-like --scale 0.05 -o demo\n  kymo inspect demo")]
pub struct Command {
    #[command(subcommand)]
    verb: Verb,
    /// Threads to use; the results are the same for any number [default: one for each core]
    #[arg(long, global = true, value_name = "N")]
    threads: Option<usize>,
}

#[derive(Subcommand, Debug)]
enum Verb {
    Ingest(Box<ingest::Ingest>),
    Inspect(inspect::Inspect),
    Generate(generate::Generate),
    List(list::List),
}

impl Command {
    /// Does what was asked.
    pub fn run(&self) -> Result<()> {
        let Some(threads) = self.threads else { return self.run_verb() };
        if threads == 0 {
            return Err(Error::settings("--threads", "found 0, expected at least 1"));
        }
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        pool.map_err(|error| Error::settings("--threads", error.to_string()))?.install(|| self.run_verb())
    }

    fn run_verb(&self) -> Result<()> {
        let out = &mut std::io::stdout();
        let done = match &self.verb {
            Verb::Ingest(args) => ingest::run(args, out),
            Verb::Inspect(args) => inspect::run(args, out),
            Verb::Generate(args) => generate::run(args, out),
            Verb::List(args) => list::run(args, out),
        };
        match done.and_then(|()| out.flush().map_err(cannot_print)) {
            // Whoever read our output has seen enough, as `head` does: that is no failure.
            Err(Error::Resource { source, .. }) if source.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
            done => done,
        }
    }
}

/// 130 after an interruption, as shells expect; 2 for everything the user can mend.
pub fn exit_code(error: &Error) -> u8 {
    match error {
        Error::Interrupted => 130,
        Error::Input { .. } | Error::Settings { .. } | Error::Resource { .. } => 2,
    }
}

/// Standard output could not be written to.
fn cannot_print(error: std::io::Error) -> Error {
    Error::resource("cannot write", Path::new("standard output"))(error)
}

/// Prints a value as JSON.
fn print_json(out: &mut dyn Write, value: &impl serde::Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| Error::settings("--json", format!("cannot write the result as JSON: {error}")))?;
    writeln!(out, "{text}").map_err(cannot_print)
}
