//! Which part of the data is for what: training, validation, test.
//!
//! A *sample* is a step `s`: what is known up to `s` predicts what is true at `s + horizon`. Samples are
//! divided in the order of time, so that nothing of validation or test is known while training. Only where
//! classes never change are the vertices divided instead, because later steps would give away the classes
//! of earlier ones.

use std::ops::Range;

use kymo_graph::Step;

use crate::config::{Mode, Settings};
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
        let second = bound(settings.split.train + settings.split.validation).max(first + 1);
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

#[cfg(test)]
mod tests {
    use super::*;

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
