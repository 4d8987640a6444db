//! EdgeBank (Poursafaei et al., "Towards better evaluation for dynamic link prediction", NeurIPS 2022): a
//! baseline that learns nothing and remembers everything.

use kymo_graph::snapshot::{Step, Vertex};

use super::history::{Facts, History};

/// Predicts the edges it has seen, ever or lately.
#[derive(Clone, Copy, Debug)]
pub struct EdgeBank<'a> {
    history: &'a History,
    window: Option<u32>,
}

impl<'a> EdgeBank<'a> {
    /// Remembers every edge.
    pub fn new(history: &'a History) -> EdgeBank<'a> {
        EdgeBank { history, window: None }
    }

    /// Remembers the edges of the last `window` steps, the step asked about included.
    pub fn windowed(history: &'a History, window: u32) -> EdgeBank<'a> {
        EdgeBank { history, window: Some(window) }
    }

    fn remembers(&self, facts: Facts) -> bool {
        facts.steps_since.is_some_and(|since| self.window.is_none_or(|window| since < window))
    }

    /// 1 if the pair is remembered at step `t`, else 0.
    pub fn score(&self, source: Vertex, target: Vertex, t: Step) -> f32 {
        f32::from(u8::from(self.remembers(self.history.facts(source, target, t))))
    }

    /// Writes the scores of `source` against the vertices `0..out.len()` as of step `t`.
    pub fn row(&self, source: Vertex, t: Step, out: &mut [f32]) {
        out.fill(0.0);
        for (target, facts) in self.history.facts_of(source, t) {
            if let (true, Some(score)) = (self.remembers(facts), out.get_mut(target as usize)) {
                *score = 1.0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::super::fixture::{VERTICES, history, steps};
    use super::*;

    #[test]
    fn a_window_forgets() {
        let steps = vec![BTreeSet::from([(0, 1)]), BTreeSet::from([(2, 3)]), BTreeSet::from([(4, 5)])];
        let history = history(&steps);
        let (all, window) = (EdgeBank::new(&history), EdgeBank::windowed(&history, 2));
        let of = |bank: &EdgeBank<'_>| [(0, 1), (2, 3), (4, 5), (1, 0)].map(|(u, v)| bank.score(u, v, 2));
        assert_eq!(of(&all), [1.0, 1.0, 1.0, 0.0]);
        assert_eq!(of(&window), [0.0, 1.0, 1.0, 0.0]);
        assert_eq!(of(&EdgeBank::windowed(&history, 0)), [0.0; 4]);
        assert_eq!(all.score(4, 5, 1), 0.0, "not yet seen");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn scores_are_those_of_sets(steps in steps(1..7), window in 0u32..5) {
            let history = history(&steps);
            let (all, last) = (EdgeBank::new(&history), EdgeBank::windowed(&history, window));
            for t in 0..steps.len() {
                for (bank, length) in [(all, t + 1), (last, window as usize)] {
                    let from = (t + 1).saturating_sub(length);
                    let memory: BTreeSet<_> = steps[from..=t].iter().flatten().copied().collect();
                    for source in 0..VERTICES as Vertex {
                        let mut row = [f32::NAN; VERTICES];
                        bank.row(source, t, &mut row);
                        for target in 0..VERTICES as Vertex {
                            let expected = if memory.contains(&(source, target)) { 1.0 } else { 0.0 };
                            prop_assert_eq!(bank.score(source, target, t), expected);
                            prop_assert_eq!(row[target as usize], expected);
                        }
                    }
                }
            }
        }
    }
}
