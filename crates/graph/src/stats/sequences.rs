//! The lengths of the sequences that a model of time goes through (DGC, section 2.2.1 and figure 3).

use serde::Serialize;

use super::Spread;
use crate::presence::Presence;

/// At how many steps vertices are present, from their first edge to their last: the lengths of the sequences
/// that a model of time goes through (DGC, figure 3).
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SequenceStats {
    /// How many vertices are present at each number of steps, from 0 to all.
    pub lengths: Vec<u64>,
    /// The shortest, the mean and the longest sequence of vertices that are ever present.
    pub length: Option<Spread>,
    /// Of those vertices a quarter, a half and three quarters have sequences no longer than this.
    pub quartiles: Option<[u64; 3]>,
}

impl SequenceStats {
    /// Those of vertices that are present so.
    pub(super) fn of(presence: &Presence) -> SequenceStats {
        let lengths = presence.lengths();
        let ever: u64 = lengths.iter().skip(1).sum();
        if ever == 0 {
            return SequenceStats { lengths, ..SequenceStats::default() };
        }
        let found = || (0..).zip(&lengths).skip(1).filter(|(_, count)| **count > 0);
        let sum: u64 = found().map(|(length, count): (u64, _)| length * count).sum();
        let length = Spread {
            min: found().next().map_or(0, |(length, _)| length) as f64,
            mean: sum as f64 / ever as f64,
            max: found().last().map_or(0, |(length, _)| length) as f64,
        };
        let up_to = |quarters: u64| {
            let mut so_far = 0;
            let is_there = |(_, count): &(u64, &u64)| {
                so_far += **count;
                4 * so_far >= quarters * ever
            };
            found().find(is_there).map_or(0, |(length, _)| length)
        };
        let quartiles = Some([1, 2, 3].map(up_to));
        SequenceStats { lengths, length: Some(length), quartiles }
    }
}
