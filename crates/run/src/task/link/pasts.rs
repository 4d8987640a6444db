//! What is known of pairs as of a step: their own history, and what the steps before it say of their ends.
//!
//! What EdgeBank, the most popular targets and common neighbours know ([`super::rules`]), the decoder knows,
//! too: joint facts of a pair are what puts models of events ahead of models of snapshots (UTG, Huang et al.,
//! arXiv 2407.12269).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use kymo_graph::{Step, Store, Vertex};

use super::history::{Facts, History};
use super::rules::{CommonNeighbours, Past, Popular};
use crate::data::largest_step;
use crate::error::Result;

/// Facts of a pair; the last one is of its target alone.
pub const FACTS: usize = 8;

/// Bytes of what steps say that are kept for later epochs.
const KEPT: usize = 64 << 20;

/// The pasts of pairs, in both directions.
pub struct Pasts {
    /// Of source and target.
    pub along: History,
    /// Of target and source; in an undirected graph it would tell nothing new.
    pub(super) against: Option<History>,
    /// Steps that count as recent.
    window: usize,
    vertices: usize,
    lately: Mutex<BTreeMap<Step, Arc<Lately>>>,
    /// Bytes of what all steps say, at most.
    most: usize,
}

/// What the last steps up to one say.
struct Lately {
    popular: Popular,
    common: CommonNeighbours,
}

impl Pasts {
    /// The pasts of the pairs of a store, where this many steps count as recent.
    pub fn new(store: &Store, window: usize) -> Result<Pasts> {
        let against = if store.manifest().directed { Some(History::against(store)?) } else { None };
        let (along, lately, vertices) = (History::new(store)?, Mutex::default(), store.vertices());
        // Counts and places for each vertex, and both ends of every pair of the last steps.
        let steps = store.steps();
        let pairs = (largest_step(store)? as usize).saturating_mul(window.min(steps));
        let most = pairs.saturating_mul(8).saturating_add(12 * vertices + 16).saturating_mul(steps);
        Ok(Pasts { along, against, window, vertices, lately, most })
    }

    /// Bytes that they take at most.
    pub fn bytes(&self) -> u64 {
        self.most.min(KEPT) as u64 + self.along.bytes() + self.against.as_ref().map_or(0, History::bytes)
    }

    /// What is known as of step `t`.
    pub fn at(&self, t: Step) -> AsOf<'_> {
        let kept = || self.lately.lock().unwrap_or_else(PoisonError::into_inner);
        let found = kept().get(&t).cloned();
        let lately = found.unwrap_or_else(|| {
            let (window, vertices) = (self.window, self.vertices);
            let past = Past { history: &self.along, t, window, memory: window, vertices };
            let made =
                Arc::new(Lately { popular: Popular::recently(past), common: CommonNeighbours::new(past) });
            let mut kept = kept();
            let bytes: usize = kept.values().map(|lately| lately.bytes()).sum();
            if bytes + made.bytes() > KEPT {
                kept.clear();
            }
            kept.insert(t, made.clone());
            made
        });
        AsOf { pasts: self, lately, t }
    }
}

impl Lately {
    fn bytes(&self) -> usize {
        self.popular.bytes() + self.common.bytes()
    }
}

/// What is known of pairs as of a step.
pub struct AsOf<'a> {
    pasts: &'a Pasts,
    lately: Arc<Lately>,
    t: Step,
}

impl AsOf<'_> {
    /// What is known of a pair, in numbers of about one.
    pub fn facts(&self, source: Vertex, target: Vertex) -> [f32; FACTS] {
        let mut facts = [0.0; FACTS];
        facts[..FACTS - 1].copy_from_slice(&self.of_pair(source, target));
        facts[FACTS - 1] = self.popularity(target);
        facts
    }

    /// What is known of a pair that is not its target's alone: mostly nothing.
    pub fn of_pair(&self, source: Vertex, target: Vertex) -> [f32; FACTS - 1] {
        let against = self.pasts.against.as_ref().map(|history| history.facts(source, target, self.t));
        let along = self.pasts.along.facts(source, target, self.t);
        numbers(along, against.unwrap_or_default(), self.lately.common.count(source, target), self.t)
    }

    /// How popular a target was lately.
    pub fn popularity(&self, target: Vertex) -> f32 {
        0.25 * self.lately.popular.count(target).ln_1p()
    }

    /// The vertices of which something is known together with `source`; some may be there several times.
    pub fn known(&self, source: Vertex) -> impl Iterator<Item = Vertex> + '_ {
        let t = self.t;
        let against = self.pasts.against.iter().flat_map(move |history| history.known_targets(source, t));
        let along = self.pasts.along.known_targets(source, t).iter();
        along.chain(against).copied().chain(self.lately.common.beyond(source))
    }
}

