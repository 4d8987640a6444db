//! Runs of consecutive groups, each about as long as the others.
//!
//! Windows that follow each other share most, and what a run of them saves is what its neighbours save: a
//! snapshot of the run is in consecutive windows, so all but the first of them need it no more. So where a
//! worker takes many groups in an iteration, few long runs save most. The time line is cut
//! where its load, savings taken off, reaches equal parts, with no more than `L` groups between two cuts.
//! Several numbers of iterations are tried, and the best is kept. It takes `O(n log n)`.

use std::time::Instant;

use super::fold::cut_seconds;
use super::instance::Instance;
use super::timetable::Schedule;
use super::{Limit, Scheduled, Scheduler};
use crate::error::Result;

/// Runs of about equal load.
pub(super) struct Runs;

impl Scheduler for Runs {
    fn name(&self) -> &'static str {
        "runs"
    }

    fn about(&self) -> &'static str {
        "runs of consecutive groups of about equal load, sorted and cut into iterations"
    }

    fn is_immediate(&self) -> bool {
        true
    }

    fn schedule(&self, instance: &Instance, _: &Limit) -> Result<Scheduled> {
        let begun = Instant::now();
        instance.check()?;
        let schedule = Schedule::from_bins(instance, best_runs(instance));
        Ok(Scheduled::new(instance, schedule, self.name(), begun))
    }
}

/// The bins of this schedule.
pub(super) fn best_runs(instance: &Instance) -> Vec<Vec<usize>> {
    let counts = instance.some_iterations().into_iter();
    let tried = counts.map(|iterations| runs(instance, iterations.saturating_mul(instance.workers)));
    let seconds =
        |bins: &[Vec<usize>]| cut_seconds(instance, bins.iter().map(|bin| instance.load(bin)).collect());
    let timed = tried.map(|bins| (seconds(&bins), bins));
    timed.min_by(|one, other| one.0.total_cmp(&other.0)).map_or_else(Vec::new, |(_, bins)| bins)
}

/// At most this many runs, which must have room for all groups.
fn runs(instance: &Instance, count: usize) -> Vec<Vec<usize>> {
    let (groups, count) = (instance.groups(), count.min(instance.groups()));
    let mut loads = vec![0.0; groups + 1];
    for group in 0..groups {
        let saved = group.checked_sub(1).map_or(0.0, |before| instance.reuse.saved(before, group));
        loads[group + 1] = loads[group] + instance.costs[group] - saved;
    }
    let mut begin = 0;
    let mut run = |number: usize| {
        let part = loads[groups] * (number + 1) as f64 / count as f64;
        let after = loads.partition_point(|&load| load < part).min(groups);
        let nearer = after.checked_sub(1).filter(|&before| part - loads[before] < loads[after] - part);
        // The runs to come need one group each at least, and have room for `L` each at most.
        let (left, most) = (count - number - 1, instance.most);
        let least = (begin + 1).max(groups.saturating_sub(left.saturating_mul(most)));
        let end = nearer.unwrap_or(after).min(begin + most).min(groups - left).max(least);
        let groups: Vec<usize> = (begin..end).collect();
        begin = end;
        groups
    };
    (0..count).map(&mut run).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Reuse;

    #[test]
    fn the_time_line_is_cut_where_its_load_reaches_equal_parts() {
        let instance = Instance { most: 8, ..Instance::new(vec![1.0, 1.0, 2.0, 3.0, 2.0, 3.0], 3) };
        assert_eq!(runs(&instance, 3), [vec![0, 1, 2], vec![3, 4], vec![5]]);
        // What a group saves its neighbour is no load: 2 0 0 2 2 2.
        let saved = [2.0, 2.0, 0.0, 0.0, 0.0].map(|seconds| vec![seconds]).into_iter().chain([vec![]]);
        let reuse = Reuse::Band { width: 1, saved: saved.collect() };
        let sharing = Instance { most: 8, reuse, ..Instance::new(vec![2.0; 6], 2) };
        assert_eq!(runs(&sharing, 2), [vec![0, 1, 2, 3], vec![4, 5]]);
        assert_eq!(best_runs(&sharing), [vec![0, 1, 2, 3], vec![4, 5]]);
    }

    #[test]
    fn no_run_is_longer_than_allowed_or_empty() {
        let costs: Vec<f64> = (0..37).map(|group| if group < 20 { 0.0 } else { f64::from(group) }).collect();
        for (workers, most) in [(1, 1), (2, 3), (3, 8), (5, 40), (40, 2)] {
            let instance = Instance { most, ..Instance::new(costs.clone(), workers) };
            for iterations in instance.some_iterations() {
                let bins = runs(&instance, iterations * workers);
                assert!(bins.iter().all(|bin| (1..=most).contains(&bin.len())), "{bins:?}");
                assert!(bins.concat().into_iter().eq(0..37), "{bins:?}");
            }
        }
        assert!(best_runs(&Instance::new(Vec::new(), 2)).is_empty());
    }

    #[test]
    fn many_groups_per_worker_save_what_a_run_of_them_shares() {
        let windows: Vec<_> = (0..32).map(|start| start..start + 8).collect();
        let reuse = Reuse::from_snapshots(1.0, &windows, &[1.0; 40]).unwrap();
        let instance = Instance { most: 8, reuse, ..Instance::new(vec![8.0; 32], 2) };
        // Eight windows of eight have 15 snapshots.
        let found = Runs.schedule(&instance, &Limit::default()).unwrap();
        assert_eq!((found.seconds, found.schedule.iterations.len()), (30.0, 2));
    }
}
