//! Whether workers may go on with rows that neighbours elsewhere had in earlier passes (DGC, section 5.2),
//! and how far those may be off: what is written for it, and what it goes with.

use kymo_plan::strategy::{self, Scheme};

use super::Settings;
use crate::error::{Error, Result};

/// What a threshold is of the largest distance seen (Eq. 6).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum StaleRule {
    /// As the text has it: the more, the further the loss has fallen.
    Adaptive,
    /// As Eq. 6 is printed: the less, the further the loss has fallen.
    AsPrinted,
    /// Always the same share.
    Fraction(f64),
}

impl Settings {
    /// How far rows may be off, or nothing where they are to be exact.
    pub fn stale_rule(&self) -> Result<Option<StaleRule>> {
        let typed = self.parallel.stale.trim();
        match typed {
            "off" => return Ok(None),
            "adaptive" => return Ok(Some(StaleRule::Adaptive)),
            "adaptive-printed" => return Ok(Some(StaleRule::AsPrinted)),
            _ => {}
        }
        match typed.parse::<f64>() {
            // Of a whole, what is allowed and what is found would push each other up without end.
            Ok(share) if (0.0..1.0).contains(&share) => Ok(Some(StaleRule::Fraction(share))),
            _ => {
                let problem = format!(
                    "found '{typed}', expected off, adaptive, adaptive-printed, or a share of the largest \
                     distance, at least 0 and below 1, such as 0.3"
                );
                Err(Error::settings("parallel.stale", problem))
            }
        }
    }

    /// Fails where stale rows are asked for and no rows of neighbours are exchanged.
    pub fn check_stale(&self) -> Result<()> {
        self.check_stale_with(&self.parallel.strategy)
    }

    /// The same with another strategy than that of the settings.
    pub(crate) fn check_stale_with(&self, strategy: &str) -> Result<()> {
        if self.stale_rule()?.is_none() {
            return Ok(());
        }
        if self.run.device != "cpu" {
            let problem = format!(
                "rows are exchanged between workers on the CPU, found run.device {}; choose cpu, or \
                 parallel.stale=off",
                self.run.device
            );
            return Err(Error::settings("parallel.stale", problem));
        }
        let cuts = |strategy: &&strategy::Strategy| matches!(strategy.scheme, Scheme::Cells { .. });
        if cuts(&strategy::find(strategy)?) {
            return Ok(());
        }
        let names: Vec<&str> = strategy::ALL.iter().filter(cuts).map(|strategy| strategy.name).collect();
        let problem = format!(
            "{strategy} gives workers whole windows, whose neighbours are all there; choose a strategy that \
             cuts windows ({}), or parallel.stale=off",
            names.join(", ")
        );
        Err(Error::settings("parallel.stale", problem))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(stale: &str) -> Settings {
        let mut settings = Settings::default();
        settings.parallel.stale = stale.into();
        settings
    }

    #[test]
    fn what_is_written_is_understood_or_refused() {
        assert_eq!(Settings::default().stale_rule().unwrap(), None);
        assert_eq!(with("adaptive").stale_rule().unwrap(), Some(StaleRule::Adaptive));
        assert_eq!(with("adaptive-printed").stale_rule().unwrap(), Some(StaleRule::AsPrinted));
        for (typed, share) in [("0", 0.0), ("0.3", 0.3), (" 0.99 ", 0.99)] {
            assert_eq!(with(typed).stale_rule().unwrap(), Some(StaleRule::Fraction(share)));
        }
        for typed in ["", "on", "1", "-0.1", "NaN", "inf", "30%"] {
            let error = with(typed).check().unwrap_err().to_string();
            assert!(error.starts_with("parallel.stale: found '") && error.contains("such as 0.3"), "{error}");
        }
    }

    #[test]
    fn what_exchanges_no_rows_is_refused() {
        let refused = |change: fn(&mut Settings)| {
            let mut settings = with("0.3");
            settings.parallel.strategy = "pts".into();
            settings.check_stale().unwrap();
            change(&mut settings);
            settings.check_stale().unwrap_err().to_string()
        };
        let error = refused(|settings| settings.parallel.strategy = "blad".into());
        assert!(error.contains("blad gives workers whole windows") && error.contains("pts"), "{error}");
        let error = refused(|settings| settings.run.device = "cuda".into());
        assert!(error.contains("found run.device cuda; choose cpu, or parallel.stale=off"), "{error}");
        let mut off = with("off");
        off.run.device = "cuda".into();
        off.check_stale().unwrap();
    }
}
