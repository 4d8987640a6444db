//! From two embeddings and the history of a pair to a score: a perceptron with one hidden layer.
//!
//! `score(u, v) = w . relu(S h_u + T h_v + H facts(u, v) + b) + c`. The part of each end is the same for all pairs, so it is
//! computed once for each vertex, and a pair costs one pass over the hidden columns. This is the decoder of EvolveGCN (Pareja
//! et al., AAAI 2020) with the history of the pair beside the embeddings: what EdgeBank knows, the model knows, too.

use kymo_graph::{Step, Vertex};
use kymo_model::params::Initial;
use kymo_model::{Params, Slot};
use kymo_tensor::{Shape, Tape, Var};
use rayon::prelude::*;

use super::history::{Facts, History};
use crate::error::{Error, Result};

/// What is known of the history of a pair.
pub const FACTS: usize = 6;

/// The names of the parameters of vertices, and of those of pairs.
pub const OF_VERTICES: [&str; 3] = ["link.source", "link.target", "link.bias"];
const HISTORY: &str = "link.history";
const OUT: [&str; 2] = ["link.out", "link.out_bias"];

/// The pasts of pairs, in both directions.
pub struct Pasts {
    /// Of source and target.
    pub along: History,
    /// Of target and source; in an undirected graph it would tell nothing new.
    against: Option<History>,
}

impl Pasts {
    /// The pasts of the pairs of a store.
    pub fn new(store: &kymo_graph::Store) -> Result<Pasts> {
        let against = if store.manifest().directed { Some(History::against(store)?) } else { None };
        Ok(Pasts { along: History::new(store)?, against })
    }

    /// What is known of a pair as of step `t`, in numbers of about one.
    pub fn facts(&self, source: Vertex, target: Vertex, t: Step) -> [f32; FACTS] {
        let against = self.against.as_ref().map(|history| history.facts(source, target, t));
        numbers(self.along.facts(source, target, t), against.unwrap_or_default(), t)
    }

    /// The vertices with which `source` has a history as of step `t`; some may be there twice.
    fn known(&self, source: Vertex, t: Step) -> impl Iterator<Item = Vertex> + '_ {
        let against = self.against.iter().flat_map(move |history| history.known_targets(source, t));
        self.along.known_targets(source, t).iter().chain(against).copied()
    }
}

fn numbers(along: Facts, against: Facts, t: Step) -> [f32; FACTS] {
    let flag = |there: bool| if there { 1.0 } else { 0.0 };
    let recent = |facts: Facts| facts.steps_since.map_or(0.0, |since| 1.0 / (1.0 + since as f32));
    [
        flag(along.present_now),
        recent(along),
        along.steps_present as f32 / (t + 1) as f32,
        (along.steps_present as f32).ln_1p(),
        flag(against.present_now),
        recent(against),
    ]
}

/// The parameters above embeddings of so many columns.
pub fn slots(width: usize, history: bool) -> Vec<Slot> {
    let mut slots = vec![
        Slot::weight(OF_VERTICES[0], width, width),
        Slot::weight(OF_VERTICES[1], width, width),
        Slot::bias(OF_VERTICES[2], width),
        Slot::weight(OUT[0], width, 1),
        Slot::bias(OUT[1], 1),
    ];
    if history {
        slots.push(Slot { name: HISTORY.into(), shape: Shape::new(FACTS, width), initial: Initial::Glorot });
    }
    slots
}

/// The parts of both ends of embeddings: as a source, as a target.
pub fn ends(tape: &mut Tape<'_>, embedding: Var, extra: &[Var]) -> kymo_tensor::Result<[Var; 2]> {
    Ok([tape.linear(embedding, extra[0], extra[2])?, tape.matmul(embedding, extra[1])?])
}

/// Pairs on a tape.
pub struct Pairs {
    /// Their sources.
    pub sources: Vec<Vertex>,
    /// Their targets.
    pub targets: Vec<Vertex>,
    /// What is known of them, [`FACTS`] numbers for each, or nothing.
    pub facts: Vec<f32>,
}

