//! The settings of a run: what can be written in a TOML file or typed as `--set section.key=value`.
//!
//! Every setting has a default and a plain form, so that the settings of a run can be saved whole, read back and compared.

use kymo_model::structure::Gather;
use kymo_model::{Config, Normalisation};
use kymo_plan::strategy;
use serde::{Deserialize, Serialize};

mod check;

/// Everything that decides what a run computes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// What is learnt from.
    pub data: Data,
    /// What is to be predicted.
    pub task: Task,
    /// Link prediction alone.
    pub link: Link,
    /// What predicts.
    pub model: Model,
    /// How it is trained.
    pub train: Train,
    /// Which steps are for what.
    pub split: Split,
    /// Who shares the work, and how.
    pub parallel: Parallel,
    /// What the run may use, and what it leaves behind.
    pub run: Run,
}

/// Who shares the work, and how.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Parallel {
    /// Workers; each has its share of the threads.
    pub workers: usize,
    /// A name of `kymo list strategies`.
    pub strategy: String,
    /// Windows of an iteration, whose gradients make one step; 0: one for each worker that trains whole windows, one otherwise.
    pub windows: usize,
    /// Windows that a scheduler may give a worker in an iteration, one after the other.
    pub groups: usize,
    /// Epochs before windows are scheduled by the median of what they took; the first of several is not counted.
    pub profile_epochs: usize,
    /// Whether these epochs are scheduled, too, by what earlier runs on this machine took (the user's cache folder), where that is
    /// known. What such a run computes depends on the cache, so it must be asked for.
    pub cached_costs: bool,
    /// Whether the learning rate grows with the windows of an iteration, in proportion.
    pub scale_rate: bool,
}

/// What is learnt from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Data {
    /// The store; the built-in data where empty.
    pub store: String,
    /// What is known of a vertex.
    pub features: Features,
    /// Columns that are learnt for each vertex (or each column of sparse features) where features are learnt; 0: as many as
    /// the model has hidden columns.
    pub learnt: usize,
    /// Whether columns are brought to mean 0 and deviation 1, by what the training steps have.
    pub standardise: bool,
    /// Steps whose features stand side by side: the current one and those before it.
    pub lags: usize,
}

/// What is known of a vertex.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Features {
    /// What the store has; degrees where it has nothing, with learnt columns beside them for link prediction.
    #[default]
    Auto,
    /// What the store has.
    Stored,
    /// The logarithms of degrees.
    Degrees,
    /// A column for each number of outgoing edges, 1 where it is that of the vertex (EvolveGCN).
    OneHotDegrees,
    /// Columns learnt for each vertex.
    Learnt,
    /// What the store has (degrees where it has nothing), and learnt columns.
    Both,
}

/// What is to be predicted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Task {
    /// A name of `kymo list tasks`.
    pub name: String,
    /// Names of `kymo list metrics`, the first of which decides; the usual ones of the task where empty.
    pub metrics: Vec<String>,
    /// Steps between the last snapshot seen and the values or classes to be predicted.
    pub horizon: usize,
    /// What a regression is trained on.
    pub target: Target,
    /// How classes are weighed in the loss.
    pub class_weights: ClassWeights,
}

/// What a regression is trained on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Target {
    /// Values brought to mean 0 and deviation 1 by the training steps; metrics are in the original units.
    #[default]
    Standardised,
    /// The values as they are.
    Raw,
    /// `log(1 + y)`, in which metrics are measured, too.
    Log,
}

/// How classes are weighed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClassWeights {
    /// All the same.
    #[default]
    None,
    /// The rarer in training, the more.
    Balanced,
}

/// Link prediction alone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Link {
    /// Pairs without a link for every link, in training.
    pub negatives: usize,
    /// The share of them that were linked before.
    pub historical: f64,
    /// Steps whose targets the others are drawn from in training, each as often as there are steps that it was a target in;
    /// 0: all that were one so far, once.
    pub recent: usize,
    /// How much a link counts in the loss, where a pair without one counts 1.
    pub weight: f64,
    /// Links of a step that are trained on at most; 0: all.
    pub positives: usize,
    /// Pairs without a link for every link, in evaluation.
    pub evaluate_negatives: usize,
    /// Links of a step that the test looks at, at most; 0: all. Metrics by source or over all pairs look at all.
    pub evaluate_positives: usize,
    /// Links of a step that the validation after every epoch looks at, at most; 0: all.
    pub validate_positives: usize,
    /// Whether the decoder sees the history of a pair beside the two embeddings.
    pub history: bool,
}

/// What predicts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Model {
    /// A name of `kymo list models`.
    pub name: String,
    /// Hidden columns.
    pub hidden: usize,
    /// Layers of structure.
    pub layers: usize,
    /// Heads of attention.
    pub heads: usize,
    /// How graph convolution weighs neighbours: both, right or none.
    pub normalisation: String,
    /// How GraphSAGE gathers neighbours: mean or pool.
    pub gather: String,
    /// Steps of each walk of DCRNN.
    pub walks: usize,
    /// Share of the embedding that is dropped in training.
    pub dropout: f64,
}

/// How a sequence is cut for training.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Sliding windows ("snapshot groups"), each a sample of its own, in random order.
    #[default]
    Windows,
    /// All training steps as one window.
    Sequence,
    /// Windows one after the other, each beginning with the state that the one before left (truncated backpropagation).
    Truncated,
}

/// Which steps of a window the loss is taken at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LossAt {
    /// The last in sliding windows, all of them otherwise.
    #[default]
    Auto,
    /// The last.
    Last,
    /// All of them.
    All,
}

