//! What settings may be.

use kymo_plan::strategy;

use super::Settings;
use super::bytes::size;
use crate::error::{Error, Result};

/// Columns of a matrix at most.
const MOST_COLUMNS: usize = 1 << 20;
/// Steps of a walk at most: each has a weight of its own.
const MOST_WALKS: usize = 1 << 10;
/// Pairs without a link for a link at most: as many as there can be vertices.
const MOST_NEGATIVES: usize = u32::MAX as usize;

impl Settings {
    /// Fails where a setting alone makes no sense; what depends on the data is checked when it is opened.
    pub fn check(&self) -> Result<()> {
        let positive = [
            ("data.lags", self.data.lags),
            ("train.window", self.train.window),
            ("train.stride", self.train.stride),
            ("train.schedule_every", self.train.schedule_every),
            ("link.negatives", self.link.negatives),
            ("link.evaluate_negatives", self.link.evaluate_negatives),
            ("parallel.workers", self.parallel.workers),
            ("parallel.groups", self.parallel.groups),
            ("parallel.profile_epochs", self.parallel.profile_epochs),
            ("run.checkpoint_epochs", self.run.checkpoint_epochs),
        ];
        for (setting, value) in positive {
            expect(setting, value > 0, || format!("found {value}, expected at least 1"))?;
        }
        // Below these, sizes can be multiplied without a second thought; what fits into memory is less, and
        // is seen when the data is known.
        let ceilings = [
            ("parallel.workers", self.parallel.workers, kymo_plan::layout::MOST_WORKERS),
            ("model.hidden", self.model.hidden, MOST_COLUMNS),
            ("model.heads", self.model.heads, MOST_COLUMNS),
            ("model.walks", self.model.walks, MOST_WALKS),
            ("data.learnt", self.data.learnt, MOST_COLUMNS),
            ("data.lags", self.data.lags, MOST_COLUMNS),
            ("link.negatives", self.link.negatives, MOST_NEGATIVES),
            ("link.evaluate_negatives", self.link.evaluate_negatives, MOST_NEGATIVES),
        ];
        for (setting, value, most) in ceilings {
            expect(setting, value <= most, || format!("found {value}, expected at most {most}"))?;
        }
        let shares = [
            ("link.historical", self.link.historical, 1.0),
            ("link.weight", self.link.weight, 1e6),
            ("model.dropout", self.model.dropout, 0.99),
            ("split.train", self.split.train, 1.0),
            ("split.validation", self.split.validation, 1.0),
        ];
        for (setting, value, most) in shares {
            let inside = (0.0..=most).contains(&value);
            expect(setting, inside, || format!("found {value}, expected a number from 0 to {most}"))?;
        }
        let rest = 1.0 - self.split.train - self.split.validation;
        expect("split", self.split.train > 0.0 && self.split.validation > 0.0 && rest > 1e-9, || {
            format!(
                "train {} and validation {} leave {rest:.2} for the test; all three must be above 0",
                self.split.train, self.split.validation
            )
        })?;
        let deadline = self.parallel.deadline;
        expect("parallel.deadline", (1.0..=86_400.0).contains(&deadline), || {
            format!("found {deadline}, expected seconds from 1 to 86400")
        })?;
        let rate = self.train.learning_rate;
        expect("train.learning_rate", rate > 0.0 && rate.is_finite(), || {
            format!("found {rate}, expected a number above 0")
        })?;
        for (setting, value) in
            [("train.weight_decay", self.train.weight_decay), ("train.clip", self.train.clip)]
        {
            let good = value >= 0.0 && value.is_finite();
            expect(setting, good, || format!("found {value}, expected 0 or more"))?;
        }
        self.task.all_horizons()?;
        self.task.past_values()?;
        strategy::find(&self.parallel.strategy)?;
        self.parallel.known_break_even()?;
        self.parallel.known_change_costs()?;
        self.link.edgebank_memory()?;
        self.stale_rule()?;
        self.check_averaging()?;
        size("run.reservoir", &self.run.reservoir)?;
        let measured = self.parallel.costs == "measured";
        expect("parallel.cached_costs", measured || !self.parallel.cached_costs, || {
            format!("goes with parallel.costs = \"measured\" only, found \"{}\"", self.parallel.costs)
        })?;
        crate::config::device::check(self)
    }
}

fn expect(setting: &str, good: bool, problem: impl FnOnce() -> String) -> Result<()> {
    if good { Ok(()) } else { Err(Error::settings(setting, problem())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_make_sense_and_nonsense_is_refused() {
        Settings::default().check().unwrap();
        let wrong = |change: fn(&mut Settings)| {
            let mut settings = Settings::default();
            change(&mut settings);
            settings.check().unwrap_err().to_string()
        };
        assert_eq!(wrong(|s| s.train.window = 0), "train.window: found 0, expected at least 1");
        assert!(wrong(|s| s.split.train = 0.9).starts_with("split: train 0.9 and validation 0.15 leave"));
        assert!(wrong(|s| s.train.learning_rate = f64::NAN).contains("above 0"));
        assert!(wrong(|s| s.link.historical = 1.5).contains("from 0 to 1"));
        assert!(wrong(|s| s.link.weight = f64::INFINITY).contains("found inf"));
        // Sizes of which products would overflow.
        assert_eq!(
            wrong(|s| s.model.hidden = 1_000_000_000_000_000_000),
            "model.hidden: found 1000000000000000000, expected at most 1048576"
        );
        assert!(wrong(|s| s.model.walks = usize::MAX).ends_with("expected at most 1024"));
        assert!(wrong(|s| s.data.lags = 1 << 60).starts_with("data.lags: "));
        assert!(wrong(|s| s.data.learnt = 1 << 60).starts_with("data.learnt: "));
        assert!(wrong(|s| s.link.negatives = 1 << 60).starts_with("link.negatives: "));
        assert!(wrong(|s| s.link.evaluate_negatives = 1 << 60).starts_with("link.evaluate_negatives: "));
    }
}
