//! Pairs that are none, with the targets that links have (`mrr-balanced`).
//!
//! A rule that looks at targets alone is to gain nothing: neither by which side of a graph they are on, nor
//! by whether they were ever a target before, nor by how popular they are. So absent targets are drawn from
//! the links of the same step, each target as often as it has links: what is to be told is which target goes
//! with which source. This is degree correction (Aiyappa et al., "Implicit degree bias in the link prediction
//! task", arXiv 2405.14985), step by step.
//!
//! For each link of a source `u` at step `t + 1`:
//!
//! - as large a share as of the links of the step has a *fresh* target, one that was never a target up to
//!   `t`: drawn from the links of the step that lead to fresh targets;
//! - of the others, a share is *historical*: different targets that `u` had at some step up to `t` and has
//!   not at `t + 1`, all of them where there are fewer;
//! - the rest is drawn from the links of the step that lead to targets of old.
//!
//! Targets that `u` has at `t + 1` are never drawn. A step may have few links, or nearly all of them may be
//! those of one source. Where a source could be left with less than [`ENOUGH`] different targets of a kind
//! (or less than are asked for, if that is fewer), more are looked for, in whole steps: fresh ones among
//! those that become targets at the next steps, once each; targets of old among the links that come at the
//! next steps, and then at those before, [`FAR`] links and steps in each direction at most. Where there is
//! none of a kind, the other one has its places; where there is none at all, a link has fewer pairs.

use std::ops::Range;

use kymo_graph::snapshot::{Edge, Step, Vertex};
use rayon::prelude::*;

use super::sample::{Purpose, Sampler};
use super::tgb::Judged;

/// Different targets that are enough to draw from.
const ENOUGH: usize = 32;

/// Links, and steps, that more targets are looked for in, in each direction.
const FAR: usize = 4096;

/// Targets to draw from, ascending, each as often as it is to be drawn.
struct Pool(Vec<Vertex>);

/// A pool without some targets.
struct Free<'a> {
    pool: &'a [Vertex],
    /// Of every run of a target that is left out: how many places before it are free, and how many are taken
    /// up to its end.
    taken: Vec<[usize; 2]>,
}

impl Pool {
    fn new(mut targets: Vec<Vertex>) -> Pool {
        targets.par_sort_unstable();
        Pool(targets)
    }

    /// The pool without these targets, which ascend.
    fn without(&self, targets: &[Vertex]) -> Free<'_> {
        let mut before = 0;
        let run = |target: &Vertex| {
            let begin = self.0.partition_point(|other| other < target);
            let length = self.0[begin..].partition_point(|other| other == target);
            let free = begin - before;
            before += length;
            (length > 0).then_some([free, before])
        };
        Free { pool: &self.0, taken: targets.iter().filter_map(run).collect() }
    }
}

impl Free<'_> {
    /// How many places are free.
    fn count(&self) -> usize {
        self.pool.len() - self.taken.last().map_or(0, |run| run[1])
    }

    /// The target at the free place of this number.
    fn at(&self, number: usize) -> Vertex {
        let runs = self.taken.partition_point(|run| run[0] <= number);
        let taken = runs.checked_sub(1).map_or(0, |last| self.taken[last][1]);
        self.pool[number + taken]
    }
}

/// What a source may be shown instead of its links.
struct Source<'a> {
    /// What it had and has no longer.
    lost: Vec<Vertex>,
    fresh: Free<'a>,
    old: Free<'a>,
}

/// The edges of a step, and which targets are fresh.
struct Now<'a> {
    t: Step,
    /// The edges turned round, so that those of a source stand together.
    by_source: &'a [Edge],
    is_fresh: &'a [bool],
    /// Different targets that are to be had.
    enough: usize,
}

impl Now<'_> {
    fn is(&self, fresh: bool, target: Vertex) -> bool {
        self.is_fresh[target as usize] == fresh
    }

    /// The targets of the step of one kind.
    fn targets(&self, fresh: bool) -> Pool {
        let targets = self.by_source.iter().map(|edge| edge.source());
        Pool::new(targets.filter(|&target| self.is(fresh, target)).collect())
    }

    /// How many different ones are missing for the source that has most of them itself.
    fn missing(&self, fresh: bool, pool: &Pool) -> usize {
        let different = pool.0.chunk_by(|a, b| a == b).count();
        let of_source = |edges: &[Edge]| edges.iter().filter(|edge| self.is(fresh, edge.source())).count();
        let most = self.by_source.chunk_by(|a, b| a.target() == b.target()).map(of_source).max();
        (self.enough + most.unwrap_or(0)).saturating_sub(different)
    }
}

