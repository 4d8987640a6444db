//! Random numbers by counter: every number is a hash of a seed, a stream and a position.
//!
//! Nothing is drawn in sequence, so threads may draw in any order and the result is the same. The hash is SplitMix64
//! (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).

use rayon::prelude::*;

use crate::snapshot::Vertex;

/// What a random number is for: numbers of different purposes are independent of each other.
#[derive(Clone, Copy, Debug)]
pub(super) enum Purpose {
    Trend,
    Order,
    Removal,
    Candidates,
    Selection,
    Features,
    Redraw,
    Noise,
}

/// An endless sequence of numbers that can be read at any position.
#[derive(Clone, Copy, Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64, purpose: Purpose) -> Self {
        Self(mix(seed)).stream(purpose as u64)
    }

    /// The sequence numbered `index` of those that branch off this one.
    pub(super) fn stream(self, index: u64) -> Self {
        Self(self.word(index))
    }

    /// 64 uniform bits. Two positions of one sequence never hold the same word: the hash is a bijection, so words
    /// are priorities without ties.
    #[inline]
    pub(super) fn word(self, position: u64) -> u64 {
        mix(self.0.wrapping_add(position.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }

    /// Uniform in `0..1`.
    #[inline]
    pub(super) fn unit(self, position: u64) -> f64 {
        unit(self.word(position))
    }

    /// Standard normal, by Box and Muller.
    #[inline]
    pub(super) fn normal(self, position: u64) -> f32 {
        let position = position.wrapping_mul(2);
        let radius = (-2.0 * (1.0 - self.unit(position)).ln()).sqrt();
        (radius * (std::f64::consts::TAU * self.unit(position.wrapping_add(1))).cos()) as f32
    }
}

/// The word as a number in `0..1`.
#[inline]
pub(super) fn unit(word: u64) -> f64 {
    (word >> 11) as f64 / (1u64 << 53) as f64
}

/// The word as a number in `0..bound`.
#[inline]
pub(super) fn below(bound: u64, word: u64) -> u64 {
    ((u128::from(word) * u128::from(bound)) >> 64) as u64
}

/// All vertices in a random order.
pub(super) fn shuffled(vertices: usize, seed: u64) -> Vec<Vertex> {
    let random = Random::new(seed, Purpose::Order);
    let mut order: Vec<Vertex> = (0..vertices as Vertex).collect();
    order.par_sort_unstable_by_key(|&v| random.word(v.into()));
    order
}

#[inline]
fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_are_those_of_the_published_splitmix64() {
        let words: Vec<u64> = (0..3).map(|i| Random(1234567).word(i)).collect();
        assert_eq!(words, [6457827717110365317, 3203168211198807973, 9817491932198370423]);
    }

    #[test]
    fn units_and_normals_have_the_moments_they_should() {
        let random = Random::new(7, Purpose::Noise);
        let moments = |value: &dyn Fn(u64) -> f64| {
            let values: Vec<f64> = (0..100_000).map(value).collect();
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            (mean, values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / values.len() as f64)
        };
        let (mean, variance) = moments(&|i| random.unit(i));
        assert!((mean - 0.5).abs() < 0.005 && (variance - 1.0 / 12.0).abs() < 0.001, "{mean} {variance}");
        let (mean, variance) = moments(&|i| random.normal(i).into());
        assert!(mean.abs() < 0.01 && (variance - 1.0).abs() < 0.02, "{mean} {variance}");
    }

    #[test]
    fn purposes_streams_and_seeds_differ() {
        let first = Random::new(1, Purpose::Removal);
        assert_ne!(first.word(0), Random::new(1, Purpose::Candidates).word(0));
        assert_ne!(first.word(0), Random::new(2, Purpose::Removal).word(0));
        assert_ne!(first.stream(0).word(0), first.stream(1).word(0));
    }

    #[test]
    fn a_shuffled_list_holds_every_vertex_once() {
        let mut order = shuffled(1000, 3);
        assert!(!order.is_sorted());
        order.sort_unstable();
        assert_eq!(order, (0..1000).collect::<Vec<_>>());
    }
}
