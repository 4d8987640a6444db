//! Where the time of a run goes.

use std::time::{Duration, Instant};

/// What time is spent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Forward, backward and optimiser over training windows.
    Train,
    /// Forward over windows that are only looked at.
    Predict,
    /// Snapshots and features from the store.
    Load,
    /// Metrics: sampling, scoring, ranking.
    Metrics,
    /// Checkpoints.
    Checkpoint,
    /// Logs and progress.
    Log,
}

impl Work {
    /// All kinds, in the order in which they are shown.
    pub const ALL: [Work; 6] =
        [Work::Train, Work::Predict, Work::Load, Work::Metrics, Work::Checkpoint, Work::Log];

    /// How it is called.
    pub fn name(self) -> &'static str {
        match self {
            Work::Train => "training",
            Work::Predict => "predicting",
            Work::Load => "loading",
            Work::Metrics => "metrics",
            Work::Checkpoint => "checkpoints",
            Work::Log => "logging",
        }
    }

    /// Whether a user would call it overhead: everything around the kernels.
    pub fn is_overhead(self) -> bool {
        !matches!(self, Work::Train | Work::Predict)
    }
}

/// Time spent so far on each kind of work.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    spent: [Duration; Work::ALL.len()],
}

impl Clock {
    /// Does something, and counts the time it takes.
    pub fn time<T>(&mut self, work: Work, act: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        let done = act();
        self.add(work, begun.elapsed());
        done
    }

    /// Counts time that was taken elsewhere.
    pub fn add(&mut self, work: Work, time: Duration) {
        self.spent[work as usize] += time;
    }

    /// Time spent on one kind of work.
    pub fn spent(&self, work: Work) -> Duration {
        self.spent[work as usize]
    }

    /// All time spent.
    pub fn total(&self) -> Duration {
        self.spent.iter().sum()
    }

    /// The share of overhead in all time spent.
    pub fn overhead(&self) -> f64 {
        let overhead: Duration =
            Work::ALL.iter().filter(|work| work.is_overhead()).map(|&work| self.spent(work)).sum();
        overhead.as_secs_f64() / self.total().as_secs_f64().max(1e-9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_counted_where_it_was_spent() {
        let mut clock = Clock::default();
        clock.add(Work::Train, Duration::from_secs(9));
        clock.add(Work::Load, Duration::from_secs(1));
        assert_eq!(clock.time(Work::Log, || 7), 7);
        assert_eq!(clock.spent(Work::Train), Duration::from_secs(9));
        assert!((clock.overhead() - 0.1).abs() < 1e-3 && clock.total() >= Duration::from_secs(10));
    }
}
