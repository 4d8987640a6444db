//! Successive halving (Jamieson and Talwalkar, AISTATS 2016): all are trained for few epochs, the best part
//! of them three times as long, the best of those three times as long again.

use std::cmp::Ordering;

/// Of the trials of a rung, the part that goes on.
const PART: usize = 3;
/// Epochs that a trial gets at least, where there are as many: after fewer they tell little.
const LEAST: usize = 5;

/// How many trials are trained up to which epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rung {
    /// Trials.
    pub trials: usize,
    /// Epochs, those of the rungs before included.
    pub epochs: usize,
}

/// The rungs for this many trials, of which the best get this many epochs.
pub fn rungs(trials: usize, epochs: usize) -> Vec<Rung> {
    let mut rungs = vec![];
    let (mut left, mut share) = (epochs, 1);
    while trials / share >= PART && left / PART >= LEAST {
        left = left.div_ceil(PART);
        share *= PART;
    }
    let (mut trials, mut parts) = (trials, share);
    loop {
        rungs.push(Rung { trials, epochs: epochs.div_ceil(parts) });
        if parts == 1 {
            return rungs;
        }
        (trials, parts) = (trials.div_ceil(PART), parts / PART);
    }
}

/// The best of these trials by their validation, the best first; of equal ones the earlier. A trial without a
/// value does not go on.
pub fn survivors(values: &[(usize, Option<f64>)], higher_is_better: bool, count: usize) -> Vec<usize> {
    let mut known: Vec<(usize, f64)> = values
        .iter()
        .filter_map(|&(trial, value)| Some((trial, value.filter(|value| !value.is_nan())?)))
        .collect();
    known.sort_by(|one, other| {
        let order = if higher_is_better { other.1.total_cmp(&one.1) } else { one.1.total_cmp(&other.1) };
        match order {
            Ordering::Equal => one.0.cmp(&other.0),
            order => order,
        }
    });
    known.into_iter().take(count).map(|(trial, _)| trial).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(trials: usize, epochs: usize) -> Vec<(usize, usize)> {
        rungs(trials, epochs).iter().map(|rung| (rung.trials, rung.epochs)).collect()
    }

    #[test]
    fn a_third_goes_on_three_times_as_long() {
        assert_eq!(pairs(27, 50), [(27, 6), (9, 17), (3, 50)]);
        assert_eq!(pairs(20, 45), [(20, 5), (7, 15), (3, 45)]);
        assert_eq!(pairs(9, 200), [(9, 23), (3, 67), (1, 200)]);
    }

    #[test]
    fn few_trials_or_epochs_are_all_trained_to_the_end() {
        assert_eq!(pairs(2, 50), [(2, 50)]);
        assert_eq!(pairs(100, 14), [(100, 14)]);
        assert_eq!(pairs(100, 15), [(100, 5), (34, 15)]);
        assert_eq!(pairs(1, 1), [(1, 1)]);
    }

    #[test]
    fn the_best_go_on_and_what_failed_does_not() {
        let values = [(4, Some(0.5)), (1, Some(0.7)), (2, None), (3, Some(f64::NAN)), (0, Some(0.7))];
        assert_eq!(survivors(&values, true, 2), [0, 1]);
        assert_eq!(survivors(&values, false, 1), [4]);
        assert_eq!(survivors(&values, true, 9), [0, 1, 4]);
    }
}
