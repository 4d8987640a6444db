//! How long an edge stays: edge life (DynaHB), growing graphs, and edges that are taken back.
//!
//! An edge stays for `k` steps after its last row. Its weight is what the rows of the last `k + 1` steps say
//! together, as though the step's window reached that far back. With `k = 0` a step is its own rows; with
//! [`Life::Forever`] the graph only grows, except for edges that are taken back.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::fold::{Folded, WeightRule, merge_two};
use crate::error::{Error, Result};
use crate::snapshot::{Edge, Snapshot};

/// How many steps an edge stays after its last row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Life {
    /// This number.
    Steps(usize),
    /// All that follow.
    Forever,
}

impl FromStr for Life {
    type Err = Error;

    fn from_str(text: &str) -> Result<Life> {
        match text {
            "forever" => Ok(Life::Forever),
            _ => text.parse().map(Life::Steps).map_err(|_| {
                let expected = "a number of steps, 0 for none, or 'forever'";
                Error::settings("--edge-life", format!("found '{text}', expected {expected}"))
            }),
        }
    }
}

/// Carries edges from step to step.
pub struct Carry {
    life: Life,
    rule: WeightRule,
    recent: VecDeque<Vec<Folded>>,
    all: Vec<Folded>,
}

impl Carry {
    /// Nothing carried yet.
    pub fn new(life: Life, rule: WeightRule) -> Self {
        Carry { life, rule, recent: VecDeque::new(), all: Vec::new() }
    }

    /// The graph of the next step, whose own rows are `own`.
    pub fn step(&mut self, own: Vec<Folded>) -> Result<Snapshot<'static>> {
        match self.life {
            Life::Steps(0) => Ok(snapshot(&own)),
            Life::Steps(steps) => {
                if self.recent.len() > steps {
                    self.recent.pop_front();
                }
                self.recent.push_back(own);
                let mut whole = Vec::new();
                for own in &self.recent {
                    whole = merge_two(whole, own, self.rule);
                }
                Ok(snapshot(&whole))
            }
            Life::Forever => {
                if let Some(edge) = self.missing(&own) {
                    let (u, v) = (edge.source(), edge.target());
                    let problem = format!(
                        "takes back the edge {u} -> {v} (as numbered in the store), which is not there"
                    );
                    return Err(Error::settings("input", format!("a step {problem}")));
                }
                let whole = merge_two(std::mem::take(&mut self.all), &own, self.rule);
                self.all = whole.into_iter().filter(Folded::is_present).collect();
                Ok(snapshot(&self.all))
            }
        }
    }

    /// An edge that this step takes back although it was neither carried nor made by the step itself.
    fn missing(&self, own: &[Folded]) -> Option<Edge> {
        let mut taken = own.iter().filter(|entry| !entry.is_present()).map(|entry| entry.edge);
        taken.find(|&edge| self.all.binary_search_by_key(&edge, |entry| entry.edge).is_err())
    }
}

fn snapshot(folded: &[Folded]) -> Snapshot<'static> {
    let present = || folded.iter().filter(|entry| entry.is_present());
    let weights = present().any(|entry| entry.value as f32 != 1.0);
    Snapshot {
        edges: present().map(|entry| entry.edge).collect(),
        weights: weights.then(|| Cow::Owned(present().map(|entry| entry.value as f32).collect())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cut::Folder;
    use crate::event::Event;
    use proptest::prelude::*;

    proptest! {
        /// The oracle folds the rows of all steps in reach anew, as one step.
        #[test]
        fn a_step_is_the_fold_of_all_rows_in_reach(
            rows in prop::collection::vec((0u32..4, 0u32..4, 0usize..8, 1u8..4), 0..60),
            life in prop_oneof![(0usize..5).prop_map(Life::Steps), Just(Life::Forever)],
        ) {
            let folder = Folder {
                rule: WeightRule::Sum,
                undirected: false,
                drop_self_loops: false,
                ranks: &[0, 1, 2, 3],
            };
            let mut carry = Carry::new(life, folder.rule);
            let select = |from: usize, to: usize| -> Vec<Event> {
                let mut chosen: Vec<_> = rows.iter().filter(|row| (from..=to).contains(&row.2)).collect();
                chosen.sort_by_key(|row| row.2);
                chosen.iter().map(|row| Event::new(row.0, row.1, row.2 as f64, row.3.into())).collect()
            };
            for step in 0..8 {
                let carried = carry.step(folder.fold(&select(step, step))).unwrap();
                let from = match life { Life::Steps(k) => step.saturating_sub(k), Life::Forever => 0 };
                prop_assert_eq!(carried, snapshot(&folder.fold(&select(from, step))));
            }
        }
    }

    #[test]
    fn an_edge_taken_back_is_gone_and_cannot_be_taken_back_again() {
        let folder =
            Folder { rule: WeightRule::Last, undirected: false, drop_self_loops: false, ranks: &[0, 1] };
        let mut carry = Carry::new(Life::Forever, folder.rule);
        let (add, remove) = (Event::new(0, 1, 0.0, 1.0), Event::removal(0, 1, 0.0));
        assert_eq!(carry.step(folder.fold(&[add])).unwrap().len(), 1);
        assert_eq!(carry.step(vec![]).unwrap().len(), 1);
        assert_eq!(carry.step(folder.fold(&[remove, add, remove])).unwrap().len(), 0);
        assert_eq!(carry.step(folder.fold(&[add])).unwrap().len(), 1);
        assert_eq!(carry.step(folder.fold(&[remove])).unwrap().len(), 0);
        assert!(
            carry
                .step(folder.fold(&[remove]))
                .unwrap_err()
                .to_string()
                .contains("takes back the edge 0 -> 1")
        );
    }
}
