//! Pairs of vertices: what links and edges have in common. A pair is scored by a perceptron with one hidden
//! layer over both embeddings and what is known of the pair:
//!
//! `score(u, v) = W relu(S h_u + T h_v + H facts(u, v) + b) + c + D facts(u, v)`.
//!
//! This is the decoder of EvolveGCN (Pareja et al., AAAI 2020) with facts beside the embeddings; `H` and `D`
//! are there where there are facts, `D` where a task asks for it. The part of each end is the same for all
//! pairs, so it is computed once for each vertex.

mod loss;
mod seen;
mod spread;

pub use loss::{asked_about, loss_of_pairs};
pub use seen::{SLICES, Seen};

use kymo_graph::{Edge, Vertex};
use kymo_model::params::Initial;
use kymo_model::{Bound, Slot};
use kymo_tensor::{Result, Shape, Tape, Var};

use crate::random::Random;

/// The names of a decoder's parameters.
pub struct Names {
    /// Of vertices: as a source, as a target, and of nothing.
    pub of_vertices: [&'static str; 3],
    /// Of facts, in the hidden layer.
    pub facts: &'static str,
    /// Of the hidden layer, and of nothing.
    pub out: [&'static str; 2],
    /// Of facts, past the hidden layer, where there is such a part.
    pub direct: Option<&'static str>,
}

impl Names {
    /// The parameters above embeddings of this width, for this many facts and columns of scores.
    pub fn slots(&self, width: usize, facts: usize, scores: usize) -> Vec<Slot> {
        let mut slots = vec![
            Slot::weight(self.of_vertices[0], width, width),
            Slot::weight(self.of_vertices[1], width, width),
            Slot::bias(self.of_vertices[2], width),
            Slot::weight(self.out[0], width, scores),
            Slot::bias(self.out[1], scores),
        ];
        let of_facts = |name: &str, columns: usize| Slot {
            name: name.into(),
            shape: Shape::new(facts, columns),
            initial: Initial::Glorot,
        };
        if facts > 0 {
            slots.push(of_facts(self.facts, width));
            slots.extend(self.direct.map(|name| of_facts(name, scores)));
        }
        slots
    }
}

/// The parts of both ends of embeddings: as a source, as a target.
pub fn ends(tape: &mut Tape<'_>, embedding: Var, extra: &[Var]) -> Result<[Var; 2]> {
    Ok([tape.linear(embedding, extra[0], extra[2])?, tape.matmul(embedding, extra[1])?])
}

/// Both of them side by side, as the outputs of a task have them.
pub fn both_ends(tape: &mut Tape<'_>, embedding: Var, extra: &[Var]) -> Result<Var> {
    let ends = ends(tape, embedding, extra)?;
    tape.concatenate_columns(&ends)
}

/// Pairs on a tape.
#[derive(Default)]
pub struct Pairs {
    /// Their sources.
    pub sources: Vec<Vertex>,
    /// Their targets.
    pub targets: Vec<Vertex>,
    /// What is true of them, where that is known.
    pub truth: Vec<f32>,
    /// What is known of them, as many numbers for each, or nothing.
    pub facts: Vec<f32>,
}

impl Pairs {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.sources.len()
    }

    /// How many numbers are known of each.
    fn facts_of_each(&self) -> usize {
        self.facts.len().checked_div(self.len()).unwrap_or(0)
    }

    /// What is true and what is known of some of them.
    fn told(&self, kept: &[usize]) -> [Vec<f32>; 2] {
        let width = self.facts_of_each();
        let facts = |&pair: &usize| self.facts[pair * width..][..width].iter().copied();
        [
            kept.iter().filter_map(|&pair| self.truth.get(pair).copied()).collect(),
            kept.iter().flat_map(facts).collect(),
        ]
    }

    /// Those whose source counts.
    pub fn with_sources(self, counts: impl Fn(Vertex) -> bool) -> Pairs {
        let kept: Vec<usize> = (0..self.len()).filter(|&pair| counts(self.sources[pair])).collect();
        let [truth, facts] = self.told(&kept);
        Pairs {
            sources: kept.iter().map(|&pair| self.sources[pair]).collect(),
            targets: kept.iter().map(|&pair| self.targets[pair]).collect(),
            truth,
            facts,
        }
    }
}

/// A sample of `count` of these edges without repetition, in order; all of them if `count` is 0 or not below
/// their number.
pub fn chosen(edges: &[Edge], count: usize, draws: &Random) -> Vec<Edge> {
    let mut chosen = edges.to_vec();
    if count > 0 && count < edges.len() {
        // Hashes of different edges differ, so the smallest ones are a sample without ties.
        chosen.select_nth_unstable_by_key(count, |edge| draws.word(edge.key()));
        chosen.truncate(count);
    }
    chosen.sort_unstable();
    chosen
}

/// The scores of pairs on a tape, a row for each.
pub fn scores(
    tape: &mut Tape<'_>,
    params: &Bound<'_>,
    names: &Names,
    [source, target]: [Var; 2],
    pairs: Pairs,
) -> Result<Var> {
    let shape = Shape::new(pairs.len(), pairs.facts_of_each());
    let source = tape.gather(source, pairs.sources.into())?;
    let target = tape.gather(target, pairs.targets.into())?;
    let mut parts = vec![source, target];
    let facts = match pairs.facts.is_empty() {
        true => None,
        false => Some(tape.copied(shape, &pairs.facts)?),
    };
    if let Some(facts) = facts {
        parts.push(tape.matmul(facts, params.get(names.facts)?)?);
    }
    let sum = tape.add_all(&parts)?;
    let hidden = tape.relu(sum)?;
    let scores = tape.linear(hidden, params.get(names.out[0])?, params.get(names.out[1])?)?;
    match (facts, names.direct) {
        (Some(facts), Some(name)) => {
            let direct = tape.matmul(facts, params.get(name)?)?;
            tape.add(scores, direct)
        }
        _ => Ok(scores),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_keep_what_belongs_to_them() {
        let pairs = Pairs {
            sources: vec![3, 1, 2],
            targets: vec![4, 5, 6],
            truth: vec![0.5, 1.5, 2.5],
            facts: vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
        };
        let kept = pairs.with_sources(|source| source != 1);
        assert_eq!((kept.sources, kept.targets), (vec![3, 2], vec![4, 6]));
        assert_eq!((kept.truth, kept.facts), (vec![0.5, 2.5], vec![1.0, 2.0, 5.0, 6.0]));
        assert_eq!(Pairs::default().with_sources(|_| true).len(), 0);
    }

    #[test]
    fn facts_have_parameters_where_there_are_some() {
        let names = Names { of_vertices: ["s", "t", "b"], facts: "h", out: ["o", "ob"], direct: Some("d") };
        let named = |facts| -> Vec<(String, usize)> {
            let slots = names.slots(7, facts, 3);
            slots.into_iter().map(|slot| (slot.name, slot.shape.len())).collect()
        };
        assert_eq!(named(0).len(), 5);
        assert_eq!(named(4)[5..], [("h".to_owned(), 28), ("d".to_owned(), 12)]);
    }
}
