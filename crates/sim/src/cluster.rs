//! A simulated cluster: how many workers, how they sum gradients, and what does not go as planned.

use serde::Serialize;

use crate::error::{Error, Result, from_zero};
use crate::network::AllReduce;
use crate::random::{Purpose, around_one, random};

/// Workers that are slower than the others for the whole epoch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Stragglers {
    /// The part of all workers, rounded to whole workers.
    pub share: f64,
    /// How many times as long everything takes them.
    pub factor: f64,
}

impl Stragglers {
    /// All workers are equally fast.
    pub const NONE: Stragglers = Stragglers { share: 0.0, factor: 1.0 };
}

/// What a schedule runs on.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cluster {
    /// How many workers there are (G).
    pub workers: usize,
    /// What closes an iteration: replaces [`kymo_plan::schedule::Instance::overhead`].
    pub all_reduce: AllReduce,
    /// The standard deviation of a group's time, as a part of it. Times are log-normal around what was
    /// planned, and a group's is the same in every schedule, so that schedules are compared under the same
    /// noise.
    pub noise: f64,
    /// Which workers are slower.
    pub stragglers: Stragglers,
    /// The seed of all random numbers.
    pub seed: u64,
}

impl Cluster {
    /// Equal workers on which everything takes as long as planned.
    pub fn new(workers: usize, all_reduce: AllReduce) -> Self {
        Cluster { workers, all_reduce, noise: 0.0, stragglers: Stragglers::NONE, seed: 0 }
    }

    /// Refuses values that make no sense; the error says what was expected.
    pub fn check(&self) -> Result<()> {
        if self.workers == 0 {
            return Err(Error::settings("workers", "found 0, expected at least 1"));
        }
        self.all_reduce.check()?;
        from_zero("noise", self.noise)?;
        let Stragglers { share, factor } = self.stragglers;
        if !(0.0..=1.0).contains(&share) {
            let problem = format!("found a share of {share}, expected a part of the workers, from 0 to 1");
            return Err(Error::settings("stragglers", problem));
        }
        if !(factor.is_finite() && factor >= 1.0) {
            let problem = format!("found a factor of {factor}, expected how many times as long, from 1");
            return Err(Error::settings("stragglers", problem));
        }
        Ok(())
    }

    /// How many times as long everything takes each worker.
    pub(crate) fn factors(&self) -> Vec<f64> {
        let slow = (self.stragglers.share * self.workers as f64).round() as usize;
        let random = random(self.seed, Purpose::Stragglers);
        let mut order: Vec<usize> = (0..self.workers).collect();
        order.sort_by_key(|&worker| random.word(worker as u64));
        let mut factors = vec![1.0; self.workers];
        order.iter().take(slow).for_each(|&worker| factors[worker] = self.stragglers.factor);
        factors
    }

    /// The factor that noise puts on a group's time.
    pub(crate) fn luck(&self, group: usize) -> f64 {
        around_one(random(self.seed, Purpose::Noise), group as u64, self.noise)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_are_slow_as_were_asked_for() {
        for (share, slow) in [(0.0, 0), (0.1, 1), (0.25, 3), (1.0, 10)] {
            let stragglers = Stragglers { share, factor: 2.0 };
            let cluster = Cluster { stragglers, seed: 4, ..Cluster::new(10, AllReduce::FREE) };
            assert_eq!(cluster.factors().iter().filter(|&&factor| factor == 2.0).count(), slow);
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let good = Cluster::new(2, AllReduce::default());
        good.check().unwrap();
        let stragglers = |share, factor| Cluster { stragglers: Stragglers { share, factor }, ..good.clone() };
        let broken = [
            ("workers", Cluster { workers: 0, ..good.clone() }),
            ("noise", Cluster { noise: -0.1, ..good.clone() }),
            ("share", stragglers(1.5, 2.0)),
            ("share", stragglers(f64::NAN, 2.0)),
            ("factor", stragglers(0.5, 0.5)),
        ];
        for (word, cluster) in broken {
            let error = cluster.check().unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }
}
