//! When every pair was an edge: the past of a dynamic graph, to be asked as of any step.

use std::ops::Range;

use kymo_graph::snapshot::{Edge, Step, Vertex};
use kymo_graph::store::Store;
use rayon::prelude::*;

use crate::error::{Error, Result};

/// The runs of consecutive steps in which each pair was an edge.
///
/// It is made in one walk over the changes, and its size follows them: a run for every time an edge came,
/// however long it stayed. Every question is asked as of a step and answered as if the steps behind it did
/// not exist yet; a step beyond the last one counts as the last.
#[derive(Clone, Debug)]
pub struct History {
    last: Step,
    /// The pairs of source `u` are `starts[u]..starts[u + 1]`, ascending by target.
    starts: Vec<usize>,
    targets: Vec<Vertex>,
    /// The runs of pair `i` are `runs_at[i]..runs_at[i + 1]`, in the order of time.
    runs_at: Vec<usize>,
    runs: Vec<Run>,
    /// The targets of each source again, in the order in which they were first seen, and when that was: a
    /// prefix is what was known at a step.
    known: Vec<Vertex>,
    known_since: Vec<u32>,
    seen_targets: Seen,
    seen_sources: Seen,
    /// The targets of links that came at step `t` are `came[came_at[t]..came_at[t + 1]]`.
    came: Vec<Vertex>,
    came_at: Vec<usize>,
}

/// Consecutive steps in which a pair was an edge.
#[derive(Clone, Copy, Debug)]
struct Run {
    begin: u32,
    /// The first step without the edge.
    end: u32,
    /// Steps of the runs before, so that steps up to any time are counted without adding runs up.
    before: u32,
}

/// What is known about a pair as of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Whether it is an edge of that step.
    pub present_now: bool,
    /// In how many steps it was an edge.
    pub steps_present: u32,
    /// How many steps ago it last was an edge, 0 if it is one now; `None` if it never was.
    pub steps_since: Option<u32>,
    /// The first step in which it was an edge.
    pub first_seen: Option<u32>,
}

/// Vertices in the order in which they first did something, those of one step ascending.
#[derive(Clone, Debug, Default)]
struct Seen {
    vertices: Vec<Vertex>,
    /// How many had been seen by the end of each step.
    until: Vec<usize>,
}

impl Seen {
    /// Takes in those of the next step.
    fn step(&mut self, new: &mut [bool], vertices: impl Iterator<Item = Vertex>) {
        let from = self.vertices.len();
        self.vertices.extend(vertices.filter(|&vertex| std::mem::take(&mut new[vertex as usize])));
        self.vertices[from..].sort_unstable();
        self.until.push(self.vertices.len());
    }

    fn by(&self, t: Step) -> &[Vertex] {
        &self.vertices[..self.until.get(t).copied().unwrap_or(self.vertices.len())]
    }
}

impl History {
    /// Reads the past of a whole store.
    pub fn new(store: &Store) -> Result<History> {
        History::build(store, false)
    }

    /// The same with every edge turned round: its sources are the targets of edges.
    pub fn against(store: &Store) -> Result<History> {
        History::build(store, true)
    }

    fn build(store: &Store, against: bool) -> Result<History> {
        let vertices = store.vertices();
        let too_long =
            |_| Error::settings("steps", format!("{} are more than can be counted", store.steps()));
        let steps = u32::try_from(store.steps()).map_err(too_long)?;
        let (mut seen_targets, mut seen_sources) = (Seen::default(), Seen::default());
        let (mut new_targets, mut new_sources) = (vec![true; vertices], vec![true; vertices]);
        let mut changes: Vec<(u64, u32)> = Vec::new();
        let (mut came, mut came_at) = (Vec::new(), vec![0]);
        let mut walk = store.walk();
        while let Some(stop) = walk.step()? {
            let turned = |&(edge, _): &(Edge, f32)| if against { edge.reversed() } else { edge };
            let added = stop.delta.added.iter().map(turned);
            let removed = stop.delta.removed.iter().map(turned);
            seen_targets.step(&mut new_targets, added.clone().map(|edge| edge.target()));
            seen_sources.step(&mut new_sources, added.clone().map(|edge| edge.source()));
            came.extend(added.clone().map(|edge| edge.target()));
            came_at.push(came.len());
            // Reversed, an edge orders by source and then by target.
            changes.extend(added.chain(removed).map(|edge| (edge.reversed().key(), stop.step as u32)));
        }
        changes.par_sort_unstable();

        let (mut starts, mut targets) = (vec![0; vertices + 1], Vec::new());
        let (mut runs_at, mut runs) = (vec![0], Vec::new());
        let mut first_seen: Vec<(u32, Vertex)> = Vec::new();
        for fates in changes.chunk_by(|a, b| a.0 == b.0) {
            let (source, target) = ((fates[0].0 >> 32) as usize, fates[0].0 as Vertex);
            starts[source + 1] += 1;
            targets.push(target);
            first_seen.push((fates[0].1, target));
            let mut before = 0;
            // A pair comes and goes in turn, and comes first.
            for run in fates.chunks(2) {
                let (begin, end) = (run[0].1, run.get(1).map_or(steps, |change| change.1));
                runs.push(Run { begin, end, before });
                before += end - begin;
            }
            runs_at.push(runs.len());
        }
        for source in 0..vertices {
            starts[source + 1] += starts[source];
            first_seen[starts[source]..starts[source + 1]].sort_unstable();
        }
        let (known_since, known) = first_seen.into_iter().unzip();
        let last = store.steps().saturating_sub(1);
        Ok(History {
            last,
            starts,
            targets,
            runs_at,
            runs,
            known,
            known_since,
            seen_targets,
            seen_sources,
            came,
            came_at,
        })
    }

