//! The pairs of groups that save most together: an exact matching in a band, by dynamic programming.
//!
//! Groups are passed in order. All that the past leaves behind is which of the next `width` groups are taken
//! already, so there are `2^width` states, and `n * 2^width * width` steps in all. Bands wider than [`EXACT`]
//! are matched within that distance: windows share less the further they are apart.

use super::reuse::Reuse;

/// The widest band that is matched exactly.
pub(super) const EXACT: usize = 10;

/// The group was taken by an earlier one.
const TAKEN: u8 = u8::MAX;
/// The group is left alone.
const ALONE: u8 = 0;

/// Disjoint pairs, the earlier group first, and the seconds they save together.
pub(super) struct Matching {
    /// The pairs in order of time.
    pub(super) pairs: Vec<(usize, usize)>,
    /// What all of them save.
    pub(super) saved: f64,
}

/// The matching that saves most among pairs at most [`EXACT`] apart.
pub(super) fn most_saving(reuse: &Reuse, groups: usize) -> Matching {
    let width = reuse.width().min(EXACT).min(groups.saturating_sub(1));
    if width == 0 {
        return Matching { pairs: Vec::new(), saved: 0.0 };
    }
    let states = 1_usize << width;
    // Bit `d` of a state: the group `d` places further on is taken. Bit 0 is the group to be decided on.
    let mut value = vec![f64::NEG_INFINITY; states];
    value[0] = 0.0;
    let mut choices = vec![ALONE; groups * states];
    for (group, choice) in choices.chunks_exact_mut(states).enumerate() {
        let reach = width.min(groups - 1 - group);
        let mut next = vec![f64::NEG_INFINITY; states];
        let mut lead = |state: usize, total: f64, chosen: u8| {
            if total > next[state] {
                next[state] = total;
                choice[state] = chosen;
            }
        };
        for (state, &total) in value.iter().enumerate().filter(|(_, total)| **total >= 0.0) {
            if state & 1 == 1 {
                lead(state >> 1, total, TAKEN);
                continue;
            }
            lead(state >> 1, total, ALONE);
            for apart in (1..=reach).filter(|apart| state >> apart & 1 == 0) {
                let saved = reuse.saved(group, group + apart);
                if saved > 0.0 {
                    lead((state | 1 << apart) >> 1, total + saved, apart as u8);
                }
            }
        }
        value = next;
    }
    // Nothing past the last group can be taken.
    let saved = value[0];
    let (mut pairs, mut state) = (Vec::new(), 0);
    for (group, choice) in choices.chunks_exact(states).enumerate().rev() {
        state = match choice[state] {
            ALONE => state << 1,
            TAKEN => state << 1 | 1,
            apart => {
                pairs.push((group, group + usize::from(apart)));
                (state << 1) & !(1 << apart)
            }
        };
    }
    pairs.reverse();
    Matching { pairs, saved }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The most that the groups from `first` on can save, by trying everything.
    fn most(reuse: &Reuse, free: &mut Vec<bool>, first: usize) -> f64 {
        let Some(first) = (first..free.len()).find(|&group| free[group]) else { return 0.0 };
        let mut best = most(reuse, free, first + 1);
        for second in first + 1..free.len() {
            if free[second] {
                free[second] = false;
                best = best.max(reuse.saved(first, second) + most(reuse, free, first + 1));
                free[second] = true;
            }
        }
        best
    }

    proptest! {
        #[test]
        fn no_matching_saves_more(
            rows in prop::collection::vec(prop::collection::vec(0.0..1.0_f64, 0..4), 0..9),
        ) {
            let groups = rows.len();
            let cut = |(group, row): (usize, Vec<f64>)| row.into_iter().take(groups - 1 - group).collect();
            let reuse = Reuse::Band { width: 3, saved: rows.into_iter().enumerate().map(cut).collect() };
            let found = most_saving(&reuse, groups);
            let sum: f64 = found.pairs.iter().map(|&(one, other)| reuse.saved(one, other)).sum();
            prop_assert!((sum - found.saved).abs() < 1e-9);
            let mut seen = vec![false; groups];
            for group in found.pairs.iter().flat_map(|&(one, other)| [one, other]) {
                prop_assert!(!std::mem::replace(&mut seen[group], true));
            }
            prop_assert!((found.saved - most(&reuse, &mut vec![true; groups], 0)).abs() < 1e-9);
        }
    }
}
