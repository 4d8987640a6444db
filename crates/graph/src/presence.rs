//! Vertices that come and go: at which steps each of them is present (DGC, section 2.2.1: "some vertices
//! exist for a long time and thus have long temporal sequences, while others are short").
//!
//! A vertex is present from the first step at which it has an edge to the last one. The steps between count
//! whether it has an edge there or not: what it is at a step follows from what it was before. A vertex that
//! never has an edge is never present.
//!
//! What training goes by must not depend on what is to be predicted, so lives may be those that the first
//! steps tell. Of later steps nothing is known, and every vertex counts as present there.

use std::ops::Range;

use crate::error::Result;
use crate::progress::Progress;
use crate::snapshot::{Edge, Step, Vertex};
use crate::store::{EdgeChange, Store};

/// The steps at which each vertex is present, as far as it is known: eight bytes a vertex.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Presence {
    /// How many steps were looked at.
    steps: usize,
    /// The first step of each vertex and the one behind its last; the same where it is never present.
    lives: Vec<[u32; 2]>,
}

/// The end of a life that goes on.
const OPEN: u32 = u32::MAX;

impl Presence {
    /// Every vertex at every step.
    pub fn always(vertices: usize, steps: usize) -> Presence {
        Presence { steps, lives: vec![[0, steps as u32]; vertices] }
    }

    /// Each vertex at these steps, cut to the steps that there are.
    pub fn of(steps: usize, lives: &[Range<Step>]) -> Presence {
        let cut = |life: &Range<Step>| {
            let end = life.end.min(steps);
            [life.start.min(end) as u32, end as u32]
        };
        Presence { steps, lives: lives.iter().map(cut).collect() }
    }

    /// Each vertex from its first to its last edge in the first steps of a store, this many or all, found in
    /// one pass over what is stored of the edges. It takes four more bytes a vertex meanwhile.
    pub fn by_edges(store: &Store, steps: usize, progress: &Progress) -> Result<Presence> {
        let steps = steps.min(store.steps());
        let mut found = Found { degrees: vec![0; store.vertices()], lives: vec![[0; 2]; store.vertices()] };
        for step in 0..steps {
            progress.check()?;
            match store.edge_change(step)? {
                EdgeChange::Whole(all) => found.begin_anew(step, all.edges),
                EdgeChange::Delta { removed, added, .. } => found.follow(step, added.edges, removed.edges),
            }
            store.release_edges(step)?;
        }
        found.lives.iter_mut().filter(|life| life[1] == OPEN).for_each(|life| life[1] = steps as u32);
        Ok(Presence { steps, lives: found.lives })
    }

    /// How many vertices there are.
    pub fn vertices(&self) -> usize {
        self.lives.len()
    }

    /// How many steps were looked at.
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// The steps at which a vertex is present, of those that were looked at: none where it never is.
    pub fn life(&self, vertex: Vertex) -> Range<Step> {
        let [first, end] = self.lives[vertex as usize];
        first as usize..end as usize
    }

    /// Whether a vertex is present at a step.
    pub fn has(&self, vertex: Vertex, step: Step) -> bool {
        step >= self.steps || self.life(vertex).contains(&step)
    }

    /// Whether a vertex is present at any of some steps.
    pub fn meets(&self, vertex: Vertex, steps: &Range<Step>) -> bool {
        let life = self.life(vertex);
        let ends_later = steps.end > self.steps && !steps.is_empty();
        ends_later || life.start.max(steps.start) < life.end.min(steps.end)
    }

    /// How many vertices are present at each step that was looked at.
    pub fn counts(&self) -> Vec<u64> {
        // What comes and goes at each step, and then the sum of it so far.
        let mut change = vec![0i64; self.steps + 1];
        for &[first, end] in &self.lives {
            change[first as usize] += 1;
            change[end as usize] -= 1;
        }
        let sums = change.iter().scan(0, |sum, change| {
            *sum += change;
            Some(*sum as u64)
        });
        sums.take(self.steps).collect()
    }

