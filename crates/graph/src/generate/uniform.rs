//! Every pair of vertices is equally likely: the Uni500K kind of graph of DistDy, section 5.1.

use super::{Generator, Params, Sampler};
use crate::random::below;
use crate::snapshot::Vertex;

/// Edges between vertices drawn uniformly.
pub struct Uniform;

impl Generator for Uniform {
    fn name(&self) -> &'static str {
        "uniform"
    }

    fn about(&self) -> &'static str {
        "every pair of vertices is equally likely"
    }

    fn defaults(&self) -> Params {
        Params::GENERIC
    }

    fn sampler(&self, params: &Params) -> Sampler {
        let vertices = params.vertices as u64;
        Box::new(move |word| below(vertices, word) as Vertex)
    }
}
