//! A tenth of the vertices is hot: the Ex500K kind of graph of DistDy, section 5.1.
//!
//! The paper says that hot vertices have "higher degrees than others"; here an end of an edge falls on a
//! given hot vertex ten times as often as on a given other one.

use super::random::shuffled;
use super::{Generator, Params, Sampler};
use crate::random::below;

/// How much more often a hot vertex is drawn.
const HEAT: u64 = 10;

/// Edges that prefer a tenth of the vertices.
pub struct Hot;

impl Generator for Hot {
    fn name(&self) -> &'static str {
        "hot"
    }

    fn about(&self) -> &'static str {
        "a tenth of the vertices has ten times the edges of the others"
    }

    fn defaults(&self) -> Params {
        Params::GENERIC
    }

    fn sampler(&self, params: &Params) -> Sampler {
        let order = shuffled(params.vertices, params.seed);
        let vertices = params.vertices as u64;
        let hot = vertices.div_ceil(10);
        // A hot vertex owns ten tickets, any other vertex one.
        Box::new(move |word| {
            let ticket = below(vertices + (HEAT - 1) * hot, word);
            let rank = if ticket < HEAT * hot { ticket / HEAT } else { ticket - (HEAT - 1) * hot };
            order[rank as usize]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::tests::degrees_of_first_step;

    #[test]
    fn hot_vertices_have_ten_times_the_degree_of_the_others() {
        let mut degrees = degrees_of_first_step(&Hot);
        degrees.sort_unstable();
        let (others, hot) = degrees.split_at(degrees.len() * 9 / 10);
        let mean = |part: &[u32]| f64::from(part.iter().sum::<u32>()) / part.len() as f64;
        let ratio = mean(hot) / mean(others);
        assert!((9.0..11.0).contains(&ratio), "{ratio}");
    }

    #[test]
    fn hot_vertices_are_not_the_first_ones() {
        let degrees = degrees_of_first_step(&Hot);
        let first: u32 = degrees[..degrees.len() / 10].iter().sum();
        let all: u32 = degrees.iter().sum();
        assert!((0.07..0.13).contains(&(f64::from(first) / f64::from(all))));
    }
}
