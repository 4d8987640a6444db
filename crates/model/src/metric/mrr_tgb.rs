//! Mean reciprocal rank as the Temporal Graph Benchmark has it (Huang et al., NeurIPS 2023).

use rayon::prelude::*;

use super::mean::Mean;
use super::ranking::{Sampled, key};
use super::{Evidence, Metric, Needs, Tally};

/// Every link is ranked among the pairs sampled for it; its rank is the mean of the best and the worst it
/// could have among equal scores. Every link of every step counts the same. The task samples the pairs; a
/// link may have fewer than others, and ranks first where it has none.
pub struct MrrTgb;

impl Metric for MrrTgb {
    fn name(&self) -> &'static str {
        "mrr-tgb"
    }

    fn about(&self) -> &'static str {
        "mean over all links of 1/rank among other targets of their source, ties ranked in the middle: up \
         to half are targets it had in training and has not now, the rest are drawn from all targets of the \
         data that it had neither in training nor has now, none twice, all of them where there are too few \
         (TGB, which asks about every event of a link, as link.weigh=events does)"
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

pub(super) fn judge(step: &Evidence<'_>) -> Option<(f64, f64)> {
    let step = Sampled::of(step)?;
    let reciprocal = |link: usize| {
        let score = key(step.present[link]);
        let (mut greater, mut not_less) = (0u64, 0u64);
        for &pair in step.pairs(link) {
            let pair = key(pair);
            greater += u64::from(pair > score);
            not_less += u64::from(pair >= score);
        }
        1.0 / (1.0 + (greater + not_less) as f64 / 2.0)
    };
    // Collected and then added, because sums must not depend on how the links were shared out.
    let values: Vec<f64> = (0..step.present.len()).into_par_iter().map(reciprocal).collect();
    Some((values.iter().sum(), values.len() as f64))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::metric::ranking::{any_score, compare};
    use crate::metric::value;

    #[test]
    fn every_link_counts_the_same_and_ties_rank_in_the_middle() {
        // Ranks 1 and 3; then 1 + (0 + 2) / 2 = 2.
        let starts: &[usize] = &[0, 2, 4];
        let first = Evidence::Sampled { present: &[0.9, 0.1], starts, absent: &[0.5, 0.2, 0.5, 0.2] };
        let second = Evidence::Sampled { present: &[0.4], starts: &[0, 2], absent: &[0.4, 0.4] };
        let mean = (1.0 + 1.0 / 3.0 + 0.5) / 3.0;
        assert!((value(&MrrTgb, &[first, second]).unwrap() - mean).abs() < 1e-15);
    }

    /// Ranks 2 of 4, 1 of 1 and 1.5 of 2.
    #[test]
    fn links_may_have_different_numbers_of_pairs() {
        let step = Evidence::Sampled {
            present: &[0.5, 0.0, 0.2],
            starts: &[0, 3, 3, 4],
            absent: &[0.9, 0.1, 0.2, 0.2],
        };
        let mean = (0.5 + 1.0 + 1.0 / 1.5) / 3.0;
        assert!((value(&MrrTgb, &[step]).unwrap() - mean).abs() < 1e-15);
    }

    proptest! {
        #[test]
        fn it_is_that_of_a_sorted_list(
            present in prop::collection::vec(any_score(), 1..8),
            scores in prop::collection::vec(any_score(), 40),
        ) {
            let mut sum = 0.0;
            for (link, pairs) in present.iter().zip(scores.chunks(5)) {
                let mut list = [pairs, &[*link]].concat();
                list.sort_by(|a, b| compare(*b, *a));
                let places = (1..=list.len()).filter(|&place| compare(list[place - 1], *link).is_eq());
                let (first, last) =
                    places.fold((usize::MAX, 0), |(first, _), place| (first.min(place), place));
                sum += 2.0 / (first + last) as f64;
            }
            let starts: Vec<usize> = (0..=present.len()).map(|link| 5 * link).collect();
            let absent = &scores[..5 * present.len()];
            let step = Evidence::Sampled { present: &present, starts: &starts, absent };
            let fast = value(&MrrTgb, &[step]).unwrap();
            prop_assert!((fast - sum / present.len() as f64).abs() < 1e-12);
        }
    }
}
