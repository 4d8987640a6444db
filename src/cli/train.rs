//! `kymo train`: trains a model, shows how it goes, and ends with the test beside what it has to beat.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use clap::Args;
use kymo_graph::Progress;
use kymo_model::zoo;
use kymo_run::config::{EDGE_CLASSIFICATION, EDGE_REGRESSION};
use kymo_run::launch::Processes;
use kymo_run::session::{Session, what_is_there};
use kymo_run::step::predicted_bytes;
use kymo_run::train::Ending;
use kymo_run::{Class, Error, Part, Result, RunContext, task};
use kymo_tensor::cuda::product_error;
use kymo_trace::schema::{GroupReport, RunSummary, SnapshotsHeld, StaleRecord};

use super::beside;
use super::choices::Choices;
use super::console::{Console, complain};
use super::guard;
use super::numbers::{bytes, count, exact, percent, plural};
use super::results::table;
use super::show::Show;
use super::watch::Watch;
use super::{cannot_print, print_json};
use crate::facade::Run;

/// Train a model on a store, or on built-in data
///
/// Splits by time (70 % training, 15 % validation, 15 % test), trains until the validation metric stops
/// improving, and prints the test beside baselines that learn nothing. Everything is left in the run's
/// folder: settings, checkpoint, metrics.jsonl, events for TensorBoard. The same seed gives the same bits on
/// any number of threads; with a scheduled strategy, where parallel.costs is "edges" or the profile.json of
/// an earlier run.
#[derive(Args, Debug)]
#[command(after_help = after_help())]
pub struct Train {
    #[command(flatten)]
    choices: Choices,
    /// Where to put the run [default: runs/MODEL-TASK-N]
    #[arg(short, long, value_name = "RUN")]
    output: Option<PathBuf>,
    /// Continue the run in RUN; where there is none, begin it if a store is given
    #[arg(long, requires = "output")]
    resume: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

fn after_help() -> String {
    let tasks: Vec<&str> = task::ALL.iter().map(|task| task.name()).collect();
    let models: Vec<&str> = zoo::ALL.iter().map(|recipe| recipe.name).collect();
    format!(
        "Tasks: {}\n\
         Models: {}\n\n\
         Examples:\n  \
         kymo train\n  \
         kymo train messages --task link-prediction --model wd-gcn -o first\n  \
         kymo train -o first --resume --epochs 100\n  \
         kymo train demo --config run.toml --set train.clip=5 -o second\n  \
         kymo train demo --workers 4 --strategy pts -o third",
        tasks.join(", "),
        models.join(", ")
    )
}

/// The processes that this one was started with, if it was started with others.
pub fn join(args: &Train) -> Result<Option<Processes>> {
    let parallel = args.choices.parallel(&args.choices.typed()?)?;
    guard::watch_launcher();
    let joined = guard::watch_joining();
    Processes::join(&parallel).inspect(|_| joined.store(true, Ordering::Relaxed))
}

impl Train {
    /// Whether the same command goes on with what it has begun, instead of beginning anew or being refused.
    pub(super) fn goes_on(&self) -> bool {
        self.output.is_some() && self.resume
    }
}

/// Trains, and prints the result; one of several processes tells the others where it fails.
pub fn run(args: &Train, processes: Option<&Processes>, out: &mut Console) -> Result<()> {
    out.silent = processes.is_some_and(|processes| !processes.leads());
    out.quiet |= out.silent;
    train(args, processes, out).inspect_err(|error| {
        let Some(processes) = processes else { return };
        out.silent = !processes.speaks_of(error);
        if !out.silent && error.class() != Class::Stopped {
            // Before the others know: launchers end all processes once one has ended.
            complain(&format!("error: {error}"));
            out.silent = true;
        }
        processes.leave(error);
    })
}

fn train(args: &Train, processes: Option<&Processes>, out: &mut Console) -> Result<()> {
    let typed = args.choices.typed()?;
    let progress = Progress::default();
    let watch = Watch::begin(&progress, "making data", out);
    // Not before signals stop the work: to be asked to end must have an effect.
    processes.iter().for_each(|processes| guard::watch_others(processes));
    let goes_on = |path: &Path| args.resume && Session::exists(path);
    let goes_on = match (&args.output, processes) {
        // The first process sees the folder; others may be on machines that do not.
        (Some(path), Some(processes)) => processes.agreed(
            || Ok(goes_on(path)),
            |goes_on| vec![u8::from(*goes_on)],
            |bytes| Some(bytes == [1]),
        )?,
        (Some(path), None) => goes_on(path),
        (None, _) => false,
    };
    let session = match &args.output {
        Some(path) if goes_on => {
            if args.choices.config.is_some() {
                let problem = "a run goes on with the settings it was begun with; leave the file out";
                return Err(Error::settings("--config", problem));
            }
            if args.choices.from.is_some() {
                let problem = "a run goes on with its own parameters; leave --from or --resume out";
                return Err(Error::settings("--from", problem));
            }
            Run::resume(path).changes(typed).progress(&progress).among(processes.cloned()).open()
        }
        output => {
            let settings = args.choices.settings(&typed)?;
            if let (true, Some(path), "") = (args.resume, output, settings.data.store.as_str()) {
                let problem = format!("{}; to begin a run leave --resume out", what_is_there(path));
                return Err(Error::settings("--resume", problem));
            }
            let run = Run::with_settings(settings).progress(&progress).among(processes.cloned());
            output.iter().fold(run, Run::folder).open()
        }
    };
    drop(watch);
    let mut session = session?;
    let path = session.path().to_path_buf();
    session.worker()?.begin_reading();
    if !args.json && !out.quiet {
        let text = out.fit(&opening(&mut session)?);
        write!(out, "{text}").map_err(cannot_print)?;
        out.flush().map_err(cannot_print)?;
    }
    let context = session.worker()?.context.clone();
    let mut show = Show::new(&progress, &context, args.json, out);
    if processes.is_some() {
        show.name_the_slow(session.worker()?.group.clone());
    }
    let ending = session.train(&mut show);
    show.close();
    let ending = ending?;
    if out.silent {
        return Ok(());
    }
    beside::predicted_beside_done(&path)?;
    match ending {
        Ending::Finished(summary) if args.json => print_json(out, &*summary).map_err(Error::from),
        Ending::Finished(summary) => {
            let text = out.fit(&closing(&summary, &context, &path, out.quiet));
            write!(out, "{text}").map_err(|e| cannot_print(e).into())
        }
        Ending::Stopped => Err(Error::Stopped(path)),
    }
}

/// What is about to be done.
fn opening(session: &mut Session) -> Result<String> {
    let position = session.position().clone();
    let path = session.path().display().to_string();
    let plan = session.plan().map(|plan| format!("{plan}\n"));
    let worker = session.worker()?;
    let manifest = worker.snapshots().store().manifest().clone();
    let [train, validation, test] = Part::ALL.map(|part| worker.split().samples(part).len());
    let settings = worker.settings();
    let data = match settings.data.store.as_str() {
        "" => "built-in data",
        store => Path::new(store).file_name().and_then(|name| name.to_str()).unwrap_or(store),
    };
    let mut text = format!(
        "{} of {data}: {}, {}, {} edges a step\n\
         {} with {} parameters; {train} steps for training, {validation} for validation, {test} for the \
         test\n\
         {} {path}\n",
        settings.task.name,
        plural(manifest.vertices, ["vertex", "vertices"]),
        plural(manifest.steps, ["step", "steps"]),
        count(manifest.edges as f64 / manifest.steps.max(1) as f64),
        settings.model.name,
        exact(worker.parameters() as u64),
        if position.epoch + position.window > 0 { "going on in" } else { "everything goes to" },
    );
    if let Some(device) = worker.device().cloned() {
        let predicted = predicted_bytes(&worker.context, device.budget())?;
        text.push_str(&format!(
            "on {} in {}: products are off by {:.0e} of their norm; about {} of its memory will be needed, \
             {} are free\n",
            device.facts().name,
            worker.settings().run.precision,
            product_error(&device).map_err(Error::from)?,
            bytes(predicted as u64),
            bytes(device.budget() as u64)
        ));
    }
    text.push_str(&worker.context.slow_metrics().map_or(String::new(), |note| note + "\n"));
    text.push_str(&plan.unwrap_or_default());
    if position.epoch + position.window > 0 {
        text.push_str(&format!("{} done\n", plural(position.epoch as u64, ["epoch", "epochs"])));
    }
    Ok(text)
}

/// What came of it; `quiet` leaves the result alone.
fn closing(summary: &RunSummary, context: &RunContext, path: &Path, quiet: bool) -> String {
    let mut text = format!(
        "{}best of {}: epoch {}\n",
        if quiet { "" } else { "\n" },
        plural(summary.epochs as u64, ["epoch", "epochs"]),
        summary.best_epoch
    );
    text.push_str(&table(context, &summary.test));
    if quiet {
        return text;
    }
    text.push_str(&format!("\n{}", costs(summary)));
    let path = path.display();
    // Which edges the next step will have is not known.
    let what = match context.settings.task.name.as_str() {
        EDGE_REGRESSION | EDGE_CLASSIFICATION => " --split test",
        _ => "",
    };
    text.push_str(&format!("\nkymo evaluate {path}    kymo predict {path}{what} -o predictions.csv\n"));
    text
}

/// Where the time of a run went, and what it held and sent.
pub(super) fn costs(summary: &RunSummary) -> String {
    let total: f64 = summary.seconds.iter().map(|(_, seconds)| seconds).sum();
    let parts: Vec<String> = (summary.seconds.iter())
        .map(|(work, seconds)| format!("{work} {}", percent(seconds / total.max(1e-9))))
        .collect();
    let mut text = format!(
        "{total:.1} s: {}\naround the kernels: {}; most memory {}{}\n",
        parts.join(", "),
        percent(summary.overhead),
        bytes(summary.memory),
        summary.device_memory.map_or(String::new(), |most| format!(", of the GPU {}", bytes(most)))
    );
    if let Some(held) = &summary.snapshots {
        text.push_str(&reading(held));
    }
    if let Some(workers) = &summary.workers {
        text.push_str(&format!("\n{}\n", sharing(workers)));
        text.push_str(&workers.stale.as_ref().map_or(String::new(), |stale| saved(stale) + "\n"));
        if let Some(costs) = &summary.costs {
            text.push_str(&format!("windows were scheduled by {}\n", scheduled_by(costs)));
        }
        text.push_str(&format!("{workers}\n"));
    }
    text
}

/// What was held of snapshots, and what reading them cost.
fn reading(held: &SnapshotsHeld) -> String {
    format!(
        "snapshots: {} in memory, {} as whole snapshots; read in {:.1} s{}\n",
        bytes(held.bytes),
        bytes(held.whole),
        held.reading,
        held.hidden().map_or(String::new(), |hidden| format!(", {} of it beside the rest", percent(hidden)))
    )
}

/// Who shared the work, and what went between them.
fn sharing(workers: &GroupReport) -> String {
    let sent: u64 = workers.workers.iter().flat_map(|report| report.sent).sum();
    format!(
        "{} over {} workers; training sent {}, {} an epoch were planned; trace.json shows it in Perfetto",
        workers.strategy,
        workers.workers.len(),
        bytes(sent),
        bytes(workers.planned)
    )
}

/// What was saved by rows that were not sent again.
fn saved(stale: &StaleRecord) -> String {
    let all = stale.sent + stale.saved;
    format!(
        "stale rows: {} sent for rows of neighbours, {} saved ({}); rows that were not sent are off by \
         {:.1e} of their size",
        bytes(stale.sent),
        bytes(stale.saved),
        percent(stale.saved as f64 / all.max(1) as f64),
        stale.error
    )
}

/// What windows were scheduled by, and whether that can be repeated.
fn scheduled_by(costs: &str) -> String {
    match costs {
        "measured" => {
            "measured times, which the next run will not have; parallel.costs=PROFILE.JSON repeats it".into()
        }
        "cached" => "the costs of earlier runs on this machine".into(),
        "edges" => "their edges; the same run gives the same bits again".into(),
        file => format!("the costs in {file}; the same run gives the same bits again"),
    }
}

/// Four significant digits.
pub fn number(value: f64) -> String {
    if value == 0.0 || (1e-3..1e6).contains(&value.abs()) {
        format!("{value:.4}")
    } else {
        format!("{value:.3e}")
    }
}