impl Sampler<'_> {
    /// Up to `each` absent targets for each of the `links` of step `t + 1`, as this module says; the
    /// `historical` share of those that are not fresh.
    ///
    /// `edges` are all edges of step `t + 1`, in order; `links` are those of them that are asked about.
    pub fn balanced(
        &self,
        t: Step,
        edges: &[Edge],
        links: Vec<Edge>,
        each: usize,
        historical: f64,
    ) -> Judged {
        let mut is_fresh = vec![true; self.vertices];
        self.history.seen_targets(t).iter().for_each(|&target| is_fresh[target as usize] = false);
        let to_fresh = edges.iter().filter(|edge| is_fresh[edge.target() as usize]).count();
        let share = to_fresh as f64 / edges.len().max(1) as f64;
        let fresh = (each as f64 * share).round() as usize;
        let lost = ((each - fresh) as f64 * historical.clamp(0.0, 1.0)).round() as usize;

        // Reversed, edges order by source and then by target.
        let mut by_source: Vec<Edge> = edges.iter().map(|edge| edge.reversed()).collect();
        by_source.par_sort_unstable();
        let now = Now { t, by_source: &by_source, is_fresh: &is_fresh, enough: ENOUGH.min(each) };
        let pools = [if fresh > 0 { self.fresh(&now) } else { Pool(Vec::new()) }, self.old(&now)];
        let mut sources: Vec<Vertex> = links.iter().map(|link| link.source()).collect();
        sources.par_sort_unstable();
        sources.dedup();
        let of_source = |&source: &Vertex| {
            let range = of_source(&by_source, source);
            let has: Vec<Vertex> = by_source[range].iter().map(|edge| edge.source()).collect();
            let [fresh, old] = pools.each_ref().map(|pool| pool.without(&has));
            Source { lost: self.lost(t, edges, source), fresh, old }
        };
        let of: Vec<Source<'_>> = sources.par_iter().map(of_source).collect();
        let row = |link: &Edge| -> Vec<Vertex> {
            let Some(source) = sources.binary_search(&link.source()).ok().map(|at| &of[at]) else {
                return Vec::new();
            };
            let draws = |purpose| self.draws(purpose, t, link.key());
            let lost = draws(Purpose::Historical).distinct(lost, source.lost.len());
            let drawn = each - lost.len();
            let [fresh, old] = match (source.fresh.count(), source.old.count()) {
                (0, 0) => [0, 0],
                (0, _) => [0, drawn],
                (_, 0) => [drawn, 0],
                _ => [fresh.min(drawn), drawn - fresh.min(drawn)],
            };
            let some = |free: &Free<'_>, count: usize, purpose: Purpose| -> Vec<Vertex> {
                let (draws, of) = (draws(purpose), free.count());
                (0..count as u64).map(|place| free.at(draws.below(of, place))).collect()
            };
            let mut row = some(&source.fresh, fresh, Purpose::Fresh);
            row.extend(some(&source.old, old, Purpose::Absent));
            row.extend(lost.iter().map(|&at| source.lost[at]));
            row
        };
        let rows: Vec<Vec<Vertex>> = links.par_iter().map(row).collect();
        Judged::new(links, &rows)
    }

    /// Fresh targets to draw from.
    fn fresh(&self, now: &Now<'_>) -> Pool {
        let pool = now.targets(true);
        match now.missing(true, &pool) {
            0 => pool,
            missing => Pool::new([&pool.0[..], self.history.next_targets(now.t + 1, missing)].concat()),
        }
    }

    /// Targets of old to draw from.
    fn old(&self, now: &Now<'_>) -> Pool {
        let pool = now.targets(false);
        let mut missing = now.missing(false, &pool);
        if missing == 0 {
            return pool;
        }
        let Pool(mut targets) = pool;
        let mut met = vec![false; self.vertices];
        targets.iter().for_each(|&target| met[target as usize] = true);
        let next = (now.t + 2..self.history.last() + 1).take(FAR);
        let ways: [&mut dyn Iterator<Item = Step>; 2] =
            [&mut next.into_iter(), &mut (0..now.t + 1).rev().take(FAR)];
        for steps in ways {
            let mut looked = 0;
            for step in steps {
                if missing == 0 || looked >= FAR {
                    break;
                }
                let came = self.history.came(step);
                looked += came.len();
                for &target in came.iter().filter(|target| now.is(false, **target)) {
                    missing = missing
                        .saturating_sub(usize::from(!std::mem::replace(&mut met[target as usize], true)));
                    targets.push(target);
                }
            }
        }
        Pool::new(targets)
    }
}

