//! The targets of recent steps, to draw absent ones from: EvolveGCN's authors take those of the window
//! (Pareja et al., AAAI 2020).

use kymo_graph::snapshot::{Step, Vertex};
use kymo_graph::store::Store;

use crate::error::Result;

/// The targets of every step.
///
/// Its size is at most that of a number for every vertex and step; it is made only where it is asked for.
#[derive(Clone, Debug)]
pub struct Recent {
    /// How many steps are recent.
    steps: usize,
    /// Those of step `t` are `targets[starts[t]..starts[t + 1]]`, ascending.
    starts: Vec<usize>,
    targets: Vec<Vertex>,
}

impl Recent {
    /// Reads the targets of all steps of a store, `count` of which will be recent.
    pub fn new(store: &Store, steps: usize) -> Result<Recent> {
        let (mut starts, mut targets) = (vec![0], Vec::new());
        let mut edges_to = vec![0u32; store.vertices()];
        let mut walk = store.walk();
        while let Some(stop) = walk.step()? {
            stop.delta.added.iter().for_each(|(edge, _)| edges_to[edge.target() as usize] += 1);
            stop.delta.removed.iter().for_each(|(edge, _)| edges_to[edge.target() as usize] -= 1);
            targets.extend((0..).zip(&edges_to).filter(|(_, count)| **count > 0).map(|(vertex, _)| vertex));
            starts.push(targets.len());
        }
        Ok(Recent { steps, starts, targets })
    }

    /// The targets of the recent steps up to `t`, as often as there are steps that they were one in.
    pub fn targets(&self, t: Step) -> &[Vertex] {
        let end = (t + 1).min(self.starts.len() - 1);
        &self.targets[self.starts[end.saturating_sub(self.steps)]..self.starts[end]]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::super::fixture::{edges, steps, store};
    use super::super::{History, Sampler};
    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn targets_are_those_of_the_last_steps(
            steps in steps(1..6),
            count in 1usize..4,
            seed in any::<u64>(),
        ) {
            let folder = tempfile::tempdir().unwrap();
            let store = store(folder.path(), &steps, true);
            let (history, recent) = (History::new(&store).unwrap(), Recent::new(&store, count).unwrap());
            for t in 0..steps.len() {
                let mut expected = Vec::new();
                for step in &steps[(t + 1).saturating_sub(count)..=t] {
                    expected.extend(step.iter().map(|pair| pair.1).collect::<BTreeSet<_>>());
                }
                prop_assert_eq!(recent.targets(t), &expected);
                let sampler =
                    Sampler { history: &history, recent: Some(&recent), vertices: store.vertices(), seed };
                let (links, mut absent) = (edges(&steps[t]), Vec::new());
                sampler.absent_targets(t, &[], &links, 5, 0.0, &mut absent);
                prop_assert!(expected.is_empty() || absent.iter().all(|target| expected.contains(target)));
            }
            prop_assert_eq!(recent.targets(steps.len() + 3), recent.targets(steps.len() - 1));
        }
    }
}
