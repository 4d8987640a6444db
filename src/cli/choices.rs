//! What is to be computed, as it is typed: the options that `kymo train` and `kymo plan` share.

use std::path::PathBuf;

use clap::Args;
use kymo_run::config::Parallel;
use kymo_run::config::overlay::{self, Override};
use kymo_run::session::{absolute, settings_from};
use kymo_run::{Error, Result, Settings, task};

/// The data, and settings that override those of a file.
#[derive(Args, Debug)]
pub struct Choices {
    /// The store to learn from [default: a small generated graph]
    store: Option<PathBuf>,
    /// Begin with the parameters of the run in RUN and with its settings: fine-tuning, on its store after
    /// more was added to it or on another of the same kind. RUN stays as it is
    #[arg(long, value_name = "RUN")]
    pub from: Option<PathBuf>,
    /// A TOML file of settings; options override it
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Change a setting, as in --set model.hidden=128; `kymo list settings` shows all
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// What to predict, see `kymo list tasks` [default: node-regression]
    #[arg(long)]
    task: Option<String>,
    /// What predicts it, see `kymo list models` [default: graphsage-linear]
    #[arg(long)]
    model: Option<String>,
    /// Metrics to report, see `kymo list metrics`; the first decides which epoch is best. 'all' reports every
    /// metric of the task
    #[arg(long, value_name = "NAME,...")]
    metrics: Option<String>,
    /// How the steps are cut for training: windows, sequence or truncated [default: windows]
    #[arg(long)]
    mode: Option<String>,
    /// Steps of a window [default: 4]
    #[arg(long, value_name = "STEPS")]
    window: Option<String>,
    /// Vertices in a batch, with what they see of their neighbourhood; 0: all [default: 0]
    #[arg(long, value_name = "VERTICES")]
    batch: Option<String>,
    /// Hidden width of the model [default: 32]
    #[arg(long, value_name = "COLUMNS")]
    hidden: Option<String>,
    /// Layers of the structure encoder, 1 to 3: they stand below one time encoder [default: 1]
    #[arg(long, value_name = "N")]
    layers: Option<String>,
    /// Blocks above each other, 1 to 3: each is structure (`--layers` layers) and then time, and reads what
    /// the one below made of every vertex at every step. REAL and DynaHB call this a layer [default: 1]
    #[arg(long, value_name = "N")]
    blocks: Option<String>,
    /// Maximum number of epochs [default: 50]
    #[arg(long, value_name = "N")]
    epochs: Option<String>,
    /// Learning rate [default: 0.01]
    #[arg(long, value_name = "RATE")]
    learning_rate: Option<String>,
    /// Random seed [default: 1]
    #[arg(long)]
    seed: Option<String>,
    /// Memory that the run may take, as in 2GiB; refused where it needs more [default: what it needs, and a
    /// quarter of what there is for snapshots and products that are kept]
    #[arg(long, value_name = "SIZE")]
    memory: Option<String>,
    /// Where to compute: cpu, cuda (the first GPU) or cuda:N [default: cpu]
    #[arg(long)]
    device: Option<String>,
    /// Precision of products on a GPU: f32, tf32 or bf16; the last two are faster and less exact
    /// [default: f32]
    #[arg(long)]
    precision: Option<String>,
    /// Number of workers; the threads are divided among them [default: 1]
    #[arg(long, value_name = "N")]
    workers: Option<String>,
    /// How the work is distributed, see `kymo list strategies` [default: psg]
    #[arg(long, value_name = "NAME")]
    strategy: Option<String>,
    /// Send rows of neighbours again only where they have moved, with a strategy that cuts windows: off,
    /// adaptive, adaptive-printed, or a share of the largest distance such as 0.3 [default: off]
    #[arg(long, value_name = "HOW")]
    stale: Option<String>,
}

impl Choices {
    /// What was typed, as settings; later ones override earlier ones.
    pub fn typed(&self) -> Result<Vec<(String, String, String)>> {
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
            ("--batch", "train.batch", &self.batch),
            ("--hidden", "model.hidden", &self.hidden),
            ("--layers", "model.layers", &self.layers),
            ("--blocks", "model.blocks", &self.blocks),
            ("--epochs", "train.epochs", &self.epochs),
            ("--learning-rate", "train.learning_rate", &self.learning_rate),
            ("--seed", "train.seed", &self.seed),
            ("--memory", "run.memory", &self.memory),
            ("--device", "run.device", &self.device),
            ("--precision", "run.precision", &self.precision),
            ("--workers", "parallel.workers", &self.workers),
            ("--strategy", "parallel.strategy", &self.strategy),
            ("--stale", "parallel.stale", &self.stale),
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

    /// How workers deal with each other: what is asked for here, or the defaults. A run that goes on has its
    /// own settings, but its processes join before one of them reads those.
    pub fn parallel(&self, typed: &[Override]) -> Result<Parallel> {
        let settings = self.resolved(typed)?;
        settings.check()?;
        Ok(settings.parallel)
    }

    /// The settings with defaults, file and options put together.
    pub fn settings(&self, typed: &[(String, String, String)]) -> Result<Settings> {
        let settings = self.resolved(typed)?;
        Ok(Settings { data: absolute(settings.data)?, ..settings })
    }

    fn resolved(&self, typed: &[Override]) -> Result<Settings> {
        let over = |base: &Settings| overlay::resolve_over(base, self.config.as_deref(), typed);
        match &self.from {
            Some(run) => over(&settings_from(run)?),
            None => task::resolved(&Settings::default(), over),
        }
    }
}
