//! `kymo evaluate`: how good a trained model is, beside what it has to beat.

use std::io::Write;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use kymo_graph::Progress;
use kymo_run::{Part, Result};

use super::console::Console;
use super::results::table;
use super::watch::Watch;
use super::{cannot_print, print_json};
use crate::facade::Run;

/// Evaluate a trained model beside its baselines
///
/// The parameters are those of the epoch with the best validation. With STORE, the model is applied to other
/// data: the store it was trained on after more was added to it, or another of the same kind. Features and
/// values are scaled as they were in training, and the parts are made by the settings of the run; vertices
/// that training has not met get the mean of what was learnt for the others.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
                  kymo evaluate first\n  \
                  kymo evaluate first messages-2026\n  \
                  kymo evaluate first --split validation --metrics all --json")]
pub struct Evaluate {
    /// The folder of the run
    run: PathBuf,
    /// The data [default: what it was trained on]
    store: Option<PathBuf>,
    /// The part of the data
    #[arg(long, default_value = "test")]
    split: SplitName,
    /// Metrics instead of those of the run, see `kymo list metrics`; 'all' shows every metric of the task
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    metrics: Vec<String>,
    /// Where to compute: cpu, cuda or cuda:N [default: where it was trained]
    #[arg(long)]
    device: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A part of the data.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum SplitName {
    /// What was learnt from.
    Train,
    /// What decided when to stop.
    Validation,
    /// What was looked at in the end.
    Test,
}

impl SplitName {
    /// The part.
    pub fn part(self) -> Part {
        match self {
            SplitName::Train => Part::Train,
            SplitName::Validation => Part::Validation,
            SplitName::Test => Part::Test,
        }
    }
}

/// Evaluates, and prints.
pub fn run(args: &Evaluate, out: &mut Console) -> Result<()> {
    let progress = Progress::default();
    let watch = Watch::begin(&progress, "evaluating", out);
    let mut trained = Run::load(&args.run)?.metrics(args.metrics.iter().cloned()).progress(&progress);
    if let Some(device) = &args.device {
        trained = trained.device(device);
    }
    if let Some(store) = &args.store {
        trained = trained.on(store);
    }
    let evaluation = trained.evaluate(args.split.part())?;
    drop(watch);
    if args.json {
        return Ok(print_json(out, &evaluation)?);
    }
    let table = out.fit(&table(&trained.worker()?.context, &evaluation));
    Ok(write!(out, "{table}").map_err(cannot_print)?)
}
