//! Random numbers by counter: SplitMix64 (Steele, Lea and Flood, OOPSLA 2014) of a seed, a chain of streams
//! and a position.
//!
//! Nothing is drawn in sequence, so threads may draw in any order, and a caller may ask for some of the
//! numbers only. There is no state to save either: a run that is resumed draws what it would have drawn. All
//! crates draw from here.

use std::collections::HashSet;

/// An endless sequence of numbers that can be read at any position.
#[derive(Clone, Copy, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence of a seed.
    pub fn new(seed: u64) -> Random {
        Random(mix(seed))
    }

    /// The sequence numbered `index` of those that branch off this one.
    pub fn stream(self, index: u64) -> Random {
        Random(self.word(index))
    }

    /// 64 uniform bits. Two positions of one sequence never hold the same word, because the hash is a
    /// bijection: words are priorities without ties.
    #[inline]
    pub fn word(self, position: u64) -> u64 {
        mix(self.0.wrapping_add(position.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }

    /// A number in `0..bound`; 0 where the bound is.
    #[inline]
    pub fn below(self, bound: usize, position: u64) -> usize {
        below(bound as u64, self.word(position)) as usize
    }

    /// A number from 0 up to 1, 1 excluded.
    #[inline]
    pub fn share(self, position: u64) -> f64 {
        share(self.word(position))
    }

    /// A standard normal number, by Box and Muller.
    #[inline]
    pub fn normal(self, position: u64) -> f64 {
        let position = position.wrapping_mul(2);
        let radius = (-2.0 * (1.0 - self.share(position)).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.share(position.wrapping_add(1))).cos()
    }

    /// `count` different numbers of `0..bound`, every set of them equally likely; all of them where there are
    /// no more.
    ///
    /// Floyd's way: one draw for each, whatever the bound. Repetitions are looked for in the list where few
    /// are asked for, and in a set otherwise.
    pub fn distinct(self, count: usize, bound: usize) -> Vec<usize> {
        const FEW: usize = 64;
        let mut chosen = Vec::with_capacity(count.min(bound));
        let mut known = HashSet::new();
        for last in bound.saturating_sub(count)..bound {
            let drawn = self.below(last + 1, last as u64);
            let repeats = if count <= FEW { chosen.contains(&drawn) } else { !known.insert(drawn) };
            if repeats && count > FEW {
                known.insert(last);
            }
            chosen.push(if repeats { last } else { drawn });
        }
        chosen
    }
}

/// Puts a list into a random order (Fisher and Yates).
pub fn shuffle<T>(list: &mut [T], random: Random) {
    for last in (1..list.len()).rev() {
        list.swap(last, random.below(last + 1, last as u64));
    }
}

/// The word as a number from 0 up to 1, 1 excluded.
#[inline]
pub fn share(word: u64) -> f64 {
    (word >> 11) as f64 / (1u64 << 53) as f64
}

/// The word as a number in `0..bound`.
#[inline]
pub fn below(bound: u64, word: u64) -> u64 {
    ((u128::from(word) * u128::from(bound)) >> 64) as u64
}

/// The last step of SplitMix64: every bit of the word reaches every bit of the result.
#[inline]
pub fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_are_those_of_the_published_splitmix64() {
        let words: Vec<u64> = (0..3).map(|position| Random(1234567).word(position)).collect();
        assert_eq!(words, [6457827717110365317, 3203168211198807973, 9817491932198370423]);
    }

    #[test]
    fn numbers_stay_below_their_bound_and_reach_all_of_it() {
        let random = Random::new(5);
        let mut counts = [0; 7];
        (0..7000).for_each(|position| counts[random.below(7, position)] += 1);
        assert!(counts.iter().all(|&count| (850..1150).contains(&count)), "{counts:?}");
        assert_eq!(random.below(0, 3), 0);
    }

    #[test]
    fn shares_are_spread_and_shuffling_keeps_everything() {
        let random = Random::new(7);
        let mean = (0..10_000).map(|position| random.share(position)).sum::<f64>() / 10_000.0;
        assert!((mean - 0.5).abs() < 0.02, "{mean}");
        let mut list: Vec<u32> = (0..100).collect();
        shuffle(&mut list, random);
        assert_ne!(list, (0..100).collect::<Vec<_>>());
        list.sort_unstable();
        assert_eq!(list, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn every_set_is_equally_likely() {
        let mut counts = std::collections::BTreeMap::new();
        for stream in 0..10_000 {
            let mut set = Random::new(9).stream(stream).distinct(2, 5);
            set.sort_unstable();
            *counts.entry(set).or_insert(0) += 1;
        }
        assert_eq!(counts.len(), 10);
        assert!(counts.values().all(|count| (850..1150).contains(count)), "{counts:?}");
        let mut all = Random::new(1).distinct(9, 4);
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2, 3]);
        for (count, bound) in [(64, 70), (65, 70), (300, 301), (200, 90_000)] {
            let many = Random::new(3).distinct(count, bound);
            let set: std::collections::BTreeSet<usize> = many.iter().copied().collect();
            assert!(set.len() == count && many.len() == count && set.iter().all(|&number| number < bound));
        }
    }

    #[test]
    fn shares_and_normals_have_the_moments_they_should() {
        let random = Random::new(7);
        let moments = |value: &dyn Fn(u64) -> f64| {
            let values: Vec<f64> = (0..100_000).map(value).collect();
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            (mean, values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / values.len() as f64)
        };
        let (mean, variance) = moments(&|position| random.share(position));
        assert!((mean - 0.5).abs() < 0.005 && (variance - 1.0 / 12.0).abs() < 0.001, "{mean} {variance}");
        let (mean, variance) = moments(&|position| random.normal(position));
        assert!(mean.abs() < 0.01 && (variance - 1.0).abs() < 0.02, "{mean} {variance}");
    }
}
