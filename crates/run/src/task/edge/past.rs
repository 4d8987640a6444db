//! What edges were worth so far: the last value of every pair, and of every vertex the sums over its edges.
//!
//! Made in one walk over the changes of a store, and no larger than those: edges that stay are counted by how
//! long they do. Every question is asked as of a step, and answered as if the steps behind it did not exist.

use kymo_graph::{Edge, Step, Store, Vertex};
use rayon::prelude::*;

use crate::error::Result;

/// The values of all edges at all steps, to be asked as of any step.
pub struct Past {
    pairs: PairValues,
    /// Of the edges that lead to a vertex.
    pub received: Sums,
    /// Of the edges that leave a vertex.
    pub given: Sums,
}

impl Past {
    /// Reads the past of a whole store. `encode` adds the numbers that stand for a value, `numbers` of them,
    /// times a factor to what is there.
    pub fn new(store: &Store, numbers: usize, encode: &dyn Fn(f32, f64, &mut [f64])) -> Result<Past> {
        let vertices = store.vertices();
        let (mut received, mut given) = (Adding::new(vertices, numbers), Adding::new(vertices, numbers));
        let mut values: Vec<(u64, u32, f32)> = Vec::new();
        let mut walk = store.walk();
        while let Some(stop) = walk.step()? {
            let step = stop.step as u32;
            let mut change = |edge: Edge, weight: f32, sign: f64| {
                received.change(edge.target(), step, sign, |numbers| encode(weight, sign, numbers));
                given.change(edge.source(), step, sign, |numbers| encode(weight, sign, numbers));
            };
            for &(edge, weight) in &stop.delta.removed {
                change(edge, weight, -1.0);
            }
            for &(edge, weight) in &stop.delta.added {
                finite(store, edge, stop.step, weight)?;
                change(edge, weight, 1.0);
                // Reversed, an edge orders by source and then by target.
                values.push((edge.reversed().key(), step, weight));
            }
            for changed in &stop.delta.reweighted {
                finite(store, changed.edge, stop.step, changed.after)?;
                change(changed.edge, changed.before, -1.0);
                change(changed.edge, changed.after, 1.0);
                values.push((changed.edge.reversed().key(), step, changed.after));
            }
            received.end_step();
            given.end_step();
        }
        values.par_sort_unstable_by_key(|&(pair, step, _)| (pair, step));
        let pairs = PairValues::new(vertices, &values);
        Ok(Past { pairs, received: received.finish(), given: given.finish() })
    }

    /// The last value of the pair as of step `t`.
    pub fn last(&self, source: Vertex, target: Vertex, t: Step) -> Option<f32> {
        self.pairs.last(source, target, t)
    }

    /// Bytes that it takes.
    pub fn bytes(&self) -> u64 {
        self.pairs.bytes() + self.received.bytes() + self.given.bytes()
    }
}

fn finite(store: &Store, edge: Edge, step: Step, weight: f32) -> Result<()> {
    if weight.is_finite() {
        return Ok(());
    }
    let ids = store.ids()?;
    let problem = format!(
        "found {weight} as the weight of the edge {} -> {} at step {step}, expected a finite number; mend \
         the input and ingest it again",
        ids.name(edge.source()),
        ids.name(edge.target())
    );
    Err(kymo_graph::Error::store(store.path(), problem).into())
}

/// The values of each pair in the order of time.
struct PairValues {
    /// The pairs of source `u` are `starts[u]..starts[u + 1]`, ascending by target.
    starts: Vec<usize>,
    targets: Vec<Vertex>,
    /// The values of pair `i` are `at[i]..at[i + 1]`.
    at: Vec<usize>,
    /// Since when each value holds.
    since: Vec<u32>,
    weights: Vec<f32>,
}

impl PairValues {
    fn new(vertices: usize, values: &[(u64, u32, f32)]) -> PairValues {
        let (mut starts, mut targets, mut at) = (vec![0; vertices + 1], Vec::new(), vec![0]);
        for of_pair in values.chunk_by(|a, b| a.0 == b.0) {
            starts[(of_pair[0].0 >> 32) as usize + 1] += 1;
            targets.push(of_pair[0].0 as Vertex);
            at.push(at.last().copied().unwrap_or(0) + of_pair.len());
        }
        (0..vertices).for_each(|source| starts[source + 1] += starts[source]);
        let since = values.iter().map(|&(_, step, _)| step).collect();
        PairValues { starts, targets, at, since, weights: values.iter().map(|value| value.2).collect() }
    }

    fn last(&self, source: Vertex, target: Vertex, t: Step) -> Option<f32> {
        let ends = self.starts.get(source as usize..source as usize + 2)?;
        let pair = ends[0] + self.targets[ends[0]..ends[1]].binary_search(&target).ok()?;
        let values = self.at[pair]..self.at[pair + 1];
        let known = self.since[values.clone()].partition_point(|&since| since as usize <= t);
        known.checked_sub(1).map(|last| self.weights[values.start + last])
    }

