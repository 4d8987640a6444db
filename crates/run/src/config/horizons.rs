//! How far ahead values lie that are predicted, and how many past ones are looked at: settings that are
//! written as text.

use super::settings::Task;
use crate::error::{Error, Result};

/// Horizons of one model at most.
const MOST: usize = 1024;
/// Past values of a vertex at most.
const MOST_PAST: usize = 1024;

impl Task {
    /// The horizons to be predicted, ascending: those of `task.horizons`, or `task.horizon`.
    pub fn all_horizons(&self) -> Result<Vec<usize>> {
        let text = self.horizons.trim();
        if text.is_empty() {
            return Ok(vec![self.horizon]);
        }
        let wrong = |what: &str| {
            let problem =
                format!("found {text:?}{what}, expected steps as in 1..12 or 3,6,12, each from 1 on");
            Error::settings("task.horizons", problem)
        };
        let step = |text: &str| text.trim().parse::<usize>().ok().filter(|&step| step > 0);
        let mut all = Vec::new();
        for part in text.split(',') {
            match part.split_once("..") {
                None => all.push(step(part).ok_or_else(|| wrong(""))?),
                Some((first, last)) => {
                    // Both ends are meant, also where they are written as Rust has it.
                    let last = last.strip_prefix('=').unwrap_or(last);
                    let (first, last) = step(first).zip(step(last)).ok_or_else(|| wrong(""))?;
                    if first > last || last - first >= MOST {
                        return Err(wrong(&format!(
                            ", of which {first}..{last} is no range of at most {MOST}"
                        )));
                    }
                    all.extend(first..=last);
                }
            }
        }
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        if all.len() < count || count > MOST {
            return Err(wrong(&format!(", which has a step twice or more than {MOST} steps")));
        }
        Ok(all)
    }

    /// How many past values are looked at; `None` for as many as is usual.
    pub fn past_values(&self) -> Result<Option<usize>> {
        match self.past.trim() {
            "auto" => Ok(None),
            text => match text.parse::<usize>() {
                Ok(count) if count <= MOST_PAST => Ok(Some(count)),
                _ => {
                    let problem = format!("found {text:?}, expected auto or a number from 0 to {MOST_PAST}");
                    Err(Error::settings("task.past", problem))
                }
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(horizons: &str) -> Result<Vec<usize>> {
        Task { horizon: 5, horizons: horizons.into(), ..Task::default() }.all_horizons()
    }

    #[test]
    fn lists_and_ranges_are_horizons() {
        assert_eq!(of("").unwrap(), [5]);
        assert_eq!(of("3").unwrap(), [3]);
        assert_eq!(of("12, 3,6").unwrap(), [3, 6, 12]);
        assert_eq!(of("1..4").unwrap(), [1, 2, 3, 4]);
        assert_eq!(of("1..=2,7").unwrap(), [1, 2, 7]);
        for wrong in ["0", "a", "3,", "4..2", "1..", "..3", "1..4,2", "1..99999", "-1", "1.5", "1..2..3"] {
            let told = of(wrong).unwrap_err().to_string();
            assert!(told.starts_with("task.horizons: found") && told.contains("1..12"), "{wrong}: {told}");
        }
    }

    #[test]
    fn past_values_are_a_number_or_as_many_as_usual() {
        let of = |past: &str| Task { past: past.into(), ..Task::default() }.past_values();
        assert_eq!([of("auto").unwrap(), of("0").unwrap(), of("12").unwrap()], [None, Some(0), Some(12)]);
        for wrong in ["", "on", "-1", "1025", "2.5"] {
            assert!(of(wrong).unwrap_err().to_string().starts_with("task.past: found"), "{wrong}");
        }
    }
}
