//! The vertices that each worker trains on where none exchanges rows with another (DynaHB, section 4): its
//! part of the load-aware partition, divided into batches that are as heavy as each other.
//!
//! A worker sees whatever its vertices see, `C_i = {u | u in the union over l = 1..L of N^l(v), u not in
//! P_i}`: rows of others are computed again instead of being sent. Who owns a vertex decides who computes
//! what, and not what comes of it: the targets of all workers together are all vertices.
//!
//! Balanced groups (section 4.2): the vertices of a worker, the heaviest first, are cut into groups of which
//! every batch gets the same number of targets. Groups are as small as they can be, with one target for every
//! batch of a division, so batches have the same mixture of heavy and light vertices as far as there is one.
//! Within a group it is drawn who gets which: every vertex is in one batch of a division.

use kymo_graph::Vertex;
use kymo_graph::random::{Random, shuffle};

use crate::batch::Drawn;
use crate::error::Result;
use crate::partition::{Ask, load_aware};

/// The vertices of each owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Portions {
    /// Of each owner, the heaviest first.
    own: Vec<Vec<Vertex>>,
}

impl Portions {
    /// Those of a load-aware partition.
    pub fn new(ask: &Ask<'_>) -> Result<Portions> {
        ask.check()?;
        let order = load_aware::by_load(&load_aware::loads(ask.store, ask.looked(), ask.layers)?);
        let owners = load_aware::deal(&order, ask.workers);
        let mut own = vec![Vec::with_capacity(order.len().div_ceil(ask.workers)); ask.workers];
        order.into_iter().for_each(|vertex| own[owners[vertex as usize] as usize].push(vertex));
        Ok(Portions { own })
    }

    /// How many owners there are.
    pub fn owners(&self) -> usize {
        self.own.len()
    }

    /// The vertices of an owner, the heaviest first; none where there is no such owner.
    pub fn own(&self, owner: usize) -> &[Vertex] {
        self.own.get(owner).map_or(&[], Vec::as_slice)
    }

    /// All parts of a division of an owner's vertices, each ascending.
    pub fn division(&self, owner: usize, parts: usize, seed: u64) -> Vec<Vec<Vertex>> {
        let random = Random::new(seed).stream(owner as u64);
        let own = self.own(owner);
        let parts = parts.max(1);
        let mut all = vec![Vec::with_capacity(own.len().div_ceil(parts)); parts];
        let mut turns: Vec<usize> = (0..parts).collect();
        for (group, vertices) in own.chunks(parts).enumerate() {
            shuffle(&mut turns, random.stream(group as u64));
            turns.iter().zip(vertices).for_each(|(&part, &vertex)| all[part].push(vertex));
        }
        all.iter_mut().for_each(|part| part.sort_unstable());
        all
    }

    /// One part of a division of an owner's vertices, ascending.
    pub fn part(&self, owner: usize, drawn: &Drawn) -> Vec<Vertex> {
        self.division(owner, drawn.parts, drawn.seed).into_iter().nth(drawn.part).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn portions(loads: &[u64], workers: usize) -> Portions {
        let order = load_aware::by_load(loads);
        let owners = load_aware::deal(&order, workers);
        let of = |worker: usize| {
            let is_own = |vertex: &Vertex| owners[*vertex as usize] as usize == worker;
            order.iter().copied().filter(is_own).collect()
        };
        Portions { own: (0..workers).map(of).collect() }
    }

    proptest! {
        /// The parts of all owners together are all vertices, each once; those of an owner are as large as
        /// each other, but for one vertex, and as heavy, but for the heaviest.
        #[test]
        fn parts_are_balanced_and_complete(
            loads in prop::collection::vec(0u64..1000, 1..80),
            workers in 1usize..5,
            parts in 1usize..9,
            seed in any::<u64>(),
        ) {
            let portions = portions(&loads, workers);
            let mut seen = Vec::new();
            for owner in 0..workers {
                let division = portions.division(owner, parts, seed);
                prop_assert_eq!(division.len(), parts);
                let sizes: Vec<usize> = division.iter().map(Vec::len).collect();
                prop_assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1);
                let of = |part: &Vec<Vertex>| part.iter().map(|&v| loads[v as usize]).sum::<u64>();
                let sums: Vec<u64> = division.iter().map(of).collect();
                let spread = sums.iter().max().unwrap() - sums.iter().min().unwrap();
                // Each group adds at most what its heaviest has more than its lightest.
                let heaviest = portions.own(owner).first().map_or(0, |&v| loads[v as usize]);
                prop_assert!(spread <= heaviest);
                for (part, vertices) in division.iter().enumerate() {
                    prop_assert!(vertices.is_sorted_by(|a, b| a < b));
                    prop_assert_eq!(&portions.part(owner, &Drawn { part, parts, seed }), vertices);
                }
                seen.extend(division.concat());
            }
            seen.sort_unstable();
            prop_assert!(seen.into_iter().eq(0..loads.len() as Vertex));
        }
    }

    #[test]
    fn another_seed_divides_in_another_way() {
        let portions = portions(&(0..60).collect::<Vec<u64>>(), 2);
        assert_ne!(portions.division(0, 5, 1), portions.division(0, 5, 2));
        assert_eq!(portions.division(1, 5, 1), portions.division(1, 5, 1));
        assert!(portions.own(7).is_empty() && portions.division(7, 2, 1).concat().is_empty());
    }
}