    fn bytes(&self) -> u64 {
        let fours = self.targets.len() + self.since.len() + self.weights.len();
        (8 * (self.starts.len() + self.at.len()) + 4 * fours) as u64
    }
}

/// What a step counts less than the one after it, where what is recent counts more.
const FADING: f64 = 0.9;

/// Of each vertex how many edges it had at all steps so far, and the sums of the numbers that stand for their
/// values; the same again where the further back a step lies, the less it counts.
pub struct Sums {
    numbers: usize,
    /// The entries of vertex `v` are `starts[v]..starts[v + 1]`, in the order of time.
    starts: Vec<usize>,
    /// The step of each entry.
    steps: Vec<u32>,
    /// Of each entry count and sums of all steps before, of the same with recent ones counting more, and of
    /// each step from then on.
    entries: Vec<f32>,
}

impl Sums {
    /// How many edges a vertex had at the steps up to `t`, counted at each; `sums` becomes their sums.
    pub fn up_to(&self, vertex: Vertex, t: Step, sums: &mut [f64]) -> f64 {
        sums.fill(0.0);
        let Some((steps, entry)) = self.entry(vertex, t) else { return 0.0 };
        let (before, now) = (entry, &entry[2 * (self.numbers + 1)..]);
        let total = |at: usize| f64::from(before[at]) + steps as f64 * f64::from(now[at]);
        sums.iter_mut().enumerate().for_each(|(at, sum)| *sum = total(at + 1));
        total(0)
    }

    /// The same where a step counts less than the one after it.
    pub fn lately(&self, vertex: Vertex, t: Step, sums: &mut [f64]) -> f64 {
        sums.fill(0.0);
        let Some((steps, entry)) = self.entry(vertex, t) else { return 0.0 };
        let (before, now) = entry[self.numbers + 1..].split_at(self.numbers + 1);
        let faded = FADING.powi(steps as i32);
        // The steps since the last change: a geometric series.
        let since = (1.0 - faded) / (1.0 - FADING);
        let total = |at: usize| faded * f64::from(before[at]) + since * f64::from(now[at]);
        sums.iter_mut().enumerate().for_each(|(at, sum)| *sum = total(at + 1));
        total(0)
    }

    /// The last entry of a vertex as of step `t`, and the steps since then, its own included.
    fn entry(&self, vertex: Vertex, t: Step) -> Option<(usize, &[f32])> {
        let ends = self.starts.get(vertex as usize..vertex as usize + 2)?;
        let begun = self.steps[ends[0]..ends[1]].partition_point(|&step| step as usize <= t);
        let entry = ends[0] + begun.checked_sub(1)?;
        let length = 3 * (self.numbers + 1);
        Some((t - self.steps[entry] as usize + 1, &self.entries[length * entry..][..length]))
    }

    fn bytes(&self) -> u64 {
        (8 * self.starts.len() + 4 * (self.steps.len() + self.entries.len())) as u64
    }
}

/// Sums while the steps are walked through.
struct Adding {
    /// Numbers of a vertex: its count, then its sums.
    each: usize,
    /// Of all steps before the last change.
    before: Vec<f64>,
    /// The same with recent ones counting more.
    lately: Vec<f64>,
    /// Of the current step.
    now: Vec<f64>,
    /// The step of the last change.
    since: Vec<u32>,
    /// The vertices that changed in this step, and which these are.
    changed: Vec<Vertex>,
    has_changed: Vec<bool>,
    entries: Vec<(Vertex, u32)>,
    written: Vec<f32>,
}

impl Adding {
    fn new(vertices: usize, numbers: usize) -> Adding {
        let each = numbers + 1;
        Adding {
            each,
            before: vec![0.0; vertices * each],
            lately: vec![0.0; vertices * each],
            now: vec![0.0; vertices * each],
            since: vec![0; vertices],
            changed: Vec::new(),
            has_changed: vec![false; vertices],
            entries: Vec::new(),
            written: Vec::new(),
        }
    }

    /// An edge of a vertex comes (`sign` 1) or goes (-1).
    fn change(&mut self, vertex: Vertex, step: u32, sign: f64, add: impl FnOnce(&mut [f64])) {
        let (at, place) = (vertex as usize, vertex as usize * self.each..(vertex as usize + 1) * self.each);
        if !std::mem::replace(&mut self.has_changed[at], true) {
            self.changed.push(vertex);
            let steps = step - std::mem::replace(&mut self.since[at], step);
            let now = &self.now[place.clone()];
            let both = self.before[place.clone()].iter_mut().zip(now);
            both.for_each(|(before, now)| *before += f64::from(steps) * now);
            let faded = FADING.powi(steps as i32);
            let since = (1.0 - faded) / (1.0 - FADING);
            let both = self.lately[place.clone()].iter_mut().zip(now);
            both.for_each(|(before, now)| *before = faded * *before + since * now);
        }
        let now = &mut self.now[place];
        now[0] += sign;
        add(&mut now[1..]);
    }

