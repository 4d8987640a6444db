//! What the Temporal Graph Benchmark has otherwise, as settings say it: what is asked about, and how far back
//! EdgeBank remembers.

use kymo_graph::time::parse_duration;
use serde::{Deserialize, Serialize};

use super::Link;
use super::describe::{Choice, Kind, choice};
use crate::error::{Error, Result};

choice! {
    /// What mrr-tgb, auc and average-precision ask about.
    Weigh {
        /// Every edge of a step, once.
        Edges = "edges",
        /// Every event, as the Temporal Graph Benchmark has it: an edge as often as it occurs in its step,
        /// each time among targets that are drawn anew, among them those of other edges of the step. The
        /// weights of the store must count events.
        Events = "events",
    }
}

/// What EdgeBank remembers in the form with a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Memory {
    /// What other baselines look back at.
    AsOthers,
    /// This many steps, the last one included.
    Steps(usize),
    /// A time as long as this share of that of the training part.
    Share(f64),
    /// A time of this many seconds.
    Seconds(f64),
}

impl Link {
    /// What EdgeBank with a window remembers.
    pub fn edgebank_memory(&self) -> Result<Memory> {
        let typed = self.edgebank_window.trim();
        if typed == "auto" {
            return Ok(Memory::AsOthers);
        }
        if let Some(steps) = typed.parse().ok().filter(|&steps: &usize| steps > 0) {
            return Ok(Memory::Steps(steps));
        }
        let share = typed.strip_suffix('%').and_then(|percent| percent.trim().parse::<f64>().ok());
        if let Some(percent) = share.filter(|percent| *percent > 0.0 && *percent <= 100.0) {
            return Ok(Memory::Share(percent / 100.0));
        }
        if let Some((number, Some(seconds))) = parse_duration(typed) {
            return Ok(Memory::Seconds(number * seconds));
        }
        let problem = format!(
            "found '{typed}', expected auto, a number of steps from 1 on, a share of the time of training \
             such as 15%, or a length of time such as 3d or 12h"
        );
        Err(Error::settings("link.edgebank_window", problem))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Memory> {
        Link { edgebank_window: text.into(), ..Link::default() }.edgebank_memory()
    }

    #[test]
    fn steps_shares_and_times_are_told_apart() {
        assert_eq!(Link::default().edgebank_memory().unwrap(), Memory::AsOthers);
        for (text, expected) in [
            ("12", Memory::Steps(12)),
            (" 15% ", Memory::Share(0.15)),
            ("2.5 %", Memory::Share(0.025)),
            ("3d", Memory::Seconds(259_200.0)),
            ("0.5h", Memory::Seconds(1800.0)),
        ] {
            assert_eq!(read(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        for wrong in ["", "0", "-3", "1.5", "0%", "101%", "nan%", "0s", "3 parsecs", "month"] {
            let error = read(wrong).unwrap_err().to_string();
            assert!(error.contains("link.edgebank_window") && error.contains("15%"), "{wrong}: {error}");
        }
    }
}
