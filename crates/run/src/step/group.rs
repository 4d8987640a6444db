//! Windows that a worker runs together, on one tape: those of an iteration that have steps in common (REAL,
//! section 4.2). Each step is read once, and goes through structure once ([`kymo_model::together`]).

use std::ops::Range;
use std::sync::Arc;

use kymo_graph::Step;
use kymo_plan::{Batch, Neighbourhood, Targets, Window, overlapping};

use crate::data::Loaded;

/// Windows that are run together, or one that is alone.
pub struct Group<'i> {
    /// What they ask for.
    pub batch: &'i Batch,
    /// The windows; in the order of time where there are several.
    pub windows: Vec<&'i Window>,
    /// All their steps.
    pub steps: Range<Step>,
}

impl<'i> Group<'i> {
    /// The windows of these batches, those together that overlap where more than one `may_be`: at most this
    /// number of steps at a time. Batches with all vertices have snapshots in common; a batch of some has one
    /// neighbourhood for its own windows.
    pub fn all(batches: &'i [Batch], [may_be, steps]: [usize; 2]) -> Vec<Group<'i>> {
        let windows = |batch: &'i Batch| batch.windows.iter().map(move |window| (batch, window));
        let all: Vec<(&Batch, &Window)> = batches.iter().flat_map(windows).collect();
        let is_whole =
            |batch: &Batch| batch.targets == Targets::All && batch.neighbourhood == Neighbourhood::Whole;
        let lengths = match batches.iter().all(is_whole) {
            true => vec![all.len()],
            false => batches.iter().map(|batch| batch.windows.len()).collect(),
        };
        let (mut places, mut begun) = (Vec::new(), 0);
        for length in lengths {
            let of = begun..begun + length;
            begun += length;
            if may_be <= 1 {
                places.extend(of.map(|place| vec![place]));
                continue;
            }
            let ranges: Vec<Range<Step>> =
                all[of.clone()].iter().map(|(_, window)| window.steps.clone()).collect();
            let moved = |group: Vec<usize>| group.into_iter().map(|place| of.start + place).collect();
            places.extend(overlapping(&ranges, steps).into_iter().map(moved));
        }
        let group = |places: Vec<usize>| {
            let windows: Vec<&Window> = places.iter().map(|&place| all[place].1).collect();
            let start = windows.iter().map(|window| window.steps.start).min().unwrap_or(0);
            let end = windows.iter().map(|window| window.steps.end).max().unwrap_or(start);
            Group { batch: all[places[0]].0, windows, steps: start..end }
        };
        places.into_iter().map(group).collect()
    }

    /// The snapshots of a window among those of all.
    pub fn of<'l>(&self, window: &Window, loaded: &'l [Arc<Loaded>]) -> &'l [Arc<Loaded>] {
        let first = window.steps.start - self.steps.start;
        &loaded[first..first + window.steps.len()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kymo_plan::Drawn;

    fn batch(number: usize, start: Step) -> Batch {
        Batch::whole(Window { number, steps: start..start + 4, salt: 0 })
    }

    fn numbers(groups: &[Group<'_>]) -> Vec<(Vec<usize>, Range<Step>)> {
        let of = |group: &Group<'_>| group.windows.iter().map(|window| window.number).collect();
        groups.iter().map(|group| (of(group), group.steps.clone())).collect()
    }

    #[test]
    fn whole_windows_that_overlap_are_together_and_others_keep_their_order() {
        let mut batches = vec![batch(0, 9), batch(1, 0), batch(2, 2), batch(3, 20)];
        let found = Group::all(&batches, [4, 7]);
        assert_eq!(numbers(&found), [(vec![1, 2], 0..6), (vec![0], 9..13), (vec![3], 20..24)]);
        let alone = vec![(vec![0], 9..13), (vec![1], 0..4), (vec![2], 2..6), (vec![3], 20..24)];
        assert_eq!(numbers(&Group::all(&batches, [1, 7])), alone);
        // Targets of their own make windows stay by themselves.
        batches[2].targets = Targets::Some(vec![1]);
        assert_eq!(numbers(&Group::all(&batches, [4, 7])), alone);
        batches[2] = Batch { neighbourhood: Neighbourhood::Hops(1), ..batch(2, 2) };
        assert_eq!(numbers(&Group::all(&batches, [4, 7])), alone);
        assert!(Group::all(&[], [4, 7]).is_empty());
        // Those of one batch are together, with its targets; those of two are not.
        let windows = |starts: [Step; 2]| starts.map(|start| batch(start, start).windows[0].clone()).to_vec();
        let drawn = |part: usize| Targets::Drawn(Drawn { part, parts: 2, seed: 1 });
        let some = |part: usize, starts| Batch { targets: drawn(part), ..Batch::of(windows(starts)) };
        let hybrid = [some(0, [2, 0]), some(1, [0, 2]), some(0, [4, 9])];
        let found = Group::all(&hybrid, [4, 7]);
        let expected = [(vec![0, 2], 0..6), (vec![0, 2], 0..6), (vec![4], 4..8), (vec![9], 9..13)];
        assert_eq!(numbers(&found), expected);
        assert!(found[1].batch.targets == drawn(1));
    }
}
