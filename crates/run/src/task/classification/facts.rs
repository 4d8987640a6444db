//! What the classes of others say of a vertex, as columns of the head of a classification: a model knows what
//! the baselines know, and learns what that leaves over.
//!
//! Where classes change, these are the last class of the vertex and the vote of its neighbours. Where they
//! never change, these are the vote and what labels come to that spread along edges ([`Neighbours::spread`]).
//! Nothing of its own class reaches a vertex that is learnt from: the vertices for training are divided into
//! folds, and labels reach those of a fold from the other folds alone. All others hear of every vertex for
//! training, as they do in evaluation.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use kymo_graph::Step;

use super::neighbours::Neighbours;
use crate::random::Random;

/// Vertices for training are divided into this many folds.
const FOLDS: u64 = 5;

/// The stream of random numbers that deals them out.
const DEAL: u64 = 0xF01D;

/// Bytes that neighbours of all vertices may take for facts to be known: a rule of the data alone, so that
/// `--memory` does not decide what a model is.
pub const MOST_BYTES: u64 = 1 << 30;

/// Bytes of facts that are kept; of long stores, some steps stand for those after them.
const KEPT_BYTES: usize = 256 << 20;

/// Shares below this are alike, in their logarithms.
const LEAST: f32 = 0.02;

/// Facts of some steps, once they were asked for: a row for each vertex.
pub struct Facts {
    steps: usize,
    /// Steps from one that is looked at to the next.
    stride: usize,
    /// The random numbers that folds follow from.
    seed: u64,
    kept: Mutex<BTreeMap<Step, Arc<Vec<f32>>>>,
}

impl Facts {
    /// Those of this many vertices and steps, with this many columns.
    pub fn new(vertices: usize, columns: usize, steps: usize, seed: u64) -> Facts {
        let room = (KEPT_BYTES / (vertices * columns * size_of::<f32>()).max(1)).max(2);
        // The last step is looked at in any case.
        let stride = steps.div_ceil(room.saturating_sub(1).max(1)).max(1);
        Facts { steps, stride, seed, kept: Mutex::default() }
    }

    /// Bytes that they take when all have been asked for.
    pub fn bytes(&self, vertices: usize, columns: usize) -> u64 {
        let steps = self.steps.div_ceil(self.stride) + 1;
        (vertices * columns * size_of::<f32>()) as u64 * steps as u64
    }

    /// The step whose facts stand for those of this one: itself, or one before it.
    pub fn step(&self, sample: Step) -> Step {
        if sample + 1 >= self.steps { sample } else { sample - sample % self.stride }
    }

    /// Those of a step that [`Facts::step`] names.
    pub fn get<E>(&self, step: Step, make: impl FnOnce() -> Result<Vec<f32>, E>) -> Result<Arc<Vec<f32>>, E> {
        let lock = || self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(facts) = lock().get(&step) {
            return Ok(facts.clone());
        }
        // Two workers may make the same at a time; they come to the same.
        let made = Arc::new(make()?);
        Ok(lock().entry(step).or_insert(made).clone())
    }

    /// The fold of a vertex.
    fn fold(&self, vertex: usize) -> u64 {
        Random::new(self.seed).stream(DEAL).word(vertex as u64) % FOLDS
    }

    /// Facts where classes never change: the vote of neighbours, and what spreads to a vertex from others;
    /// `usual` are the shares of classes in training.
    pub fn of_others(&self, neighbours: &Neighbours, known: &[Option<u32>], usual: &[f32]) -> Vec<f32> {
        let classes = usual.len();
        let votes = neighbours.votes(known, classes);
        let mut spread = neighbours.spread(known, classes);
        for fold in 0..FOLDS {
            let is_left_out = |vertex: usize| known[vertex].is_some() && self.fold(vertex) == fold;
            let others: Vec<Option<u32>> = (0..known.len())
                .map(|vertex| if is_left_out(vertex) { None } else { known[vertex] })
                .collect();
            let heard = neighbours.spread(&others, classes);
            for vertex in (0..known.len()).filter(|&vertex| is_left_out(vertex)) {
                let row = vertex * classes..(vertex + 1) * classes;
                spread[row.clone()].copy_from_slice(&heard[row]);
            }
        }
        joined([&votes, &spread], usual)
    }

    /// Facts where classes change: the vote of neighbours, and the last class of the vertex.
    pub fn of_past(neighbours: &Neighbours, known: &[Option<u32>], usual: &[f32]) -> Vec<f32> {
        let classes = usual.len();
        let votes = neighbours.votes(known, classes);
        let mut last = vec![0.0; known.len() * classes];
        for (row, class) in last.chunks_exact_mut(classes.max(1)).zip(known) {
            if let Some(class) = class {
                row[*class as usize] = 1.0;
            }
        }
        joined([&votes, &last], usual)
    }
}

