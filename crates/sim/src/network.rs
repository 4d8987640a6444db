//! What the all-reduce of the gradients takes: `a + b * M` seconds for `M` bytes, after MG-WFBP (Shi, Chu and
//! Li, INFOCOM 2019), which REAL (section 7.5) uses for its alpha.
//!
//! With `l` for the latency of a message and `B` for the bytes per second of a worker's link, among `G`
//! workers:
//!
//! | shape | a | b |
//! |---|---|---|
//! | ring | `2 (G - 1) l` | `2 (G - 1) / (G B)` |
//! | halving | `2 ceil(log2 G) l` | `2 (G - 1) / (G B)` |
//!
//! Both sum by a reduce-scatter and an all-gather, so each worker sends the same bytes; a ring does it in as
//! many messages as there are workers, recursive halving and doubling (Thakur, Rabenseifner and Gropp, 2005)
//! in the logarithm of it. The time to add numbers is neglected: it is far below that of moving them.

use serde::Serialize;

use crate::error::{Result, above_zero, from_zero};

/// The algorithm of the all-reduce.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// From neighbour to neighbour.
    #[default]
    Ring,
    /// By recursive halving and doubling.
    Halving,
}

impl Shape {
    /// Every shape, in the order of the help.
    pub const ALL: [Shape; 2] = [Shape::Ring, Shape::Halving];

    /// Its name in settings and files.
    pub fn name(self) -> &'static str {
        match self {
            Shape::Ring => "ring",
            Shape::Halving => "halving",
        }
    }
}

/// How gradients are summed over all workers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct AllReduce {
    /// The algorithm.
    pub shape: Shape,
    /// Seconds from the start of a message to its first byte.
    pub latency: f64,
    /// Bytes per second of a worker's link.
    pub bandwidth: f64,
    /// Bytes to sum: those of all gradients.
    pub bytes: u64,
}

/// A ring of links as fast as those of REAL's cluster A (3.2 Tb/s for eight GPUs, section 7.1) and of 5 us,
/// which is an assumption, for a model of 100,000 numbers.
impl Default for AllReduce {
    fn default() -> Self {
        AllReduce { shape: Shape::Ring, latency: 5e-6, bandwidth: 50e9, bytes: 400_000 }
    }
}

impl AllReduce {
    /// One that takes no time.
    pub const FREE: AllReduce =
        AllReduce { shape: Shape::Ring, latency: 0.0, bandwidth: f64::INFINITY, bytes: 0 };

    /// Seconds among this number of workers; one worker by itself has nothing to sum.
    pub fn seconds(&self, workers: usize) -> f64 {
        if workers <= 1 {
            return 0.0;
        }
        let others = (workers - 1) as f64;
        let messages = match self.shape {
            Shape::Ring => 2.0 * others,
            Shape::Halving => 2.0 * f64::from(usize::BITS - (workers - 1).leading_zeros()),
        };
        messages * self.latency + 2.0 * others / workers as f64 * self.bytes as f64 / self.bandwidth
    }

    /// Bytes that each worker sends.
    pub fn sent(&self, workers: usize) -> u64 {
        let workers = workers.max(1) as f64;
        (2.0 * (workers - 1.0) / workers * self.bytes as f64).round() as u64
    }

    /// Refuses values that make no sense; the error says what was expected.
    pub fn check(&self) -> Result<()> {
        from_zero("latency", self.latency)?;
        if self.bandwidth == f64::INFINITY { Ok(()) } else { above_zero("bandwidth", self.bandwidth) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_formulas() {
        let ring = AllReduce { shape: Shape::Ring, latency: 1e-3, bandwidth: 1000.0, bytes: 500 };
        assert_eq!(ring.seconds(0), 0.0);
        assert_eq!(ring.seconds(1), 0.0);
        assert!((ring.seconds(4) - (6e-3 + 1.5 * 0.5)).abs() < 1e-12);
        let halving = AllReduce { shape: Shape::Halving, ..ring };
        for (workers, rounds) in [(2, 1.0), (3, 2.0), (4, 2.0), (5, 3.0), (1024, 10.0)] {
            let bytes = 2.0 * (workers - 1) as f64 / workers as f64 * 0.5;
            assert!((halving.seconds(workers) - (2e-3 * rounds + bytes)).abs() < 1e-12, "{workers}");
        }
        assert_eq!((ring.sent(1), ring.sent(4)), (0, 750));
        assert_eq!(AllReduce::FREE.seconds(1000), 0.0);
    }

    #[test]
    fn what_cannot_be_is_refused() {
        AllReduce::FREE.check().unwrap();
        AllReduce::default().check().unwrap();
        for (latency, bandwidth) in [(-1.0, 1.0), (f64::NAN, 1.0), (0.0, 0.0), (0.0, f64::NAN)] {
            assert!(AllReduce { latency, bandwidth, ..AllReduce::default() }.check().is_err());
        }
    }
}
