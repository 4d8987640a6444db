//! What one group saves another: REAL's reuse (section 4.2, equation 9) and its ratio model (appendix G,
//! equation 17), and BLAD's pipeline, in which what neighbours overlap is saved.
//!
//! Two groups that run one after the other on a worker, with the weights unchanged, need the snapshots they
//! share once only. Only windows that overlap share snapshots, and windows in order of time overlap near ones
//! only: a band, not a matrix.
//!
//! Equation 17 sums the snapshots from `i + 1` to `i + tw - (j - i)`, which are neither the shared ones nor
//! as many: windows of length `w` whose starts differ by `d` share the `w - d` snapshots from the later start
//! to the earlier end. Those are summed here. Saving is the same in both orders, and never more than either
//! group costs.

use std::ops::Range;

use kymo_graph::Step;

use crate::error::{Error, Result};

/// Seconds that groups save each other.
#[derive(Clone, Debug, PartialEq)]
pub enum Reuse {
    /// Nothing is shared.
    None,
    /// Groups share with those near them.
    Band {
        /// How far apart the indices of two groups that share may be.
        width: usize,
        /// `saved[k][d - 1]`: what the groups `k` and `k + d` save if one runs right after the other. Rows
        /// may end early.
        saved: Vec<Vec<f64>>,
    },
}

impl Reuse {
    /// The ratio model where only whole groups were timed: each snapshot of a window costs an equal part of
    /// its group.
    ///
    /// `windows` are the steps of each group in order of time, `costs` the seconds of each group, and `ratio`
    /// the part of a shared snapshot's time that need not be spent again. Of two groups that disagree about a
    /// shared snapshot the lower part is believed.
    pub fn from_ratio(ratio: f64, windows: &[Range<Step>], costs: &[f64]) -> Result<Self> {
        if costs.len() != windows.len() {
            let problem =
                format!("found {} costs for {} windows, expected one each", costs.len(), windows.len());
            return Err(Error::settings("costs", problem));
        }
        let part = |group: usize| costs[group] / windows[group].len().max(1) as f64;
        Reuse::band(ratio, windows, |first, second, shared| {
            shared.len() as f64 * part(first).min(part(second))
        })
    }

    /// The ratio model as REAL has it: `steps` are the seconds of each snapshot.
    pub fn from_snapshots(ratio: f64, windows: &[Range<Step>], steps: &[f64]) -> Result<Self> {
        if let Some(window) = windows.iter().find(|window| window.end > steps.len()) {
            let problem = format!("found the times of {} steps, but a window is {window:?}", steps.len());
            return Err(Error::settings("steps", problem));
        }
        Reuse::band(ratio, windows, |_, _, shared| steps[shared].iter().sum())
    }

    /// What a pipeline of two stages saves, as BLAD has it: `stages` are the seconds of each group's
    /// structure and time stage.
    ///
    /// Where group `k + 1` follows `k`, its structure stage runs while `k` is in its time stage, and the
    /// shorter of the two costs nothing: the pair takes `s1 + max(s2, r1) + r2`. Only neighbours overlap. The
    /// costs of the groups must be the sums of their stages. Savings know no order, so this is for schedules
    /// that run the earlier group first, as `blad` does.
    pub fn from_stages(stages: &[[f64; 2]]) -> Result<Self> {
        let wrong = |seconds: &f64| !(seconds.is_finite() && *seconds >= 0.0);
        if let Some(group) = stages.iter().position(|stages| stages.iter().any(wrong)) {
            let problem = format!("those of group {group} take {:?} s, expected times from 0", stages[group]);
            return Err(Error::settings("stages", problem));
        }
        let overlap = |pair: &[[f64; 2]]| vec![pair[0][1].min(pair[1][0])];
        let mut saved: Vec<Vec<f64>> = stages.windows(2).map(overlap).collect();
        saved.extend(stages.last().map(|_| Vec::new()));
        let any = saved.iter().flatten().any(|&seconds| seconds > 0.0);
        Ok(if any { Reuse::Band { width: 1, saved } } else { Reuse::None })
    }

    fn band(
        ratio: f64,
        windows: &[Range<Step>],
        time: impl Fn(usize, usize, Range<Step>) -> f64,
    ) -> Result<Self> {
        if !(0.0..=1.0).contains(&ratio) {
            let problem = format!("found {ratio}, expected a part of the time, from 0 to 1");
            return Err(Error::settings("ratio", problem));
        }
        if !windows.is_sorted_by_key(|window| window.start) {
            return Err(Error::settings(
                "windows",
                "found windows out of order, sort them by their first step",
            ));
        }
        let row = |first: usize| -> Vec<f64> {
            let end = windows[first].end;
            let near = (first + 1..windows.len()).take_while(|&second| windows[second].start < end);
            let seconds = |second: usize| {
                let window = &windows[second];
                ratio * time(first, second, window.start..end.min(window.end).max(window.start))
            };
            near.map(seconds).collect()
        };
        let saved: Vec<Vec<f64>> = (0..windows.len()).map(row).collect();
        let width = saved.iter().map(Vec::len).max().unwrap_or(0);
        let any = saved.iter().flatten().any(|&seconds| seconds > 0.0);
        Ok(if any { Reuse::Band { width, saved } } else { Reuse::None })
    }

    /// What two groups save if one runs right after the other.
    pub fn saved(&self, one: usize, other: usize) -> f64 {
        let Reuse::Band { saved, .. } = self else { return 0.0 };
        let (first, apart) = (one.min(other), one.abs_diff(other));
        // A group is never next to itself.
        let Some(apart) = apart.checked_sub(1) else { return 0.0 };
        saved.get(first).and_then(|row| row.get(apart)).copied().unwrap_or(0.0)
    }

