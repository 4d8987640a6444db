//! Mean reciprocal rank among pairs of which as many have a target that is new as links have.

use super::mean::Mean;
use super::mrr_tgb::judge;
use super::{Metric, Needs, Tally};

/// The ranks of [`MrrTgb`](super::MrrTgb), where it does not help to know which targets are new: a graph that
/// grows has links to vertices that were never a target before, and as large a share of the pairs has, too.
pub struct MrrBalanced;

impl Metric for MrrBalanced {
    fn name(&self) -> &'static str {
        "mrr-balanced"
    }

    fn about(&self) -> &'static str {
        "mean over all links of 1/rank, as in mrr-tgb, among other targets of their source: half it had \
         before and has not now, the rest drawn from all targets so far; as many as the links of the step \
         have are replaced by vertices that were never a target"
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
