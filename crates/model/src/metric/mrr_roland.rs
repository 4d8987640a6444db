//! Mean reciprocal rank as ROLAND has it (You et al., KDD 2022).

use rayon::prelude::*;

use super::mean::Mean;
use super::ranking::key;
use super::{Evidence, Metric, Needs, Tally};

/// Only the best link of a source is ranked, among the pairs sampled for the source, and behind those of
/// equal score. Sources count the same within a step, and so do steps.
pub struct MrrRoland;

impl Metric for MrrRoland {
    fn name(&self) -> &'static str {
        "mrr-roland"
    }

    fn about(&self) -> &'static str {
        "mean over sources of 1/rank of their best link, behind ties, among 1000 targets drawn from all \
         vertices without those that the source has now; mean over steps (ROLAND)"
    }

    fn needs(&self) -> Needs {
        Needs::PerSource
    }

    fn higher_is_better(&self) -> bool {
        true
    }

    fn tally(&self) -> Box<dyn Tally> {
        Box::new(Mean::new(judge))
    }
}

fn judge(step: &Evidence<'_>) -> Option<(f64, f64)> {
    let Evidence::PerSource { starts, present, absent } = *step else { return None };
    let sources = starts.len().checked_sub(1)?;
    let each = absent.len().checked_div(sources).filter(|&each| each > 0)?;
    let reciprocal = |(range, pairs): (&[usize], &[f32])| {
        let best = present[range[0]..range[1]].iter().map(|&score| key(score)).max()?;
        let before = pairs.iter().filter(|&&pair| key(pair) >= best).count();
        Some(1.0 / (1 + before) as f64)
    };
    // Collected and then added, because sums must not depend on how the sources were shared out.
    let judged = starts.par_windows(2).zip(absent.par_chunks_exact(each)).filter_map(reciprocal);
    let values: Vec<f64> = judged.collect();
    (!values.is_empty()).then(|| (values.iter().sum::<f64>() / values.len() as f64, 1.0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::metric::ranking::{any_score, compare};
    use crate::metric::value;

    #[test]
    fn the_best_link_of_a_source_is_ranked_behind_equal_pairs() {
        // Source 0: best 0.9, rank 1; source 1: best 0.5, one equal and one above, rank 3; source 2 has no
        // link.
        let step = Evidence::PerSource {
            starts: &[0, 2, 3, 3],
            present: &[0.1, 0.9, 0.5],
            absent: &[0.2, 0.8, 0.5, 0.6, 0.0, 0.0],
        };
        let mean = (1.0 + 1.0 / 3.0) / 2.0;
        assert!((value(&MrrRoland, &[step]).unwrap() - mean).abs() < 1e-15);
        let behind = Evidence::PerSource { starts: &[0, 1], present: &[-2.0], absent: &[-1.0] };
        assert!((value(&MrrRoland, &[step, behind]).unwrap() - (mean + 0.5) / 2.0).abs() < 1e-15);
    }

    proptest! {
        #[test]
        fn it_is_that_of_sorted_lists(
            rows in prop::collection::vec(
                (prop::collection::vec(any_score(), 0..4), prop::collection::vec(any_score(), 6)), 1..6),
        ) {
            let (mut starts, mut present, mut absent, mut values) = (vec![0], vec![], vec![], vec![]);
            for (links, pairs) in &rows {
                present.extend_from_slice(links);
                absent.extend_from_slice(pairs);
                starts.push(present.len());
                let best = links.iter().copied().max_by(|a, b| compare(*a, *b));
                if let Some(best) = best {
                    let mut list = pairs.clone();
                    list.sort_by(|a, b| compare(*b, *a));
                    let place = list.iter().position(|&pair| compare(pair, best).is_lt());
                    values.push(1.0 / (1 + place.unwrap_or(list.len())) as f64);
                }
            }
            let slow = values.iter().sum::<f64>() / values.len() as f64;
            let step = Evidence::PerSource { starts: &starts, present: &present, absent: &absent };
            match value(&MrrRoland, &[step]) {
                Some(fast) => prop_assert!((fast - slow).abs() < 1e-12),
                None => prop_assert!(values.is_empty()),
            }
        }
    }
}
