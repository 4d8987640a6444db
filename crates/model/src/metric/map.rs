//! Average precision over all pairs of vertices (Pareja et al., "EvolveGCN", AAAI 2020), by the authors'
//! code.

use rayon::prelude::*;

use super::mean::{Mean, has_nan};
use super::ranking::{Thresholds, average_precision, each_source, sum, together};
use super::{Evidence, Metric, Needs, Tally};

/// Average precision of the links of a step among all pairs of vertices, averaged over the steps.
///
/// All pairs of a step, a vertex with itself included, are ranked in one list: it is no mean over vertices,
/// as the name might suggest.
pub struct Map;

impl Metric for Map {
    fn name(&self) -> &'static str {
        "map"
    }

    fn about(&self) -> &'static str {
        "average precision of links against all pairs of vertices of a step; mean over steps with links"
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

/// Blocks of rows counted by one thread before its counts are added to those of others.
const BLOCKS: usize = 4;

fn judge(step: &Evidence<'_>) -> Option<(f64, f64)> {
    let Evidence::AllPairs { vertices, starts, targets, scores } = *step else { return None };
    let of_links = |targets: &[u32], row: &[f32]| -> Vec<f32> {
        targets.iter().map(|&target| row[target as usize]).collect()
    };
    let present = each_source((vertices, starts, targets), scores, of_links).concat();
    if present.is_empty() {
        return None;
    }
    let thresholds = Thresholds::new(&present);
    // The scores of all pairs would not fit into memory: they are counted as they are made.
    let together = together(vertices);
    let none = || (vec![0; thresholds.places()], false);
    let empty = || (vec![0.0; together * vertices], none());
    let all: Vec<u32> = (0..vertices as u32).collect();
    let count = |(mut rows, (mut counts, lost)): (Vec<f32>, (Vec<u64>, bool)), sources: &[u32]| {
        let mine = &mut rows[..sources.len() * vertices];
        scores(sources, mine);
        thresholds.add(&mut counts, mine);
        let lost = lost || has_nan(mine);
        (rows, (counts, lost))
    };
    let rows = all.par_chunks(together).with_min_len(BLOCKS).fold(empty, count);
    let both = |one: (Vec<u64>, bool), other: (Vec<u64>, bool)| (sum(one.0, other.0), one.1 || other.1);
    let (all, lost) = rows.map(|(_, counted)| counted).reduce(none, both);
    let precision = average_precision(&thresholds.count(&present), &all);
    Some((if lost { f64::NAN } else { precision }, 1.0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::metric::average_precision::plain;
    use crate::metric::ranking::{any_score, of_each};
    use crate::metric::value;

    const STARTS: [usize; 5] = [0, 2, 3, 3, 5];
    const TARGETS: [u32; 5] = [1, 3, 0, 1, 2];

    fn score(source: u32, row: &mut [f32]) {
        let scores = [[0.1, 0.7, 0.4, 0.4], [0.9, 0.2, 0.7, 0.0], [0.3, 0.3, 0.3, 0.3], [0.5, 0.4, 0.8, 0.6]];
        row.copy_from_slice(&scores[source as usize]);
    }

    /// The number is that of scikit-learn's `average_precision_score` over all sixteen pairs.
    #[test]
    fn all_pairs_of_a_step_are_ranked_in_one_list() {
        let score = of_each(score);
        let step = Evidence::AllPairs { vertices: 4, starts: &STARTS, targets: &TARGETS, scores: &score };
        assert!((value(&Map, &[step]).unwrap() - 0.7722222222222221).abs() < 1e-15);
        // One link, shown first: the mean with the step before, whatever the number of links.
        let sure = Evidence::AllPairs { vertices: 4, starts: &[0, 0, 1], targets: &[0], scores: &score };
        assert!((value(&Map, &[step, sure]).unwrap() - (1.0 + 0.7722222222222221) / 2.0).abs() < 1e-15);
    }

    #[test]
    fn it_does_not_depend_on_threads() {
        let vertices = 300;
        let scores = of_each(|source: u32, row: &mut [f32]| {
            for (target, score) in row.iter_mut().enumerate() {
                *score = ((source * 7919 + target as u32).wrapping_mul(2654435761) >> 18) as f32;
            }
        });
        let starts: Vec<usize> = (0..=vertices).map(|vertex| 3 * vertex).collect();
        let targets: Vec<u32> = (0..vertices).flat_map(|_| [5, 77, 290]).collect();
        let step = Evidence::AllPairs { vertices, starts: &starts, targets: &targets, scores: &scores };
        let on = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| value(&Map, &[step])).unwrap().to_bits()
        };
        assert!(on(1) == on(2) && on(1) == on(5));
    }

    proptest! {
        #[test]
        fn it_is_that_of_the_definition(
            scores in prop::collection::vec(any_score(), 49),
            links in prop::collection::btree_set((0u32..7, 0u32..7), 1..20),
        ) {
            let starts: Vec<usize> =
                (0..=7).map(|vertex| links.iter().filter(|(source, _)| *source < vertex).count()).collect();
            let targets: Vec<u32> = links.iter().map(|&(_, target)| target).collect();
            let row = of_each(|source, row: &mut [f32]| {
                row.copy_from_slice(&scores[source as usize * 7..][..7])
            });
            let step = Evidence::AllPairs { vertices: 7, starts: &starts, targets: &targets, scores: &row };
            let ranked: Vec<_> = (0..49u32)
                .map(|pair| (scores[pair as usize], links.contains(&(pair / 7, pair % 7))))
                .collect();
            let (fast, slow) = (value(&Map, &[step]).unwrap(), plain(&ranked));
            prop_assert!((fast - slow).abs() < 1e-12, "{} {}", fast, slow);
        }
    }
}
