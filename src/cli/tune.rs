//! `kymo tune`: looks for good settings, and ends with the best ones and their test.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Once;

use clap::Args;
use kymo_graph::Progress;
use kymo_run::tune::{Rung, USUAL};
use kymo_run::{Class, Error, Result};
use kymo_trace::schema::{TrialRecord, TuneRecord};

use super::choices::Choices;
use super::console::{Console, complain};
use super::numbers::plural;
use super::results::table;
use super::train::number;
use super::watch::Watch;
use super::{cannot_print, print_json};
use crate::facade::{Tune as Search, Tuned};

/// Trials that the table shows.
const SHOWN: usize = 10;

/// Look for good settings by trying some
///
/// Draws settings at random, trains each for a few epochs, and the best third of them three times as long,
/// and so on, up to --epochs (random search with successive halving). The validation alone decides; the test
/// is shown for the best in the end, and nothing is chosen by it. The first trial has the settings as they
/// are. Every trial is a run: `kymo evaluate`, `kymo predict` and `kymo train --resume` take its folder.
#[derive(Args, Debug)]
#[command(after_help = after_help())]
pub struct Tune {
    #[command(flatten)]
    choices: Choices,
    /// Try these values of a setting, as in --over model.hidden=32,64 or --over
    /// train.learning_rate=0.001..0.1 (any between, small ones as often as large ones); in the place of what
    /// is usually tried
    #[arg(long, value_name = "KEY=VALUES")]
    over: Vec<String>,
    /// How many settings are tried
    #[arg(long, value_name = "N", default_value_t = 27)]
    trials: usize,
    /// How many are trained at a time: they share the threads, and each takes its own --memory
    #[arg(long, value_name = "N", default_value_t = 1)]
    jobs: usize,
    /// Where to put the trials
    #[arg(short, long, value_name = "FOLDER")]
    output: PathBuf,
    /// Go on with the trials in FOLDER
    #[arg(long)]
    resume: bool,
    /// Print everything that was tried as JSON
    #[arg(long)]
    json: bool,
}

fn after_help() -> String {
    format!(
        "Tried where nothing is said, but for what is given as an option or in a file of settings:\n  \
         {}\n\n\
         Examples:\n  \
         kymo tune messages --task link-prediction -o tuned\n  \
         kymo tune demo --model t-gcn --over model.hidden=32,64,128 --over train.window=2,4,8 -o tuned\n  \
         kymo train demo --config tuned/trial-007/settings.toml --set train.seed=2",
        USUAL.join("\n  ")
    )
}

/// Tries settings, and prints what came of it.
pub fn run(args: &Tune, out: &mut Console) -> Result<()> {
    let typed = args.choices.typed()?;
    let settings = args.choices.settings(&typed)?;
    let progress = Progress::default();
    let watch = Watch::begin(&progress, "tuning", out);
    if Search::exists(&args.output) && !args.resume {
        let problem = format!("{} has trials already; go on with --resume", args.output.display());
        return Err(Error::settings("--output", problem));
    }
    let settled = typed.into_iter().map(|(key, ..)| key);
    let search = Search::new(settings, &args.output).settled(settled);
    let search = if args.over.is_empty() { search } else { search.over(&args.over) };
    let search = search.trials(args.trials).jobs(args.jobs).progress(&progress);
    let plan = search.plan()?;
    let (speaks, first) = (!out.quiet && !args.json, Once::new());
    let intent = out.fit(&opening(&plan, &args.output));
    let metric = plan.metric.clone();
    let heard = |trial: &TrialRecord, rung: Rung| {
        if speaks {
            // Not before the first is trained: until then all of it may be refused.
            first.call_once(|| complain(intent.trim_end()));
            complain(&line(trial, rung, &metric));
        }
    };
    let tuned = search.run(&heard).map_err(|error| match error {
        // A run that is stopped says how to go on with it; this is not one.
        Error::Stopped(_) => Error::from(kymo_graph::Error::Interrupted),
        error => error,
    });
    if speaks && tuned.as_ref().is_err_and(|error| error.class() == Class::Stopped) {
        complain("the trials are saved; the same command with --resume goes on");
    }
    let tuned = tuned?;
    drop(watch);
    if args.json {
        return print_json(out, &tuned.record).map_err(Error::from);
    }
    let text = out.fit(&closing(&tuned)?);
    write!(out, "{text}").map_err(|error| cannot_print(error).into())
}

/// What is about to be done.
fn opening(plan: &TuneRecord, folder: &Path) -> String {
    let rung = |rung: &[usize; 2]| format!("{} for {}", rung[0], plural(rung[1] as u64, ["epoch", "epochs"]));
    let rungs: Vec<String> = plan.rungs.iter().map(rung).collect();
    format!(
        "{}: {}; the validation decides by {}\ntried are {}\neverything goes to {}\n",
        plural(plan.trials as u64, ["trial", "trials"]),
        rungs.join(", "),
        plan.metric,
        plan.space.join(", "),
        folder.display()
    )
}

/// What a trial has come to.
fn line(trial: &TrialRecord, rung: Rung, metric: &str) -> String {
    let what = match (&trial.problem, trial.value) {
        (Some(problem), _) => problem.clone(),
        (None, Some(value)) => format!("{metric} {}", number(value)),
        (None, None) => format!("no {metric}"),
    };
    let epochs = plural(trial.epochs as u64, ["epoch", "epochs"]);
    format!("trial {} (of {} for {epochs}): {what}{}", trial.trial, rung.trials, listed(trial))
}

/// The settings of a trial, as they are typed.
fn listed(trial: &TrialRecord) -> String {
    trial.settings.iter().map(|(key, value)| format!("  {key}={value}")).collect()
}

/// What came of it.
fn closing(tuned: &Tuned) -> Result<String> {
    let record = &tuned.record;
    let mut order: Vec<&TrialRecord> = record.results.iter().filter(|trial| trial.value.is_some()).collect();
    // Those that were trained longer were better while they were trained as long.
    order.sort_by(|one, other| {
        let sign = if record.higher_is_better { -1.0 } else { 1.0 };
        let value = |trial: &TrialRecord| sign * trial.value.unwrap_or(f64::NAN);
        let is_best = |trial: &TrialRecord| Some(trial.trial) != record.best;
        is_best(one).cmp(&is_best(other)).then(value(one).total_cmp(&value(other)))
    });
    let mut text = format!("\n{:>5}  {:>6}  {:>12}  settings\n", "trial", "epochs", record.metric);
    for trial in order.iter().take(SHOWN) {
        let value = trial.value.map_or_else(String::new, number);
        let settings = if trial.settings.is_empty() { "  as given".into() } else { listed(trial) };
        text.push_str(&format!("{:>5}  {:>6}  {value:>12}{settings}\n", trial.trial, trial.epochs));
    }
    let failed = record.results.iter().filter(|trial| trial.problem.is_some()).count();
    if failed > 0 {
        let trials = plural(failed as u64, ["trial", "trials"]);
        text.push_str(&format!("{trials} could not be trained; tune.json says why\n"));
    }
    let mut best = tuned.best()?;
    let summary = best.summary()?;
    let path = best.folder().display().to_string();
    text.push_str(&format!("\nthe best is {path}, epoch {}\n", summary.best_epoch));
    text.push_str(&table(&best.worker()?.context, &summary.test));
    text.push_str(&format!("\nkymo evaluate {path}    kymo train --config {path}/settings.toml\n"));
    Ok(text)
}
