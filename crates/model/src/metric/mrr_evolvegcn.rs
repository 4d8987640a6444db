//! Mean reciprocal rank as EvolveGCN has it (Pareja et al., AAAI 2020), by the authors' code.

use super::mean::{Mean, has_nan};
use super::ranking::{Thresholds, each_source};
use super::{Evidence, Metric, Needs, Tally};

/// The links of a source are ranked among its scores against all vertices, its other links and itself
/// included: a source with many links cannot reach 1. Sources with links count the same within a step, and so
/// do steps.
///
/// Equal scores have the mean of their ranks. The authors' code leaves them in whatever order sorting happens
/// to give.
pub struct MrrEvolveGcn;

impl Metric for MrrEvolveGcn {
    fn name(&self) -> &'static str {
        "mrr-evolvegcn"
    }

    fn about(&self) -> &'static str {
        "mean over sources of the mean of 1/rank of their links among all vertices; mean over steps \
         (EvolveGCN)"
    }

    fn needs(&self) -> Needs {
        Needs::AllPairs
    }

    fn higher_is_better(&self) -> bool {
        true
    }

    fn tally(&self) -> Box<dyn Tally> {
        Box::new(Mean::new(judge))
    }
}

fn judge(step: &Evidence<'_>) -> Option<(f64, f64)> {
    let Evidence::AllPairs { vertices, starts, targets, scores } = *step else { return None };
    let of_source = |targets: &[u32], row: &[f32]| {
        if has_nan(row) {
            return f64::NAN;
        }
        let present: Vec<f32> = targets.iter().map(|&target| row[target as usize]).collect();
        let thresholds = Thresholds::new(&present);
        let (mut links, mut all) = (vec![0; thresholds.places()], vec![0; thresholds.places()]);
        thresholds.add(&mut links, &present);
        thresholds.add(&mut all, row);
        let (mut greater, mut sum) = (0, 0.0);
        for (&links, &all) in links.iter().zip(&all).rev() {
            if links > 0 {
                sum += links as f64 / (greater as f64 + (all + 1) as f64 / 2.0);
            }
            greater += all;
        }
        sum / present.len() as f64
    };
    // Collected and then added, because sums must not depend on how the sources were shared out.
    let values = each_source((vertices, starts, targets), scores, of_source);
    if values.is_empty() {
        return None;
    }
    Some((values.iter().sum::<f64>() / values.len() as f64, 1.0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::metric::ranking::{any_score, compare, of_each};
    use crate::metric::value;

    #[test]
    fn other_links_of_the_source_take_ranks_too() {
        let scores = of_each(|source, row: &mut [f32]| {
            row.copy_from_slice(match source {
                0 => &[0.1, 0.9, 0.8, 0.3],
                1 => &[0.5, 0.5, 0.2, 0.5],
                _ => &[-1.0, 0.0, 1.0, 2.0],
            });
        });
        // Source 0: ranks 1 and 2; source 1: three equal scores, rank 2; source 2: rank 4.
        let step = Evidence::AllPairs {
            vertices: 4,
            starts: &[0, 2, 3, 4, 4],
            targets: &[1, 2, 3, 0],
            scores: &scores,
        };
        let mean = (0.75 + 0.5 + 0.25) / 3.0;
        assert!((value(&MrrEvolveGcn, &[step]).unwrap() - mean).abs() < 1e-15);
        // One source with rank 1: steps count the same, however many sources they have.
        let sure = Evidence::AllPairs { vertices: 4, starts: &[0, 1], targets: &[1], scores: &scores };
        assert!((value(&MrrEvolveGcn, &[step, sure]).unwrap() - (mean + 1.0) / 2.0).abs() < 1e-15);
    }

    proptest! {
        #[test]
        fn it_is_that_of_sorted_rows(
            scores in prop::collection::vec(any_score(), 49),
            links in prop::collection::btree_set((0u32..7, 0u32..7), 1..20),
        ) {
            let starts: Vec<usize> =
                (0..=7).map(|vertex| links.iter().filter(|(source, _)| *source < vertex).count()).collect();
            let targets: Vec<u32> = links.iter().map(|&(_, target)| target).collect();
            let row = of_each(|source, row: &mut [f32]| {
                row.copy_from_slice(&scores[source as usize * 7..][..7])
            });
            let mut means = Vec::new();
            for source in 0..7 {
                let row = &scores[source * 7..][..7];
                let targets = &targets[starts[source]..starts[source + 1]];
                let reciprocal = |&target: &u32| {
                    let with = |of: fn(std::cmp::Ordering) -> bool| {
                        row.iter().filter(|&&score| of(compare(score, row[target as usize]))).count() as f64
                    };
                    2.0 / (2.0 * with(|order| order.is_gt()) + with(|order| order.is_eq()) + 1.0)
                };
                if !targets.is_empty() {
                    means.push(targets.iter().map(reciprocal).sum::<f64>() / targets.len() as f64);
                }
            }
            let step = Evidence::AllPairs { vertices: 7, starts: &starts, targets: &targets, scores: &row };
            let slow = means.iter().sum::<f64>() / means.len() as f64;
            prop_assert!((value(&MrrEvolveGcn, &[step]).unwrap() - slow).abs() < 1e-12);
        }
    }
}
