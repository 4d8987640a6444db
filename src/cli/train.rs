//! `kymo train`: trains a model, shows how it goes, and ends with the test beside what it has to beat.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use kymo_graph::Progress;
use kymo_model::zoo;
use kymo_run::evaluate::Evaluation;
use kymo_run::session::{Session, absolute};
use kymo_run::train::{Ending, Summary};
use kymo_run::{Error, Part, Result, Settings, layers, task};

use super::numbers::{bytes, count, exact, percent, plural};
use super::show::Show;
use super::watch::Watch;
use super::{cannot_print, print_json};

/// Train a model on a store, or on built-in data
///
/// Splits by time (70 % training, 15 % validation, 15 % test), trains until the validation stops getting better, and prints
/// the test beside baselines that learn nothing. Everything is left in the run's folder: settings, checkpoint, metrics.jsonl,
/// events for TensorBoard. The same seed gives the same digits on any number of threads.
#[derive(Args, Debug)]
#[command(after_help = after_help())]
pub struct Train {
    /// The store to learn from [default: a small generated graph]
    store: Option<PathBuf>,
    /// Where to put the run [default: runs/MODEL-TASK-N]
    #[arg(short, long, value_name = "RUN")]
    output: Option<PathBuf>,
    /// Go on with the run in RUN, if there is one
    #[arg(long, requires = "output")]
    resume: bool,
    /// A TOML file of settings; options win over it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Change a setting, as in --set model.hidden=128; `kymo list settings` shows all
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// What to predict, see `kymo list tasks` [default: node-regression]
    #[arg(long)]
    task: Option<String>,
    /// What predicts it, see `kymo list models` [default: graphsage-linear]
    #[arg(long)]
    model: Option<String>,
    /// Metrics to report, see `kymo list metrics`; the first decides which epoch is best. 'all' reports every metric of the task
    #[arg(long, value_name = "NAME,...")]
    metrics: Option<String>,
    /// How the steps are cut for training: windows, sequence or truncated [default: windows]
    #[arg(long)]
    mode: Option<String>,
    /// Steps of a window [default: 4]
    #[arg(long, value_name = "STEPS")]
    window: Option<String>,
    /// Hidden columns of the model [default: 32]
    #[arg(long, value_name = "COLUMNS")]
    hidden: Option<String>,
    /// Layers of structure, 1 to 3 [default: 1]
    #[arg(long, value_name = "N")]
    layers: Option<String>,
    /// Most passes over the training steps [default: 50]
    #[arg(long, value_name = "N")]
    epochs: Option<String>,
    /// Learning rate [default: 0.01]
    #[arg(long, value_name = "RATE")]
    learning_rate: Option<String>,
    /// What all random numbers follow from [default: 1]
    #[arg(long)]
    seed: Option<String>,
    /// Memory for snapshots and what is kept of them, as in 2GiB [default: a quarter of the machine]
    #[arg(long, value_name = "SIZE")]
    memory: Option<String>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

fn after_help() -> String {
    let tasks: Vec<&str> = task::ALL.iter().map(|task| task.name()).collect();
    let models: Vec<&str> = zoo::ALL.iter().map(|recipe| recipe.name).collect();
    format!(
        "Tasks: {}\nModels: {}\n\nExamples:\n  kymo train\n  kymo train messages --task link-prediction --model wd-gcn -o \
         first\n  kymo train -o first --resume --epochs 100\n  kymo train demo --config run.toml --set train.clip=5 -o second",
        tasks.join(", "),
        models.join(", ")
    )
}

impl Train {
    /// What was typed, as settings; later ones win.
    fn typed(&self) -> Result<Vec<(String, String, String)>> {
        let store = match &self.store {
            Some(store) => Some(
                store
                    .to_str()
                    .map(str::to_owned)
                    .ok_or_else(|| Error::settings("STORE", format!("{} is no text", store.display())))?,
            ),
            None => None,
        };
        let metrics = self.metrics.as_ref().map(|names| {
            let quoted: Vec<String> = names.split(',').map(|name| format!("{:?}", name.trim())).collect();
            format!("[{}]", quoted.join(", "))
        });
        let options = [
            ("STORE", "data.store", &store),
            ("--task", "task.name", &self.task),
            ("--metrics", "task.metrics", &metrics),
            ("--model", "model.name", &self.model),
            ("--mode", "train.mode", &self.mode),
            ("--window", "train.window", &self.window),
            ("--hidden", "model.hidden", &self.hidden),
            ("--layers", "model.layers", &self.layers),
            ("--epochs", "train.epochs", &self.epochs),
            ("--learning-rate", "train.learning_rate", &self.learning_rate),
            ("--seed", "train.seed", &self.seed),
            ("--memory", "run.memory", &self.memory),
        ];
        let given = options
            .into_iter()
            .filter_map(|(option, key, value)| Some((key.to_owned(), value.clone()?, option.to_owned())));
        let mut typed: Vec<_> = given.collect();
        for set in &self.set {
            let (key, value) = set.split_once('=').ok_or_else(|| {
                Error::settings("--set", format!("found '{set}', expected KEY=VALUE as in model.hidden=128"))
            })?;
            typed.push((key.trim().to_owned(), value.trim().to_owned(), "--set".to_owned()));
        }
        Ok(typed)
    }

