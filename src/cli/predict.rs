//! `kymo predict`: what a trained model says about a step, as a table with the original ids.

use std::io::{BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use kymo_files::{is_stream, write_new, write_whole};
use kymo_graph::Progress;
use kymo_run::{Error, Result};

use super::cannot_print;
use super::console::Console;
use super::evaluate::SplitName;
use super::numbers::plural;
use super::watch::Watch;
use crate::facade::{Predict as Asked, Run};

/// Write the predictions of a trained model as CSV, or its embeddings as safetensors
///
/// Values or classes of every vertex, or for every source the targets that score highest, or values or
/// classes of the edges of a step that is there. Every line has the step it is about and the horizon: how
/// many steps after the last one that the model sees. Without --step the model looks at everything there is
/// and predicts what comes next. With --split it predicts all of a part of the data, with what came true in
/// the last column. With STORE it looks at other data: the store it was trained on after more was added to
/// it, or another of the same kind.
#[derive(Args, Debug)]
#[command(after_help = "Examples:\n  \
                  kymo predict first -o predictions.csv\n  \
                  kymo predict first messages-2026 -o next.csv\n  \
                  kymo predict first --step 30 --top 5 -o links.csv\n  \
                  kymo predict first --split test -o all.csv\n  \
                  kymo predict first --embeddings -o vertices.safetensors\n  \
                  kymo predict first -o - | head")]
pub struct Predict {
    /// The folder of the run
    run: PathBuf,
    /// The data [default: what it was trained on]
    store: Option<PathBuf>,
    /// The last step that the model sees [default: the last of the store]
    #[arg(long)]
    step: Option<usize>,
    /// Everything that is predicted in this part of the data, with the truth
    #[arg(long, conflicts_with = "step")]
    split: Option<SplitName>,
    /// Write the embeddings of the vertices instead, as safetensors: of the last step that the model sees, or
    /// of all of --split
    #[arg(long)]
    embeddings: bool,
    /// Targets to write for each source (link prediction only)
    #[arg(long, default_value_t = 10)]
    top: usize,
    /// Where to compute: cpu, cuda or cuda:N [default: where it was trained]
    #[arg(long)]
    device: Option<String>,
    /// The file to write, CSV unless it is for embeddings, or - for standard output
    #[arg(short, long)]
    output: PathBuf,
    /// Replace a file that is there already
    #[arg(long)]
    overwrite: bool,
}

/// Predicts, and writes the file.
pub fn run(args: &Predict, out: &mut Console) -> Result<()> {
    let standard = args.output == Path::new("-");
    // Nothing that could be replaced, and perhaps what standard output goes to.
    let stream = standard || is_stream(&args.output);
    if args.output.exists() && !stream && !args.overwrite {
        return Err(exists(args));
    }
    let progress = Progress::default();
    let watch = Watch::begin(&progress, "predicting", out);
    let mut trained = Run::load(&args.run)?.progress(&progress);
    if let Some(device) = &args.device {
        trained = trained.device(device);
    }
    if let Some(store) = &args.store {
        trained = trained.on(store);
    }
    let asked = match (args.split, args.step) {
        (Some(split), _) => Asked::part(split.part()),
        (None, Some(step)) => Asked::after(step),
        (None, None) => Asked::next(),
    };
    let asked = asked.top(args.top);
    let place = if standard { "standard output".into() } else { args.output.display().to_string() };
    let said = if args.embeddings {
        let embeddings = trained.embed(asked).map_err(as_option)?;
        drop(watch);
        write(args, out, |file| embeddings.write_safetensors(file))?;
        let rows =
            plural((embeddings.steps.len() * embeddings.ids.len()) as u64, ["embedding", "embeddings"]);
        let (width, last) = (embeddings.width, embeddings.steps.last().copied().unwrap_or_default());
        format!("{rows} of {width} columns, up to step {last}, in {place}\n")
    } else {
        let predictions = trained.predict(asked).map_err(as_option)?;
        drop(watch);
        write(args, out, |file| predictions.write_csv(file))?;
        let rows = plural(predictions.len() as u64, ["prediction", "predictions"]);
        let (about, seen) = (predictions.about(), predictions.step());
        match args.split {
            Some(split) => {
                format!("{rows} of the part for {}, with the truth, in {place}\n", split.part().name())
            }
            None => format!("{rows} about step {about}, by what is known up to step {seen}, in {place}\n"),
        }
    };
    if out.quiet {
        return Ok(());
    }
    match stream {
        // What is said must not get into the table; that nobody can read it is no failure.
        true => {
            let _ = std::io::stderr().write_all(said.as_bytes());
            Ok(())
        }
        false => Ok(out.write_all(said.as_bytes()).map_err(cannot_print)?),
    }
}

/// Writes to where it was asked for.
fn write(
    args: &Predict,
    out: &mut Console,
    fill: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
) -> Result<()> {
    if args.output == Path::new("-") {
        let mut out = BufWriter::new(out);
        return Ok(fill(&mut out).and_then(|()| out.flush()).map_err(cannot_print)?);
    }
    if args.overwrite {
        return Ok(write_whole(&args.output, |file| fill(file))?);
    }
    write_new(&args.output, |file| fill(file)).map_err(|error| match error.source.kind() {
        ErrorKind::AlreadyExists => exists(args),
        _ => error.into(),
    })
}

fn exists(args: &Predict) -> Error {
    let problem = format!("{} is there already; --overwrite replaces it", args.output.display());
    Error::settings("--output", problem)
}

/// What the library calls `step`, `top` and `split` are options here.
fn as_option(error: Error) -> Error {
    match error {
        Error::Settings { setting, problem } if ["step", "top", "split"].contains(&setting.as_str()) => {
            Error::settings(format!("--{setting}"), problem)
        }
        other => other,
    }
}
