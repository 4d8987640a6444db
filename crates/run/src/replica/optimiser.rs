//! The optimiser that the settings name, and its learning rates.

use kymo_tensor::optim::{Adam, AdamSettings, Decay, Optimiser, RateSchedule, Sgd, SgdSettings};

use crate::config::{OptimiserName, RateName, Settings};

/// The optimiser, before its first step.
pub fn optimiser(settings: &Settings) -> Box<dyn Optimiser> {
    let decay = settings.train.weight_decay as f32;
    let adam = |decay| Box::new(Adam::new(AdamSettings { decay, ..AdamSettings::default() }));
    match settings.train.optimiser {
        OptimiserName::Sgd => Box::new(Sgd::new(SgdSettings { momentum: 0.9, weight_decay: decay })),
        OptimiserName::AdamW => adam(Decay::Decoupled(decay)),
        OptimiserName::Adam => adam(Decay::InGradient(decay)),
    }
}

/// Learning rates over a run.
///
/// They follow the epochs, not the steps of the optimiser: an epoch may have more steps while windows are
/// measured than once they are scheduled, and the last epoch is to end at the lowest rate all the same.
#[derive(Clone, Copy, Debug)]
pub struct Rates {
    schedule: RateSchedule,
    /// Steps of an epoch that the schedule is laid out for.
    steps: u64,
}

impl Rates {
    /// The rates of the settings, laid out for epochs of this many steps.
    pub fn new(settings: &Settings, steps: usize) -> Rates {
        let steps = steps as u64;
        let (rate, epochs) = (settings.train.learning_rate as f32, settings.train.epochs as u64);
        let schedule = match settings.train.schedule {
            RateName::Step => {
                RateSchedule::Step { rate, every: steps * settings.train.schedule_every as u64, factor: 0.5 }
            }
            RateName::Cosine => RateSchedule::Cosine { rate, warm_up: 0, steps: steps * epochs, lowest: 0.0 },
            RateName::Constant => RateSchedule::Constant { rate },
        };
        Rates { schedule, steps }
    }

    /// The rate of an iteration of an epoch that has `iterations` of them.
    pub fn rate(&self, epoch: usize, iteration: usize, iterations: usize) -> f32 {
        let within = (iteration as u64 * self.steps).checked_div(iterations as u64).unwrap_or(0);
        self.schedule.rate(epoch as u64 * self.steps + within)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(schedule: RateName) -> Settings {
        let mut settings = Settings::default();
        (settings.train.schedule, settings.train.epochs, settings.train.schedule_every) = (schedule, 4, 2);
        settings.train.learning_rate = 0.1;
        settings
    }

    #[test]
    fn rates_follow_epochs_however_many_steps_these_have() {
        for schedule in [RateName::Step, RateName::Cosine, RateName::Constant] {
            let rates = Rates::new(&settings(schedule), 10);
            for epoch in 0..4 {
                // Twice as many steps in an epoch begin and end at the same rates.
                assert_eq!(rates.rate(epoch, 0, 10), rates.rate(epoch, 0, 20));
                assert_eq!(rates.rate(epoch, 5, 10), rates.rate(epoch, 10, 20));
                assert_eq!(rates.rate(epoch, 9, 10), rates.rate(epoch, 19, 20));
            }
        }
        let cosine = Rates::new(&settings(RateName::Cosine), 10);
        // The rate falls within an epoch, too.
        assert!(
            cosine.rate(1, 5, 10) < cosine.rate(1, 0, 10) && cosine.rate(1, 5, 10) > cosine.rate(2, 0, 10)
        );
        // The last epoch still learns, whatever came before.
        assert!(cosine.rate(3, 0, 20) > 0.01 && cosine.rate(3, 19, 20) > 0.0 && cosine.rate(4, 0, 20) == 0.0);
        let step = Rates::new(&settings(RateName::Step), 10);
        assert_eq!([1, 2, 3].map(|epoch| step.rate(epoch, 0, 7)), [0.1, 0.05, 0.05]);
    }
}
