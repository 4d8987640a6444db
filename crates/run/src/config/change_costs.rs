//! What it costs to make a product with a snapshot out of the one before (REAL, section 4.1.1), as a run's
//! settings say it: two numbers, or `fitted`, whose place those of this machine take.

use kymo_tensor::Costs;

use super::Parallel;
use super::break_even::FITTED;
use crate::error::{Error, Result};

/// Costs as settings have them.
pub fn written(Costs { entry, row }: Costs) -> String {
    format!("{entry},{row}")
}

impl Parallel {
    /// The costs; nothing where they are to be fitted first.
    pub fn known_change_costs(&self) -> Result<Option<Costs>> {
        let typed = self.change_costs.trim();
        if typed == FITTED {
            return Ok(None);
        }
        let number = |text: &str| text.trim().parse().ok().filter(|number: &f64| number.is_finite());
        let found = typed.split_once(',').and_then(|(entry, row)| {
            Some(Costs { entry: number(entry).filter(|&entry| entry > 0.0)?, row: number(row)? })
        });
        found.map(Some).ok_or_else(|| {
            let problem = format!(
                "found '{typed}', expected what an entry that changed costs and what a row does, in entries \
                 of a whole product, such as 1.6,1.5, or {FITTED}"
            );
            Error::settings("parallel.change_costs", problem)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again_and_what_makes_no_sense_is_refused_by_name() {
        let said =
            |text: &str| Parallel { change_costs: text.into(), ..Parallel::default() }.known_change_costs();
        for (entry, row) in [(1.6, 1.5), (2.0, -0.25)] {
            let costs = Costs { entry, row };
            assert_eq!(said(&written(costs)).unwrap(), Some(costs));
        }
        assert_eq!(said(" 1.6, 1.5 ").unwrap(), Some(Costs::default()));
        assert_eq!(Parallel::default().known_change_costs().unwrap(), Some(Costs::default()));
        assert_eq!(said("fitted").unwrap(), None);
        for wrong in ["", "1.6", "1.6,", "0,1", "-1,1", "nan,1", "1,inf", "1,2,3"] {
            let error = said(wrong).unwrap_err().to_string();
            assert!(error.contains("parallel.change_costs") && error.contains("1.6,1.5"), "{error}");
        }
    }
}
