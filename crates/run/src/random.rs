//! Random numbers by counter: each follows from a seed and from what it is for, whatever was drawn before it.
//!
//! So there is no state to save: a run that is resumed draws what it would have drawn.

/// SplitMix64's mixing of 64 bits.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// 64 bits that follow from a seed and from what they are for.
pub fn bits(seed: u64, purpose: &[u64]) -> u64 {
    let step = 0x9E37_79B9_7F4A_7C15u64;
    purpose.iter().fold(mix(seed.wrapping_add(step)), |state, &part| {
        mix(state.wrapping_mul(step) ^ mix(part.wrapping_add(step)))
    })
}

/// A number from 0 to 1.
pub fn uniform(seed: u64, purpose: &[u64]) -> f64 {
    (bits(seed, purpose) >> 11) as f64 / (1u64 << 53) as f64
}

/// Puts a list into a random order (Fisher and Yates).
pub fn shuffle<T>(list: &mut [T], seed: u64, purpose: u64) {
    for last in (1..list.len()).rev() {
        let other = (bits(seed, &[purpose, last as u64]) % (last as u64 + 1)) as usize;
        list.swap(last, other);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_spread_and_follow_from_their_purpose() {
        let mean = (0..10_000).map(|i| uniform(7, &[3, i])).sum::<f64>() / 10_000.0;
        assert!((mean - 0.5).abs() < 0.02, "{mean}");
        assert_eq!(bits(7, &[3, 4]), bits(7, &[3, 4]));
        assert_ne!(bits(7, &[3, 4]), bits(7, &[4, 3]));
        assert_ne!(bits(7, &[3, 4]), bits(8, &[3, 4]));
    }

    #[test]
    fn shuffling_keeps_everything() {
        let mut list: Vec<u32> = (0..100).collect();
        shuffle(&mut list, 1, 2);
        assert_ne!(list, (0..100).collect::<Vec<_>>());
        list.sort_unstable();
        assert_eq!(list, (0..100).collect::<Vec<_>>());
    }
}