fn numbers(along: Facts, against: Facts, common: f32, t: Step) -> [f32; FACTS - 1] {
    let flag = |there: bool| if there { 1.0 } else { 0.0 };
    let recent = |facts: Facts| facts.steps_since.map_or(0.0, |since| 1.0 / (1.0 + since as f32));
    [
        flag(along.present_now),
        recent(along),
        along.steps_present as f32 / (t + 1) as f32,
        (along.steps_present as f32).ln_1p(),
        flag(against.present_now),
        recent(against),
        common.ln_1p(),
    ]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::fixture::{Steps, VERTICES, mirrored, steps, store};
    use super::*;

    fn all(past: &AsOf<'_>) -> Vec<[f32; FACTS]> {
        let vertices = || 0..VERTICES as Vertex;
        vertices().flat_map(|u| vertices().map(move |v| (u, v))).map(|(u, v)| past.facts(u, v)).collect()
    }

    #[test]
    fn facts_are_those_of_the_last_steps() {
        let folder = tempfile::tempdir().unwrap();
        // 0 and 1 are linked with 2 and 3 lately; that 4 was linked with both is long ago.
        let steps: Steps = vec![
            [(0, 4), (1, 4)].into(),
            [(0, 2), (1, 3)].into(),
            [(0, 2), (3, 0), (1, 2)].into(),
            [(0, 1)].into(),
        ];
        let pasts = Pasts::new(&store(folder.path(), &steps, true), 2).unwrap();
        let facts = pasts.at(2).facts(0, 1);
        assert_eq!(facts[..6], [0.0; 6], "they were never linked themselves");
        assert_eq!(facts[6], 2f32.ln_1p(), "2 and 3 are neighbours of both");
        assert_eq!(facts[7], 0.0, "1 was no target");
        let facts = pasts.at(2).facts(1, 2);
        assert_eq!((facts[0], facts[1], facts[3]), (1.0, 1.0, 1f32.ln_1p()));
        assert_eq!(facts[7], 0.25 * 3f32.ln_1p(), "2 was a target three times in two steps");
        assert_eq!(pasts.at(2).facts(0, 3)[4..6], [1.0, 1.0], "3 was linked to 0");
        let known: Vec<Vertex> = pasts.at(2).known(0).collect();
        assert!([1, 2, 3, 4].iter().all(|vertex| known.contains(vertex)), "{known:?}");
        // What is kept is counted, and no more than that where it is little.
        let kept: usize = pasts.lately.lock().unwrap().values().map(|lately| lately.bytes()).sum();
        let history = pasts.along.bytes() + pasts.against.as_ref().map_or(0, History::bytes);
        assert!((kept as u64..10_000).contains(&(pasts.bytes() - history)));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

        /// What comes later is not known, and what is kept is what would be made anew.
        #[test]
        fn nothing_is_known_of_later_steps(
            given in steps(1..5),
            later in steps(0..4),
            directed: bool,
            window in 1..4_usize,
        ) {
            let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
            let pasts = |which: usize, steps: Steps| {
                let steps = if directed { steps } else { mirrored(&steps) };
                Pasts::new(&store(folders[which].path(), &steps, directed), window).unwrap()
            };
            let (short, long) = (pasts(0, given.clone()), pasts(1, [given.clone(), later].concat()));
            for t in 0..given.len() {
                let expected = all(&short.at(t));
                prop_assert_eq!(&all(&long.at(t)), &expected);
                prop_assert_eq!(&all(&short.at(t)), &expected);
            }
        }
    }
}
