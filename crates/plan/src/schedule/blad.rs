//! Two consecutive groups per worker, in order: BLAD (Fu et al., SC 2023, as DyGNeX section 5.1 and REAL
//! section 7.1 run it).
//!
//! BLAD runs the pair as a pipeline of two stages: while the first group is in its time stage, the second is
//! in its structure stage. What that saves is what [`Reuse::from_stages`](super::Reuse::from_stages) says, so
//! the pair needs no rule of its own; an instance without stages has none to overlap, and the pair takes the
//! sum.
//!
//! Both groups of a pipeline are in memory at once (DyGNeX appendix I): two that do not fit together are not
//! made a pair.

use std::time::Instant;

use super::instance::Instance;
use super::timetable::Schedule;
use super::{Limit, Scheduled, Scheduler};
use crate::error::Result;

/// Consecutive pairs in order.
pub(super) struct Pairs;

impl Scheduler for Pairs {
    fn name(&self) -> &'static str {
        "blad"
    }

    fn about(&self) -> &'static str {
        "two consecutive groups per worker and iteration, in order of time; BLAD's pipeline"
    }

    fn is_immediate(&self) -> bool {
        true
    }

    fn schedule(&self, instance: &Instance, _: &Limit) -> Result<Scheduled> {
        let begun = Instant::now();
        instance.check()?;
        let bins = pairs(instance);
        let iteration = |bins: &[Vec<usize>]| {
            let mut bins = bins.to_vec();
            bins.resize(instance.workers, Vec::new());
            bins
        };
        let schedule = Schedule { iterations: bins.chunks(instance.workers).map(iteration).collect() };
        Ok(Scheduled::new(instance, schedule, self.name(), begun))
    }
}

/// Groups with their successors.
fn pairs(instance: &Instance) -> Vec<Vec<usize>> {
    let mut bins: Vec<Vec<usize>> = Vec::with_capacity(instance.groups().div_ceil(2));
    for group in 0..instance.groups() {
        match bins.last_mut() {
            Some(bin) if bin.len() == 1 && fit(instance, bin[0], group) => bin.push(group),
            _ => bins.push(vec![group]),
        }
    }
    bins
}

/// Whether two groups may run at once.
fn fit(instance: &Instance, first: usize, second: usize) -> bool {
    let both = instance.memory[first].saturating_add(instance.memory[second]);
    instance.most >= 2 && both <= instance.budget
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Reuse;

    #[test]
    fn stages_overlap_within_a_pair() {
        let stages = [[3.0, 2.0], [1.0, 4.0], [2.0, 2.0], [5.0, 1.0], [1.0, 1.0]];
        let costs: Vec<f64> = stages.iter().map(|[structure, time]| structure + time).collect();
        let plain = Instance::new(costs, 2);
        let instance = Instance { reuse: Reuse::from_stages(&stages).unwrap(), ..plain.clone() };
        let found = Pairs.schedule(&instance, &Limit::default()).unwrap();
        assert_eq!(found.schedule.iterations, [[vec![0, 1], vec![2, 3]], [vec![4], vec![]]]);
        // s1 + max(s2, r1) + r2.
        let pair = |first: [f64; 2], second: [f64; 2]| first[0] + f64::max(second[0], first[1]) + second[1];
        assert_eq!(instance.load(&[0, 1]), pair(stages[0], stages[1]));
        assert_eq!(instance.load(&[2, 3]), pair(stages[2], stages[3]));
        assert_eq!(found.seconds, 9.0 + 2.0);
        assert_eq!(found.schedule.seconds(&plain), 10.0 + 2.0);
    }

    #[test]
    fn groups_that_do_not_fit_together_run_alone() {
        let memory = vec![5, 5, 2, 5, 5];
        let instance = Instance { memory, budget: 8, ..Instance::new(vec![1.0; 5], 2) };
        let found = Pairs.schedule(&instance, &Limit::default()).unwrap();
        assert_eq!(found.schedule.iterations, [[vec![0], vec![1, 2]], [vec![3], vec![4]]]);
        let single = Instance { most: 1, ..Instance::new(vec![1.0; 3], 2) };
        let found = Pairs.schedule(&single, &Limit::default()).unwrap();
        assert_eq!(found.schedule.iterations, [[vec![0], vec![1]], [vec![2], vec![]]]);
    }
}
