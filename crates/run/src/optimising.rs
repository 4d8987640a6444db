//! The optimiser that the settings name, and its rates.

use kymo_tensor::optim::{Adam, AdamSettings, Decay, Optimiser, Schedule, Sgd, SgdSettings};

use crate::settings::Settings;

/// The optimiser, before its first step.
pub fn optimiser(settings: &Settings) -> Box<dyn Optimiser> {
    let decay = settings.train.weight_decay as f32;
    let adam = |decay| Box::new(Adam::new(AdamSettings { decay, ..AdamSettings::default() }));
    match settings.train.optimiser.as_str() {
        "sgd" => Box::new(Sgd::new(SgdSettings { momentum: 0.9, weight_decay: decay })),
        "adamw" => adam(Decay::Decoupled(decay)),
        _ => adam(Decay::InGradient(decay)),
    }
}

/// The rate of each step, where an epoch has so many.
pub fn rates(settings: &Settings, steps_per_epoch: u64) -> Schedule {
    let (rate, epochs) = (settings.train.learning_rate as f32, settings.train.epochs as u64);
    match settings.train.schedule.as_str() {
        "step" => {
            let every = steps_per_epoch * settings.train.schedule_every as u64;
            Schedule::Step { rate, every, factor: 0.5 }
        }
        "cosine" => Schedule::Cosine { rate, warm_up: 0, steps: steps_per_epoch * epochs, lowest: 0.0 },
        _ => Schedule::Constant { rate },
    }
}