    /// How many vertices are present at each number of steps, from 0 to all: the lengths of their sequences.
    pub fn lengths(&self) -> Vec<u64> {
        let mut lengths = vec![0; self.steps + 1];
        self.lives.iter().for_each(|&[first, end]| lengths[(end - first) as usize] += 1);
        lengths
    }
}

/// What is known while steps are looked at in order.
struct Found {
    /// How many ends of edges each vertex has.
    degrees: Vec<u32>,
    /// Those with an edge have an open end; before their first edge vertices have two zeros.
    lives: Vec<[u32; 2]>,
}

impl Found {
    /// A step of which all edges are stored.
    fn begin_anew(&mut self, step: Step, edges: &[Edge]) {
        self.degrees.fill(0);
        ends(edges).for_each(|vertex| self.degrees[vertex as usize] += 1);
        (0..self.lives.len() as Vertex).for_each(|vertex| self.settle(vertex, step));
    }

    /// A step of which the change is stored: the cost is that of the change.
    fn follow(&mut self, step: Step, added: &[Edge], removed: &[Edge]) {
        ends(added).for_each(|vertex| self.degrees[vertex as usize] += 1);
        for vertex in ends(removed) {
            let degree = &mut self.degrees[vertex as usize];
            *degree = degree.saturating_sub(1);
        }
        ends(added).chain(ends(removed)).for_each(|vertex| self.settle(vertex, step));
    }

    /// Opens or closes the life of a vertex whose edges at a step are counted.
    fn settle(&mut self, vertex: Vertex, step: Step) {
        let has_edges = self.degrees[vertex as usize] > 0;
        let [first, end] = &mut self.lives[vertex as usize];
        match has_edges {
            true if *end == 0 => [*first, *end] = [step as u32, OPEN],
            true => *end = OPEN,
            false if *end == OPEN => *end = step as u32,
            false => {}
        }
    }
}

