//! Which part of the data is for what: training, validation, test.
//!
//! A *sample* is a step `s`: what is known up to `s` predicts what is true at `s + horizon`. Samples are
//! divided in the order of time, so that nothing of validation or test is known while training. Only where
//! classes never change are the vertices divided instead, because later steps would give away the classes
//! of earlier ones.

use std::ops::Range;

use kymo_graph::{Step, Store};

use crate::config::{Mode, Settings, SplitBy};
use crate::error::{Error, Result};

/// A part of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Part {
    /// What is learnt from.
    Train,
    /// What decides when to stop and which parameters are best.
    Validation,
    /// What is looked at once, in the end.
    Test,
}

impl Part {
    /// All of them.
    pub const ALL: [Part; 3] = [Part::Train, Part::Validation, Part::Test];

    /// How it is called.
    pub fn name(self) -> &'static str {
        match self {
            Part::Train => "train",
            Part::Validation => "validation",
            Part::Test => "test",
        }
    }
}

/// The samples of each part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    samples: [Range<Step>; 3],
}

impl Split {
    /// `samples` divided in the order of time.
    pub fn by_time(samples: usize, settings: &Settings) -> Result<Split> {
        let bound = |share: f64| (samples as f64 * share + 1e-9) as usize;
        let first = bound(settings.split.train);
        let second = bound(settings.split.train + settings.split.validation);
        Split::cut(samples, first, second, settings)
    }

    /// The samples of a store of which the furthest value that is predicted lies `horizon` steps ahead,
    /// divided in the order of time: by steps, or by events.
    pub fn of_store(store: &Store, horizon: usize, settings: &Settings) -> Result<Split> {
        let (steps, samples) = (store.steps(), store.steps().saturating_sub(horizon));
        if settings.split.by == SplitBy::Steps {
            return Split::by_time(samples, settings);
        }
        let events = (0..steps).map(|t| Ok(store.events(t)?)).collect::<Result<Vec<u64>>>()?;
        if events.iter().all(|&count| count == 0) {
            let problem = format!(
                "found \"events\", but {} was not made from events; choose \"steps\"",
                store.path().display()
            );
            return Err(Error::settings("split.by", problem));
        }
        let bound = |share: f64| steps_with(&events, share).saturating_sub(horizon);
        let [first, second] =
            [settings.split.train, settings.split.train + settings.split.validation].map(bound);
        Split::cut(samples, first, second, settings)
    }

    /// Samples for training, those from `first` on for validation, and those from `second` on for the test.
    fn cut(samples: usize, first: usize, second: usize, settings: &Settings) -> Result<Split> {
        let second = second.max(first + 1);
        if first == 0 || second >= samples {
            let (train, validation) = (first, second.min(samples) - first.min(samples));
            let problem = format!(
                "{samples} samples cannot be divided into training ({}: {train} samples), validation ({}: \
                 {validation}) and test ({}); cut the data into more steps, or lower task.horizon",
                settings.split.train,
                settings.split.validation,
                samples - train - validation
            );
            return Err(Error::settings("split", problem));
        }
        let split = Split { samples: [0..first, first..second, second..samples] };
        split.check_window(settings)?;
        Ok(split)
    }

    /// All samples for training, and the last of them for validation and test, which look at other vertices.
    pub fn by_vertex(samples: usize, settings: &Settings) -> Result<Split> {
        if samples == 0 {
            return Err(Error::settings("split", "the store has no steps"));
        }
        let split = Split { samples: [0..samples, samples - 1..samples, samples - 1..samples] };
        split.check_window(settings)?;
        Ok(split)
    }

    fn check_window(&self, settings: &Settings) -> Result<()> {
        let (window, train) = (settings.train.window, self.samples[0].len());
        if settings.train.mode != Mode::Sequence && window > train {
            let problem = format!(
                "a window of {window} steps does not fit into the {train} steps for training; choose at most \
                 {train}, or cut the data into more steps"
            );
            return Err(Error::settings("train.window", problem));
        }
        Ok(())
    }

    /// The samples of a part.
    pub fn samples(&self, part: Part) -> Range<Step> {
        self.samples[part as usize].clone()
    }

    /// The windows of one epoch, in the order of time.
    pub fn windows(&self, settings: &Settings) -> Vec<Range<Step>> {
        let train = self.samples(Part::Train);
        let length = settings.train.window;
        match settings.train.mode {
            Mode::Sequence => vec![train],
            Mode::Windows => (train.start + length..=train.end)
                .step_by(settings.train.stride)
                .map(|end| end - length..end)
                .collect(),
            Mode::Truncated => {
                train.clone().step_by(length).map(|start| start..(start + length).min(train.end)).collect()
            }
        }
    }
}

