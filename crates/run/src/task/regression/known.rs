//! What is known of a vertex where its values are predicted, beside the embedding: its last values, those of
//! a season ago, what is usual at that phase of the season, and what the calendar says.

use std::sync::Arc;

use kymo_graph::Step;

use super::calendar::Calendar;
use super::columns::{Column, Columns, Making};
use super::detect::detect;
use super::loss::NAMES;
use super::usual::Usual;
use super::{Values, seasonal};
use crate::config::{CalendarName, SeasonName, Task};
use crate::data::Part;
use crate::error::Result;

/// What is looked at of a season.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Looks {
    /// Steps after which values come back.
    pub steps: usize,
    /// Whether at the values of a season ago.
    is_ago: bool,
    /// Whether at what is usual at a phase of the season, and how many steps on either side count for it.
    width: Option<usize>,
}

impl Looks {
    /// Numbers that stand for it.
    pub fn numbers(self) -> [f32; 3] {
        let width = self.width.map_or(-1.0, |width| width as f32);
        [self.steps as f32, f32::from(u8::from(self.is_ago)), width]
    }

    /// What is usual at each phase, where that is looked at.
    fn usual(self) -> Option<Usual> {
        self.width.map(|width| Usual { season: self.steps, width })
    }
}

/// What numbers of a season and of the calendar stand for, if for anything; one of them alone is a season of
/// which the values of a season ago were looked at, as models of earlier versions do.
pub fn looks(numbers: &[f32], horizon: usize) -> Option<(Option<Looks>, Calendar)> {
    let (season, is_ago, width, calendar) = match *numbers {
        [season] => (season, 1.0, -1.0, 0.0),
        [season, is_ago, width, calendar] => (season, is_ago, width, calendar),
        _ => return None,
    };
    let calendar = Calendar::from_number(calendar)?;
    if season == 0.0 {
        return Some((None, calendar));
    }
    // A season is looked back on from the furthest value that is predicted.
    let is_season = season > horizon as f32 && season < 1e6;
    let is_width = width == -1.0 || (width >= 0.0 && width <= season - horizon as f32);
    let width = (width >= 0.0).then_some(width as usize);
    let looks = Looks { steps: season as usize, is_ago: is_ago == 1.0, width };
    (is_season && is_width && [0.0, 1.0].contains(&is_ago)).then_some((Some(looks), calendar))
}

impl Values {
    /// Finds out what there is to be looked at.
    pub(super) fn look(&mut self, task: &Task) -> Result<()> {
        if self.past == 0 {
            return Ok(());
        }
        let (is_usual, is_ago) = match task.season {
            SeasonName::Usual => (true, false),
            SeasonName::Ago => (false, true),
            SeasonName::Both => (true, true),
            SeasonName::Off => (false, false),
        };
        self.season = self.with_signal(self.furthest(), |signal| {
            let looks = |usual: Usual| Looks { steps: usual.season, is_ago, width: Some(usual.width) };
            Ok(match (is_usual, is_ago) {
                (true, _) => detect(signal)?.map(looks),
                (false, true) => {
                    let steps = seasonal::season(signal)?.that_is_better();
                    steps.map(|steps| Looks { steps, is_ago, width: None })
                }
                (false, false) => None,
            })
        })?;
        if task.calendar == CalendarName::Auto {
            self.calendar = Calendar::of(&self.store, 0..self.split.samples(Part::Train).end)?;
        }
        Ok(())
    }