fn ends(edges: &[Edge]) -> impl Iterator<Item = Vertex> + '_ {
    edges.iter().flat_map(|edge| [edge.source(), edge.target()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Ids;
    use crate::snapshot::Snapshot;
    use crate::step::{StepData, StepEdges};
    use crate::store::{Plan, Writer};
    use proptest::prelude::*;

    const VERTICES: Vertex = 8;

    fn store(steps: &[Vec<(Vertex, Vertex)>]) -> (tempfile::TempDir, Store) {
        let folder = tempfile::tempdir().unwrap();
        let mut writer = Writer::create(&folder.path().join("store"), false).unwrap();
        // Small parts: some steps are stored whole, others as changes, in several files.
        writer.plan(Plan { directed: true, part_bytes: 200, ..Plan::default() });
        writer.add_vertices(&Ids::Number((0..VERTICES.into()).collect())).unwrap();
        for edges in steps {
            let edges = edges.iter().map(|&(u, v)| Edge::new(u, v)).collect();
            let edges = StepEdges::All(Snapshot::from_edges(edges));
            writer.push(StepData { edges, ..StepData::default() }).unwrap();
        }
        (folder, writer.finish().unwrap())
    }

    /// The rule as it is said: from the first to the last step with an edge.
    fn naive(steps: &[Vec<(Vertex, Vertex)>], vertex: Vertex) -> Range<Step> {
        let has = |edges: &Vec<(Vertex, Vertex)>| edges.iter().any(|&(u, v)| u == vertex || v == vertex);
        let first = steps.iter().position(has);
        first.map_or(0..0, |first| first..steps.iter().rposition(has).unwrap() + 1)
    }

    proptest! {
        #[test]
        fn vertices_are_present_from_their_first_to_their_last_edge(
            // Steps that share most of their edges are stored as changes, others whole.
            pool in prop::collection::vec((0..VERTICES, 0..VERTICES), 12),
            kept in prop::collection::vec(any::<u16>(), 0..12),
            rests in prop::collection::vec(any::<bool>(), 12),
            known in 0usize..12,
        ) {
            let mut mask = 0u16;
            let of_step = |(new, rests): (&u16, &bool)| {
                mask = if *rests { mask ^ (1 << (new % 12)) } else { *new };
                let has = |place: &usize| mask & 1 << place != 0;
                (0..12).filter(has).map(|place| pool[place]).collect::<Vec<_>>()
            };
            let steps: Vec<Vec<(Vertex, Vertex)>> = kept.iter().zip(&rests).map(of_step).collect();
            let (_folder, store) = store(&steps);
            let found = Presence::by_edges(&store, store.steps(), &Progress::silent()).unwrap();
            let expected: Vec<Range<Step>> = (0..VERTICES).map(|vertex| naive(&steps, vertex)).collect();
            for vertex in 0..VERTICES {
                prop_assert_eq!(found.life(vertex), expected[vertex as usize].clone());
            }
            let present = |step: Step| expected.iter().filter(|life| life.contains(&step)).count() as u64;
            prop_assert_eq!(found.counts(), (0..steps.len()).map(present).collect::<Vec<_>>());
            let as_long = |length: usize| expected.iter().filter(|life| life.len() == length).count() as u64;
            prop_assert_eq!(found.lengths(), (0..=steps.len()).map(as_long).collect::<Vec<_>>());
            for step in 0..steps.len() {
                let here = |vertex: Vertex| expected[vertex as usize].contains(&step);
                prop_assert!((0..VERTICES).all(|vertex| found.has(vertex, step) == here(vertex)));
            }
            for (from, to) in (0..=steps.len() + 1).flat_map(|to| (0..=to).map(move |from| (from, to))) {
                let meets = |vertex: Vertex| (from..to).any(|step| found.has(vertex, step));
                prop_assert!((0..VERTICES).all(|vertex| found.meets(vertex, &(from..to)) == meets(vertex)));
            }
            prop_assert_eq!(&Presence::of(steps.len(), &expected), &found);
            // What some steps tell does not depend on those that follow.
            let known = known.min(steps.len());
            let first = Presence::by_edges(&store, known, &Progress::silent()).unwrap();
            let life = |vertex| naive(&steps[..known], vertex);
            let lives: Vec<Range<Step>> = (0..VERTICES).map(life).collect();
            prop_assert_eq!(&Presence::of(known, &lives), &first);
            prop_assert!((0..VERTICES).all(|vertex| first.has(vertex, known)));
        }
    }

    #[test]
    fn steps_between_two_edges_count_and_a_vertex_may_never_come() {
        let (_folder, store) = store(&[vec![(0, 1)], vec![(2, 2)], vec![(1, 3)], vec![]]);
        let found = Presence::by_edges(&store, store.steps(), &Progress::silent()).unwrap();
        let lives: Vec<Range<Step>> = (0..5).map(|vertex| found.life(vertex)).collect();
        assert_eq!(lives, [0..1, 0..3, 1..2, 2..3, 0..0]);
        assert_eq!(found.counts(), [2, 2, 2, 0]);
        assert_eq!(found.lengths(), [4, 3, 0, 1, 0]);
    }

    #[test]
    fn always_is_every_step_and_lives_end_with_the_store() {
        let always = Presence::always(3, 4);
        assert_eq!((always.vertices(), always.steps()), (3, 4));
        assert_eq!((always.counts(), always.lengths()), (vec![3; 4], vec![0, 0, 0, 0, 3]));
        assert_eq!(Presence::of(4, &[0..9, 0..4, 7..9]).counts(), [2, 2, 2, 2]);
        assert!(Presence::of(2, &[]).counts().iter().all(|&count| count == 0));
    }

    #[test]
    fn the_pass_can_be_stopped() {
        let (_folder, store) = store(&[vec![(0, 1)]]);
        let progress = Progress::silent();
        progress.stop();
        assert!(matches!(Presence::by_edges(&store, 1, &progress), Err(crate::Error::Interrupted)));
    }
}
