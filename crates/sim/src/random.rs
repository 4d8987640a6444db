//! Random numbers by counter: every number is a hash of a seed, a purpose and a position, so nothing depends on who draws first.
//!
//! The hash is SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).

/// What a random number is for: numbers of different purposes are independent of each other.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    Costs,
    Noise,
    Stragglers,
}

/// An endless sequence of numbers that can be read at any position.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64, purpose: Purpose) -> Self {
        Random(word(mix(seed), purpose as u64))
    }

    /// 64 uniform bits.
    pub(crate) fn word(self, position: u64) -> u64 {
        word(self.0, position)
    }

    /// Uniform in `0..1`.
    pub(crate) fn unit(self, position: u64) -> f64 {
        (self.word(position) >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Standard normal, by Box and Muller.
    pub(crate) fn normal(self, position: u64) -> f64 {
        let position = position.wrapping_mul(2);
        let radius = (-2.0 * (1.0 - self.unit(position)).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.unit(position.wrapping_add(1))).cos()
    }

    /// A positive number of mean 1 with this standard deviation: log-normal. Exactly 1 where the deviation is 0.
    pub(crate) fn around_one(self, position: u64, deviation: f64) -> f64 {
        let variance = (deviation * deviation).ln_1p();
        (variance.sqrt() * self.normal(position) - variance / 2.0).exp()
    }
}

fn word(state: u64, position: u64) -> u64 {
    mix(state.wrapping_add(position.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
}

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
        assert_eq!(word(1_234_567, 0), 6_457_827_717_110_365_317);
        assert_eq!(word(1_234_567, 1), 3_203_168_211_198_807_973);
    }

    #[test]
    fn numbers_around_one_have_the_moments_they_should() {
        let random = Random::new(7, Purpose::Noise);
        let count = 200_000;
        for deviation in [0.05, 0.5] {
            let values = || (0..count).map(|at| random.around_one(at, deviation));
            let mean = values().sum::<f64>() / count as f64;
            let variance = values().map(|value| (value - mean).powi(2)).sum::<f64>() / count as f64;
            // Four standard errors of the mean; the deviation of the deviation is larger where the tail is long.
            assert!((mean - 1.0).abs() < 4.0 * deviation / (count as f64).sqrt(), "{mean}");
            assert!((variance.sqrt() / deviation - 1.0).abs() < 0.03, "{variance}");
            assert!(values().all(|value| value > 0.0));
        }
        assert!((0..100).all(|at| random.around_one(at, 0.0) == 1.0));
    }
}