/// Rows of both beside each other, as logarithms that are not far below those of small shares. Where nothing
/// is known, there are the shares that are usual in training.
fn joined(both: [&[f32]; 2], usual: &[f32]) -> Vec<f32> {
    let classes = usual.len().max(1);
    let mut facts = Vec::with_capacity(2 * both[0].len());
    for (one, other) in both[0].chunks_exact(classes).zip(both[1].chunks_exact(classes)) {
        for row in [one, other] {
            let is_known = row.iter().any(|&share| share > 0.0);
            let shares = if is_known { row } else { usual };
            facts.extend(shares.iter().map(|&share| ((share + LEAST) / LEAST).ln()));
        }
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two cliques of six, one of each class, and a vertex that hangs on the first; 13 has no neighbour.
    fn cliques() -> (Neighbours, Vec<Option<u32>>) {
        let pairs = (0..6u32).flat_map(|u| (0..u).map(move |v| (u, v)));
        let edges = pairs.flat_map(|(u, v)| [(u, v), (u + 6, v + 6)]).chain([(0, 12)]);
        let known = (0..14).map(|vertex| (vertex < 12).then_some(u32::from(vertex >= 6))).collect();
        (Neighbours::of_pairs(edges, 14), known)
    }

    #[test]
    fn no_vertex_hears_of_its_own_class() {
        let (neighbours, mut known) = cliques();
        let facts = Facts::new(14, 4, 1, 7);
        let before = facts.of_others(&neighbours, &known, &[0.5, 0.5]);
        for vertex in 0..12 {
            let told = known[vertex].replace(1 - u32::from(vertex >= 6));
            let after = facts.of_others(&neighbours, &known, &[0.5, 0.5]);
            let row = 4 * vertex..4 * vertex + 4;
            assert_eq!(before[row.clone()], after[row], "vertex {vertex} hears of itself");
            assert_ne!(before, after, "others hear of it");
            known[vertex] = told;
        }
    }

    #[test]
    fn facts_say_what_neighbours_are() {
        let (neighbours, known) = cliques();
        let facts = Facts::new(14, 4, 1, 7).of_others(&neighbours, &known, &[0.75, 0.25]);
        let row = |vertex: usize| &facts[4 * vertex..4 * vertex + 4];
        for vertex in 0..13 {
            let (own, other) = if (6..12).contains(&vertex) { (1, 0) } else { (0, 1) };
            assert!(row(vertex)[own] > 3.0 && row(vertex)[other] < 0.1, "{vertex}: {:?}", row(vertex));
            assert!(row(vertex)[2 + own] > row(vertex)[2 + other], "{vertex}: {:?}", row(vertex));
        }
        // Of a vertex that nobody knows anything of, what is usual.
        let usual = [0.75_f32, 0.25].map(|share| ((share + LEAST) / LEAST).ln());
        assert_eq!(row(13), [usual, usual].concat());
    }

    #[test]
    fn the_past_of_a_vertex_is_its_last_class() {
        let (neighbours, known) = cliques();
        let facts = Facts::of_past(&neighbours, &known, &[0.5, 0.5]);
        let most = ((1.0 + LEAST) / LEAST).ln();
        assert_eq!(facts[2..4], [most, 0.0]);
        assert_eq!(facts[4 * 7 + 2..4 * 7 + 4], [0.0, most]);
    }

    #[test]
    fn long_stores_are_looked_at_now_and_then_and_at_their_end() {
        let short = Facts::new(100, 4, 50, 1);
        assert!((0..50).all(|sample| short.step(sample) == sample));
        let long = Facts::new(1 << 20, 8, 100, 1);
        let looked: std::collections::BTreeSet<Step> = (0..100).map(|sample| long.step(sample)).collect();
        assert!(looked.len() < 12 && looked.contains(&99) && looked.contains(&0), "{looked:?}");
        assert!((0..100).all(|sample| long.step(sample) <= sample));
        assert!(looked.len() as u64 * (8 << 22) <= long.bytes(1 << 20, 8));
        assert!(long.bytes(1 << 20, 8) <= (KEPT_BYTES as u64) + (8 << 22));
    }

    #[test]
    fn facts_are_made_once() {
        let facts = Facts::new(3, 2, 5, 1);
        let first = facts.get(2, || Ok::<_, ()>(vec![1.0; 6])).unwrap();
        let again = facts.get(2, || Err(())).unwrap();
        assert!(Arc::ptr_eq(&first, &again));
        assert_eq!(facts.get(3, || Err(7)), Err(7));
    }
}