    /// The same, and no pair saves more than the cheaper of the two costs: times that were measured by
    /// themselves need not agree.
    #[must_use]
    pub fn within(mut self, costs: &[f64]) -> Reuse {
        if let Reuse::Band { saved, .. } = &mut self {
            for (first, row) in saved.iter_mut().enumerate() {
                for (seconds, others) in row.iter_mut().zip(first + 1..) {
                    let most = |group: usize| costs.get(group).copied().unwrap_or(0.0);
                    *seconds = seconds.min(most(first)).min(most(others));
                }
            }
        }
        self
    }

    /// How far apart two groups that share may be.
    pub fn width(&self) -> usize {
        match self {
            Reuse::None => 0,
            Reuse::Band { width, .. } => *width,
        }
    }

    /// The same among some groups only: the others save nothing.
    pub(super) fn among(&self, some: &[bool]) -> Reuse {
        let mut reuse = self.clone();
        if let Reuse::Band { saved, .. } = &mut reuse {
            for (first, row) in saved.iter_mut().enumerate() {
                for (apart, seconds) in row.iter_mut().enumerate() {
                    if !(some[first] && some[first + apart + 1]) {
                        *seconds = 0.0;
                    }
                }
            }
        }
        reuse
    }

    /// The most that each group can save with one other.
    pub(super) fn best(&self, groups: usize) -> Vec<f64> {
        let mut best = vec![0.0_f64; groups];
        if let Reuse::Band { saved, .. } = self {
            for (first, row) in saved.iter().enumerate() {
                for (second, &seconds) in (first + 1..groups).zip(row) {
                    best[first] = best[first].max(seconds);
                    best[second] = best[second].max(seconds);
                }
            }
        }
        best
    }

    /// Whether it fits these costs.
    pub(super) fn check(&self, costs: &[f64]) -> Result<()> {
        let Reuse::Band { width, saved } = self else { return Ok(()) };
        let refuse = |problem: String| Err(Error::settings("reuse", problem));
        if saved.len() != costs.len() {
            return refuse(format!(
                "found {} rows for {} groups, expected one each",
                saved.len(),
                costs.len()
            ));
        }
        for (first, row) in saved.iter().enumerate() {
            if row.len() > *width {
                return refuse(format!("row {first} has {} entries, the band is {width} wide", row.len()));
            }
            for (apart, &seconds) in row.iter().enumerate() {
                let second = first + apart + 1;
                let Some(&cost) = costs.get(second) else {
                    return refuse(format!(
                        "row {first} speaks of group {second}, there are {}",
                        costs.len()
                    ));
                };
                // Costs and savings are sums in different orders: they may differ in their last digits.
                let most = costs[first].min(cost) * (1.0 + 1e-9);
                if !(0.0..=most).contains(&seconds) {
                    let problem = format!(
                        "groups {first} and {second} save {seconds} s, expected from 0 to {most} s, the \
                         cost of the cheaper one"
                    );
                    return refuse(problem);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_share_what_lies_in_both() {
        let windows: Vec<Range<Step>> = (0..6).map(|start| start..start + 4).collect();
        let steps: Vec<f64> = (1..=9).map(f64::from).collect();
        let reuse = Reuse::from_snapshots(0.5, &windows, &steps).unwrap();
        assert_eq!(reuse.width(), 3);
        for first in 0..6_usize {
            for second in 0..6_usize {
                let both = |step: &usize| windows[first].contains(step) && windows[second].contains(step);
                let shared: f64 = (0..9).filter(both).map(|step| 0.5 * steps[step]).sum();
                let expected = if first == second { 0.0 } else { shared };
                assert_eq!(reuse.saved(first, second), expected, "{first} {second}");
            }
        }
        let even = Reuse::from_ratio(0.5, &windows, &[8.0; 6]).unwrap();
        assert_eq!(even.saved(2, 3), 0.5 * 3.0 * 2.0);
        assert_eq!(even.saved(5, 2), 0.5 * 1.0 * 2.0);
        assert_eq!(even.saved(0, 4), 0.0);
    }

    #[test]
    fn windows_that_do_not_meet_share_nothing() {
        let windows = [0..2, 2..4, 4..6];
        assert_eq!(Reuse::from_ratio(0.5, &windows, &[1.0; 3]).unwrap(), Reuse::None);
        assert_eq!(Reuse::from_ratio(0.5, &[], &[]).unwrap(), Reuse::None);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let windows = [0..2, 1..3];
        let refused = [
            Reuse::from_ratio(1.5, &windows, &[1.0; 2]),
            Reuse::from_ratio(0.5, &windows, &[1.0; 3]),
            Reuse::from_ratio(0.5, &[1..3, 0..2], &[1.0; 2]),
            Reuse::from_snapshots(0.5, &windows, &[1.0; 2]),
            Reuse::from_stages(&[[1.0, 2.0], [-1.0, 2.0]]),
        ];
        assert!(refused.iter().all(|reuse| reuse.is_err()));
        let band = |saved: Vec<Vec<f64>>| Reuse::Band { width: 1, saved }.check(&[1.0, 1.0]);
        assert!(band(vec![vec![1.0], vec![]]).is_ok());
        for saved in [vec![], vec![vec![2.0], vec![]], vec![vec![], vec![0.1]], vec![vec![0.1, 0.1], vec![]]]
        {
            assert!(band(saved).is_err());
        }
    }
}
