//! What simulations draw random numbers for, and numbers around one.

use kymo_plan::random::Random;

/// What a random number is for: numbers of different purposes are independent of each other.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    Costs,
    Noise,
    Stragglers,
}

/// The sequence of a seed for a purpose.
pub(crate) fn random(seed: u64, purpose: Purpose) -> Random {
    Random::new(seed).stream(purpose as u64)
}

/// A positive number of mean 1 with this standard deviation: log-normal. Exactly 1 where the deviation is 0.
pub(crate) fn around_one(random: Random, position: u64, deviation: f64) -> f64 {
    let variance = (deviation * deviation).ln_1p();
    (variance.sqrt() * random.normal(position) - variance / 2.0).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_around_one_have_the_moments_they_should() {
        let random = random(7, Purpose::Noise);
        let count = 200_000;
        for deviation in [0.05, 0.5] {
            let values = || (0..count).map(|at| around_one(random, at, deviation));
            let mean = values().sum::<f64>() / count as f64;
            let variance = values().map(|value| (value - mean).powi(2)).sum::<f64>() / count as f64;
            // Four standard errors of the mean; the deviation of the deviation is larger where the tail is
            // long.
            assert!((mean - 1.0).abs() < 4.0 * deviation / (count as f64).sqrt(), "{mean}");
            assert!((variance.sqrt() / deviation - 1.0).abs() < 0.03, "{variance}");
            assert!(values().all(|value| value > 0.0));
        }
        assert!((0..100).all(|at| around_one(random, at, 0.0) == 1.0));
    }
}
