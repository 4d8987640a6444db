//! Rules that know nothing about links: what they say of a target is the same whatever the source is. Where
//! one does well, the way of judging gives away which targets are asked about, and what a model reaches by it
//! says little. A new one is its function and a line in [`ALL`].
//!
//! `new-first` and `popular` are of their kind, and baselines as well ([`super::rules`]).

use kymo_graph::snapshot::Vertex;

use super::rules::{self, Kind, Past, Popular, Rule};
use crate::random::Random;

/// The attack that ranks pairs at random: what chance comes to.
pub const CHANCE: &str = "random";

/// Baselines that say the same of a target whatever the source is.
const BASELINES: [&str; 2] = ["new-first", "popular"];

/// Every attack that is no baseline.
pub const ALL: &[Kind] = &[
    Kind { name: CHANCE, at: |past| Box::new(Chance(Random::new(0xC4A9).stream(past.t as u64))) },
    Kind { name: "degree", at: |past| Box::new(ByTarget(degrees(past))) },
    Kind { name: "low-ids-first", at: |past| each(past, |target| -(target as f32)) },
    Kind { name: "high-ids-first", at: |past| each(past, |target| target as f32) },
    Kind { name: "no-sources-first", at: |past| Box::new(ByTarget(no_sources(past))) },
    Kind { name: "new-then-popular", at: |past| new_then(past, &Popular::recently(past)) },
    Kind { name: "new-then-low-ids", at: |past| new_then(past, &*each(past, |target| -(target as f32))) },
    Kind { name: "new-then-high-ids", at: |past| new_then(past, &*each(past, |target| target as f32)) },
];

/// The names of all attacks, those that are baselines included.
pub fn names() -> Vec<&'static str> {
    ALL.iter().map(|kind| kind.name).chain(BASELINES).collect()
}

/// The rule of this name, among baselines and attacks.
pub fn find(name: &str) -> Option<&'static Kind> {
    rules::ALL.iter().chain(ALL).find(|kind| kind.name == name)
}

/// Whether an attack reaches much, by a metric of which more is better: at least half of what the model gains
/// over chance, and not next to nothing: as much again as chance has, or a tenth of what is left above it,
/// whichever is less. Without a model, a tenth of what is left above chance.
pub fn stands_out(reached: f64, chance: f64, model: Option<f64>) -> bool {
    let (gain, tenth) = (reached - chance, (1.0 - chance) / 10.0);
    match model {
        Some(model) => gain >= chance.min(tenth) && gain >= (model - chance) / 2.0,
        None => gain >= tenth,
    }
}

/// Pairs at random: another order for every source and step, so that no target is lucky for long.
struct Chance(Random);

impl Rule for Chance {
    fn score(&self, source: Vertex, target: Vertex) -> f32 {
        self.0.stream(source.into()).share(target.into()) as f32
    }
}

/// The score of each target.
struct ByTarget(Vec<f32>);

impl Rule for ByTarget {
    fn score(&self, _: Vertex, target: Vertex) -> f32 {
        self.0.get(target as usize).copied().unwrap_or(0.0)
    }
}

fn each<'a>(past: Past<'a>, score: impl Fn(Vertex) -> f32) -> Box<dyn Rule + 'a> {
    Box::new(ByTarget((0..past.vertices as Vertex).map(score).collect()))
}

/// How many different targets and sources a vertex had so far.
fn degrees(past: Past<'_>) -> Vec<f32> {
    let mut degrees = vec![0.0; past.vertices];
    for (source, target, _) in past.history.pairs_within(0..past.t + 1) {
        degrees[source as usize] += 1.0;
        degrees[target as usize] += 1.0;
    }
    degrees
}

/// Vertices that never had a target themselves: one side of a graph that has two.
fn no_sources(past: Past<'_>) -> Vec<f32> {
    let mut scores = vec![1.0; past.vertices];
    past.history.seen_sources(past.t).iter().for_each(|&source| scores[source as usize] = 0.0);
    scores
}

