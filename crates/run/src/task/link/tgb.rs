//! Pairs as the Temporal Graph Benchmark samples them (Huang et al., NeurIPS 2023; package `py-tgb` 2.3.0,
//! `NegativeEdgeGenerator` with the strategy `hist_rnd`).
//!
//! For a link of source `u`, up to half of the pairs are historical: targets that `u` had in the training
//! part and has not at the time of the link. The rest are random: drawn from all targets that the data set
//! ever has, without those that `u` had in the training part or has at the time of the link. No target comes
//! twice, and where there are fewer than are asked for, all of them are taken.
//!
//! Here a time is a step: what TGB does for a time stamp is done for a snapshot, whose edges are links once
//! each, or as often as they occur ([`super::events`]). Targets are those that have an edge to them in some
//! step; TGB takes all ids from the smallest such one to the largest.

use kymo_graph::snapshot::{Edge, Step, Vertex};
use rayon::prelude::*;

use super::sample::{Purpose, Sampler};
use crate::random::Random;

/// Links, and for each of them targets that are none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Judged {
    /// The links.
    pub links: Vec<Edge>,
    /// Link `i` has `starts[i]..starts[i + 1]` of `targets`.
    pub starts: Vec<usize>,
    /// Targets that the source of the link has no edge to.
    pub targets: Vec<Vertex>,
}

impl Judged {
    /// Links, each with its targets.
    pub fn new(links: Vec<Edge>, rows: &[Vec<Vertex>]) -> Judged {
        let ends = rows.iter().scan(0, |end, row| {
            *end += row.len();
            Some(*end)
        });
        Judged { links, starts: std::iter::once(0).chain(ends).collect(), targets: rows.concat() }
    }

    /// The sources of all pairs, in the order of `targets`.
    pub fn sources(&self) -> impl Iterator<Item = Vertex> + '_ {
        let rows = self.links.iter().zip(self.starts.windows(2));
        rows.flat_map(|(link, range)| std::iter::repeat_n(link.source(), range[1] - range[0]))
    }
}

/// What the data set has, whenever that is.
#[derive(Clone, Copy)]
pub struct Known<'a> {
    /// Every vertex that is ever the target of an edge, ascending.
    pub targets: &'a [Vertex],
    /// The last step of the training part.
    pub trained: Step,
}

/// What a source has to do with the targets.
pub(super) struct Source {
    /// Those of training that it has not now.
    historical: Vec<Vertex>,
    /// The places, among all targets and ascending, of those that are not drawn at random.
    taken: Vec<usize>,
}

impl Source {
    /// The place among all targets of the one that has number `n` among those that may be drawn.
    fn free(&self, n: usize) -> usize {
        // Before the taken place `i` there are `taken[i] - i` free ones, more or as many as before the last.
        let (mut low, mut high) = (0, self.taken.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if self.taken[middle] - middle <= n { low = middle + 1 } else { high = middle }
        }
        n + low
    }

    /// Up to `each` targets, drawn by these numbers: random ones, then historical ones.
    pub(super) fn row(&self, draws: [Random; 2], each: usize, known: Known<'_>) -> Vec<Vertex> {
        let historical = (each / 2).min(self.historical.len());
        let free = known.targets.len() - self.taken.len();
        let wanted = (each - historical).min(free);
        let at = |n: usize| known.targets[self.free(n)];
        let mut row: Vec<Vertex> = match wanted == free {
            true => (0..free).map(at).collect(),
            false => draws[0].distinct(wanted, free).into_iter().map(at).collect(),
        };
        if !row.is_empty() {
            // Every one of them is as likely to be the first, which some metrics look at alone.
            let first = draws[0].below(row.len(), u64::MAX);
            row.swap(0, first);
        }
        let drawn = draws[1].distinct(historical, self.historical.len());
        row.extend(drawn.iter().map(|&n| self.historical[n]));
        row
    }
}