    /// Bytes that it takes.
    pub fn bytes(&self) -> u64 {
        let places =
            [self.starts.len(), self.runs_at.len(), self.came_at.len()].map(|length| 8 * length as u64);
        let numbers = [self.targets.len(), self.known.len(), self.known_since.len(), self.came.len()];
        let seen = [&self.seen_targets, &self.seen_sources].map(|seen| seen.vertices.len());
        let fours = numbers.iter().chain(&seen).map(|&length| 4 * length as u64).sum::<u64>();
        places.iter().sum::<u64>() + fours + (self.runs.len() * size_of::<Run>()) as u64
    }

    /// The pairs that have this source.
    fn pairs(&self, source: Vertex) -> Range<usize> {
        match self.starts.get(source as usize..source as usize + 2) {
            Some(pair) => pair[0]..pair[1],
            None => 0..0,
        }
    }

    fn facts_of_pair(&self, pair: usize, t: Step) -> Facts {
        let t = t.min(self.last) as u32;
        let runs = &self.runs[self.runs_at[pair]..self.runs_at[pair + 1]];
        let begun = &runs[..runs.partition_point(|run| run.begin <= t)];
        let (Some(first), Some(run)) = (begun.first(), begun.last()) else { return Facts::default() };
        let end = run.end.min(t + 1);
        Facts {
            present_now: end == t + 1,
            steps_present: run.before + (end - run.begin),
            steps_since: Some(t + 1 - end),
            first_seen: Some(first.begin),
        }
    }

    /// What is known at step `t` about the pair.
    pub fn facts(&self, source: Vertex, target: Vertex, t: Step) -> Facts {
        let pairs = self.pairs(source);
        match self.targets[pairs.clone()].binary_search(&target) {
            Ok(at) => self.facts_of_pair(pairs.start + at, t),
            Err(_) => Facts::default(),
        }
    }

