//! Accuracy: how often the class with the highest score is the true one.

use super::confusion::{Confusion, total};
use super::{Metric, Needs, Tally};

/// Accuracy: how often the class with the highest score is the true one.
pub struct Accuracy;

impl Metric for Accuracy {
    fn name(&self) -> &'static str {
        "accuracy"
    }

    fn about(&self) -> &'static str {
        "share of the vertices whose class has the highest score, over all steps"
    }

    fn needs(&self) -> Needs {
        Needs::Classes
    }

    fn higher_is_better(&self) -> bool {
        true
    }

    fn tally(&self) -> Box<dyn Tally> {
        Box::new(Confusion::new(|counts| total(counts).both as f64 / total(counts).truth as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::confusion::example;
    use crate::metric::{Evidence, value};

    /// The number is that of scikit-learn's `accuracy_score`.
    #[test]
    fn two_steps_are_judged_as_one() {
        let (scores, truth) = example();
        let first = Evidence::Classes { scores: &scores[..15], classes: 5, truth: &truth[..3] };
        let second = Evidence::Classes { scores: &scores[15..], classes: 5, truth: &truth[3..] };
        assert!((value(&Accuracy, &[first, second]).unwrap() - 0.625).abs() < 1e-15);
    }
}
