//! Few vertices have many edges: degrees follow a power law with the exponent 2.2, usual for graphs of
//! people, pages and papers.
//!
//! Vertices are drawn by rank with a chance proportional to `(rank + shift)^(-5/6)`, which gives the degree
//! exponent `1 + 6/5`; the inverse of its integral is a sixth power. The shift of a ten-thousandth of the
//! vertices limits the largest expected degree to some 460 times the mean at every size: without it the ends
//! of a large graph would fall on a few pairs over and over. Ranks are scrambled, so that ids do not follow
//! degrees.

use super::random::shuffled;
use super::{Generator, Params, Sampler};
use crate::random::share;

/// Edges that prefer few vertices strongly.
pub struct PowerLaw;

impl Generator for PowerLaw {
    fn name(&self) -> &'static str {
        "power-law"
    }

    fn about(&self) -> &'static str {
        "few vertices have many edges: degrees follow a power law with the exponent 2.2"
    }

    fn defaults(&self) -> Params {
        Params::GENERIC
    }

    fn sampler(&self, params: &Params) -> Sampler {
        let order = shuffled(params.vertices, params.seed);
        let vertices = order.len() as f64;
        let shift = (vertices / 10_000.0).max(1.0);
        let (low, high) = (shift.sqrt().cbrt(), (vertices + shift).sqrt().cbrt());
        Box::new(move |word| {
            let root = low + share(word) * (high - low);
            let cube = root * root * root;
            // Rounding may put the very ends of the range one rank outside.
            let rank = (cube * cube - shift) as usize;
            order[rank.min(order.len() - 1)]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::tests::degrees_of_first_step;
    use crate::generate::uniform::Uniform;

    #[test]
    fn degrees_are_far_more_skewed_than_uniform_ones() {
        let skew = |degrees: Vec<u32>| {
            let mean = f64::from(degrees.iter().sum::<u32>()) / degrees.len() as f64;
            f64::from(degrees.into_iter().max().unwrap()) / mean
        };
        let (uniform, skewed) =
            (skew(degrees_of_first_step(&Uniform)), skew(degrees_of_first_step(&PowerLaw)));
        assert!(uniform < 4.0, "{uniform}");
        assert!((100.0..600.0).contains(&skewed), "{skewed}");
    }

    #[test]
    fn the_tail_has_the_exponent() {
        // The share of vertices with a degree of at least d falls as d^-1.2.
        let degrees = degrees_of_first_step(&PowerLaw);
        let above = |least: u32| degrees.iter().filter(|&&degree| degree >= least).count() as f64;
        let exponent = (above(50) / above(400)).log2() / 3.0;
        assert!((1.0..1.4).contains(&exponent), "{exponent}");
    }
}
