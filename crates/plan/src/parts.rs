//! What each worker has of a snapshot, counted without making it.

use kymo_graph::{Edge, Presence, Step, Vertex};

use crate::cut::{present, present_count};
use crate::layout::Owners;

/// What a worker has of a step.
#[derive(Clone, Default)]
pub(crate) struct Part {
    /// Its own vertices.
    pub own: u64,
    /// Those of them that are present.
    pub present: u64,
    /// Neighbours that belong to others.
    pub beyond: u64,
    /// Edges that lead to its own.
    pub edges: u64,
    /// Edges that leave its own for those of others.
    pub leaving: u64,
    /// Rows of neighbours that it sends and receives.
    pub rows: [u64; 2],
}

impl Part {
    /// A whole step with this many edges.
    pub fn whole(vertices: usize, edges: u64, (presence, step): (Option<&Presence>, Step)) -> Part {
        let present = present_count(presence, vertices, step);
        Part { own: vertices as u64, present, edges, ..Part::default() }
    }
}

/// How many vertices each worker has, of those that are present at a step.
pub(crate) fn present_of_each(
    owners: Owners<'_>,
    vertices: usize,
    workers: usize,
    (presence, step): (Option<&Presence>, Step),
) -> Vec<u64> {
    let mut counts = vec![0; workers];
    match owners {
        Owners::One(worker) => counts[worker] = present_count(presence, vertices, step),
        Owners::Each(_) => {
            present(presence, vertices, step).for_each(|vertex| counts[owners.of(vertex)] += 1)
        }
    }
    counts
}

/// What each worker has of a snapshot with these edges, and the edges between workers: the rows that their
/// halos would send and receive, counted in one pass over the edges.
pub(crate) fn parts(
    edges: impl Iterator<Item = Edge> + Clone,
    owners: Owners<'_>,
    vertices: usize,
    workers: usize,
    both: bool,
    when: (Option<&Presence>, Step),
) -> (Vec<Part>, u64) {
    let (mut parts, mut cut) = (vec![Part::default(); workers], 0);
    (0..vertices as Vertex).for_each(|vertex| parts[owners.of(vertex)].own += 1);
    let counts = present_of_each(owners, vertices, workers, when);
    parts.iter_mut().zip(counts).for_each(|(part, present)| part.present = present);
    for edge in edges.clone() {
        let (source, target) = (owners.of(edge.source()), owners.of(edge.target()));
        parts[target].edges += 1;
        if source != target {
            parts[source].leaving += 1;
            cut += 1;
        }
    }
    // Of each vertex, which workers need its row: a bit each, sixty-four workers at a time.
    let mut needed = vec![0u64; vertices];
    for first in (0..workers).step_by(64) {
        needed.fill(0);
        let bit = |worker: usize| match worker.checked_sub(first) {
            Some(place @ 0..64) => 1u64 << place,
            _ => 0,
        };
        for edge in edges.clone() {
            let (source, target) = (owners.of(edge.source()), owners.of(edge.target()));
            if source != target {
                needed[edge.source() as usize] |= bit(target);
                if both {
                    needed[edge.target() as usize] |= bit(source);
                }
            }
        }
        for (vertex, &by) in (0..).zip(&needed) {
            let (owner, mut left) = (owners.of(vertex), by);
            parts[owner].rows[0] += u64::from(by.count_ones());
            while left != 0 {
                let part = &mut parts[first + left.trailing_zeros() as usize];
                (part.rows[1], part.beyond) = (part.rows[1] + 1, part.beyond + 1);
                left &= left - 1;
            }
        }
    }
    (parts, cut)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::mix;
    use crate::route::HaloRows;
    use kymo_graph::Snapshot;
    use std::ops::Range;

    /// Counted in one pass, parts are those of the halos that workers make one by one: also beyond the
    /// sixty-four workers that go through the edges together.
    #[test]
    fn parts_are_those_of_halos() {
        let vertices = 200;
        for (workers, both) in [(1, false), (3, true), (64, false), (65, true), (150, false)] {
            let owners: Vec<u16> = (0..vertices as u64).map(|v| (mix(v) % workers as u64) as u16).collect();
            let end = |draw: u64| (mix(draw) % vertices as u64) as Vertex;
            let edges = (0..900).map(|edge| Edge::new(end(2 * edge), end(2 * edge + 1)));
            let snapshot = Snapshot::from_edges(edges.collect());
            let owners = Owners::Each(&owners);
            let lives: Vec<Range<Step>> = (0..vertices).map(|vertex| vertex % 5..5).collect();
            let presence = Presence::of(5, &lives);
            let all = snapshot.edges.iter().copied();
            let (found, cut) = parts(all, owners, vertices, workers, both, (Some(&presence), 2));
            let between = |edge: &&Edge| owners.of(edge.source()) != owners.of(edge.target());
            assert_eq!(cut, snapshot.edges.iter().filter(between).count() as u64);
            for (worker, part) in found.iter().enumerate() {
                let halo = HaloRows::of(&snapshot, owners, vertices, workers, worker, both);
                let rows = [halo.route.rows_sent() as u64, halo.route.rows_received() as u64];
                let own = |edge: &&Edge| owners.of(edge.target()) == worker;
                let edges = snapshot.edges.iter().filter(own).count() as u64;
                let leaves = |edge: &&Edge| owners.of(edge.source()) == worker && between(edge);
                assert_eq!(part.leaving, snapshot.edges.iter().filter(leaves).count() as u64);
                let is_there = |&&vertex: &&Vertex| vertex % 5 <= 2;
                assert_eq!(part.present, halo.own.iter().filter(is_there).count() as u64);
                let expected = (halo.own.len() as u64, halo.beyond.len() as u64, edges, rows);
                assert_eq!((part.own, part.beyond, part.edges, part.rows), expected, "{worker} of {workers}");
            }
        }
    }
}
