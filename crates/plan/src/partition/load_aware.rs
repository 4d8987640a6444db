//! Load-aware vertex partition (DynaHB, Algorithm 1 and Definition 2).
//!
//! The load of a vertex at a step is the recursive sum of its neighbours over `L` layers,
//! `L_i = sum over l = 1..L of (sum over l' = 1..l of |N^l'(v_i)|)`, summed over the steps. As in Algorithm
//! 1, it is found by passing labels along the edges: `label_0 = 1`, `label_l(v) = sum over in-neighbours u of
//! label_(l-1)(u)`. So a neighbour that can be reached along two ways counts twice: these are walks, and what
//! is computed for a vertex where nothing is shared.
//!
//! Algorithm 1 assigns the sorted vertices in turns, which gives the first worker the heavier vertex of
//! every round. Here each round goes the other way round than the one before (1..M, M..1), so that this evens
//! out: the heaviest worker has at most the load of one vertex more than the lightest. The numbers of the
//! paper's Example 3 are the same.

use kymo_graph::{Edge, Step, Store, Vertex};

use super::{Ask, Partition, Partitioner};
use crate::error::Result;
use crate::layout::{Layout, Worker};

/// Vertices with many walks to them, assigned in turns.
pub(super) struct LoadAware;

impl Partitioner for LoadAware {
    fn name(&self) -> &'static str {
        "load-aware"
    }

    fn about(&self) -> &'static str {
        "vertices in the order of their neighbourhoods over all layers, assigned in turns (DynaHB)"
    }

    fn partition(&self, ask: &Ask<'_>) -> Result<Partition> {
        ask.check()?;
        let owners = deal(&by_load(&loads(ask.store, ask.looked(), ask.layers)?), ask.workers);
        Ok(Layout::by_vertex(ask.workers, ask.store.steps(), owners)?.into())
    }
}

/// The load of each vertex, over these steps and this many layers.
pub(crate) fn loads(store: &Store, steps: Vec<Step>, layers: usize) -> Result<Vec<u64>> {
    let mut walks = Walks::new(store.vertices(), layers);
    for step in steps {
        walks.add(&store.snapshot(step)?.edges);
    }
    Ok(walks.loads)
}

/// All vertices, the heaviest first; of equal ones the lowest number first.
pub(crate) fn by_load(loads: &[u64]) -> Vec<Vertex> {
    let mut order: Vec<Vertex> = (0..loads.len() as Vertex).collect();
    order.sort_by_key(|&vertex| (std::cmp::Reverse(loads[vertex as usize]), vertex));
    order
}

/// The owner of each vertex where these, in this order, are assigned, every other round backwards.
pub(crate) fn deal(order: &[Vertex], workers: usize) -> Vec<Worker> {
    let mut owners = vec![0; order.len()];
    for (round, vertices) in order.chunks(workers.max(1)).enumerate() {
        for (place, &vertex) in vertices.iter().enumerate() {
            let worker = if round % 2 == 0 { place } else { workers - 1 - place };
            owners[vertex as usize] = worker as Worker;
        }
    }
    owners
}

/// Counts walks that end at vertices, step by step.
struct Walks {
    layers: usize,
    loads: Vec<u64>,
    labels: Vec<u64>,
    next: Vec<u64>,
}

impl Walks {
    fn new(vertices: usize, layers: usize) -> Walks {
        Walks { layers, loads: vec![0; vertices], labels: vec![0; vertices], next: vec![0; vertices] }
    }

    /// Adds those of a snapshot. A number of walks grows with the power of their length: where it is too
    /// large to be counted, it stays the largest there is.
    fn add(&mut self, edges: &[Edge]) {
        self.labels.fill(1);
        for layer in 1..=self.layers {
            self.next.fill(0);
            for edge in edges {
                let (from, to) =
                    (self.labels[edge.source() as usize], &mut self.next[edge.target() as usize]);
                *to = to.saturating_add(from);
            }
            // Walks of this length are in the sums of their own layer and of all above.
            let times = (self.layers + 1 - layer) as u64;
            for (load, &label) in self.loads.iter_mut().zip(&self.next) {
                *load = load.saturating_add(label.saturating_mul(times));
            }
            std::mem::swap(&mut self.labels, &mut self.next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kymo_graph::Snapshot;
    use proptest::prelude::*;

    /// The load of each vertex over these snapshots of vertices numbered from 0.
    fn walks(vertices: usize, layers: usize, steps: &[&[(u32, u32)]]) -> Vec<u64> {
        let mut walks = Walks::new(vertices, layers);
        for edges in steps {
            let edges = edges.iter().map(|&(source, target)| Edge::new(source, target)).collect();
            walks.add(&Snapshot::from_edges(edges).edges);
        }
        walks.loads
    }

    /// Two snapshots of `v_1` to `v_4` as Examples 2 and 3 tell of them: in the first, `v_2` has the
    /// neighbours `v_1` and `v_3`, and `v_1` has `v_3`; in the second it is `v_3` that has `v_1`.
    const STEPS: [&[(u32, u32)]; 2] =
        [&[(0, 1), (2, 1), (2, 0), (0, 3), (2, 3)], &[(0, 1), (2, 1), (0, 2), (0, 3), (2, 3)]];

    #[test]
    fn loads_are_those_of_example_2() {
        // `|{v_1, v_3}| + (|{v_1, v_3}| + |{v_3}|) = 5` in each snapshot.
        assert_eq!(walks(4, 2, &STEPS[..1])[1], 5);
        assert_eq!(walks(4, 2, &STEPS[1..])[1], 5);
        assert_eq!(walks(4, 2, &STEPS), [2, 10, 2, 10]);
        // Of one layer, a load is an in-degree.
        assert_eq!(walks(4, 1, &STEPS), [1, 4, 1, 4]);
    }

    #[test]
    fn workers_have_the_loads_of_example_3() {
        let loads = walks(4, 2, &STEPS);
        let of = |owners: &[Worker]| {
            let mut sums = [0; 2];
            owners.iter().zip(&loads).for_each(|(&owner, load)| sums[owner as usize] += load);
            sums
        };
        assert_eq!(of(&[0, 1, 0, 1]), [4, 20], "hash");
        assert_eq!(of(&[0, 0, 0, 1]), [14, 10], "METIS");
        assert_eq!(of(&deal(&by_load(&loads), 2)), [12, 12], "load-aware");
    }

    #[test]
    fn too_many_walks_are_the_most_there_are() {
        let all: Vec<(u32, u32)> = (0..40).flat_map(|u| (0..40).map(move |v| (u, v))).collect();
        let loads = walks(40, 20, &[&all, &all]);
        assert!(loads.iter().all(|&load| load == u64::MAX));
        let owners = deal(&by_load(&loads), 3);
        assert!(
            (0..3).all(|worker| owners.iter().filter(|&&owner| owner == worker).count().abs_diff(13) <= 1)
        );
    }

    proptest! {
        #[test]
        fn no_worker_has_more_than_a_vertex_too_much(
            loads in prop::collection::vec(0u64..1000, 1..60),
            workers in 1usize..8,
        ) {
            let owners = deal(&by_load(&loads), workers);
            let (mut sums, mut counts) = (vec![0; workers], vec![0usize; workers]);
            for (&owner, load) in owners.iter().zip(&loads) {
                sums[owner as usize] += load;
                counts[owner as usize] += 1;
            }
            let spread = |all: &[u64]| all.iter().max().unwrap() - all.iter().min().unwrap();
            prop_assert!(spread(&sums) <= *loads.iter().max().unwrap());
            prop_assert!(counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 1);
        }
    }
}
