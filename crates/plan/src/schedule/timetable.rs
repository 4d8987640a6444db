//! A schedule: which worker runs which groups in which iteration, and what that costs.

use super::instance::Instance;
use crate::error::{Error, Result};

/// Who runs what, when.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    /// `iterations[i][j]`: the groups that worker `j` runs in iteration `i`, in order. Iterations may be run
    /// in any order.
    pub iterations: Vec<Vec<Vec<usize>>>,
}

impl Schedule {
    /// The best schedule of these bins, a bin being what one worker runs in one iteration.
    ///
    /// Bins are sorted by load and cut into iterations of as many bins as there are workers. No other use of
    /// the same bins is faster: whatever the iterations, the `k` slowest hold at most `k * G` bins, so the
    /// next one is at least as slow as the bin number `k * G + 1` by load. Sorting and cutting meets this for
    /// every `k`, with the fewest iterations.
    ///
    /// Within an iteration the heaviest bin goes to the worker that has done least so far: this changes no
    /// time, and it keeps workers equally busy over the epoch.
    pub fn from_bins(instance: &Instance, bins: Vec<Vec<usize>>) -> Self {
        let mut bins: Vec<(f64, Vec<usize>)> =
            bins.into_iter().filter(|bin| !bin.is_empty()).map(|bin| (instance.load(&bin), bin)).collect();
        bins.sort_by(|one, other| other.0.total_cmp(&one.0));
        let mut done = vec![0.0; instance.workers];
        let mut order: Vec<usize> = (0..instance.workers).collect();
        let mut iterations = Vec::with_capacity(bins.len().div_ceil(instance.workers));
        let mut rest = bins.into_iter().peekable();
        while rest.peek().is_some() {
            order.sort_by(|&one: &usize, &other: &usize| f64::total_cmp(&done[one], &done[other]));
            let mut iteration = vec![Vec::new(); instance.workers];
            for (&worker, (load, bin)) in order.iter().zip(rest.by_ref()) {
                done[worker] += load;
                iteration[worker] = bin;
            }
            iterations.push(iteration);
        }
        Schedule { iterations }
    }

    /// Its bins, one for each worker and iteration that runs something.
    pub(super) fn bins(&self) -> impl Iterator<Item = &Vec<usize>> {
        self.iterations.iter().flatten().filter(|bin| !bin.is_empty())
    }

    /// Whether it runs every group once, within the limits of the instance; the error says what is wrong.
    pub fn check(&self, instance: &Instance) -> Result<()> {
        let refuse = |problem: String| Err(Error::settings("schedule", problem));
        let mut runs = vec![0_usize; instance.groups()];
        for (number, iteration) in self.iterations.iter().enumerate() {
            if iteration.len() != instance.workers {
                let (found, workers) = (iteration.len(), instance.workers);
                return refuse(format!("iteration {number} is for {found} workers, there are {workers}"));
            }
            for (worker, bin) in iteration.iter().enumerate() {
                let at = format!("worker {worker} in iteration {number}");
                if bin.len() > instance.most {
                    return refuse(format!(
                        "{at} runs {} groups, at most {} may be",
                        bin.len(),
                        instance.most
                    ));
                }
                for &group in bin {
                    let Some(count) = runs.get_mut(group) else {
                        return refuse(format!("{at} runs group {group}, there are {}", instance.groups()));
                    };
                    *count += 1;
                    if instance.memory[group] > instance.budget {
                        let (bytes, budget) = (instance.memory[group], instance.budget);
                        return refuse(format!(
                            "{at} needs {bytes} bytes for group {group} and has {budget}, {} too few",
                            bytes - budget
                        ));
                    }
                }
            }
        }
        match runs.iter().position(|&count| count != 1) {
            Some(group) => refuse(format!("group {group} runs {} times, expected once", runs[group])),
            None => Ok(()),
        }
    }

    /// Seconds of an epoch: of every iteration that runs something, its slowest worker and the overhead.
    pub fn seconds(&self, instance: &Instance) -> f64 {
        self.longest(instance) + self.optimiser_steps() as f64 * instance.overhead
    }

    /// How often the weights change in an epoch. Two groups per worker and iteration halve it: the learning
    /// rate must know.
    pub fn optimiser_steps(&self) -> usize {
        self.iterations.iter().filter(|iteration| iteration.iter().any(|bin| !bin.is_empty())).count()
    }