/// Targets that were never one before, and then the others; both as another rule has them.
fn new_then<'a>(past: Past<'a>, then: &dyn Rule) -> Box<dyn Rule + 'a> {
    // Above all that are not new, whatever the other rule says of those.
    let scores: Vec<f32> = (0..past.vertices as Vertex).map(|target| then.score(0, target)).collect();
    let (low, high) = scores.iter().fold((0.0f32, 0.0f32), |(low, high), &x| (low.min(x), high.max(x)));
    let mut all: Vec<f32> = scores.iter().map(|score| score + (high - low + 1.0)).collect();
    past.history.seen_targets(past.t).iter().for_each(|&seen| all[seen as usize] = scores[seen as usize]);
    Box::new(ByTarget(all))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::super::fixture::{Steps, VERTICES, history, steps};
    use super::*;

    /// Whether the first target is to rank above the second, by the definitions.
    fn above(name: &str, steps: &Steps, t: usize, [u, v]: [Vertex; 2]) -> Option<bool> {
        let past: BTreeSet<_> = steps[..=t].iter().flatten().copied().collect();
        let new = |target: Vertex| !past.iter().any(|pair| pair.1 == target);
        let popular = |v: Vertex| steps[..=t].iter().flatten().filter(|pair| pair.1 == v).count();
        let degree = |v: Vertex| past.iter().map(|&(a, b)| usize::from(a == v) + usize::from(b == v)).sum();
        let degree = |v: Vertex| -> usize { degree(v) };
        let no_source = |v: Vertex| !past.iter().any(|pair| pair.0 == v);
        Some(match name {
            "degree" => degree(u) > degree(v),
            "low-ids-first" => u < v,
            "high-ids-first" => u > v,
            "no-sources-first" => no_source(u) && !no_source(v),
            "new-then-popular" => (new(u), popular(u)) > (new(v), popular(v)),
            "new-then-low-ids" => (new(u), -i64::from(u)) > (new(v), -i64::from(v)),
            "new-then-high-ids" => (new(u), u) > (new(v), v),
            CHANCE => return None,
            other => panic!("{other} has no definition here"),
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn targets_are_ordered_as_defined(steps in steps(1..7)) {
            let history = history(&steps);
            for (t, kind) in (0..steps.len()).flat_map(|t| ALL.iter().map(move |kind| (t, kind))) {
                let past = Past { history: &history, t, window: 99, memory: 99, vertices: VERTICES };
                let rule = (kind.at)(past);
                for u in 0..VERTICES as Vertex {
                    for v in 0..VERTICES as Vertex {
                        let found = rule.score(3, u) > rule.score(3, v);
                        if let Some(expected) = above(kind.name, &steps, t, [u, v]) {
                            prop_assert_eq!(rule.score(3, u), rule.score(5, u), "sources do not count");
                            prop_assert_eq!(found, expected, "{} {:?}", kind.name, (u, v));
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn chance_orders_at_random_and_names_are_found_once() {
        let history = history(&vec![BTreeSet::from([(0, 1)])]);
        let rule =
            (find(CHANCE).unwrap().at)(Past { history: &history, t: 0, window: 1, memory: 1, vertices: 999 });
        let ascends = (1..999).filter(|&v| rule.score(0, v - 1) < rule.score(0, v)).count();
        let agree = (1..999).filter(|&v| (rule.score(0, v) < 0.5) == (rule.score(1, v) < 0.5)).count();
        assert!([ascends, agree].iter().all(|count| (400..600).contains(count)));
        for name in names() {
            assert!(find(name).is_some() && names().iter().filter(|other| **other == name).count() == 1);
        }
    }

    #[test]
    fn much_is_half_of_what_a_model_gains_and_not_next_to_nothing() {
        // By ranks chance has little, by areas a half.
        for (reached, chance, model, expected) in [
            (0.4, 0.05, Some(0.6), true),
            (0.2, 0.05, Some(0.6), false),
            (0.6, 0.05, Some(0.1), true),
            (0.06, 0.05, Some(0.05), false),
            (0.004, 0.001, Some(0.005), true),
            (0.0015, 0.001, Some(0.001), false),
            (0.8, 0.5, Some(0.9), true),
            (0.54, 0.5, Some(0.52), false),
            (0.15, 0.05, None, true),
            (0.1, 0.05, None, false),
        ] {
            assert_eq!(stands_out(reached, chance, model), expected, "{reached} {chance} {model:?}");
        }
    }
}