    fn end_step(&mut self) {
        for vertex in self.changed.drain(..) {
            self.has_changed[vertex as usize] = false;
            let place = vertex as usize * self.each..(vertex as usize + 1) * self.each;
            // What is left of sums without any edge is rounding.
            if self.now[place.start] == 0.0 {
                self.now[place.clone()].fill(0.0);
            }
            self.entries.push((vertex, self.since[vertex as usize]));
            for numbers in [&self.before, &self.lately, &self.now] {
                self.written.extend(numbers[place.clone()].iter().map(|&number| number as f32));
            }
        }
    }

    /// The entries by vertices.
    fn finish(self) -> Sums {
        let length = 3 * self.each;
        let mut order: Vec<usize> = (0..self.entries.len()).collect();
        // Stable, so that those of a vertex stay in the order of time.
        order.sort_by_key(|&entry| self.entries[entry].0);
        let mut starts = vec![0; self.since.len() + 1];
        self.entries.iter().for_each(|(vertex, _)| starts[*vertex as usize + 1] += 1);
        (0..self.since.len()).for_each(|vertex| starts[vertex + 1] += starts[vertex]);
        let written = |&entry: &usize| self.written[entry * length..][..length].iter().copied();
        Sums {
            numbers: self.each - 1,
            starts,
            steps: order.iter().map(|&entry| self.entries[entry].1).collect(),
            entries: order.iter().flat_map(written).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::super::fixture::{VERTICES, Weighted, store, weighted};
    use super::*;

    fn past(steps: &Weighted) -> Past {
        let folder = tempfile::tempdir().unwrap();
        let encode = |weight: f32, factor: f64, numbers: &mut [f64]| {
            numbers[0] += factor * f64::from(weight);
            numbers[1] += if weight < 0.0 { factor } else { 0.0 };
        };
        Past::new(&store(folder.path(), steps, true), 2, &encode).unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// The definition: look at every step.
        #[test]
        fn answers_are_those_of_the_steps_themselves(steps in weighted(1..8)) {
            let past = past(&steps);
            for t in 0..steps.len() {
                let mut last = BTreeMap::new();
                steps[..=t].iter().for_each(|step| last.extend(step.clone()));
                for vertex in 0..VERTICES as Vertex {
                    let all = || steps[..=t].iter().flatten();
                    for (sums, end) in [(&past.received, 1), (&past.given, 0)] {
                        let of = |pair: &(Vertex, Vertex)| if end == 1 { pair.1 } else { pair.0 };
                        let own: Vec<f32> =
                            all().filter(|(pair, _)| of(pair) == vertex).map(|(_, &weight)| weight).collect();
                        let mut found = [f64::NAN; 2];
                        prop_assert_eq!(sums.up_to(vertex, t, &mut found), own.len() as f64);
                        let sum: f64 = own.iter().map(|&weight| f64::from(weight)).sum();
                        let negative = own.iter().filter(|&&weight| weight < 0.0).count();
                        prop_assert!((found[0] - sum).abs() < 1e-4, "{} and {}", found[0], sum);
                        prop_assert_eq!(found[1], negative as f64);
                        let mut lately = [0.0; 2];
                        for step in &steps[..=t] {
                            let now = || step.iter().filter(|(pair, _)| of(pair) == vertex);
                            let sum: f64 = now().map(|(_, &weight)| f64::from(weight)).sum();
                            lately = [FADING * lately[0] + now().count() as f64, FADING * lately[1] + sum];
                        }
                        let count = sums.lately(vertex, t, &mut found);
                        prop_assert!((count - lately[0]).abs() < 1e-4, "{} and {}", count, lately[0]);
                        prop_assert!((found[0] - lately[1]).abs() < 1e-4, "{} and {}", found[0], lately[1]);
                    }
                    for other in 0..VERTICES as Vertex {
                        prop_assert_eq!(past.last(vertex, other, t), last.get(&(vertex, other)).copied());
                    }
                }
            }
        }

        #[test]
        fn later_steps_change_nothing(
            before in weighted(1..5),
            one in weighted(0..4),
            other in weighted(0..4),
        ) {
            let answers = |after: &Weighted| {
                let past = past(&[&before[..], after].concat());
                let mut all = Vec::new();
                let vertices = || 0..VERTICES as Vertex;
                for (u, v) in vertices().flat_map(|u| vertices().map(move |v| (u, v))) {
                    let mut sums = [0.0; 2];
                    let count = past.received.up_to(v, before.len() - 1, &mut sums);
                    all.push((past.last(u, v, before.len() - 1), count.to_bits(), sums.map(f64::to_bits)));
                }
                all
            };
            prop_assert_eq!(answers(&one), answers(&other));
        }
    }

    #[test]
    fn strangers_have_no_past() {
        let past = past(&vec![BTreeMap::from([((0, 1), 2.0)])]);
        let mut sums = [1.0; 2];
        assert_eq!((past.last(0, 99, 0), past.last(99, 0, 0)), (None, None));
        assert_eq!((past.received.up_to(99, 0, &mut sums), sums), (0.0, [0.0; 2]));
        assert!(past.bytes() > 0);
    }
}