    /// The parameters of the head.
    pub(super) fn names(&self) -> &'static [&'static str] {
        match (self.past, self.calendar.columns()) {
            (0, _) => &NAMES[..2],
            (_, 0) => &NAMES[..3],
            _ => &NAMES,
        }
    }

    /// The values of a step.
    pub(super) fn column(&self, step: Step) -> Result<Arc<Column>> {
        let (subtracted, divided) = self.scale;
        let making = Making {
            vertices: self.store.vertices(),
            reach: self.past.max(1),
            missing: (self.mean - subtracted) / divided,
        };
        self.columns.get(step, || making.column(step, |step| self.read(step), |value| self.scaled(value)))
    }

    /// What is usual at a step that is at least a season after the first.
    fn usual(&self, usual: Usual, step: Step) -> Result<Arc<Column>> {
        self.usuals.get(step, || {
            let vertices = self.store.vertices();
            let known = |step: Step| self.read(step);
            let mut values = usual.means(step, vertices, known, |value| self.scaled(value))?;
            if values.iter().any(|mean| mean.is_nan()) {
                // Nothing came at this phase: the last value of a season ago.
                let then = self.column(step - usual.season)?;
                let missing = values.iter_mut().zip(then.values.iter()).filter(|(mean, _)| mean.is_nan());
                missing.for_each(|(mean, &last)| *mean = last);
            }
            Ok(Column { values: Arc::new(values.into()), present: None, count: vertices })
        })
    }

    /// The vertices that have a value at a step, and the values as they are stored. All of them were found to
    /// be numbers at the beginning.
    fn read(&self, step: Step) -> Result<(&[u32], &[f32])> {
        let (vertices, values) = self.stored(step)?;
        self.has_read(vertices, values);
        Ok((vertices, values))
    }

    /// A stored value as the model sees it.
    fn scaled(&self, stored: f32) -> f32 {
        let (subtracted, divided) = self.scale;
        (self.value(stored) - subtracted) / divided
    }

    /// The furthest horizon.
    fn furthest(&self) -> usize {
        self.horizons.last().copied().unwrap_or(1)
    }

    /// How many columns are known of a sample.
    pub(super) fn known(&self) -> usize {
        let of_season = |looks: Looks| {
            let count = self.horizons.len();
            usize::from(looks.is_ago) * count + looks.width.map_or(0, |_| count + 1)
        };
        self.past + self.season.map_or(0, of_season)
    }

    /// What is known at a step: the past values, the newest first (those before the first step are like its
    /// own); the values of a season before each that is to be predicted; what is usual at the step itself and
    /// at each that is to be predicted.
    pub(super) fn known_columns(&self, step: Step) -> Result<Vec<Arc<Column>>> {
        let past = (0..self.past).map(|ago| self.column(step.saturating_sub(ago)));
        let mut known = past.collect::<Result<Vec<_>>>()?;
        let Some(looks) = self.season else { return Ok(known) };
        // Before the first season there is the last value.
        if looks.is_ago {
            for horizon in &self.horizons {
                known.push(self.column((step + horizon).checked_sub(looks.steps).unwrap_or(step))?);
            }
        }
        if let Some(usual) = looks.usual() {
            for horizon in [0].iter().chain(&self.horizons) {
                known.push(match step + horizon < looks.steps {
                    true => self.column(step)?,
                    false => self.usual(usual, step + horizon)?,
                });
            }
        }
        Ok(known)
    }

    /// What the calendar says of the step that is predicted from `step`, the nearest of them.
    pub(super) fn time_of(&self, step: Step) -> Result<Vec<f32>> {
        let nearest = self.horizons.first().copied().unwrap_or(1);
        if self.past == 0 { Ok(Vec::new()) } else { self.calendar.at(&self.store, step, nearest) }
    }

    /// Keeps as many columns as windows that follow each other have in common.
    pub(super) fn make_room(&mut self) {
        let furthest = self.furthest();
        let each = |wanted: bool| if wanted { self.samples + furthest } else { 0 };
        let ago = each(self.season.is_some_and(|looks| looks.is_ago));
        let least = (self.samples + self.past + furthest + ago).saturating_mul(self.workers);
        self.columns = Columns::new(least, self.store.vertices(), self.store.steps());
        // One more than is predicted: that of the step itself. What lies after the last step is asked for.
        self.usuals = match each(self.season.is_some_and(|looks| looks.width.is_some())) {
            0 => Columns::default(),
            usual => Columns::new(
                (usual + 1).saturating_mul(self.workers),
                self.store.vertices(),
                self.store.steps() + furthest,
            ),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_for_what_is_looked_at_and_others_for_nothing() {
        for (is_ago, width) in [(true, None), (false, Some(0)), (true, Some(3))] {
            let season = Looks { steps: 24, is_ago, width };
            let calendar = Calendar::from_number(9.0).unwrap();
            let numbers = [&season.numbers()[..], &[9.0]].concat();
            assert_eq!(looks(&numbers, 12), Some((Some(season), calendar)));
        }
        let none = (None, Calendar::default());
        assert_eq!(looks(&[0.0; 4], 1), Some(none));
        // Models of earlier versions looked at a season ago.
        let ago = Looks { steps: 7, is_ago: true, width: None };
        assert_eq!(looks(&[7.0], 2), Some((Some(ago), Calendar::default())));
        assert_eq!(looks(&[0.0], 2), Some(none));
        // Usual values would be of steps that are not known yet.
        for wrong in [&[7.0, 0.0, 6.0, 0.0][..], &[2.0, 1.0, 0.0, 0.0], &[7.0, 0.5, 0.0, 0.0], &[7.0, 1.0]] {
            assert_eq!(looks(wrong, 2), None, "{wrong:?}");
        }
        assert_eq!(looks(&[7.0, 0.0, f32::NAN, 0.0], 2), None);
    }
}
