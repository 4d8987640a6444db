//! Average precision over as many pairs as links.

use super::mean::Mean;
use super::ranking::{Sampled, Thresholds, average_precision, sum};
use super::{Evidence, Metric, Needs, Tally};

/// Average precision of the links of a step against the first pair sampled for each of them, averaged over
/// the links.
///
/// Half of what is ranked are links however many pairs were sampled, as in the evaluation that work on
/// dynamic links shares: with more pairs the number would be smaller and not comparable.
pub struct AveragePrecision;

impl Metric for AveragePrecision {
    fn name(&self) -> &'static str {
        "average-precision"
    }

    fn about(&self) -> &'static str {
        "average precision of the links of a step against one random pair of mrr-tgb's for each; mean over \
         links"
    }

    fn needs(&self) -> Needs {
        Needs::Sampled
    }

    fn higher_is_better(&self) -> bool {
        true
    }

    fn tally(&self) -> Box<dyn Tally> {
        Box::new(Mean::new(judge))
    }
}

fn judge(step: &Evidence<'_>) -> Option<(f64, f64)> {
    let step = Sampled::of(step).filter(|step| !step.absent.is_empty())?;
    let present = step.present;
    let first: Vec<f32> = (0..present.len()).filter_map(|link| step.pairs(link).first().copied()).collect();
    let thresholds = Thresholds::new(present);
    let links = thresholds.count(present);
    let all = sum(thresholds.count(&first), links.clone());
    let weight = present.len() as f64;
    Some((average_precision(&links, &all) * weight, weight))
}

/// The definition: down the distinct scores, precision times the recall gained.
#[cfg(test)]
pub(super) fn plain(ranked: &[(f32, bool)]) -> f64 {
    use super::ranking::compare;
    let mut levels: Vec<f32> = ranked.iter().map(|&(score, _)| score).collect();
    levels.sort_by(|a, b| compare(*b, *a));
    levels.dedup_by(|a, b| compare(*a, *b).is_eq());
    let links = ranked.iter().filter(|(_, link)| *link).count() as f64;
    let (mut recall, mut sum) = (0.0, 0.0);
    for level in levels {
        let shown: Vec<_> = ranked.iter().filter(|(score, _)| compare(*score, level).is_ge()).collect();
        let hits = shown.iter().filter(|(_, link)| *link).count() as f64;
        sum += (hits / links - recall) * hits / shown.len() as f64;
        recall = hits / links;
    }
    sum
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::metric::ranking::any_score;
    use crate::metric::value;

    /// The number is that of scikit-learn's `average_precision_score` over the links and every other pair.
    #[test]
    fn ties_are_one_threshold_and_later_pairs_do_not_count() {
        let present = [0.9, 0.6, 0.6, 0.3, -0.2];
        let absent = [0.8, 0.6, 0.1, 0.3, 0.3, -0.5, 0.9, 0.0, -0.2, 0.2];
        let step = Evidence::Sampled { present: &present, starts: &[0, 2, 4, 6, 8, 10], absent: &absent };
        assert!((value(&AveragePrecision, &[step]).unwrap() - 0.5542857142857143).abs() < 1e-15);
    }

    #[test]
    fn steps_are_weighted_by_their_links() {
        let good =
            Evidence::Sampled { present: &[3.0, 4.0, 5.0], starts: &[0, 1, 2, 3], absent: &[0.0, 1.0, 2.0] };
        let bad = Evidence::Sampled { present: &[-8.0], starts: &[0, 1], absent: &[-7.0] };
        assert_eq!(value(&AveragePrecision, &[good, bad]), Some(0.875));
    }

    proptest! {
        #[test]
        fn it_is_that_of_the_definition(
            present in prop::collection::vec(any_score(), 1..12),
            scores in prop::collection::vec(any_score(), 24),
        ) {
            let absent = &scores[..2 * present.len()];
            let links = present.iter().map(|&score| (score, true));
            let pairs = absent.iter().step_by(2).map(|&score| (score, false));
            let slow = plain(&links.chain(pairs).collect::<Vec<_>>());
            let starts: Vec<usize> = (0..=present.len()).map(|link| 2 * link).collect();
            let step = Evidence::Sampled { present: &present, starts: &starts, absent };
            let fast = value(&AveragePrecision, &[step]).unwrap();
            prop_assert!((fast - slow).abs() < 1e-12, "{} {}", fast, slow);
        }
    }
}