impl Sampler<'_> {
    /// Up to `each` absent targets for each of the `links` of step `t + 1`, the random ones first.
    ///
    /// `edges` are all edges of step `t + 1`, in order; `links` are those of them that are asked about.
    pub fn as_tgb(&self, t: Step, edges: &[Edge], links: Vec<Edge>, each: usize, known: Known<'_>) -> Judged {
        // Reversed, edges order by source and then by target.
        let mut by_source: Vec<Edge> = edges.iter().map(|edge| edge.reversed()).collect();
        by_source.par_sort_unstable();
        let mut sources: Vec<Vertex> = links.iter().map(|link| link.source()).collect();
        sources.par_sort_unstable();
        sources.dedup();
        let of: Vec<Source> =
            sources.par_iter().map(|&source| self.source(source, &by_source, known)).collect();
        let row = |link: &Edge| -> Vec<Vertex> {
            let Some(source) = sources.binary_search(&link.source()).ok().map(|at| &of[at]) else {
                return Vec::new();
            };
            let draws = [Purpose::Absent, Purpose::Historical].map(|what| self.draws(what, t, link.key()));
            source.row(draws, each, known)
        };
        let rows: Vec<Vec<Vertex>> = links.par_iter().map(row).collect();
        Judged::new(links, &rows)
    }

    /// What a source has to do with the targets; `by_source` has what it is linked to now, turned round.
    pub(super) fn source(&self, source: Vertex, by_source: &[Edge], known: Known<'_>) -> Source {
        let from = by_source.partition_point(|edge| edge.target() < source);
        let now: Vec<Vertex> = by_source[from..]
            .iter()
            .take_while(|edge| edge.target() == source)
            .map(|edge| edge.source())
            .collect();
        let mut met = self.history.known_targets(source, known.trained).to_vec();
        met.sort_unstable();
        let historical: Vec<Vertex> =
            met.iter().copied().filter(|target| now.binary_search(target).is_err()).collect();
        let place = |target: &Vertex| known.targets.binary_search(target).ok();
        let mut taken: Vec<usize> = historical.iter().chain(&now).filter_map(place).collect();
        taken.sort_unstable();
        Source { historical, taken }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::super::fixture::{VERTICES, edges, history, steps};
    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        /// The definition, in sets.
        #[test]
        fn pairs_are_those_of_the_benchmark(
            steps in steps(3..7), seed in any::<u64>(), each in 0usize..9, trained in 0usize..3,
        ) {
            let history = history(&steps);
            let targets: BTreeSet<Vertex> = steps.iter().flatten().map(|pair| pair.1).collect();
            let targets: Vec<Vertex> = targets.into_iter().collect();
            let known = Known { targets: &targets, trained };
            let sampler = Sampler { history: &history, recent: None, vertices: VERTICES, seed };
            for t in trained..steps.len() - 1 {
                let links = edges(&steps[t + 1]);
                let judged = sampler.as_tgb(t, &links, links.clone(), each, known);
                prop_assert_eq!(judged.sources().count(), judged.targets.len());
                for (link, range) in links.iter().zip(judged.starts.windows(2)) {
                    let row = &judged.targets[range[0]..range[1]];
                    let of = |steps: &[BTreeSet<(Vertex, Vertex)>]| -> BTreeSet<Vertex> {
                        let pairs = steps.iter().flatten().filter(|pair| pair.0 == link.source());
                        pairs.map(|pair| pair.1).collect()
                    };
                    let (now, met) = (of(&steps[t + 1..t + 2]), of(&steps[..=trained]));
                    let historical: BTreeSet<Vertex> = met.difference(&now).copied().collect();
                    let free: BTreeSet<Vertex> =
                        targets.iter().filter(|v| !now.contains(v) && !met.contains(v)).copied().collect();
                    let old = (each / 2).min(historical.len());
                    let random = (each - old).min(free.len());
                    prop_assert_eq!(row.len(), old + random);
                    prop_assert_eq!(row.iter().collect::<BTreeSet<_>>().len(), row.len(), "one comes twice");
                    prop_assert!(row[..random].iter().all(|target| free.contains(target)));
                    prop_assert!(row[random..].iter().all(|target| historical.contains(target)));
                    // A link has the same row when it is asked about alone.
                    let alone = sampler.as_tgb(t, &links, vec![*link], each, known);
                    prop_assert_eq!(&alone.targets, row);
                }
            }
        }
    }

    /// Every target is drawn as often as every other, and as often as the first one.
    #[test]
    fn draws_are_uniform() {
        let met: BTreeSet<_> = [(0, 1)].into();
        let all: BTreeSet<_> = (0..6).map(|target| (5, target)).collect();
        let history = history(&vec![met, all]);
        let (targets, link) = ([0, 1, 2, 3, 4, 5], Edge::new(0, 2));
        let (mut counts, mut first) = ([0; 6], [0; 6]);
        for seed in 0..6000 {
            let sampler = Sampler { history: &history, recent: None, vertices: VERTICES, seed };
            let judged = sampler.as_tgb(0, &[link], vec![link], 2, Known { targets: &targets, trained: 0 });
            assert_eq!((judged.targets.len(), judged.targets[1]), (2, 1), "one random, one historical");
            first[judged.targets[0] as usize] += 1;
            let judged = sampler.as_tgb(0, &[link], vec![link], 4, Known { targets: &targets, trained: 0 });
            judged.targets.iter().for_each(|&target| counts[target as usize] += 1);
        }
        assert_eq!((counts[1], counts[2], first[1], first[2]), (6000, 0, 0, 0));
        assert!([0, 3, 4, 5].iter().all(|&v| (4300..4700).contains(&counts[v])), "{counts:?}");
        assert!([0, 3, 4, 5].iter().all(|&v| (1350..1650).contains(&first[v])), "{first:?}");
    }
}
