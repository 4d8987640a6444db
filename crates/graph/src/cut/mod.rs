//! From events to steps: where a step begins and ends, what its edges are, and what they carry.

mod fold;
mod life;
mod means;

pub use fold::{Folded, Folder, Pieces, WeightRule};
pub use life::{Carry, Impossible, Life, Why};
pub use means::{Means, Rows};

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::snapshot::Step;
use crate::time::{CALENDAR, Calendar, TimeUnit, parse_duration};

/// How the time is cut.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cut {
    /// Windows of one length, the first beginning with the first event.
    Window(Length),
    /// Units of the calendar, in UTC.
    Calendar(Calendar),
    /// This number of windows of one length.
    Steps(usize),
    /// Windows of this number of events, whatever their times.
    Events(usize),
    /// The time of an event is the number of its step.
    Numbered,
}

/// A length of time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Length {
    /// How many.
    pub number: f64,
    /// Seconds in each; `None` for whatever the times of the input count.
    pub seconds: Option<f64>,
}

impl FromStr for Cut {
    type Err = Error;

    /// Reads what `--window` takes: `7d`, `190080s`, `0.5` or a unit of the calendar.
    fn from_str(text: &str) -> Result<Cut> {
        if let Some(&(_, unit)) = CALENDAR.iter().find(|(name, _)| *name == text) {
            return Ok(Cut::Calendar(unit));
        }
        let (number, seconds) = parse_duration(text).ok_or_else(|| {
            let names: Vec<&str> = CALENDAR.iter().map(|&(name, _)| name).collect();
            let expected = "a length such as 7d, 12h or 190080s (units ns us ms s m h d w; none means the \
                            unit of the file)";
            Error::settings(
                "--window",
                format!("found '{text}', expected {expected} or one of {}", names.join(", ")),
            )
        })?;
        Ok(Cut::Window(Length { number, seconds }))
    }
}

/// More steps than this are a mistake in the window more likely than a wish.
pub const MOST_STEPS: usize = 1_000_000;

/// A cut made concrete for the times of an input.
#[derive(Clone, Copy, Debug)]
pub struct Cutter {
    kind: Kind,
    first: f64,
    last: f64,
    steps: usize,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Length(f64),
    Calendar { unit: Calendar, per_second: f64, first: i64 },
    Rank(usize),
}

impl Cutter {
    /// Cuts `events` events from time `first` to time `last`.
    pub fn new(cut: Cut, unit: TimeUnit, first: f64, last: f64, events: u64) -> Result<Cutter> {
        let untimed = |setting: &str, example: &str| {
            let problem = format!(
                "the times of this input have no unit: pass --time-unit, or a plain number as in {example}"
            );
            Error::settings(setting, problem)
        };
        let length = |length: f64| (Kind::Length(length), ((last - first) / length).floor() + 1.0);
        let (kind, steps) = match cut {
            Cut::Window(Length { number, seconds: None }) => length(number),
            Cut::Window(Length { number, seconds: Some(seconds) }) => {
                let per_second = unit.per_second().ok_or_else(|| untimed("--window", "--window 0.5"))?;
                length(number * seconds * per_second)
            }
            Cut::Numbered => length(1.0),
            Cut::Steps(0) => return Err(Error::settings("--steps", "found 0, expected at least 1")),
            Cut::Steps(_) if first == last => length(1.0),
            Cut::Steps(steps) => (Kind::Length((last - first) / steps as f64), steps as f64),
            Cut::Events(0) => return Err(Error::settings("--events", "found 0, expected at least 1")),
            Cut::Events(size) => (Kind::Rank(size), (events as f64 / size as f64).ceil()),
            Cut::Calendar(calendar) => {
                let per_second = unit.per_second().ok_or_else(|| untimed("--window", "--window 1"))?;
                let index = |time: f64| {
                    calendar.index(time / per_second).ok_or_else(|| {
                        let problem =
                            format!("the time {time} is outside the calendar; is --time-unit {unit} right?");
                        Error::settings("--window", problem)
                    })
                };
                let (begin, end) = (index(first)?, index(last)?);
                (Kind::Calendar { unit: calendar, per_second, first: begin }, (end - begin) as f64 + 1.0)
            }
        };
        if steps > MOST_STEPS as f64 {
            let problem =
                format!("this would make {steps:.0} steps, more than {MOST_STEPS}; use a longer window");
            return Err(Error::settings("--window", problem));
        }
        Ok(Cutter { kind, first, last, steps: steps as usize })
    }

