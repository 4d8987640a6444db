//! From where on it no longer pays to go through several snapshots at once (REAL, section 4.1.1): the share
//! of edges that they have together, each counted once, by the mean degree `d`, as a run's settings say it.
//!
//! What is written is a number, or a formula such as `0.3+0.4/d` that follows from costs of vertices and
//! edges, or `fitted`: then the formula is found out on this machine as the run begins, and takes the place
//! of the word in the settings of the run, so that it is the same wherever the run goes on.

use std::fmt;
use std::str::FromStr;

use super::Parallel;
use crate::error::{Error, Result};

/// What asks for costs of this machine.
pub const FITTED: &str = "fitted";

/// The share up to which snapshots go through attention at once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BreakEven {
    /// That of snapshots whose vertices have very many edges.
    pub share: f64,
    /// How much it grows, the fewer edges a vertex has: divided by the mean degree.
    pub by_degree: f64,
}

impl BreakEven {
    /// The share at a mean degree.
    pub fn at(&self, degree: f64) -> f64 {
        self.share + self.by_degree / degree.max(1.0)
    }
}

impl fmt::Display for BreakEven {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3}", self.share)?;
        match self.by_degree == 0.0 {
            true => Ok(()),
            false => write!(f, "{:+.3}/d", self.by_degree),
        }
    }
}

impl FromStr for BreakEven {
    type Err = ();

    fn from_str(text: &str) -> std::result::Result<BreakEven, ()> {
        let number = |text: &str| text.parse().ok().filter(|number: &f64| number.is_finite()).ok_or(());
        let Some(formula) = text.strip_suffix("/d") else {
            return Ok(BreakEven { share: number(text)?, by_degree: 0.0 });
        };
        let sign = formula.rfind(['+', '-']).filter(|&at| at > 0).ok_or(())?;
        let (share, by_degree) = formula.split_at(sign);
        Ok(BreakEven { share: number(share)?, by_degree: number(by_degree)? })
    }
}

impl Parallel {
    /// The break-even; nothing where it is to be fitted first.
    pub fn known_break_even(&self) -> Result<Option<BreakEven>> {
        let typed = self.break_even.trim();
        if typed == FITTED {
            return Ok(None);
        }
        let found = typed.parse().map_err(|()| {
            let problem = format!(
                "found '{typed}', expected a share of the edges such as 0.334, a formula with the mean \
                 degree such as 0.3+0.4/d, or {FITTED}"
            );
            Error::settings("parallel.break_even", problem)
        })?;
        Ok(Some(found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        for (text, share, by_degree) in [
            ("0.334", 0.334, 0.0),
            ("0.300+0.400/d", 0.3, 0.4),
            ("0.300-1.250/d", 0.3, -1.25),
            ("-0.100", -0.1, 0.0),
        ] {
            let read: BreakEven = text.parse().unwrap();
            assert_eq!((read, read.to_string()), (BreakEven { share, by_degree }, text.to_owned()));
        }
        let formula: BreakEven = "0.3+0.4/d".parse().unwrap();
        assert_eq!((formula.at(4.0), formula.at(0.0)), (0.4, 0.7));
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        let said =
            |text: &str| Parallel { break_even: text.into(), ..Parallel::default() }.known_break_even();
        for wrong in ["", "a third", "0.3/d", "0.3+/d", "+0.3/d", "nan", "0.3+inf/d", "0.3+0.4"] {
            let error = said(wrong).unwrap_err().to_string();
            assert!(error.contains("parallel.break_even") && error.contains("0.3+0.4/d"), "{error}");
        }
        assert_eq!(said("fitted").unwrap(), None);
        assert_eq!(said(" 0.25 ").unwrap(), Some(BreakEven { share: 0.25, by_degree: 0.0 }));
        assert!(Parallel::default().known_break_even().unwrap().is_some());
    }
}
