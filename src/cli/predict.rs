//! `kymo predict`: what a trained model says about a step, as a table with the original ids.

use std::borrow::Cow;
use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use kymo_graph::Progress;
use kymo_run::file::write_whole;
use kymo_run::task::{Says, Table};
use kymo_run::{Error, Result, session};

use super::cannot_print;
use super::numbers::plural;
use super::watch::Watch;

/// Write the predictions of a trained model as CSV
///
/// Values or classes of every vertex, or for every source the targets that score highest. Without --step the model looks at
/// everything there is and predicts what comes next.
#[derive(Args, Debug)]
#[command(
    after_help = "Examples:\n  kymo predict first -o predictions.csv\n  kymo predict first --step 30 --top 5 -o links.csv"
)]
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
pub fn run(args: &Predict, out: &mut dyn Write) -> Result<()> {
    if args.top == 0 {
        return Err(Error::settings("--top", "found 0, expected at least 1"));
    }
    if args.output.exists() && !args.overwrite {
        let problem = format!("{} is there already; --overwrite replaces it", args.output.display());
        return Err(Error::settings("--output", problem));
    }
    let progress = Progress::default();
    let watch = Watch::begin(&progress, "predicting");
    let mut learner = session::look(&args.run, &[], args.device.as_deref(), &progress)?;
    let steps = learner.frames().store().steps();
    let sample = args.step.unwrap_or(steps.saturating_sub(1));
    if sample >= steps {
        let problem =
            format!("found {sample}, but the steps of the store are 0 to {}", steps.saturating_sub(1));
        return Err(Error::settings("--step", problem));
    }
    let mut table = None;
    learner.outputs(sample..sample + 1, |learner, sample, outputs| {
        let says = Says::Model(&outputs, &learner.params);
        table = Some(learner.goal().table(sample, says, args.top)?);
        Ok(())
    })?;
    drop(watch);
    let Some(table) = table else { return Ok(()) };
    let ids = learner.frames().store().ids()?;
    write_whole(&args.output, |file| write_table(file, &table, |vertex| ids.name(vertex)))?;
    let rows = plural(table.values.len() as u64, ["prediction", "predictions"]);
    Ok(writeln!(out, "{rows} after step {sample} in {}", args.output.display()).map_err(cannot_print)?)
}

fn write_table(file: &mut dyn Write, table: &Table, name: impl Fn(u32) -> String) -> std::io::Result<()> {
    writeln!(file, "{}", table.header.join(","))?;
    for (vertices, values) in table.vertices.iter().zip(&table.values) {
        let names = vertices.iter().map(|&vertex| name(vertex));
        let fields: Vec<String> =
            names.chain(values.iter().cloned()).map(|field| quoted(&field).into_owned()).collect();
        writeln!(file, "{}", fields.join(","))?;
    }
    Ok(())
}

/// A field as CSV wants it.
fn quoted(field: &str) -> Cow<'_, str> {
    match field.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")).into(),
        false => field.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_with_commas_and_quotes_survive() {
        assert_eq!(quoted("plain"), "plain");
        assert_eq!(quoted("a,b"), "\"a,b\"");
        assert_eq!(quoted("say \"x\""), "\"say \"\"x\"\"\"");
    }
}