    /// How many steps there are.
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// The step of an event, given its time and its rank among all events.
    #[inline]
    pub fn step(&self, time: f64, rank: u64) -> Step {
        let step = match self.kind {
            Kind::Length(length) => ((time - self.first) / length) as usize,
            Kind::Rank(size) => (rank / size as u64) as usize,
            Kind::Calendar { unit, per_second, first } => {
                unit.index(time / per_second).map_or(0, |index| (index - first).max(0) as usize)
            }
        };
        // The last window of a fixed number is closed: the last event belongs to it.
        step.min(self.steps - 1)
    }

    /// The step that holds a time; `None` outside all steps, and where steps go by rank.
    pub fn step_at(&self, time: f64) -> Option<Step> {
        let (begin, end) = (self.bounds(0)?[0], self.bounds(self.steps - 1)?[1]);
        (begin..=end).contains(&time).then(|| self.step(time, 0))
    }

    /// When a step begins and ends; `None` where only its events tell.
    pub fn bounds(&self, step: Step) -> Option<[f64; 2]> {
        match self.kind {
            Kind::Length(length) => {
                Some([self.first + step as f64 * length, self.first + (step + 1) as f64 * length])
            }
            Kind::Rank(_) => None,
            Kind::Calendar { unit, per_second, first } => {
                let begin = |index| unit.begin(index).map(|seconds| seconds * per_second);
                Some([begin(first + step as i64)?, begin(first + step as i64 + 1).unwrap_or(self.last)])
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cutter(cut: &str, first: f64, last: f64) -> Cutter {
        Cutter::new(cut.parse().unwrap(), TimeUnit::S, first, last, 10).unwrap()
    }

    #[test]
    fn windows_begin_with_the_first_event_and_are_half_open() {
        let cutter = cutter("10s", 5.0, 25.0);
        assert_eq!(cutter.steps(), 3);
        assert_eq!([5.0, 14.9, 15.0, 25.0].map(|time| cutter.step(time, 0)), [0, 0, 1, 2]);
        assert_eq!(cutter.bounds(1), Some([15.0, 25.0]));
    }

    #[test]
    fn a_number_of_steps_closes_the_last() {
        let cutter = Cutter::new(Cut::Steps(4), TimeUnit::S, 0.0, 8.0, 10).unwrap();
        assert_eq!([0.0, 1.9, 2.0, 7.9, 8.0].map(|time| cutter.step(time, 0)), [0, 0, 1, 3, 3]);
        assert_eq!(Cutter::new(Cut::Steps(4), TimeUnit::S, 3.0, 3.0, 10).unwrap().steps(), 1);
    }

    #[test]
    fn a_number_of_events_goes_by_rank() {
        let cutter = Cutter::new(Cut::Events(4), TimeUnit::S, 0.0, 8.0, 10).unwrap();
        assert_eq!(cutter.steps(), 3);
        assert_eq!([0, 3, 4, 9].map(|rank| cutter.step(0.0, rank)), [0, 0, 1, 2]);
    }

    #[test]
    fn months_follow_the_calendar_in_any_unit() {
        let date = |text| crate::time::parse_date(text).unwrap();
        let cutter = Cutter::new(
            "month".parse().unwrap(),
            TimeUnit::Ms,
            date("2024-01-31") * 1e3,
            date("2024-03-01") * 1e3,
            10,
        )
        .unwrap();
        assert_eq!(cutter.steps(), 3);
        assert_eq!(cutter.step(date("2024-02-29") * 1e3, 0), 1);
        assert_eq!(cutter.bounds(1), Some([date("2024-02-01") * 1e3, date("2024-03-01") * 1e3]));
    }

    #[test]
    fn impossible_cuts_are_refused() {
        let error = |cut: Cut, unit| Cutter::new(cut, unit, 0.0, 1e12, 5).unwrap_err().to_string();
        assert!(error("1s".parse().unwrap(), TimeUnit::S).contains("more than 1000000; use a longer window"));
        assert!(error("1d".parse().unwrap(), TimeUnit::Step).contains("have no unit"));
        assert!(error("month".parse().unwrap(), TimeUnit::S).contains("outside the calendar"));
        assert!(
            "fortnight"
                .parse::<Cut>()
                .unwrap_err()
                .to_string()
                .contains("found 'fortnight', expected a length")
        );
    }
}
