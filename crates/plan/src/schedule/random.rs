//! Random numbers one after the other, for searches that draw as they go.

use kymo_graph::random;

/// A source of random numbers that follows from its seed alone.
pub(super) struct Random {
    sequence: random::Random,
    drawn: u64,
}

impl Random {
    /// A source for this seed.
    pub(super) fn new(seed: u64) -> Self {
        Random { sequence: random::Random::new(seed), drawn: 0 }
    }

    fn word(&mut self) -> u64 {
        self.drawn += 1;
        self.sequence.word(self.drawn)
    }

    /// A number from 0 up to 1, 1 excluded.
    pub(super) fn unit(&mut self) -> f64 {
        random::share(self.word())
    }

    /// A whole number below `end`, which is not 0.
    pub(super) fn below(&mut self, end: usize) -> usize {
        random::below(end as u64, self.word()) as usize
    }
}
