//! The tally of the metrics over classes: how often each class was true, predicted, and both, over a whole
//! split.

use std::collections::BTreeMap;

use super::mean::has_nan;
use super::ranking::key;
use super::{Evidence, Tally};

/// How often a class was what.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Count {
    /// Vertices of this class.
    pub(super) truth: u64,
    /// Vertices for which this class was predicted.
    pub(super) predicted: u64,
    /// Vertices of this class for which it was predicted.
    pub(super) both: u64,
}

impl Count {
    /// The harmonic mean of precision and recall: twice the hits over all that were true or predicted.
    pub(super) fn f1(&self) -> f64 {
        2.0 * self.both as f64 / (self.truth + self.predicted) as f64
    }
}

/// Counts of the classes that occur, by class.
///
/// The margins and the diagonal of the confusion matrix are all that the metrics ask for; a map holds them
/// whatever number a class has.
pub(super) struct Confusion {
    counts: BTreeMap<u32, Count>,
    judge: fn(&BTreeMap<u32, Count>) -> f64,
    /// Whether some score was not a number.
    lost: bool,
}

impl Confusion {
    /// An empty tally; `judge` is asked only if some vertex was counted.
    pub(super) fn new(judge: fn(&BTreeMap<u32, Count>) -> f64) -> Confusion {
        Confusion { counts: BTreeMap::new(), judge, lost: false }
    }
}

impl Tally for Confusion {
    fn add(&mut self, step: &Evidence<'_>) {
        let Evidence::Classes { scores, classes, truth } = *step else { return };
        if classes == 0 {
            return;
        }
        for (scores, &truth) in scores.chunks_exact(classes).zip(truth) {
            self.lost |= has_nan(scores);
            let predicted = best(scores);
            self.counts.entry(truth).or_default().truth += 1;
            let count = self.counts.entry(predicted).or_default();
            count.predicted += 1;
            count.both += u64::from(predicted == truth);
        }
    }

    fn value(&self) -> Option<f64> {
        (!self.counts.is_empty()).then(|| if self.lost { f64::NAN } else { (self.judge)(&self.counts) })
    }
}

/// The class with the highest score, of several the smallest.
fn best(scores: &[f32]) -> u32 {
    let mut best = 0;
    for class in 1..scores.len() {
        if key(scores[class]) > key(scores[best]) {
            best = class;
        }
    }
    best as u32
}

/// The counts of all classes together.
pub(super) fn total(counts: &BTreeMap<u32, Count>) -> Count {
    counts.values().fold(Count::default(), |sum, count| Count {
        truth: sum.truth + count.truth,
        predicted: sum.predicted + count.predicted,
        both: sum.both + count.both,
    })
}

/// Scores of five classes for eight vertices, and their classes: two steps in which these classes are
/// predicted.
#[cfg(test)]
pub(super) fn example() -> (Vec<f32>, [u32; 8]) {
    let predicted = [0, 1, 1, 1, 2, 0, 3, 4];
    let scores =
        predicted.iter().flat_map(|&best| (0..5).map(move |class| if class == best { 2.0 } else { -1.0 }));
    (scores.collect(), [0, 0, 1, 1, 2, 2, 2, 4])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_equal_scores_the_smaller_class_is_taken_and_no_number_never() {
        assert_eq!(best(&[1.0, 3.0, 3.0]), 1);
        assert_eq!(best(&[0.0, -0.0]), 0);
        assert_eq!(best(&[f32::NAN, f32::NEG_INFINITY, f32::NAN]), 1);
        assert_eq!(best(&[f32::NAN, f32::NAN]), 0);
    }

    #[test]
    fn classes_beyond_the_scores_are_never_hit() {
        let mut tally = Confusion::new(|counts| total(counts).both as f64);
        tally.add(&Evidence::Classes { scores: &[1.0, 0.0], classes: 2, truth: &[u32::MAX] });
        assert_eq!(tally.counts.len(), 2);
        assert_eq!(tally.value(), Some(0.0));
    }
}