/// The edges of a source among edges that are turned round.
fn of_source(by_source: &[Edge], source: Vertex) -> Range<usize> {
    let begin = by_source.partition_point(|edge| edge.target() < source);
    begin..begin + by_source[begin..].partition_point(|edge| edge.target() == source)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::super::fixture::{Steps, VERTICES, edges, history, history_of, steps};
    use super::super::history::History;
    use super::*;

    fn sampler(history: &History, seed: u64) -> Sampler<'_> {
        Sampler { history, recent: None, vertices: VERTICES, seed }
    }

    /// The targets of one kind that a step is drawn from, as the module says it, in sets.
    fn plain(steps: &Steps, t: Step, fresh: bool, enough: usize) -> Vec<Vertex> {
        let past: BTreeSet<Vertex> = steps[..=t].iter().flatten().map(|pair| pair.1).collect();
        let fits = |target: &Vertex| past.contains(target) != fresh;
        let now = || steps[t + 1].iter().filter(|pair| fits(&pair.1));
        let mut pool: Vec<Vertex> = now().map(|pair| pair.1).collect();
        let own = |source: Vertex| now().filter(|pair| pair.0 == source).count();
        let wanted = enough + (0..VERTICES as Vertex).map(own).max().unwrap_or(0);
        let came = |step: Step| -> Vec<Vertex> {
            let is_new = |pair: &&(Vertex, Vertex)| step == 0 || !steps[step - 1].contains(pair);
            steps[step].iter().filter(is_new).map(|pair| pair.1).filter(fits).collect()
        };
        let order = (t + 2..steps.len()).chain((0..=t).rev());
        for step in order.filter(|&step| !fresh || step > t) {
            if pool.iter().collect::<BTreeSet<_>>().len() >= wanted {
                break;
            }
            match fresh {
                false => pool.extend(came(step)),
                true => {
                    let known: BTreeSet<Vertex> = steps[..step].iter().flatten().map(|pair| pair.1).collect();
                    let new: BTreeSet<Vertex> =
                        came(step).into_iter().filter(|v| !known.contains(v)).collect();
                    pool.extend(new);
                }
            }
        }
        pool
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        /// The definition, in sets.
        #[test]
        fn pairs_are_as_defined(
            steps in steps(2..7), seed in any::<u64>(), each in 1usize..9, quarters in 0usize..=4,
        ) {
            let (history, historical) = (history(&steps), quarters as f64 / 4.0);
            let sampler = sampler(&history, seed);
            for t in 0..steps.len() - 1 {
                let links = edges(&steps[t + 1]);
                let judged = sampler.balanced(t, &links, links.clone(), each, historical);
                let past: BTreeSet<_> = steps[..=t].iter().flatten().copied().collect();
                let is_fresh = |target: Vertex| !past.iter().any(|pair| pair.1 == target);
                let share = links.iter().filter(|link| is_fresh(link.target())).count() as f64
                    / links.len().max(1) as f64;
                let fresh = (each as f64 * share).round() as usize;
                let pools = [true, false].map(|kind| plain(&steps, t, kind, ENOUGH.min(each)));
                for (link, range) in links.iter().zip(judged.starts.windows(2)) {
                    let row = &judged.targets[range[0]..range[1]];
                    let linked = |target: Vertex| steps[t + 1].contains(&(link.source(), target));
                    prop_assert!(!row.iter().any(|&target| linked(target)));
                    let lost: BTreeSet<_> = past.iter().filter(|pair| pair.0 == link.source())
                        .map(|pair| pair.1).filter(|&target| !linked(target)).collect();
                    let [new, old] = pools.each_ref().map(|pool| -> BTreeSet<Vertex> {
                        pool.iter().copied().filter(|&target| !linked(target)).collect()
                    });
                    let kept = (((each - fresh) as f64 * historical).round() as usize).min(lost.len());
                    let (new_ones, old_ones) = match (fresh > 0 && !new.is_empty(), !old.is_empty()) {
                        (false, false) => (0, 0),
                        (true, false) => (each - kept, 0),
                        (false, true) => (0, each - kept),
                        (true, true) => (fresh, each - kept - fresh),
                    };
                    prop_assert_eq!(row.len(), new_ones + old_ones + kept);
                    prop_assert!(row[..new_ones].iter().all(|target| new.contains(target)));
                    prop_assert!(row[new_ones..][..old_ones].iter().all(|target| old.contains(target)));
                    let historical: BTreeSet<Vertex> = row[new_ones + old_ones..].iter().copied().collect();
                    prop_assert!(historical.len() == kept && historical.is_subset(&lost));
                    // A link has the same row when it is asked about alone.
                    let alone = sampler.balanced(t, &links, vec![*link], each, quarters as f64 / 4.0);
                    prop_assert_eq!(&alone.targets, row);
                }
                // What may be drawn, and how often.
                let mut by_source: Vec<Edge> = links.iter().map(|link| link.reversed()).collect();
                by_source.sort_unstable();
                let is_fresh: Vec<bool> = (0..VERTICES as Vertex).map(is_fresh).collect();
                let enough = ENOUGH.min(each);
                let now = Now { t, by_source: &by_source, is_fresh: &is_fresh, enough };
                for (found, mut expected) in [sampler.fresh(&now), sampler.old(&now)].into_iter().zip(pools) {
                    expected.sort_unstable();
                    prop_assert_eq!(found.0, expected);
                }
            }
        }

        /// Places of a pool without some targets, one after the other.
        #[test]
        fn free_places_are_those_of_all_others(
            pool in prop::collection::vec(0u32..8, 0..20),
            without in prop::collection::btree_set(0u32..8, 0..6),
        ) {
            let pool = Pool::new(pool);
            let without: Vec<Vertex> = without.into_iter().collect();
            let free = pool.without(&without);
            let expected: Vec<Vertex> = pool.0.iter().copied().filter(|v| !without.contains(v)).collect();
            prop_assert_eq!((0..free.count()).map(|n| free.at(n)).collect::<Vec<_>>(), expected);
        }
    }

    /// Targets are drawn as often as they have links, new and old ones, and by any number of threads.
    #[test]
    fn targets_are_drawn_as_often_as_they_have_links() {
        // Of old: 0 to 49. Then target `n` has `n % 5` links, and as many have the fresh target 50 + n.
        let before = (0..50).map(|target| (599, target)).collect();
        let both = |n: u32| (0..n % 5).flat_map(move |i| [(100 + 4 * n + i, n), (300 + 4 * n + i, 50 + n)]);
        let own = [(598, 7), (598, 8)];
        let now: BTreeSet<(Vertex, Vertex)> = (0..50).flat_map(both).chain(own).collect();
        let history = history_of(600, &vec![before, now.clone()]);
        let (links, link, each) = (edges(&now), Edge::new(598, 7), 20_000);
        let sampler = |seed| Sampler { history: &history, recent: None, vertices: 600, seed };
        let of = |seed| sampler(seed).balanced(0, &links, vec![link], each, 0.5).targets;
        let mut counts = [0usize; 600];
        let row = of(1);
        row.iter().for_each(|&target| counts[target as usize] += 1);
        assert!(row.len() == each && counts[7] + counts[8] == 0, "its own links");
        let fresh: usize = counts[50..100].iter().sum();
        assert_eq!(fresh, (each as f64 * 100.0 / 202.0).round() as usize);
        // Of old targets without its own, 0 + 1 + .. + 4 ten times, less 2 + 3.
        for (target, &count) in counts.iter().enumerate().take(100) {
            let (all, of) = if target < 50 { (each - fresh, 95) } else { (fresh, 100) };
            let weight = if [7, 8].contains(&target) { 0 } else { target % 5 };
            let expected = all as f64 * weight as f64 / of as f64;
            assert!((count as f64 - expected).abs() <= 5.0 * expected.sqrt(), "{target} {expected}");
        }
        let on =
            |threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(|| of(1));
        assert!(on(1) == on(3) && of(1) != of(2));
    }
}
