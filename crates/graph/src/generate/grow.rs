//! The process: from one step to the next some edges leave and others come, as many as the trend and the
//! change rate ask for.
//!
//! In an undirected graph a pair of opposite edges is drawn, leaves and returns as one; here it is
//! represented by the edge whose source is the smaller vertex.

use std::borrow::Cow;

use rayon::prelude::*;

use super::random::{Purpose, random};
use super::{Params, Sampler};
use crate::delta::Delta;
use crate::random::Random;
use crate::snapshot::{Edge, Snapshot, Step};
use crate::step::{StepData, StepEdges};

/// Where new edges come from.
pub(super) enum Supply {
    /// Drawn at random among all vertices.
    Drawn(Sampler),
    /// A graph of which every step is a part.
    Graph(Snapshot<'static>),
}

/// Rounds of drawing before a step gives up hoping for luck.
const ROUNDS: u32 = 16;

/// The number of pairs that may always be listed to find the absent ones.
const FEW_PAIRS: usize = 1 << 24;

/// The edges of the current step and what is needed to make the next.
pub(super) struct Growth {
    params: Params,
    supply: Supply,
    /// How many edges there can be; opposite ones of an undirected graph count once.
    room: usize,
    edges: Vec<Edge>,
}

impl Growth {
    /// The process before its first step, when there are no edges.
    pub(super) fn new(params: Params, supply: Supply) -> Self {
        let room = match &supply {
            Supply::Drawn(_) => params.pairs(),
            Supply::Graph(graph) => graph.count(!params.undirected),
        };
        Self { params, supply, room, edges: Vec::new() }
    }

    /// The edges of the step made last.
    pub(super) fn edges(&self) -> &[Edge] {
        &self.edges
    }

    /// Makes the step, which must be the next one.
    pub(super) fn advance(&mut self, step: Step) -> StepData {
        let Params { edges: mean, steps, seed, .. } = self.params;
        let wanted = self.params.trend.edges(mean, step, steps, seed).min(self.room);
        let before = self.one_way(&self.edges);
        let (coming, leaving) = exchange(before.len(), wanted, self.room, self.params.edge_change);
        let random = |purpose| random(seed, purpose).stream(step as u64);
        let removed = choose(&before, leaving, random(Purpose::Removal));
        let added = match &self.supply {
            Supply::Drawn(sampler) => self.draw(sampler, coming, step),
            Supply::Graph(graph) => {
                choose(&without(&self.one_way(&graph.edges), &before), coming, random(Purpose::Selection))
            }
        };
        let events = added.len() as u64;
        let (removed, added) = (self.both_ways(removed), self.both_ways(added));
        let mut edges = without(&self.edges, &removed);
        edges.extend_from_slice(&added);
        // The stable sort finds the two runs and merges them in one pass.
        edges.sort();
        self.edges = edges;
        let delta =
            Delta { added: self.weighted(added), removed: self.weighted(removed), reweighted: Vec::new() };
        let (begin, end) = (step as f64, step as f64 + 1.0);
        StepData { begin, end, events, edges: StepEdges::Delta(delta), ..StepData::default() }
    }

    /// Distinct new pairs, `count` of them, in order.
    ///
    /// None is of the current step, so an edge that leaves does not come back at once. Where the pairs that a
    /// sampler prefers are all taken, the absent pairs are listed and chosen from, if the list is short or in
    /// proportion to the graph; else there will be fewer.
    fn draw(&self, sampler: &Sampler, count: usize, step: Step) -> Vec<Edge> {
        let candidates = random(self.params.seed, Purpose::Candidates).stream(step as u64);
        let selection = random(self.params.seed, Purpose::Selection).stream(step as u64);
        let mut drawn = Vec::new();
        for round in 0..ROUNDS {
            let missing = count - drawn.len();
            if missing == 0 {
                return drawn;
            }
            let random = candidates.stream(round.into());
            let tries = ((missing + missing / 4) as u64 + 64) << round.min(3);
            let mut fresh: Vec<Edge> =
                (0..tries).into_par_iter().filter_map(|i| self.candidate(sampler, random, i)).collect();
            fresh.par_sort_unstable();
            fresh.dedup();
            let fresh = without(&without(&fresh, &self.edges), &drawn);
            drawn.extend(choose(&fresh, missing, selection));
            drawn.sort();
        }
        if self.room <= FEW_PAIRS.max(8 * self.edges.len().max(count)) {
            let absent = without(&without(&self.every_pair(), &self.edges), &drawn);
            drawn.extend(choose(&absent, count - drawn.len(), selection));
            drawn.sort();
        }
        drawn
    }

    #[inline]
    fn candidate(&self, sampler: &Sampler, random: Random, index: u64) -> Option<Edge> {
        let (a, b) = (sampler(random.word(2 * index)), sampler(random.word(2 * index + 1)));
        (a != b).then(|| if self.params.undirected { Edge::new(a.min(b), a.max(b)) } else { Edge::new(a, b) })
    }

