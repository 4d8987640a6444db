//! What generators draw random numbers for.

use rayon::prelude::*;

use crate::random::Random;
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

/// The sequence of a seed for a purpose.
pub(super) fn random(seed: u64, purpose: Purpose) -> Random {
    Random::new(seed).stream(purpose as u64)
}

/// All vertices in a random order.
pub(super) fn shuffled(vertices: usize, seed: u64) -> Vec<Vertex> {
    let random = random(seed, Purpose::Order);
    let mut order: Vec<Vertex> = (0..vertices as Vertex).collect();
    order.par_sort_unstable_by_key(|&v| random.word(v.into()));
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn purposes_and_seeds_differ() {
        let first = random(1, Purpose::Removal);
        assert_ne!(first.word(0), random(1, Purpose::Candidates).word(0));
        assert_ne!(first.word(0), random(2, Purpose::Removal).word(0));
    }

    #[test]
    fn a_shuffled_list_holds_every_vertex_once() {
        let mut order = shuffled(1000, 3);
        assert!(!order.is_sorted());
        order.sort_unstable();
        assert_eq!(order, (0..1000).collect::<Vec<_>>());
    }
}
