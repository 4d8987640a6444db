//! One row against many: the last layer of a perceptron over sums of two rows, as decoders of links have it.

use crate::simd::{fma, simd};

/// Sums kept side by side. The order of additions follows from it and not from the machine's instructions.
const LANES: usize = 32;

#[inline(always)]
fn weigh_body<const FUSED: bool>(
    left: &[f32],
    rights: &[f32],
    stride: usize,
    weights: &[f32],
    out: &mut [f32],
) {
    let width = weights.len();
    let (left, whole) = (&left[..width], width - width % LANES);
    for (out, right) in out.iter_mut().zip(rights.chunks(stride)) {
        let right = &right[..width];
        let mut sums = [0.0f32; LANES];
        for start in (0..whole).step_by(LANES) {
            let at = start..start + LANES;
            let (left, right, weights) = (&left[at.clone()], &right[at.clone()], &weights[at]);
            for lane in 0..LANES {
                sums[lane] = fma::<FUSED>(weights[lane], (left[lane] + right[lane]).max(0.0), sums[lane]);
            }
        }
        let mut half = LANES / 2;
        while half > 0 {
            for lane in 0..half {
                sums[lane] += sums[lane + half];
            }
            half /= 2;
        }
        *out = sums[0];
        for ((left, right), weight) in left[whole..].iter().zip(&right[whole..]).zip(&weights[whole..]) {
            *out = fma::<FUSED>(*weight, (left + right).max(0.0), *out);
        }
    }
}

simd! {
    /// `out[i] = sum over columns of weight * max(left + right[i], 0)`, where row `i` begins at `i * stride` of `rights`.
    ///
    /// A row's number does not depend on the other rows. It panics where a row is shorter than the weights, or `stride` is 0.
    pub fn weigh_positive_sums(left: &[f32], rights: &[f32], stride: usize, weights: &[f32], out: &mut [f32]) = weigh_body;
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_the_plain_sum(width in 1usize..100, more in 0usize..40, rows in 0usize..5, seed in 0u64..1000) {
            let number = |i: usize| ((i as u64 * 2_654_435_761 + seed * 97) % 1000) as f32 / 500.0 - 1.0;
            let stride = width + more;
            let left: Vec<f32> = (0..width).map(number).collect();
            let weights: Vec<f32> = (0..width).map(|i| number(i + 7)).collect();
            let rights: Vec<f32> = (0..rows * stride).map(|i| number(i + 13)).collect();
            let mut out = vec![f32::NAN; rows];
            weigh_positive_sums(&left, &rights, stride, &weights, &mut out);
            for (row, found) in out.iter().enumerate() {
                let expected: f64 = (0..width)
                    .map(|i| f64::from(weights[i]) * f64::from((left[i] + rights[row * stride + i]).max(0.0)))
                    .sum();
                prop_assert!((f64::from(*found) - expected).abs() < 1e-4, "{} and {}", found, expected);
                let mut alone = [0.0];
                weigh_positive_sums(&left, &rights[row * stride..], stride, &weights, &mut alone);
                prop_assert_eq!(alone[0].to_bits(), found.to_bits());
            }
        }
    }
}
