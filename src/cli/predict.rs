//! `kymo predict`: what a trained model says about a step, as a table with the original ids.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use kymo_graph::Progress;
use kymo_run::{Error, Result};

use super::cannot_print;
use super::console::Console;
use super::numbers::plural;
use super::watch::Watch;
use crate::facade::{Predict as Asked, Run};

/// Write the predictions of a trained model as CSV
///
/// Values or classes of every vertex, or for every source the targets that score highest. Without --step the
/// model looks at everything there is and predicts what comes next.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
                  kymo predict first -o predictions.csv\n  \
                  kymo predict first --step 30 --top 5 -o links.csv")]
pub struct Predict {
    /// The folder of the run
    run: PathBuf,
    /// The last step that the model sees [default: the last of the store]
    #[arg(long)]
    step: Option<usize>,
    /// Targets to write for each source (link prediction only)
    #[arg(long, default_value_t = 10)]
    top: usize,
    /// Where to compute: cpu, cuda or cuda:N [default: where it was trained]
    #[arg(long)]
    device: Option<String>,
    /// The CSV file to write
    #[arg(short, long)]
    output: PathBuf,
    /// Replace a file that is there already
    #[arg(long)]
    overwrite: bool,
}

/// Predicts, and writes the file.
pub fn run(args: &Predict, out: &mut Console) -> Result<()> {
    if args.output.exists() && !args.overwrite {
        let problem = format!("{} is there already; --overwrite replaces it", args.output.display());
        return Err(Error::settings("--output", problem));
    }
    let progress = Progress::default();
    let watch = Watch::begin(&progress, "predicting", out);
    let mut trained = Run::load(&args.run)?.progress(&progress);
    if let Some(device) = &args.device {
        trained = trained.device(device);
    }
    let asked = args.step.map_or(Asked::next(), Asked::after).top(args.top);
    let predictions = trained.predict(asked).map_err(as_option)?;
    drop(watch);
    predictions.save_csv(&args.output)?;
    if out.quiet {
        return Ok(());
    }
    let rows = plural(predictions.len() as u64, ["prediction", "predictions"]);
    let (step, path) = (predictions.step(), args.output.display());
    Ok(writeln!(out, "{rows} after step {step} in {path}").map_err(cannot_print)?)
}

/// What the library calls `step` and `top` are options here.
fn as_option(error: Error) -> Error {
    match error {
        Error::Settings { setting, problem } if ["step", "top"].contains(&setting.as_str()) => {
            Error::settings(format!("--{setting}"), problem)
        }
        other => other,
    }
}
