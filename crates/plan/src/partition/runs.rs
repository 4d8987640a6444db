//! Loads in a row, cut into runs, one a worker, so that the heaviest run is as light as possible.

use crate::layout::Worker;

/// The owner of each load: runs in the order of the workers, the heaviest as light as possible.
///
/// Exact: the answer is the smallest limit under which runs, each filled up to the limit, are enough; the
/// limit is searched by halving. Where there are enough loads, every worker gets one.
pub(super) fn owners(loads: &[u64], workers: usize) -> Vec<Worker> {
    let total: u64 = loads.iter().sum();
    let heaviest = loads.iter().copied().max().unwrap_or(0);
    // Nothing below these two can do, and the total always does.
    let (mut low, mut high) = (heaviest.max(total.div_ceil(workers as u64)), total);
    while low < high {
        let limit = low + (high - low) / 2;
        if enough(loads, workers, limit) { high = limit } else { low = limit + 1 }
    }
    let (mut worker, mut sum) = (0, 0);
    let mut owners = Vec::with_capacity(loads.len());
    for (index, &load) in loads.iter().enumerate() {
        let (left, idle) = (loads.len() - index, workers - 1 - worker);
        // A worker that could be left without a load gets one of the last: no run becomes heavier by that.
        if index > 0 && idle > 0 && (sum + load > low || left <= idle) {
            worker += 1;
            sum = 0;
        }
        sum += load;
        owners.push(worker as Worker);
    }
    owners
}

/// Whether this many runs of at most `limit` hold all loads, none of which is above it.
fn enough(loads: &[u64], workers: usize, limit: u64) -> bool {
    let (mut runs, mut sum) = (1, 0);
    for &load in loads {
        if sum + load > limit {
            runs += 1;
            sum = 0;
            if runs > workers {
                return false;
            }
        }
        sum += load;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The lightest heaviest run over all ways to cut.
    fn brute(loads: &[u64], workers: usize) -> u64 {
        if workers == 1 {
            return loads.iter().sum();
        }
        let first_ends = |end: usize| loads[..end].iter().sum::<u64>().max(brute(&loads[end..], workers - 1));
        (0..=loads.len()).map(first_ends).min().unwrap()
    }

    proptest! {
        #[test]
        fn no_other_runs_are_lighter(loads in prop::collection::vec(0u64..20, 0..9), workers in 1usize..6) {
            let owners = owners(&loads, workers);
            prop_assert!(owners.len() == loads.len() && owners.is_sorted());
            let mut sums = vec![0; workers];
            owners.iter().zip(&loads).for_each(|(&owner, load)| sums[owner as usize] += load);
            prop_assert_eq!(sums.into_iter().max().unwrap(), brute(&loads, workers));
            let used = (0..workers as Worker).filter(|worker| owners.contains(worker)).count();
            prop_assert_eq!(used, workers.min(loads.len()));
        }
    }
}