    fn every_pair(&self) -> Vec<Edge> {
        let vertices = self.params.vertices as u32;
        let sources = |target| 0..if self.params.undirected { target } else { vertices };
        let row = |target| sources(target).filter(move |&s| s != target).map(move |s| Edge::new(s, target));
        (0..vertices).flat_map(row).collect()
    }

    /// One edge for each pair of opposite ones, in an undirected graph.
    fn one_way<'a>(&self, edges: &'a [Edge]) -> Cow<'a, [Edge]> {
        if self.params.undirected {
            edges.iter().copied().filter(|edge| edge.source() <= edge.target()).collect()
        } else {
            Cow::Borrowed(edges)
        }
    }

    /// The reverse of `one_way`.
    fn both_ways(&self, mut edges: Vec<Edge>) -> Vec<Edge> {
        if self.params.undirected {
            let opposite: Vec<Edge> =
                edges.iter().filter(|e| !e.is_self_loop()).map(|e| e.reversed()).collect();
            edges.extend(opposite);
            edges.par_sort_unstable();
        }
        edges
    }

    fn weighted(&self, edges: Vec<Edge>) -> Vec<(Edge, f32)> {
        let weight = |edge: Edge| match &self.supply {
            Supply::Graph(graph) if graph.weights.is_some() => {
                graph.edges.binary_search(&edge).map_or(1.0, |index| graph.weight(index))
            }
            _ => 1.0,
        };
        edges.into_iter().map(|edge| (edge, weight(edge))).collect()
    }
}

/// How many edges come and how many leave.
///
/// The number of edges comes first. Beyond what it takes, as many leave as come until the change rate is met,
/// as far as there are edges that can leave and absent ones that can come.
fn exchange(present: usize, wanted: usize, room: usize, change: f64) -> (usize, usize) {
    let (growth, decline) = (wanted.saturating_sub(present), present.saturating_sub(wanted));
    let total = (present as f64 * change).round() as usize;
    let swapped = total.saturating_sub(growth + decline) / 2;
    let swapped = swapped.min(present - decline).min(room - present - growth);
    (swapped + growth, swapped + decline)
}

/// A random part of the sorted edges, `count` of them or all: those with the smallest hashes, in order.
fn choose(edges: &[Edge], count: usize, random: Random) -> Vec<Edge> {
    if count == 0 || count >= edges.len() {
        return edges[..count.min(edges.len())].to_vec();
    }
    let priority = |edge: &Edge| random.word(edge.key());
    let mut priorities: Vec<u64> = edges.par_iter().map(priority).collect();
    let (_, &mut limit, _) = priorities.select_nth_unstable(count);
    edges.par_iter().filter(|edge| priority(edge) < limit).copied().collect()
}

/// The sorted `edges` that are not in the sorted `others`.
fn without(edges: &[Edge], others: &[Edge]) -> Vec<Edge> {
    let mut others = others.iter().peekable();
    let mut absent = |edge: &Edge| {
        while others.next_if(|&other| other < edge).is_some() {}
        others.peek() != Some(&edge)
    };
    edges.iter().copied().filter(|edge| absent(edge)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_exchange_meets_the_number_and_then_the_rate(
            room in 0usize..200, present in 0usize..200, wanted in 0usize..200, change in 0.0..2.0f64,
        ) {
            let (present, wanted) = (present.min(room), wanted.min(room));
            let (coming, leaving) = exchange(present, wanted, room, change);
            prop_assert!(leaving <= present && coming <= room - present);
            prop_assert_eq!(present + coming - leaving, wanted);
            let total = (present as f64 * change).round() as usize;
            let could_swap_more = leaving < present && coming < room - present;
            prop_assert!(coming + leaving <= total.max(present.abs_diff(wanted)));
            prop_assert!(!could_swap_more || coming + leaving + 1 >= total);
        }

        #[test]
        fn a_choice_is_a_sorted_part_of_the_size_asked_for(
            keys in prop::collection::btree_set(0u64..500, 0..100), count in 0usize..120,
        ) {
            let edges: Vec<Edge> = keys.into_iter().map(Edge::from_key).collect();
            let chosen = choose(&edges, count, random(1, Purpose::Selection));
            prop_assert_eq!(chosen.len(), count.min(edges.len()));
            prop_assert!(chosen.is_sorted());
            let rest = without(&edges, &chosen);
            prop_assert_eq!(rest.len() + chosen.len(), edges.len());
            prop_assert!(rest.iter().all(|edge| !chosen.contains(edge)));
        }
    }

    #[test]
    fn a_choice_does_not_prefer_small_edges() {
        let edges: Vec<Edge> = (0..10_000).map(Edge::from_key).collect();
        let chosen = choose(&edges, 1000, random(1, Purpose::Selection));
        let low = chosen.iter().filter(|edge| edge.key() < 5000).count();
        assert!((430..570).contains(&low), "{low}");
    }
}