/// The scores of pairs on a tape, one column.
pub fn scores(
    tape: &mut Tape<'_>,
    params: &kymo_model::Bound<'_>,
    [source, target]: [Var; 2],
    pairs: Pairs,
) -> kymo_tensor::Result<Var> {
    let count = pairs.sources.len();
    let source = tape.gather(source, pairs.sources.into())?;
    let target = tape.gather(target, pairs.targets.into())?;
    let mut parts = vec![source, target];
    if !pairs.facts.is_empty() {
        let facts = tape.copied(Shape::new(count, FACTS), &pairs.facts)?;
        parts.push(tape.matmul(facts, params.get(HISTORY)?)?);
    }
    let sum = tape.add_all(&parts)?;
    let hidden = tape.relu(sum)?;
    tape.linear(hidden, params.get(OUT[0])?, params.get(OUT[1])?)
}

/// The decoder in plain numbers, for judging.
pub struct Decoder<'a> {
    width: usize,
    /// Of every vertex both parts, side by side.
    ends: &'a [f32],
    out: &'a [f32],
    bias: f32,
    history: Option<(&'a Pasts, &'a [f32])>,
}

impl<'a> Decoder<'a> {
    /// The decoder with these parameters; `ends` are the parts of all vertices, both side by side.
    pub fn new(ends: &'a [f32], pasts: Option<&'a Pasts>, params: &'a Params) -> Result<Decoder<'a>> {
        let of = |name: &str| {
            params
                .get(name)
                .ok_or_else(|| Error::settings("parameters", format!("there is none called {name}")))
        };
        let (out, bias) = (of(OUT[0])?, of(OUT[1])?[0]);
        let history = match pasts {
            Some(pasts) => Some((pasts, of(HISTORY)?)),
            None => None,
        };
        Ok(Decoder { width: out.len(), ends, out, bias, history })
    }

    fn part(&self, vertex: Vertex, end: usize) -> &'a [f32] {
        &self.ends[(2 * vertex as usize + end) * self.width..][..self.width]
    }

    /// The score of a pair as of step `t`.
    pub fn score(&self, source: Vertex, target: Vertex, t: Step) -> f32 {
        let Some((pasts, weights)) = self.history else {
            return self.bias + weigh(self.part(source, 0), self.part(target, 1), self.out);
        };
        let facts = pasts.facts(source, target, t);
        if facts == [0.0; FACTS] {
            return self.bias + weigh(self.part(source, 0), self.part(target, 1), self.out);
        }
        let mut sum = self.part(source, 0).to_vec();
        for (fact, weights) in facts.iter().zip(weights.chunks_exact(self.width)) {
            sum.iter_mut().zip(weights).for_each(|(sum, weight)| *sum += fact * weight);
        }
        self.bias + weigh(&sum, self.part(target, 1), self.out)
    }

    /// The scores of many pairs as of step `t`.
    pub fn scores(&self, pairs: &[(Vertex, Vertex)], t: Step) -> Vec<f32> {
        pairs.par_iter().with_min_len(256).map(|&(source, target)| self.score(source, target, t)).collect()
    }

    /// The scores of a source against all vertices as of step `t`.
    pub fn row(&self, source: Vertex, t: Step, out: &mut [f32]) {
        let own = self.part(source, 0);
        for (target, score) in out.iter_mut().enumerate() {
            *score = self.bias + weigh(own, self.part(target as Vertex, 1), self.out);
        }
        if let Some((pasts, _)) = self.history {
            for target in pasts.known(source, t) {
                if let Some(score) = out.get_mut(target as usize) {
                    *score = self.score(source, target, t);
                }
            }
        }
    }
}

/// `sum of weight * relu(left + right)`, in a fixed order that a compiler can turn into wide instructions.
fn weigh(left: &[f32], right: &[f32], weights: &[f32]) -> f32 {
    const LANES: usize = 16;
    let mut sums = [0.0f32; LANES];
    let (lefts, rights, all) =
        (left.chunks_exact(LANES), right.chunks_exact(LANES), weights.chunks_exact(LANES));
    let rest: f32 = (lefts.remainder().iter().zip(rights.remainder()))
        .zip(all.remainder())
        .map(|((left, right), weight)| weight * (left + right).max(0.0))
        .sum();
    for ((left, right), weights) in lefts.zip(rights).zip(all) {
        for lane in 0..LANES {
            sums[lane] += weights[lane] * (left[lane] + right[lane]).max(0.0);
        }
    }
    sums.iter().sum::<f32>() + rest
}