    /// The targets `source` had in any step up to `t`, ascending, each with what is known about the pair.
    pub fn facts_of(&self, source: Vertex, t: Step) -> impl Iterator<Item = (Vertex, Facts)> + '_ {
        let all = self.pairs(source).map(move |pair| (self.targets[pair], self.facts_of_pair(pair, t)));
        all.filter(|(_, facts)| facts.first_seen.is_some())
    }

    /// The pairs that were an edge in some of these steps, by source and target, and in how many of them.
    pub fn pairs_within(&self, steps: Range<Step>) -> impl Iterator<Item = (Vertex, Vertex, u32)> + '_ {
        let [from, to] = [steps.start, steps.end].map(|step| step.min(self.last + 1) as u32);
        let all = (0..self.starts.len().saturating_sub(1) as Vertex)
            .flat_map(|source| self.pairs(source).map(move |pair| (source, pair)));
        let found = all.map(move |(source, pair)| {
            let runs = &self.runs[self.runs_at[pair]..self.runs_at[pair + 1]];
            let within = |run: &Run| run.end.min(to).saturating_sub(run.begin.max(from));
            (source, self.targets[pair], runs.iter().map(within).sum())
        });
        found.filter(|&(_, _, count)| count > 0)
    }

    /// The targets `source` had in any step up to `t`, in the order in which they were first seen, those of
    /// one step ascending: a list from which one can be drawn by its number.
    pub fn known_targets(&self, source: Vertex, t: Step) -> &[Vertex] {
        let pairs = self.pairs(source);
        let t = t.min(self.last) as u32;
        let count = self.known_since[pairs.clone()].partition_point(|&since| since <= t);
        &self.known[pairs.start..pairs.start + count]
    }

    /// The vertices that were the target of an edge in any step up to `t`, in the order in which they became
    /// so.
    pub fn seen_targets(&self, t: Step) -> &[Vertex] {
        self.seen_targets.by(t)
    }

    /// The vertices that became the target of an edge after step `t` for the first time, in that order: the
    /// first `count` of them, with all others that became so at the same step as the last one; all where
    /// there are fewer.
    pub fn next_targets(&self, t: Step, count: usize) -> &[Vertex] {
        let (from, all) = (self.seen_targets(t).len(), &self.seen_targets);
        let step = all.until.partition_point(|&seen| seen < from.saturating_add(count));
        &all.by(step)[from..]
    }

    /// The targets of the edges that came at step `t`, each as often as there are such edges.
    pub fn came(&self, t: Step) -> &[Vertex] {
        self.came_at.get(t..t.saturating_add(2)).map_or(&[], |range| &self.came[range[0]..range[1]])
    }

    /// The last step.
    pub fn last(&self) -> Step {
        self.last
    }

    /// The vertices that were the source of an edge in any step up to `t`, in the order in which they became
    /// so.
    pub fn seen_sources(&self, t: Step) -> &[Vertex] {
        self.seen_sources.by(t)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::super::fixture::{Steps, VERTICES, history, steps};
    use super::*;

    /// The definition: look at every step.
    fn plain(steps: &Steps, pair: (Vertex, Vertex), t: Step) -> Facts {
        let there: Vec<u32> = (0..=t as u32).filter(|&step| steps[step as usize].contains(&pair)).collect();
        Facts {
            present_now: there.last() == Some(&(t as u32)),
            steps_present: there.len() as u32,
            steps_since: there.last().map(|last| t as u32 - last),
            first_seen: there.first().copied(),
        }
    }

    /// Every answer as of `t`, in one list that can be compared.
    fn answers(history: &History, t: Step) -> impl PartialEq + std::fmt::Debug {
        let vertices = || 0..VERTICES as Vertex;
        let facts: Vec<_> =
            vertices().flat_map(|u| vertices().map(move |v| history.facts(u, v, t))).collect();
        let of: Vec<Vec<_>> = vertices().map(|u| history.facts_of(u, t).collect()).collect();
        let known: Vec<_> = vertices().map(|u| history.known_targets(u, t).to_vec()).collect();
        let seen = [history.seen_targets(t).to_vec(), history.seen_sources(t).to_vec()];
        (facts, of, known, seen)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn answers_are_those_of_the_steps_themselves(steps in steps(1..8)) {
            let history = history(&steps);
            for t in 0..steps.len() {
                let past: BTreeSet<_> = steps[..=t].iter().flatten().copied().collect();
                for source in 0..VERTICES as Vertex {
                    for target in 0..VERTICES as Vertex {
                        prop_assert_eq!(history.facts(source, target, t), plain(&steps, (source, target), t));
                    }
                    let targets: Vec<_> =
                        past.iter().filter(|(from, _)| *from == source).map(|&(_, target)| target).collect();
                    let facts: Vec<_> =
                        targets.iter().map(|&target| (target, plain(&steps, (source, target), t))).collect();
                    prop_assert_eq!(history.facts_of(source, t).collect::<Vec<_>>(), facts);
                    let mut known = targets;
                    known.sort_by_key(|&target| (plain(&steps, (source, target), t).first_seen, target));
                    prop_assert_eq!(history.known_targets(source, t), known);
                }
                let first = |end: &dyn Fn(&(Vertex, Vertex)) -> Vertex| {
                    let mut seen = Vec::new();
                    for step in &steps[..=t] {
                        let new: BTreeSet<_> = step.iter().map(end).filter(|v| !seen.contains(v)).collect();
                        seen.extend(new);
                    }
                    seen
                };
                prop_assert_eq!(history.seen_targets(t), first(&|pair| pair.1));
                let came = |pair: &&(Vertex, Vertex)| t == 0 || !steps[t - 1].contains(pair);
                let mut came: Vec<Vertex> = steps[t].iter().filter(came).map(|pair| pair.1).collect();
                came.sort_unstable();
                let mut found = history.came(t).to_vec();
                found.sort_unstable();
                prop_assert_eq!(found, came);
                for count in 0..4 {
                    // Step after step until there are enough.
                    let (from, mut to) = (history.seen_targets(t).len(), t);
                    while history.seen_targets(to).len() - from < count && to + 1 < steps.len() {
                        to += 1;
                    }
                    prop_assert_eq!(history.next_targets(t, count), &history.seen_targets(to)[from..]);
                }
                prop_assert_eq!(history.seen_sources(t), first(&|pair| pair.0));
            }
        }

        #[test]
        fn later_steps_change_nothing(past in steps(1..5), one in steps(0..4), other in steps(0..4)) {
            let now = past.len() - 1;
            let one = history(&[&past[..], &one].concat());
            let other = history(&[&past[..], &other].concat());
            for t in 0..=now {
                prop_assert_eq!(answers(&one, t), answers(&other, t));
            }
        }
    }

    #[test]
    fn beyond_the_last_step_the_last_one_counts_and_strangers_have_no_past() {
        let history = history(&vec![BTreeSet::from([(0, 1)]), BTreeSet::from([(0, 1), (2, 3)])]);
        assert_eq!(history.facts(0, 1, 9), history.facts(0, 1, 1));
        assert_eq!(history.facts(0, 1, 9).steps_present, 2);
        assert_eq!(history.seen_targets(9), [1, 3]);
        assert_eq!(history.facts(77, 1, 1), Facts::default());
        assert_eq!(history.facts(0, 77, 1), Facts::default());
        assert_eq!(history.facts_of(u32::MAX, 1).count(), 0);
    }

    #[test]
    fn a_store_without_steps_has_no_past() {
        let history = history(&Vec::new());
        assert_eq!(history.facts(0, 1, 0), Facts::default());
        assert!(history.seen_targets(0).is_empty() && history.known_targets(0, 0).is_empty());
    }
}
