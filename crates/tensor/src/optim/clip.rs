//! Gradients whose norm is at most a given number (Pascanu, Mikolov and Bengio, 2013, algorithm 1).

use std::ops::DerefMut;

use rayon::prelude::*;

use super::PIECE;
use crate::error::{Error, Result};
use crate::ops::pieces::summed;
use crate::simd::simd;

#[inline(always)]
fn squares_body<const FUSED: bool>(values: &[f32]) -> f64 {
    summed(values.len(), |index| f64::from(values[index]) * f64::from(values[index]))
}

simd! {
    fn squares(values: &[f32]) -> f64 = squares_body;
}

/// Scales all gradients by one factor so that the norm of all of them together is at most `largest`; the norm
/// before.
///
/// A norm that is not finite is an error, and the gradients stay as they are: no factor could make them
/// finite.
pub fn clip_norm<G: DerefMut<Target = [f32]>>(gradients: &mut [G], largest: f32) -> Result<f32> {
    let valid = largest > 0.0;
    if !valid {
        let problem = format!("{largest} was given, expected a positive number");
        return Err(Error::settings("the largest norm of gradients", problem));
    }
    let mut sum = 0.0;
    for gradient in gradients.iter() {
        let pieces: Vec<f64> = gradient.par_chunks(PIECE).map(squares).collect();
        sum += pieces.iter().sum::<f64>();
    }
    let norm = sum.sqrt();
    if !norm.is_finite() {
        return Err(Error::settings("the gradients", "their norm is not a finite number"));
    }
    if norm > f64::from(largest) {
        let factor = (f64::from(largest) / norm) as f32;
        for gradient in gradients {
            let scale = |piece: &mut [f32]| piece.iter_mut().for_each(|value| *value *= factor);
            gradient.par_chunks_mut(PIECE).for_each(scale);
        }
    }
    Ok(norm as f32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_gradients_become_shorter_and_short_ones_stay() {
        let mut gradients = vec![vec![3.0, 0.0], vec![], vec![-4.0]];
        assert_eq!(clip_norm(&mut gradients, 10.0), Ok(5.0));
        assert_eq!(gradients, [vec![3.0, 0.0], vec![], vec![-4.0]]);
        assert_eq!(clip_norm(&mut gradients, 1.0), Ok(5.0));
        assert!((gradients[0][0] - 0.6).abs() < 1e-6 && (gradients[2][0] + 0.8).abs() < 1e-6);
    }

    #[test]
    fn the_norm_does_not_overflow_and_is_the_same_for_any_thread_count() {
        let norm = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let mut gradients: Vec<Vec<f32>> =
                vec![(0..5 * PIECE + 3).map(|i| (i % 1000) as f32 * 1e20).collect()];
            pool.install(|| (clip_norm(&mut gradients, 1.0).unwrap().to_bits(), gradients))
        };
        let one = norm(1);
        assert!(f32::from_bits(one.0).is_finite() && norm(2) == one && norm(5) == one);
    }

    #[test]
    fn what_cannot_be_mended_is_an_error() {
        for value in [f32::NAN, f32::INFINITY] {
            let mut gradients = vec![vec![1.0, value]];
            assert!(clip_norm(&mut gradients, 1.0).is_err());
            assert_eq!(gradients[0][0], 1.0);
        }
        assert!(clip_norm(&mut [vec![1.0]], 0.0).is_err());
    }
}
