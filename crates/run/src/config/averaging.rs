//! Whether workers average their models now and then instead of summing gradients in every step (DynaHB,
//! Algorithm 2): what is written for it, and what it goes with.

use kymo_plan::strategy::{self, Scheme};
use serde::{Deserialize, Serialize};

use super::Settings;
use super::describe::{Kind, Setting, section};
use crate::error::{Error, Result};

section! {
    /// How models are averaged, where that takes the place of summing gradients.
    Averaging {
        /// Seconds between the averages of the workers' models, each of which takes steps of its own
        /// meanwhile (DynaHB, Algorithm 2); 0: gradients are summed in every step. When rounds take place
        /// follows the clock: what comes of it differs from run to run.
        seconds: f64 = 0.0,
        /// The averaging.jsonl of a run whose rounds are to take place again after the same iterations,
        /// whatever the clock says: the same run then gives the same bits.
        replay: String = String::new(),
    }
}

impl Averaging {
    /// The same with a path that holds from everywhere.
    pub fn absolute(mut self) -> Result<Averaging> {
        if !self.replay.is_empty() {
            let whole = std::fs::canonicalize(&self.replay).map_err(|_| {
                let problem =
                    format!("there is no file {}, expected the averaging.jsonl of a run", self.replay);
                Error::settings("averaging.replay", problem)
            })?;
            self.replay = whole.to_string_lossy().into_owned();
        }
        Ok(self)
    }
}

/// The longest time between averages: a day.
const LONGEST: f64 = 86_400.0;

impl Settings {
    /// Whether models are averaged instead of gradients.
    pub fn averages(&self) -> bool {
        self.parallel.workers > 1 && (self.averaging.seconds > 0.0 || !self.averaging.replay.is_empty())
    }

    /// Fails where models are to be averaged and cannot be.
    pub(super) fn check_averaging(&self) -> Result<()> {
        let seconds = self.averaging.seconds;
        let refuse = |setting: &str, problem: String| Err(Error::settings(setting, problem));
        if !(0.0..=LONGEST).contains(&seconds) {
            let problem = format!("found {seconds}, expected seconds from 0 to {LONGEST}");
            return refuse("averaging.seconds", problem);
        }
        if !self.averages() {
            return Ok(());
        }
        let setting = if seconds > 0.0 { "averaging.seconds" } else { "averaging.replay" };
        let strategy = strategy::find(&self.parallel.strategy)?;
        if !matches!(strategy.scheme, Scheme::Groups | Scheme::Targets) {
            let goes =
                |strategy: &&strategy::Strategy| matches!(strategy.scheme, Scheme::Groups | Scheme::Targets);
            let names: Vec<&str> = strategy::ALL.iter().filter(goes).map(|strategy| strategy.name).collect();
            return refuse(
                setting,
                format!(
                    "workers of {} wait for each other in every step; choose a strategy whose workers do not \
                     ({}), or averaging.seconds=0",
                    strategy.name,
                    names.join(", ")
                ),
            );
        }
        if self.run.device != "cpu" {
            let found = &self.run.device;
            let problem = format!("models are averaged in the memory of the host, found run.device {found}");
            return refuse(setting, format!("{problem}; choose cpu, or averaging.seconds=0"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(strategy: &str, workers: usize, seconds: f64) -> Settings {
        let mut settings = Settings::default();
        (settings.parallel.strategy, settings.parallel.workers) = (strategy.into(), workers);
        settings.averaging.seconds = seconds;
        settings
    }

    #[test]
    fn what_is_averaged_and_what_is_refused() {
        assert!(!Settings::default().averages());
        for strategy in ["psg", "dynahb", "pyd"] {
            let settings = with(strategy, 2, 0.5);
            settings.check().unwrap();
            assert!(settings.averages() && !with(strategy, 1, 0.5).averages());
        }
        for wrong in [-1.0, f64::NAN, f64::INFINITY, 1e6] {
            let error = with("psg", 1, wrong).check().unwrap_err().to_string();
            assert!(error.starts_with("averaging.seconds: found "), "{error}");
        }
        let error = with("pts", 2, 0.5).check().unwrap_err().to_string();
        assert!(error.contains("workers of pts wait for each other") && error.contains("dynahb"), "{error}");
        with("pts", 1, 0.5).check().unwrap();
        let mut replayed = with("blad", 2, 0.0);
        replayed.averaging.replay = "averaging.jsonl".into();
        assert!(replayed.check().unwrap_err().to_string().starts_with("averaging.replay: "));
    }
}