/// How many steps begin no later than a share of all events ends. Where the events of a step are ordered by
/// time, this is where the Temporal Graph Benchmark cuts: at a quantile of their times, and steps stay whole.
fn steps_with(events: &[u64], share: f64) -> usize {
    let all: u64 = events.iter().sum();
    // The place of a quantile among n values is that share of n - 1; sums of shares are not exact.
    let place = share * all.saturating_sub(1) as f64 + 1e-6;
    let mut before = 0;
    let begins = events.iter().map(|count| {
        before += count;
        before - count
    });
    begins.take_while(|&begin| begin as f64 <= place).count()
}

#[cfg(test)]
mod tests {
    use kymo_graph::store::{Plan, Writer};
    use kymo_graph::{Ids, StepData};
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The definition, event by event: what comes after the quantile of all times begins a later part,
        /// unless it shares its step with the quantile.
        #[test]
        fn events_are_divided_at_their_quantiles(
            counts in prop::collection::vec(0u64..6, 1..20), percent in 1usize..100,
        ) {
            let steps: Vec<usize> =
                (0..).zip(&counts).flat_map(|(step, &count)| vec![step; count as usize]).collect();
            prop_assume!(!steps.is_empty());
            // The quantile lies between these two; only events after it are later.
            let at = (percent * (steps.len() - 1)) / 100;
            let last = steps[at];
            let later = steps.iter().copied().find(|&step| step > last);
            let found = steps_with(&counts, percent as f64 / 100.0);
            prop_assert!(found > last, "the step of the quantile is cut off");
            prop_assert!(later.is_none_or(|later| found <= later), "a later step is taken in");
        }
    }

    #[test]
    fn a_share_of_events_is_no_share_of_steps() {
        // 70 % of 100 events end in the third step, 85 % in the fourth.
        assert_eq!([0.7, 0.7 + 0.15].map(|share| steps_with(&[50, 10, 15, 15, 2, 2, 2, 4], share)), [3, 4]);
        assert_eq!(steps_with(&[1, 0, 0, 1], 0.5), 1, "steps without events belong to what comes next");
    }

    #[test]
    fn stores_are_divided_by_events_where_they_have_some() {
        let folder = tempfile::tempdir().unwrap();
        let store = |name: &str, events: &[u64]| {
            let mut writer = Writer::create(&folder.path().join(name), false).unwrap();
            writer.plan(Plan { directed: true, ..Plan::default() });
            writer.add_vertices(&Ids::Number(vec![1])).unwrap();
            for &events in events {
                writer.push(StepData { events, ..StepData::default() }).unwrap();
            }
            writer.finish().unwrap()
        };
        let mut settings = Settings::default();
        settings.train.window = 1;
        let many = store("many", &[50, 10, 15, 15, 2, 2, 2, 4]);
        let parts = |settings: &Settings, horizon| {
            Split::of_store(&many, horizon, settings).map(|split| Part::ALL.map(|part| split.samples(part)))
        };
        assert_eq!(parts(&settings, 1).unwrap(), [0..4, 4..5, 5..7]);
        settings.split.by = SplitBy::Events;
        // Steps 3, 4 and those after: each is what the sample before it is asked about.
        assert_eq!(parts(&settings, 1).unwrap(), [0..2, 2..3, 3..7]);
        assert_eq!(parts(&settings, 2).unwrap(), [0..1, 1..2, 2..6]);
        assert!(parts(&settings, 3).unwrap_err().to_string().contains("cannot be divided"));
        let error = Split::of_store(&store("none", &[0; 9]), 1, &settings).unwrap_err().to_string();
        assert!(error.starts_with("split.by: ") && error.contains("was not made from events"), "{error}");
    }

    #[test]
    fn samples_are_dealt_out_in_order_without_gaps() {
        let settings = Settings::default();
        let split = Split::by_time(20, &settings).unwrap();
        assert_eq!(Part::ALL.map(|part| split.samples(part)), [0..14, 14..17, 17..20]);
        assert_eq!(split.windows(&settings).len(), 11);
        assert_eq!(split.windows(&settings)[10], 10..14);
        let mut settings = settings;
        settings.train.stride = 4;
        assert_eq!(split.windows(&settings), [0..4, 4..8, 8..12]);
        settings.train.mode = Mode::Truncated;
        assert_eq!(split.windows(&settings), [0..4, 4..8, 8..12, 12..14]);
        settings.train.mode = Mode::Sequence;
        let all = 0..14;
        assert_eq!(split.windows(&settings), [all]);
        let split = Split::by_vertex(20, &settings).unwrap();
        assert_eq!(Part::ALL.map(|part| split.samples(part)), [0..20, 19..20, 19..20]);
    }

    #[test]
    fn too_little_data_is_refused() {
        let settings = Settings::default();
        assert!(Split::by_time(2, &settings).unwrap_err().to_string().contains("more steps"));
        let error = Split::by_time(5, &settings).unwrap_err().to_string();
        assert!(error.contains("a window of 4 steps does not fit into the 3 steps for training"), "{error}");
    }
}
