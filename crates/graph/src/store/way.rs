//! The way from one step of a store to another: over the changes of the steps between, from where one stands
//! or from the nearest step that is stored whole, whichever lists fewer edges.

use std::ops::Range;

use super::Store;
use super::change::EdgeChange;
use crate::error::Result;
use crate::snapshot::Step;

/// How a step is reached: over the changes of consecutive steps.
pub struct Way {
    /// From this step, which is stored whole, or else from where one stands.
    pub whole: Option<Step>,
    /// The steps whose changes lie on the way.
    pub steps: Range<Step>,
    /// Against the course of time.
    pub back: bool,
}

impl Way {
    /// The way from where one stands, if anywhere, to step `t` over the fewest edges.
    pub fn to(store: &Store, at: Option<Step>, t: Step) -> Result<Way> {
        let mut listed = 0;
        for step in (0..=t).rev() {
            if at == Some(step) {
                return Ok(Way { whole: None, steps: step + 1..t + 1, back: false });
            }
            let change = store.edge_change(step)?;
            listed += change.len();
            if let EdgeChange::Whole(_) = change {
                return Ok(match at {
                    Some(at) if at > t && is_near(store, t + 1..at + 1, listed)? => {
                        Way { whole: None, steps: t + 1..at + 1, back: true }
                    }
                    _ => Way { whole: Some(step), steps: step + 1..t + 1, back: false },
                });
            }
        }
        Err(store.no_whole())
    }

    /// Takes those of the next changes that are passed over at once. Together they list no more than `most`
    /// edges, or are one: to combine more than there are would take more memory than the edges do.
    pub fn next(&mut self, store: &Store, most: usize) -> Result<Option<Way>> {
        let (steps, mut listed, mut count) = (self.steps.clone(), 0, 0);
        while count < steps.len() {
            let step = if self.back { steps.end - 1 - count } else { steps.start + count };
            listed += store.edge_change(step)?.len();
            if count > 0 && listed > most {
                break;
            }
            count += 1;
        }
        let (some, rest) = match self.back {
            true => (steps.end - count..steps.end, steps.start..steps.end - count),
            false => (steps.start..steps.start + count, steps.start + count..steps.end),
        };
        self.steps = rest;
        Ok((count > 0).then_some(Way { whole: None, steps: some, back: self.back }))
    }
}

/// Whether these steps are stored as changes, of fewer than `most` edges.
fn is_near(store: &Store, steps: Range<Step>, most: usize) -> Result<bool> {
    let mut listed = 0;
    for step in steps {
        let change = store.edge_change(step)?;
        listed += change.len();
        if matches!(change, EdgeChange::Whole(_)) || listed >= most {
            return Ok(false);
        }
    }
    Ok(true)
}
