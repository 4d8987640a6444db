//! What is to be scheduled: the groups of an epoch, their costs, and who runs them (DyGNeX section 4.2, REAL
//! section 5.1).
//!
//! Memory: the groups of a worker run one after the other, and what REAL keeps of the first for the second is
//! a part of what the first had in memory anyway. So the peak of a worker is that of its largest group, and
//! each group must fit by itself.

use super::reuse::Reuse;
use crate::error::{Error, Result};

/// The groups of an epoch and the workers they are for.
#[derive(Clone, Debug, PartialEq)]
pub struct Instance {
    /// Seconds of each group by itself.
    pub costs: Vec<f64>,
    /// How many workers there are (G).
    pub workers: usize,
    /// How many groups a worker may run in an iteration (L).
    pub most: usize,
    /// Seconds that close an iteration: the all-reduce and the optimiser's step (alpha).
    pub overhead: f64,
    /// What groups save each other.
    pub reuse: Reuse,
    /// Bytes of each group while it runs.
    pub memory: Vec<u64>,
    /// Bytes a worker has.
    pub budget: u64,
}

impl Instance {
    /// Groups of these costs with two per worker and iteration, no overhead, no reuse and memory enough.
    pub fn new(costs: Vec<f64>, workers: usize) -> Self {
        let memory = vec![0; costs.len()];
        Instance { costs, workers, most: 2, overhead: 0.0, reuse: Reuse::None, memory, budget: u64::MAX }
    }

    /// The same with the bytes that each group needs while it runs, and those that a worker has.
    ///
    /// Every scheduler refuses a group that does not fit; `blad` has two groups in memory at once and runs a
    /// pair that does not fit together one by one. Whether there is one figure for each group is seen by
    /// [`Instance::check`].
    #[must_use]
    pub fn with_memory(self, memory: Vec<u64>, budget: u64) -> Self {
        Instance { memory, budget, ..self }
    }

    /// How many groups there are.
    pub fn groups(&self) -> usize {
        self.costs.len()
    }

    /// Whether it can be scheduled; the error says what would do.
    pub fn check(&self) -> Result<()> {
        for (setting, found) in [("workers", self.workers), ("groups per worker", self.most)] {
            if found == 0 {
                return Err(Error::settings(setting, "found 0, expected at least 1"));
            }
        }
        let seconds = |seconds: f64| seconds.is_finite() && seconds >= 0.0;
        if !seconds(self.overhead) {
            let problem = format!("found {} s, expected a time from 0", self.overhead);
            return Err(Error::settings("overhead", problem));
        }
        if let Some(group) = self.costs.iter().position(|&cost| !seconds(cost)) {
            let problem = format!("group {group} takes {} s, expected a time from 0", self.costs[group]);
            return Err(Error::settings("costs", problem));
        }
        if self.memory.len() != self.groups() {
            let problem =
                format!("found {} for {} groups, expected one each", self.memory.len(), self.groups());
            return Err(Error::settings("memory", problem));
        }
        // The largest one: with a budget that fits it all others run as well.
        if let Some((group, &bytes)) = self.memory.iter().enumerate().max_by_key(|&(_, &bytes)| bytes)
            && bytes > self.budget
        {
            let problem = format!(
                "group {group} needs {bytes} bytes and a worker has {}, {} too few; use shorter windows or \
                 raise the budget",
                self.budget,
                bytes - self.budget
            );
            return Err(Error::settings("memory", problem));
        }
        self.reuse.check(&self.costs)
    }

    /// Seconds a worker needs for these groups in this order.
    pub fn load(&self, groups: &[usize]) -> f64 {
        let costs: f64 = groups.iter().map(|&group| self.costs[group]).sum();
        let saved: f64 = groups.windows(2).map(|pair| self.reuse.saved(pair[0], pair[1])).sum();
        (costs - saved).max(0.0)
    }

    /// The fewest and the most iterations that an epoch without needless ones can have.
    pub(super) fn iterations(&self) -> (usize, usize) {
        let fewest = self.groups().div_ceil(self.workers.saturating_mul(self.most));
        (fewest, self.groups().div_ceil(self.workers))
    }

    /// Some numbers of iterations worth a try: all if they are few, else mostly low ones, since each costs
    /// overhead.
    pub(super) fn some_iterations(&self) -> Vec<usize> {
        let (fewest, most) = self.iterations();
        let (mut counts, mut next, mut step) = (Vec::new(), fewest, 1);
        while next < most {
            counts.push(next);
            next += step;
            if most - fewest > 12 && counts.len() >= 3 {
                step *= 2;
            }
        }
        counts.push(most);
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_counts_savings_between_neighbours_only() {
        let mut instance = Instance::new(vec![4.0, 5.0, 6.0], 1);
        instance.reuse = Reuse::Band { width: 2, saved: vec![vec![1.0, 0.5], vec![2.0], vec![]] };
        instance.check().unwrap();
        assert_eq!(instance.load(&[]), 0.0);
        assert_eq!(instance.load(&[1]), 5.0);
        assert_eq!(instance.load(&[0, 2]), 9.5);
        assert_eq!(instance.load(&[0, 1, 2]), 12.0);
        assert_eq!(instance.load(&[1, 0, 2]), 13.5);
    }

    #[test]
    fn what_cannot_be_scheduled_is_refused_with_a_reason() {
        let good = Instance::new(vec![1.0, 2.0], 2);
        good.check().unwrap();
        let broken: [(&str, Instance); 6] = [
            ("workers", Instance { workers: 0, ..good.clone() }),
            ("groups per worker", Instance { most: 0, ..good.clone() }),
            ("overhead", Instance { overhead: f64::NAN, ..good.clone() }),
            ("costs", Instance { costs: vec![1.0, -1.0], ..good.clone() }),
            ("memory", good.clone().with_memory(vec![1], 8)),
            ("budget", good.clone().with_memory(vec![1, 9], 8)),
        ];
        for (word, instance) in broken {
            let error = instance.check().unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn memory_that_is_short_is_named_with_the_largest_group() {
        let instance = Instance::new(vec![1.0; 3], 2);
        instance.clone().with_memory(vec![8, 3, 0], 8).check().unwrap();
        let error = instance.with_memory(vec![9, 12, 0], 8).check().unwrap_err().to_string();
        assert!(error.contains("group 1 needs 12 bytes and a worker has 8, 4 too few"), "{error}");
    }

    #[test]
    fn few_numbers_of_iterations_are_tried_and_both_ends_are_among_them() {
        for (groups, workers) in [(0, 3), (1, 3), (7, 2), (100, 4), (10_000, 4), (10_000, 512)] {
            let instance = Instance::new(vec![1.0; groups], workers);
            let (counts, (fewest, most)) = (instance.some_iterations(), instance.iterations());
            assert!(counts.len() <= 16 && counts.is_sorted_by(|a, b| a < b), "{counts:?}");
            assert_eq!((counts[0], counts[counts.len() - 1]), (fewest, most));
        }
    }
}
