//! F1 of all classes counted together.

use super::confusion::{Confusion, total};
use super::{Metric, Needs, Tally};

/// F1 of all classes counted together.
pub struct MicroF1;

impl Metric for MicroF1 {
    fn name(&self) -> &'static str {
        "micro-f1"
    }

    fn about(&self) -> &'static str {
        "F1 of all classes counted together over all steps; with one class a vertex it equals accuracy"
    }

    fn needs(&self) -> Needs {
        Needs::Classes
    }

    fn higher_is_better(&self) -> bool {
        true
    }

    fn tally(&self) -> Box<dyn Tally> {
        Box::new(Confusion::new(|counts| total(counts).f1()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::confusion::example;
    use crate::metric::{Evidence, value};

    /// The number is that of scikit-learn's `f1_score(average='micro')`.
    #[test]
    fn two_steps_are_judged_as_one() {
        let (scores, truth) = example();
        let first = Evidence::Classes { scores: &scores[..15], classes: 5, truth: &truth[..3] };
        let second = Evidence::Classes { scores: &scores[15..], classes: 5, truth: &truth[3..] };
        assert!((value(&MicroF1, &[first, second]).unwrap() - 0.625).abs() < 1e-15);
    }
}
