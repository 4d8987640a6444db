//! The mean of the F1 of each class.

use super::confusion::{Confusion, Count};
use super::{Metric, Needs, Tally};

/// The mean of the F1 of each class.
pub struct MacroF1;

impl Metric for MacroF1 {
    fn name(&self) -> &'static str {
        "macro-f1"
    }

    fn about(&self) -> &'static str {
        "mean over classes of their F1 over all steps; classes neither true nor predicted are left out"
    }

    fn needs(&self) -> Needs {
        Needs::Classes
    }

    fn higher_is_better(&self) -> bool {
        true
    }

    fn tally(&self) -> Box<dyn Tally> {
        Box::new(Confusion::new(|counts| counts.values().map(Count::f1).sum::<f64>() / counts.len() as f64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::confusion::example;
    use crate::metric::{Evidence, value};

    /// The number is that of scikit-learn's `f1_score(average='macro')`.
    #[test]
    fn two_steps_are_judged_as_one() {
        let (scores, truth) = example();
        let first = Evidence::Classes { scores: &scores[..15], classes: 5, truth: &truth[..3] };
        let second = Evidence::Classes { scores: &scores[15..], classes: 5, truth: &truth[3..] };
        assert!((value(&MacroF1, &[first, second]).unwrap() - 0.56).abs() < 1e-15);
    }
}
