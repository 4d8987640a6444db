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

/// An edge that makes a step impossible, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Impossible {
    /// The edge, as numbered in the store.
    pub edge: Edge,
    /// What is wrong with it.
    pub why: Why,
}

/// What can be wrong with an edge.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Why {
    /// It is taken back although it is not there.
    NotThere,
    /// Its weights sum to this, which is more than a weight can be.
    Sum(f64),
}

/// Carries edges from step to step.
pub struct Carry {
    life: Life,
    rule: WeightRule,
    /// The rows of the steps in reach that have any, and the number of each: most steps of a long life may be
    /// empty.
    recent: VecDeque<(usize, Vec<Folded>)>,
    next: usize,
    all: Vec<Folded>,
}

impl Carry {
    /// Nothing carried yet.
    pub fn new(life: Life, rule: WeightRule) -> Self {
        Carry { life, rule, recent: VecDeque::new(), next: 0, all: Vec::new() }
    }

    /// The graph of the next step, whose own rows are `own`.
    pub fn step(&mut self, own: Vec<Folded>) -> Result<Snapshot<'static>, Impossible> {
        match self.life {
            Life::Steps(0) => snapshot(&own),
            Life::Steps(steps) => {
                let now = self.next;
                self.next += 1;
                self.recent.retain(|(then, _)| then.saturating_add(steps) >= now);
                if !own.is_empty() {
                    self.recent.push_back((now, own));
                }
                let mut whole = Vec::new();
                for (_, own) in &self.recent {
                    whole = merge_two(whole, own, self.rule);
                }
                snapshot(&whole)
            }
            Life::Forever => {
                if let Some(edge) = self.missing(&own) {
                    return Err(Impossible { edge, why: Why::NotThere });
                }
                let whole = merge_two(std::mem::take(&mut self.all), &own, self.rule);
                self.all = whole.into_iter().filter(Folded::is_present).collect();
                snapshot(&self.all)
            }
        }
    }

    /// An edge that this step takes back although it was neither carried nor made by the step itself.
    fn missing(&self, own: &[Folded]) -> Option<Edge> {
        let mut taken = own.iter().filter(|entry| !entry.is_present()).map(|entry| entry.edge);
        taken.find(|&edge| self.all.binary_search_by_key(&edge, |entry| entry.edge).is_err())
    }
}

/// The edges that are there. Sums are exact so far; this is where they become weights.
fn snapshot(folded: &[Folded]) -> Result<Snapshot<'static>, Impossible> {
    let present = || folded.iter().filter(|entry| entry.is_present());
    if let Some(entry) = present().find(|entry| !(entry.value as f32).is_finite()) {
        return Err(Impossible { edge: entry.edge, why: Why::Sum(entry.value) });
    }
    let weights = present().any(|entry| entry.value as f32 != 1.0);
    Ok(Snapshot {
        edges: present().map(|entry| entry.edge).collect(),
        weights: weights.then(|| Cow::Owned(present().map(|entry| entry.value as f32).collect())),
    })
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
                prop_assert_eq!(carried, snapshot(&folder.fold(&select(from, step))).unwrap());
            }
        }
    }

    /// Steps without rows are not gone through again in every step after them: a long life over very many
    /// steps took time by their square.
    #[test]
    fn empty_steps_are_not_kept() {
        let folder =
            Folder { rule: WeightRule::Sum, undirected: false, drop_self_loops: false, ranks: &[0, 1] };
        let mut carry = Carry::new(Life::Steps(usize::MAX), folder.rule);
        assert_eq!(carry.step(folder.fold(&[Event::new(0, 1, 0.0, 1.0)])).unwrap().len(), 1);
        assert!((0..1000).all(|_| carry.step(vec![]).is_ok_and(|step| step.len() == 1)));
        assert_eq!((carry.recent.len(), carry.next), (1, 1001));
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
        let impossible = Impossible { edge: Edge::new(0, 1), why: Why::NotThere };
        assert_eq!(carry.step(folder.fold(&[remove])), Err(impossible));
    }

    #[test]
    fn a_sum_that_no_weight_can_be_is_refused_however_it_comes_about() {
        let fold = |undirected, rows: &[(u32, u32, f32)]| {
            let folder = Folder { rule: WeightRule::Sum, undirected, drop_self_loops: false, ranks: &[0, 1] };
            folder.fold(&rows.iter().map(|&(u, v, weight)| Event::new(u, v, 0.0, weight)).collect::<Vec<_>>())
        };
        let refused = |result: Result<Snapshot<'static>, Impossible>| match result {
            Err(Impossible { edge, why: Why::Sum(sum) }) => (edge, (sum / 1e37).round()),
            other => panic!("{other:?}"),
        };
        // In one step, in two directions of an undirected edge, and over the life of an edge.
        let own = || Carry::new(Life::Steps(0), WeightRule::Sum);
        let one = fold(false, &[(0, 1, 2e38), (0, 1, 2e38)]);
        assert_eq!(refused(own().step(one)), (Edge::new(0, 1), 40.0));
        let both = fold(true, &[(0, 1, -2e38), (1, 0, -2e38)]);
        assert_eq!(refused(own().step(both)), (Edge::new(1, 0), -40.0));
        for life in [Life::Steps(1), Life::Forever] {
            let mut carry = Carry::new(life, WeightRule::Sum);
            carry.step(fold(false, &[(0, 1, 2e38)])).unwrap();
            assert_eq!(refused(carry.step(fold(false, &[(0, 1, 3e38)]))), (Edge::new(0, 1), 50.0));
        }
        // What passes the bound on the way but ends below it is a weight.
        let back = fold(false, &[(0, 1, 2e38), (0, 1, 2e38), (0, 1, -3e38)]);
        assert!(own().step(back).is_ok());
    }
}
