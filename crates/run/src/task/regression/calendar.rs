//! What the calendar says of a step that is predicted: the hour of the day, the day of the week, the month of
//! the year. Each is a sine and a cosine for every harmonic, the same for all vertices. They are those of the
//! nearest horizon: a step that is further ahead is a turn of the same circle, which weights can make.

use std::f64::consts::TAU;
use std::ops::Range;

use kymo_graph::{Step, Store};

use crate::error::{Error, Result};

/// What comes back, and after how many seconds.
const CYCLES: [(&str, f64); 3] =
    [("hours of the day", 86_400.0), ("days of the week", 604_800.0), ("months of the year", 31_556_952.0)];

/// Harmonics of a cycle at most: three tell all days of a week apart.
const HARMONICS: u8 = 3;

/// How often training has to see a cycle: of one time alone, it cannot be told from what happened then.
const SEEN: f64 = 2.0;

/// By how much the longest step may be longer than the shortest: months are, steps of equally many events
/// have no time that is known in advance.
const UNEVEN: f64 = 1.25;

/// Which cycles are looked at, by the harmonics of each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Calendar([u8; 3]);

impl Calendar {
    /// The cycles that make sense for the steps of a store and that training has seen.
    pub fn of(store: &Store, train: Range<Step>) -> Result<Calendar> {
        let Some(per_second) = store.manifest().time_unit.per_second() else {
            return Ok(Calendar::default());
        };
        let (mut shortest, mut longest, mut all) = (f64::INFINITY, 0.0f64, 0.0f64);
        let mut before: Option<f64> = None;
        for step in train.clone() {
            let begin = store.time(step)?[0] / per_second;
            if let Some(before) = before {
                let length = begin - before;
                (shortest, longest, all) = (shortest.min(length), longest.max(length), all + length);
            }
            before = Some(begin);
        }
        let is_even = shortest > 0.0 && longest <= UNEVEN * shortest && all.is_finite();
        if !is_even || train.len() < 2 {
            return Ok(Calendar::default());
        }
        let length = all / (train.len() - 1) as f64;
        let harmonics = |(_, seconds): (&str, f64)| match all >= SEEN * seconds {
            // A harmonic has to be seen twice in each turn.
            true => (seconds * 1.001 / (2.0 * length)).clamp(0.0, f64::from(HARMONICS)) as u8,
            false => 0,
        };
        Ok(Calendar(CYCLES.map(harmonics)))
    }

    /// How many columns that makes.
    pub fn columns(self) -> usize {
        self.0.iter().map(|&harmonics| 2 * usize::from(harmonics)).sum()
    }

    /// The numbers of the step that comes `ahead` steps after `step`, by what is known at `step`.
    pub fn at(self, store: &Store, step: Step, ahead: usize) -> Result<Vec<f32>> {
        if self.columns() == 0 {
            return Ok(Vec::new());
        }
        let Some(per_second) = store.manifest().time_unit.per_second() else {
            let all = CYCLES.iter().zip(self.0).filter(|(_, harmonics)| *harmonics > 0);
            let names: Vec<&str> = all.map(|((name, _), _)| *name).collect();
            let problem = format!(
                "the model has learnt with {}, but the times of {} are of no known unit; ingest it with \
                 --time-unit, or train with task.calendar=off",
                names.join(", "),
                store.path().display()
            );
            return Err(Error::settings("task.calendar", problem));
        };
        let [begin, end] = store.time(step)?;
        // As long as the step before: when the newest step will be complete is not known everywhere.
        let length = match step.checked_sub(1) {
            Some(before) => begin - store.time(before)?[0],
            None => end - begin,
        };
        let seconds = (begin + ahead as f64 * length) / per_second;
        let waves = CYCLES.iter().zip(self.0).flat_map(|(&(_, cycle), harmonics)| {
            let phase = TAU * (seconds / cycle).rem_euclid(1.0);
            (1..=harmonics).map(move |harmonic| f64::from(harmonic) * phase)
        });
        Ok(waves.flat_map(|angle| [angle.sin() as f32, angle.cos() as f32]).collect())
    }

    /// All of it as one number.
    pub fn number(self) -> f32 {
        self.0.iter().fold(0.0, |sum, &harmonics| 4.0 * sum + f32::from(harmonics))
    }

    /// What a number stands for, if for anything.
    pub fn from_number(number: f32) -> Option<Calendar> {
        let is_one = number.fract() == 0.0 && (0.0..64.0).contains(&number);
        let bits = is_one.then_some(number as u8)?;
        Some(Calendar([bits / 16, bits / 4 % 4, bits % 4]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_stands_for_the_cycles() {
        for number in 0..64u8 {
            let calendar = Calendar::from_number(f32::from(number)).unwrap();
            assert_eq!(calendar.number(), f32::from(number));
            assert_eq!(calendar.columns(), 2 * calendar.0.iter().map(|&h| usize::from(h)).sum::<usize>());
        }
        for wrong in [-1.0, 64.0, 0.5, f32::NAN, f32::INFINITY] {
            assert_eq!(Calendar::from_number(wrong), None);
        }
    }
}