    /// The busiest worker's seconds of work in the epoch over the mean of all workers, waiting excluded.
    ///
    /// The same figure as that of a plan, by the same function ([`crate::plan::imbalance`]). The papers
    /// divide by the least busy worker instead, which is infinite as soon as one has nothing to do.
    ///
    /// Renaming workers from iteration to iteration changes this figure and no time at all: see
    /// [`Schedule::spread`].
    pub fn imbalance(&self, instance: &Instance) -> f64 {
        let mut done = vec![0.0; instance.workers];
        for iteration in &self.iterations {
            done.iter_mut().zip(iteration).for_each(|(done, bin)| *done += instance.load(bin));
        }
        crate::plan::imbalance(&done)
    }

    /// The part of all workers' time, overhead included, that is spent on groups.
    pub fn efficiency(&self, instance: &Instance) -> f64 {
        let paid = instance.workers as f64 * self.seconds(instance);
        if paid > 0.0 { self.work(instance) / paid } else { 1.0 }
    }

    /// Seconds paid for each second of work, overhead aside: `sum(T) * G / sum(load)`. Perfect balance in
    /// every iteration is 1.
    pub fn spread(&self, instance: &Instance) -> f64 {
        let work = self.work(instance);
        if work > 0.0 { self.longest(instance) * instance.workers as f64 / work } else { 1.0 }
    }

    /// The slowest worker of each iteration, summed.
    fn longest(&self, instance: &Instance) -> f64 {
        let slowest =
            |iteration: &Vec<Vec<usize>>| iteration.iter().map(|bin| instance.load(bin)).fold(0.0, f64::max);
        self.iterations.iter().map(slowest).sum()
    }

    fn work(&self, instance: &Instance) -> f64 {
        self.bins().map(|bin| instance.load(bin)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(iterations: &[&[&[usize]]]) -> Schedule {
        let iterations =
            iterations.iter().map(|iteration| iteration.iter().map(|bin| bin.to_vec()).collect());
        Schedule { iterations: iterations.collect() }
    }

    #[test]
    fn figures_are_those_of_a_schedule_worked_out_by_hand() {
        let instance = Instance { overhead: 0.5, ..Instance::new(vec![4.0, 3.0, 2.0, 1.0], 2) };
        let schedule = schedule(&[&[&[0], &[1, 3]], &[&[2], &[]], &[&[], &[]]]);
        schedule.check(&instance).unwrap();
        assert_eq!(schedule.optimiser_steps(), 2);
        assert_eq!(schedule.seconds(&instance), 4.0 + 2.0 + 2.0 * 0.5);
        // The workers are busy for 6 and 4 seconds.
        assert_eq!(schedule.imbalance(&instance), 6.0 / 5.0);
        assert_eq!(schedule.efficiency(&instance), 10.0 / 14.0);
        assert_eq!(schedule.spread(&instance), 6.0 * 2.0 / 10.0);
    }

    #[test]
    fn imbalance_is_between_one_and_the_number_of_workers() {
        let instance = Instance::new(vec![2.0, 2.0, 2.0], 3);
        assert_eq!(schedule(&[&[&[0], &[1], &[2]]]).imbalance(&instance), 1.0);
        assert_eq!(schedule(&[&[&[0, 1], &[2], &[]]]).imbalance(&instance), 2.0);
        assert_eq!(schedule(&[&[&[0, 1], &[], &[]], &[&[2], &[], &[]]]).imbalance(&instance), 3.0);
        // Nothing to do is no imbalance.
        assert_eq!(Schedule::default().imbalance(&Instance::new(Vec::new(), 3)), 1.0);
    }

    #[test]
    fn bins_are_sorted_and_cut() {
        let instance = Instance::new(vec![4.0, 3.0, 2.0, 1.0], 2);
        let bins = vec![vec![3], vec![0], vec![], vec![2], vec![1]];
        let cut = Schedule::from_bins(&instance, bins);
        assert_eq!(cut, schedule(&[&[&[0], &[1]], &[&[3], &[2]]]));
        assert_eq!(cut.seconds(&instance), 6.0);
    }

    #[test]
    fn wrong_schedules_are_refused() {
        let instance = Instance::new(vec![1.0; 3], 2);
        let wrong: [(&str, Schedule); 5] = [
            ("0 times", schedule(&[&[&[0], &[1]]])),
            ("2 times", schedule(&[&[&[0, 1], &[1, 2]]])),
            ("at most 2", schedule(&[&[&[0, 1, 2], &[]]])),
            ("group 7", schedule(&[&[&[7], &[]]])),
            ("1 workers", schedule(&[&[&[0]]])),
        ];
        for (words, schedule) in wrong {
            let error = schedule.check(&instance).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
