//! Samples for training and judging: links among many, and pairs that are no links.
//!
//! Every draw is a hash of the seed, the purpose, the step, the link and the number of the draw. A link has
//! the same absent pairs whichever other links are asked about, in whatever order and by however many
//! threads.

use kymo_graph::snapshot::{Edge, Step, Vertex};
use rayon::prelude::*;

use super::super::pairs::chosen;
use super::history::History;
use super::recent::Recent;
use crate::random::Random;

/// What a draw is for: draws of different purposes are independent of each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Links to learn from.
    Train,
    /// Links to judge by.
    Judge,
    /// Random absent targets of a link.
    Absent,
    /// Absent targets of a link that its source once had.
    Historical,
    /// Absent targets of a source.
    BySource,
    /// Absent targets of a link that were never one before.
    Fresh,
}

/// Draws before a source is taken to be linked to everything.
const TRIES: u64 = 128;

/// Draws samples as of a step.
///
/// Nothing depends on steps behind the one asked about, but for the edges of the next step, which are told by
/// the caller and never drawn as absent.
#[derive(Clone, Copy, Debug)]
pub struct Sampler<'a> {
    /// What was known when.
    pub history: &'a History,
    /// The targets of recent steps, where random ones are drawn from those alone.
    pub recent: Option<&'a Recent>,
    /// How many vertices there are.
    pub vertices: usize,
    /// Another seed gives other samples.
    pub seed: u64,
}

