//! The tally most metrics have: a mean of what the steps are worth, each with its weight.

use super::{Evidence, Tally};

/// What a step adds: a sum and the weight it stands for; `None` where there is nothing to judge.
pub(super) type Judge = fn(&Evidence<'_>) -> Option<(f64, f64)>;

/// Sums and weights of the steps so far, added in the order of the steps.
pub(super) struct Mean {
    judge: Judge,
    sum: f64,
    weight: f64,
}

impl Mean {
    pub(super) fn new(judge: Judge) -> Mean {
        Mean { judge, sum: 0.0, weight: 0.0 }
    }
}

impl Tally for Mean {
    fn add(&mut self, step: &Evidence<'_>) {
        if let Some((sum, weight)) = (self.judge)(step) {
            self.sum += if is_lost(step) { f64::NAN } else { sum };
            self.weight += weight;
        }
    }

    fn value(&self) -> Option<f64> {
        (self.weight > 0.0).then(|| self.sum / self.weight)
    }
}

/// Whether a score of a link, or of a pair that is none, is not a number. Scores of all pairs are looked at
/// where they are made.
fn is_lost(step: &Evidence<'_>) -> bool {
    match step {
        Evidence::Sampled { present, absent, .. } | Evidence::PerSource { present, absent, .. } => {
            has_nan(present) || has_nan(absent)
        }
        Evidence::Values { .. } | Evidence::Classes { .. } | Evidence::AllPairs { .. } => false,
    }
}

/// Whether some score is not a number.
pub(super) fn has_nan(scores: &[f32]) -> bool {
    scores.iter().any(|score| score.is_nan())
}

/// The sum of `error` over the vertices of a step, and how many they are.
pub(super) fn of_errors(step: &Evidence<'_>, error: impl Fn(f64) -> f64) -> Option<(f64, f64)> {
    let Evidence::Values { predicted, truth } = step else { return None };
    let pairs = predicted.iter().zip(*truth);
    let sum = pairs.map(|(&predicted, &truth)| error(f64::from(predicted) - f64::from(truth))).sum();
    Some((sum, predicted.len().min(truth.len()) as f64))
}
