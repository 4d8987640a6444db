//! The area under the receiver operating characteristic.

use super::mean::Mean;
use super::ranking::{Sampled, Thresholds};
use super::{Evidence, Metric, Needs, Tally};

/// The probability that a link scores higher than a pair that is none, ties counted half.
///
/// It is taken within each step, over all links and all sampled pairs of the step, and averaged over the
/// links. Pooling the steps would compare scores that a model, asked once a step, never had to make
/// comparable.
pub struct Auc;

impl Metric for Auc {
    fn name(&self) -> &'static str {
        "auc"
    }

    fn about(&self) -> &'static str {
        "area under the ROC curve of the links of a step against all pairs that mrr-tgb samples for them, \
         ties half; mean over links"
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
    let Sampled { present, absent, .. } = Sampled::of(step).filter(|step| !step.absent.is_empty())?;
    let thresholds = Thresholds::new(present);
    let (links, pairs) = (thresholds.count(present), thresholds.count(absent));
    // Twice the number of links above each pair, so that a tie is a whole number too.
    let (mut below, mut wins) = (0u128, 0u128);
    for (&links, &pairs) in links.iter().zip(&pairs) {
        wins += u128::from(links) * (2 * below + u128::from(pairs));
        below += u128::from(pairs);
    }
    let weight = present.len() as f64;
    Some((wins as f64 / (2.0 * weight * absent.len() as f64) * weight, weight))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::metric::ranking::{any_score, compare};
    use crate::metric::value;

    /// The number is that of scikit-learn's `roc_auc_score`.
    #[test]
    fn ties_count_half() {
        let present = [0.9, 0.6, 0.6, 0.3, -0.2];
        let absent = [0.8, 0.6, 0.1, 0.3, 0.3, -0.5, 0.9, 0.0, -0.2, 0.2];
        let step = Evidence::Sampled { present: &present, starts: &[0, 2, 4, 6, 8, 10], absent: &absent };
        assert!((value(&Auc, &[step]).unwrap() - 0.64).abs() < 1e-15);
    }

    #[test]
    fn steps_are_weighted_by_their_links() {
        let good =
            Evidence::Sampled { present: &[3.0, 4.0, 5.0], starts: &[0, 1, 2, 3], absent: &[0.0, 1.0, 2.0] };
        let bad = Evidence::Sampled { present: &[-8.0], starts: &[0, 1], absent: &[-7.0] };
        assert_eq!(value(&Auc, &[good]), Some(1.0));
        assert_eq!(value(&Auc, &[good, bad]), Some(0.75));
    }

    proptest! {
        #[test]
        fn it_is_the_share_of_comparisons_won(
            present in prop::collection::vec(any_score(), 1..12),
            scores in prop::collection::vec(any_score(), 36),
        ) {
            let absent = &scores[..3 * present.len()];
            let mut won = 0.0;
            for &link in &present {
                for &pair in absent {
                    let order = compare(link, pair);
                    won += if order.is_gt() { 1.0 } else if order.is_eq() { 0.5 } else { 0.0 };
                }
            }
            let slow = won / (present.len() * absent.len()) as f64;
            let starts: Vec<usize> = (0..=present.len()).map(|link| 3 * link).collect();
            let step = Evidence::Sampled { present: &present, starts: &starts, absent };
            let fast = value(&Auc, &[step]).unwrap();
            prop_assert!((fast - slow).abs() < 1e-12, "{} {}", fast, slow);
        }
    }
}
