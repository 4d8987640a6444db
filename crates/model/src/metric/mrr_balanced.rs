//! Mean reciprocal rank among pairs that have the same targets as links have.

use super::mean::Mean;
use super::mrr_tgb::judge;
use super::{Metric, Needs, Tally};

/// The ranks of [`MrrTgb`](super::MrrTgb), where it does not help to know which targets are new, or popular,
/// or on one side of a graph: as large a share of the pairs as of the links has a target that was never one
/// before, and pairs have targets of other links of the step.
pub struct MrrBalanced;

impl Metric for MrrBalanced {
    fn name(&self) -> &'static str {
        "mrr-balanced"
    }

    fn about(&self) -> &'static str {
        "mean over all links of 1/rank, as in mrr-tgb, among targets of other links of the step, drawn as \
         often as they have links and in as large a share never a target before; of the others up to half \
         are instead targets that the source had before and has not now"
    }

    fn needs(&self) -> Needs {
        Needs::Balanced
    }

    fn higher_is_better(&self) -> bool {
        true
    }

    fn tally(&self) -> Box<dyn Tally> {
        Box::new(Mean::new(judge))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metric::{Evidence, value};

    #[test]
    fn ties_rank_in_the_middle() {
        let step =
            Evidence::Sampled { present: &[0.9, 0.5], starts: &[0, 2, 4], absent: &[0.5, 0.2, 0.5, 0.7] };
        let mean = (1.0 + 1.0 / 2.5) / 2.0;
        assert!((value(&MrrBalanced, &[step]).unwrap() - mean).abs() < 1e-15);
    }
}