    fn settings(&self, typed: &[(String, String, String)]) -> Result<Settings> {
        let settings: Settings = layers::resolve(self.config.as_deref(), typed)?;
        Ok(Settings { data: absolute(settings.data)?, ..settings })
    }
}

/// The first folder of this name that is not there yet.
fn free_folder(settings: &Settings) -> PathBuf {
    let name = |number: usize| format!("runs/{}-{}-{number}", settings.model.name, settings.task.name);
    (1..).map(|number| PathBuf::from(name(number))).find(|path| !path.exists()).unwrap_or_default()
}

/// Trains, and says how it went.
pub fn run(args: &Train, out: &mut dyn Write) -> Result<()> {
    let typed = args.typed()?;
    let progress = Progress::default();
    let watch = Watch::begin(&progress, "making data");
    let session = match &args.output {
        Some(path) if args.resume && Session::exists(path) => {
            if args.config.is_some() {
                let problem = "a run goes on with the settings it was begun with; leave the file out";
                return Err(Error::settings("--config", problem));
            }
            Session::resume(path, &typed, &progress)
        }
        output => {
            let settings = args.settings(&typed)?;
            let path = output.clone().unwrap_or_else(|| free_folder(&settings));
            Session::begin(settings, &path, &progress)
        }
    };
    drop(watch);
    let mut session = session?;
    let path = session.path().to_path_buf();
    if !args.json {
        write!(out, "{}", opening(&mut session)?).map_err(cannot_print)?;
        out.flush().map_err(cannot_print)?;
    }
    let settings = session.learner.settings().clone();
    let mut show = Show::new(&progress, &settings, args.json)?;
    let ending = session.train(&mut show);
    show.close();
    match ending? {
        Ending::Finished(summary) if args.json => print_json(out, &*summary).map_err(Error::from),
        Ending::Finished(summary) => {
            write!(out, "{}", closing(&summary, &settings, &path)?).map_err(|e| cannot_print(e).into())
        }
        Ending::Stopped => Err(Error::Stopped(path)),
    }
}

/// What is about to be done.
fn opening(session: &mut Session) -> Result<String> {
    let position = session.position().clone();
    let path = session.path().display().to_string();
    let learner = &mut session.learner;
    let manifest = learner.frames().store().manifest().clone();
    let [train, validation, test] = Part::ALL.map(|part| learner.split().samples(part).len());
    let settings = learner.settings();
    let data = match settings.data.store.as_str() {
        "" => "built-in data",
        store => Path::new(store).file_name().and_then(|name| name.to_str()).unwrap_or(store),
    };
    let mut text = format!(
        "{} of {data}: {}, {}, {} edges a step\n{} with {} parameters; {train} steps for training, {validation} for \
         validation, {test} for the test\n{} {path}\n",
        settings.task.name,
        plural(manifest.vertices, ["vertex", "vertices"]),
        plural(manifest.steps, ["step", "steps"]),
        count(manifest.edges as f64 / manifest.steps.max(1) as f64),
        settings.model.name,
        exact(learner.parameters() as u64),
        if position.epoch + position.window > 0 { "going on in" } else { "everything goes to" },
    );
    if position.epoch + position.window > 0 {
        text.push_str(&format!("{} done\n", plural(position.epoch as u64, ["epoch", "epochs"])));
    }
    Ok(text)
}

/// What came of it.
fn closing(summary: &Summary, settings: &Settings, path: &Path) -> Result<String> {
    let mut text = format!(
        "\nbest of {}: epoch {}\n",
        plural(summary.epochs as u64, ["epoch", "epochs"]),
        summary.best_epoch
    );
    text.push_str(&table(settings, &summary.test)?);
    let total: f64 = summary.seconds.iter().map(|(_, seconds)| seconds).sum();
    let parts: Vec<String> = (summary.seconds.iter())
        .map(|(work, seconds)| format!("{work} {}", percent(seconds / total.max(1e-9))))
        .collect();
    text.push_str(&format!(
        "\n{total:.1} s: {}\naround the kernels: {}; most memory {}\n",
        parts.join(", "),
        percent(summary.overhead),
        bytes(summary.memory as u64)
    ));
    let path = path.display();
    text.push_str(&format!("\nkymo evaluate {path}    kymo predict {path} -o predictions.csv\n"));
    Ok(text)
}

/// The metrics of a model above those of the baselines, the deciding one first.
pub fn table(settings: &Settings, evaluation: &Evaluation) -> Result<String> {
    let model = settings.model.name.as_str();
    let asked = task::metrics_of(settings)?;
    let metrics: Vec<&str> = asked
        .iter()
        .map(|metric| metric.name())
        .filter(|name| evaluation.metrics.contains_key(*name))
        .collect();
    let name = std::iter::once(model).chain(evaluation.baselines.keys().copied());
    let width = name.map(str::len).max().unwrap_or(0).max(evaluation.split.len()) + 2;
    let columns: Vec<usize> = metrics.iter().map(|metric| metric.len().max(8) + 2).collect();
    let mut text = format!("{:width$}", evaluation.split);
    for (metric, column) in metrics.iter().zip(&columns) {
        text.push_str(&format!("{metric:>column$}"));
    }
    text.push('\n');
    let rows = std::iter::once((model, &evaluation.metrics));
    for (name, values) in rows.chain(evaluation.baselines.iter().map(|(name, values)| (*name, values))) {
        text.push_str(&format!("{name:width$}"));
        for (metric, column) in metrics.iter().zip(&columns) {
            match values.get(*metric) {
                Some(value) => text.push_str(&format!("{:>column$}", number(*value))),
                None => text.push_str(&format!("{:>column$}", "-")),
            }
        }
        text.push('\n');
    }
    Ok(text)
}

/// Four digits that count.
pub fn number(value: f64) -> String {
    if value == 0.0 || (1e-3..1e6).contains(&value.abs()) {
        format!("{value:.4}")
    } else {
        format!("{value:.3e}")
    }
}
