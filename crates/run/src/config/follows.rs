//! What follows from several settings together: what a model is built from, and which windows are run when.

use kymo_model::structure::Gather;
use kymo_model::time::Update;
use kymo_model::{Config, Normalisation};
use kymo_plan::strategy;

use super::{GatherName, LossAt, Mode, NormalisationName, Settings, UpdateName};

impl Settings {
    /// What the model is built from, for this many columns of features and steps of a window.
    pub fn config(&self, features: usize, window: usize) -> Config {
        let model = &self.model;
        Config {
            features,
            hidden: model.hidden,
            layers: model.layers,
            blocks: model.blocks,
            heads: model.heads,
            window,
            normalisation: match model.normalisation {
                NormalisationName::Right => Normalisation::Right,
                NormalisationName::None => Normalisation::None,
                NormalisationName::Both => Normalisation::Both,
            },
            gather: match model.gather {
                GatherName::Mean => Gather::Mean,
                GatherName::Pool => Gather::Pool,
            },
            update: match model.update {
                UpdateName::Gru => Update::Gru,
                UpdateName::Mlp => Update::Mlp,
                UpdateName::Average => Update::Average,
            },
            walks: model.walks,
        }
    }

    /// The scheduler that assigns windows, where one does.
    pub fn scheduler(&self) -> Option<&'static str> {
        match strategy::find(&self.parallel.strategy).ok()?.scheme {
            strategy::Scheme::Scheduled(name) => Some(name),
            _ => None,
        }
    }

    /// What the learning rate is multiplied by in an iteration of this many windows (linear scaling, Goyal et
    /// al., 2017).
    pub fn rate_factor(&self, windows: usize) -> f32 {
        if self.parallel.scale_rate { windows as f32 } else { 1.0 }
    }

    /// Windows whose gradients make one step of the optimiser; more than there are stand for all of them.
    pub fn windows_at_once(&self) -> usize {
        let strategy = strategy::find(&self.parallel.strategy).ok();
        use strategy::{Batches, Scheme};
        match (self.parallel.windows, strategy.map(|strategy| (strategy.scheme, strategy.batches))) {
            (0, Some((Scheme::Cells { .. }, Batches::Full))) => usize::MAX,
            (0, Some((Scheme::Groups | Scheme::Scheduled(_), _))) => self.parallel.workers,
            (0, _) => 1,
            (windows, _) => windows,
        }
    }

    /// Whether windows may be run together: those that begin a whole window apart have nothing in common.
    pub fn may_share(&self) -> bool {
        let train = &self.train;
        self.parallel.share && train.mode == Mode::Windows && train.stride < train.window
    }

    /// The most windows, or batches of windows, that a worker runs in one iteration and may run together.
    pub fn windows_of_worker(&self) -> usize {
        let parallel = &self.parallel;
        if !self.may_share() {
            return 1;
        }
        match strategy::find(&parallel.strategy).map(|strategy| strategy.scheme) {
            // One worker has everything, whatever the strategy.
            _ if parallel.workers == 1 => self.windows_at_once(),
            // DyGNeX and BLAD reuse nothing.
            Ok(strategy::Scheme::Scheduled(name)) if !name.starts_with("real") => 1,
            Ok(strategy::Scheme::Scheduled(_)) => parallel.groups,
            Ok(strategy::Scheme::Cells { .. } | strategy::Scheme::Targets) => 1,
            _ => self.windows_at_once().div_ceil(parallel.workers.max(1)),
        }
        .max(1)
    }

    /// Whether windows of a worker are run together where they overlap.
    pub fn shares_windows(&self) -> bool {
        self.windows_of_worker() > 1
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