/// How it is trained.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Train {
    /// How the sequence is cut.
    pub mode: Mode,
    /// Steps of a window.
    pub window: usize,
    /// Steps between the beginnings of sliding windows.
    pub stride: usize,
    /// Where the loss is taken.
    pub loss: LossAt,
    /// Passes over the training steps.
    pub epochs: usize,
    /// Epochs without a better validation after which training ends; 0: never.
    pub patience: usize,
    /// adam, adamw or sgd.
    pub optimiser: String,
    /// Its first rate.
    pub learning_rate: f64,
    /// How weights are kept small.
    pub weight_decay: f64,
    /// The largest norm of a gradient; 0: any.
    pub clip: f64,
    /// constant, step (halved every `schedule_every` epochs) or cosine (down to zero over all epochs).
    pub schedule: String,
    /// Epochs between changes of the step schedule.
    pub schedule_every: usize,
    /// What all random numbers follow from.
    pub seed: u64,
}

/// Which steps are for what: shares in the order of time, or of vertices where classes never change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Split {
    /// The share that is trained on.
    pub train: f64,
    /// The share that decides when to stop; the rest is for the test.
    pub validation: f64,
}

/// What the run may use, and what it leaves behind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Run {
    /// Memory for snapshots and what is kept of them, as in 2GiB; a quarter of the machine where it is "auto".
    pub memory: String,
    /// Where the work is done: cpu, cuda (the first GPU) or cuda:N.
    pub device: String,
    /// How products are computed on a GPU: f32, tf32 or bf16. The last two are faster and less exact.
    pub precision: String,
    /// Memory of the GPU that may be taken, as in 40GiB; all that is free where it is "auto".
    pub device_memory: String,
    /// Epochs between checkpoints.
    pub checkpoint_epochs: usize,
    /// Windows between checkpoints within an epoch; 0: none.
    pub checkpoint_windows: usize,
}

impl Default for Data {
    fn default() -> Self {
        Data { store: String::new(), features: Features::Auto, learnt: 0, standardise: true, lags: 1 }
    }
}

impl Default for Task {
    fn default() -> Self {
        Task {
            name: "node-regression".into(),
            metrics: Vec::new(),
            horizon: 1,
            target: Target::Standardised,
            class_weights: ClassWeights::None,
        }
    }
}

impl Default for Link {
    fn default() -> Self {
        Link {
            negatives: 4,
            historical: 0.5,
            recent: 0,
            weight: 1.0,
            positives: 5_000,
            evaluate_negatives: 100,
            evaluate_positives: 10_000,
            validate_positives: 1_000,
            history: true,
        }
    }
}

impl Default for Model {
    fn default() -> Self {
        Model {
            name: "graphsage-linear".into(),
            hidden: 32,
            layers: 1,
            heads: 4,
            normalisation: "both".into(),
            gather: "mean".into(),
            walks: 2,
            dropout: 0.0,
        }
    }
}

impl Default for Train {
    fn default() -> Self {
        Train {
            mode: Mode::Windows,
            window: 4,
            stride: 1,
            loss: LossAt::Auto,
            epochs: 50,
            patience: 10,
            optimiser: "adam".into(),
            learning_rate: 0.01,
            weight_decay: 0.0,
            clip: 1.0,
            schedule: "constant".into(),
            schedule_every: 10,
            seed: 1,
        }
    }
}

impl Default for Split {
    fn default() -> Self {
        Split { train: 0.7, validation: 0.15 }
    }
}

impl Default for Parallel {
    fn default() -> Self {
        Parallel {
            workers: 1,
            strategy: "psg".into(),
            windows: 0,
            groups: 2,
            profile_epochs: 4,
            cached_costs: false,
            scale_rate: false,
        }
    }
}

impl Default for Run {
    fn default() -> Self {
        Run {
            memory: "auto".into(),
            device: "cpu".into(),
            precision: "f32".into(),
            device_memory: "auto".into(),
            checkpoint_epochs: 1,
            checkpoint_windows: 0,
        }
    }
}

impl Settings {
    /// What the model is made for, with so many columns of features and windows of so many steps.
    pub fn config(&self, features: usize, window: usize) -> Config {
        let model = &self.model;
        Config {
            features,
            hidden: model.hidden,
            layers: model.layers,
            heads: model.heads,
            window,
            normalisation: match model.normalisation.as_str() {
                "right" => Normalisation::Right,
                "none" => Normalisation::None,
                _ => Normalisation::Both,
            },
            gather: if model.gather == "pool" { Gather::Pool } else { Gather::Mean },
            walks: model.walks,
        }
    }

    /// The scheduler that deals out windows, where one does.
    pub fn scheduler(&self) -> Option<&'static str> {
        match strategy::find(&self.parallel.strategy).ok()?.parallel {
            strategy::Parallel::Scheduled(name) => Some(name),
            _ => None,
        }
    }

    /// What the learning rate is multiplied by in an iteration of so many windows (linear scaling, Goyal et al., 2017).
    pub fn rate_factor(&self, windows: usize) -> f32 {
        if self.parallel.scale_rate { windows as f32 } else { 1.0 }
    }

    /// Windows whose gradients make one step of the optimiser.
    pub fn windows_at_once(&self) -> usize {
        let deals_out = strategy::find(&self.parallel.strategy)
            .is_ok_and(|strategy| !matches!(strategy.parallel, strategy::Parallel::Cells { .. }));
        match self.parallel.windows {
            0 if deals_out => self.parallel.workers,
            0 => 1,
            windows => windows,
        }
    }

    /// Whether the loss is taken at every step of a window.
    pub fn loss_at_all(&self) -> bool {
        match self.train.loss {
            LossAt::All => true,
            LossAt::Last => false,
            LossAt::Auto => self.train.mode != Mode::Windows,
        }
    }
}