impl Sampler<'_> {
    /// The sequence of draws for one thing.
    pub(super) fn draws(&self, purpose: Purpose, t: Step, thing: u64) -> Random {
        Random::new(self.seed).stream(purpose as u64).stream(t as u64).stream(thing)
    }

    /// Fills `out` with random absent targets of `source`, drawn at the places from `first` on.
    ///
    /// They are drawn uniformly from the vertices that were a target up to `t` (or from the targets of recent
    /// steps), or from all while there are none, and may repeat. Where no absent one is found, because the
    /// source is linked to nearly everything, the last one drawn stands.
    pub(super) fn fill(
        &self,
        draws: Random,
        t: Step,
        edges: &[Edge],
        source: Vertex,
        first: usize,
        out: &mut [Vertex],
    ) {
        let seen = self.recent.map_or_else(|| self.history.seen_targets(t), |recent| recent.targets(t));
        self.fill_from(draws, seen, edges, source, first, out);
    }

    /// The same with targets out of a list, or of all vertices where that is empty.
    pub(super) fn fill_from(
        &self,
        draws: Random,
        list: &[Vertex],
        edges: &[Edge],
        source: Vertex,
        first: usize,
        out: &mut [Vertex],
    ) {
        for (place, out) in (first as u64..).zip(out) {
            for attempt in 0..TRIES {
                let position = place * TRIES + attempt;
                *out = match list.is_empty() {
                    true => draws.below(self.vertices, position) as Vertex,
                    false => list[draws.below(list.len(), position)],
                };
                if edges.binary_search(&Edge::new(source, *out)).is_err() {
                    break;
                }
            }
        }
    }

    /// Writes `each` absent targets for each of the `links` of step `t + 1`, row after row.
    ///
    /// `edges` are all edges of step `t + 1`, in order; `links` are those of them that are asked about. First
    /// come random targets, then the `historical` share: different targets that the source had in some step
    /// up to `t` and has no longer at `t + 1`. Where there are too few of those, random ones take their
    /// places.
    pub fn absent_targets(
        &self,
        t: Step,
        edges: &[Edge],
        links: &[Edge],
        each: usize,
        historical: f64,
        out: &mut Vec<Vertex>,
    ) {
        out.clear();
        if each == 0 {
            return;
        }
        out.resize(links.len() * each, 0);
        let wanted = (each as f64 * historical.clamp(0.0, 1.0)).round() as usize;
        let mut sources: Vec<Vertex> = Vec::new();
        if wanted > 0 {
            sources.extend(links.iter().map(|link| link.source()));
            sources.par_sort_unstable();
            sources.dedup();
        }
        // Once for each source: a source with many links would otherwise be looked through for each of them.
        let lost: Vec<Vec<Vertex>> = sources.par_iter().map(|&source| self.lost(t, edges, source)).collect();
        out.par_chunks_mut(each).zip(links).for_each(|(row, link)| {
            let draws = self.draws(Purpose::Absent, t, link.key());
            let (random, rest) = row.split_at_mut(each - wanted);
            self.fill(draws, t, edges, link.source(), 0, random);
            let lost = sources.binary_search(&link.source()).map_or(&[][..], |at| &lost[at][..]);
            let chosen = self.draws(Purpose::Historical, t, link.key()).distinct(wanted, lost.len());
            rest.iter_mut().zip(&chosen).for_each(|(out, &at)| *out = lost[at]);
            let done = each - wanted + chosen.len();
            self.fill(draws, t, edges, link.source(), done, &mut rest[chosen.len()..]);
        });
    }

    /// The targets `source` had in some step up to `t` that are not among these edges.
    pub(super) fn lost(&self, t: Step, edges: &[Edge], source: Vertex) -> Vec<Vertex> {
        let known = self.history.known_targets(source, t).iter().copied();
        known.filter(|&target| edges.binary_search(&Edge::new(source, target)).is_err()).collect()
    }

    /// A sample of `count` of these links without repetition, in order; all of them if `count` is 0 or not
    /// below their number.
    pub fn choose(&self, links: &[Edge], count: usize, purpose: Purpose, t: Step) -> Vec<Edge> {
        chosen(links, count, &self.draws(purpose, t, 0))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::super::fixture::{VERTICES, edges, history, steps};
    use super::*;

    fn sampler(history: &History, seed: u64) -> Sampler<'_> {
        Sampler { history, recent: None, vertices: VERTICES, seed }
    }

    /// Absent targets for links, given after all edges of their step.
    fn absent(sampler: &Sampler<'_>, t: Step, step: [&[Edge]; 2], each: usize, share: f64) -> Vec<Vertex> {
        let mut out = vec![7; 3];
        sampler.absent_targets(t, step[0], step[1], each, share, &mut out);
        out
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn absent_targets_are_what_they_should_be(
            steps in steps(2..6), seed in any::<u64>(), each in 1usize..6, quarters in 0usize..=4,
        ) {
            let share = quarters as f64 / 4.0;
            let (history, wanted) = (history(&steps), (each as f64 * share).round() as usize);
            let sampler = sampler(&history, seed);
            for t in 0..steps.len() - 1 {
                let links = edges(&steps[t + 1]);
                let out = absent(&sampler, t, [&links, &links], each, share);
                prop_assert_eq!(out.len(), links.len() * each);
                let past: BTreeSet<_> = steps[..=t].iter().flatten().copied().collect();
                let mut pool: BTreeSet<Vertex> = past.iter().map(|pair| pair.1).collect();
                if pool.is_empty() {
                    pool = (0..VERTICES as Vertex).collect();
                }
                for (row, link) in out.chunks(each).zip(&links) {
                    let linked = |target: Vertex| steps[t + 1].contains(&(link.source(), target));
                    let lost: BTreeSet<_> = past.iter().filter(|pair| pair.0 == link.source())
                        .map(|pair| pair.1).filter(|&target| !linked(target)).collect();
                    let (random, rest) = row.split_at(each - wanted);
                    let (old, filled) = rest.split_at(wanted.min(lost.len()));
                    prop_assert_eq!(old.iter().collect::<BTreeSet<_>>().len(), old.len());
                    prop_assert!(old.iter().all(|target| lost.contains(target)));
                    for &target in random.iter().chain(filled) {
                        let nothing_free = pool.iter().all(|&target| linked(target));
                        prop_assert!(pool.contains(&target) && (!linked(target) || nothing_free));
                    }
                    // A link has the same row when it is asked about alone.
                    prop_assert_eq!(absent(&sampler, t, [&links, &[*link]], each, share), row);
                }
            }
        }

        #[test]
        fn later_steps_change_nothing(
            past in steps(1..4), next in steps(1..2), one in steps(0..3), other in steps(0..3),
        ) {
            let (t, links) = (past.len() - 1, edges(&next[0]));
            let of = |later: &[BTreeSet<(Vertex, Vertex)>]| {
                let history = history(&[&past[..], later].concat());
                let sampler = sampler(&history, 3);
                absent(&sampler, t, [&links, &links], 4, 0.5)
            };
            prop_assert_eq!(of(&one), of(&other));
        }

        #[test]
        fn a_choice_is_a_part(steps in steps(1..2), seed in any::<u64>(), count in 0usize..16) {
            let (history, links) = (history(&steps), edges(&steps[0]));
            let chosen = sampler(&history, seed).choose(&links, count, Purpose::Judge, 0);
            let expected = if count == 0 { links.len() } else { count.min(links.len()) };
            prop_assert_eq!(chosen.len(), expected);
            prop_assert!(chosen.is_sorted_by(|a, b| a < b));
            prop_assert!(chosen.iter().all(|link| links.contains(link)));
        }
    }

    /// Every vertex linked to its next one now, and to itself then.
    fn circle() -> (History, Vec<Edge>) {
        let now = (0..VERTICES as Vertex).map(|v| (v, (v + 1) % VERTICES as Vertex)).collect();
        (history(&vec![now]), (0..VERTICES as Vertex).map(|v| Edge::new(v, v)).collect())
    }

    #[test]
    fn random_targets_are_uniform_and_differ_by_seed_step_and_link() {
        let (history, links) = circle();
        let out = absent(&sampler(&history, 1), 0, [&links, &links], 6000, 0.0);
        for (source, row) in out.chunks(6000).enumerate() {
            let mut counts = [0; VERTICES];
            row.iter().for_each(|&target| counts[target as usize] += 1);
            assert_eq!(counts[source], 0, "its link");
            assert!(counts.iter().filter(|&&count| (1050..1350).contains(&count)).count() == VERTICES - 1);
        }
        assert_ne!(out[..100], out[6000..6100]);
        assert_ne!(out, absent(&sampler(&history, 2), 0, [&links, &links], 6000, 0.0));
        assert_ne!(out, absent(&sampler(&history, 1), 1, [&links, &links], 6000, 0.0));
        let choose = |seed, purpose, t| sampler(&history, seed).choose(&links, 3, purpose, t);
        let others: BTreeSet<_> = (0..20).map(|seed| choose(seed, Purpose::Train, 0)).collect();
        assert!(others.len() > 5);
        assert!((0..20).any(|t| choose(1, Purpose::Train, t) != choose(1, Purpose::Judge, t)));
    }

    #[test]
    fn samples_do_not_depend_on_threads() {
        let (history, links) = circle();
        let sampler = sampler(&history, 4);
        let of = || absent(&sampler, 0, [&links, &links], 50, 0.3);
        let on = |threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap().install(of);
        assert!(on(1) == on(2) && on(1) == on(5));
    }
}
