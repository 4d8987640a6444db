//! From two embeddings and the history of a pair to a score: a perceptron with one hidden layer.
//!
//! `score(u, v) = w . relu(S h_u + T h_v + H facts(u, v) + b) + c`. The part of each end is the same for all
//! pairs, so it is computed once for each vertex, and a pair costs one pass over the hidden columns. This is
//! the decoder of EvolveGCN (Pareja et al., AAAI 2020) with the history of the pair beside the embeddings:
//! what EdgeBank knows, the model knows, too.

use std::sync::OnceLock;

use kymo_graph::{Step, Vertex};
use kymo_model::params::Initial;
use kymo_model::{Params, Slot};
use kymo_tensor::{Shape, Tape, Tiles, Var, weigh_pair};
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

    /// Bytes that they take.
    pub fn bytes(&self) -> u64 {
        self.along.bytes() + self.against.as_ref().map_or(0, History::bytes)
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

/// The parameters above embeddings of this width.
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

impl Pairs {
    /// Those whose source counts, and how many of the first `links` pairs are among them.
    pub fn with_sources(self, links: usize, counts: impl Fn(Vertex) -> bool) -> (Pairs, usize) {
        let kept: Vec<usize> = (0..self.sources.len()).filter(|&pair| counts(self.sources[pair])).collect();
        let facts =
            |&pair: &usize| self.facts.get(pair * FACTS..(pair + 1) * FACTS).unwrap_or_default().to_vec();
        let pairs = Pairs {
            sources: kept.iter().map(|&pair| self.sources[pair]).collect(),
            targets: kept.iter().map(|&pair| self.targets[pair]).collect(),
            facts: kept.iter().flat_map(facts).collect(),
        };
        (pairs, kept.partition_point(|&pair| pair < links))
    }
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
    /// The parts of all vertices as targets, once rows are asked for.
    targets: OnceLock<Tiles>,
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
        Ok(Decoder { width: out.len(), ends, out, bias, history, targets: OnceLock::new() })
    }

    fn part(&self, vertex: Vertex, end: usize) -> &'a [f32] {
        &self.ends[(2 * vertex as usize + end) * self.width..][..self.width]
    }

    /// The score of a pair as of step `t`.
    pub fn score(&self, source: Vertex, target: Vertex, t: Step) -> f32 {
        let Some((pasts, weights)) = self.history else { return self.alone(self.part(source, 0), target) };
        let facts = pasts.facts(source, target, t);
        if facts == [0.0; FACTS] {
            return self.alone(self.part(source, 0), target);
        }
        let mut sum = self.part(source, 0).to_vec();
        for (fact, weights) in facts.iter().zip(weights.chunks_exact(self.width)) {
            sum.iter_mut().zip(weights).for_each(|(sum, weight)| *sum += fact * weight);
        }
        self.alone(&sum, target)
    }

    /// The score of what is known of a source with one target.
    fn alone(&self, source: &[f32], target: Vertex) -> f32 {
        self.bias + weigh_pair(source, self.part(target, 1), self.out)
    }

    /// The scores of many pairs as of step `t`.
    pub fn scores(&self, pairs: &[(Vertex, Vertex)], t: Step) -> Vec<f32> {
        pairs.par_iter().with_min_len(256).map(|&(source, target)| self.score(source, target, t)).collect()
    }

    /// The scores of sources against all vertices as of step `t`, source after source.
    pub fn rows(&self, sources: &[Vertex], t: Step, out: &mut [f32]) {
        let targets =
            || Tiles::new(self.ends.get(self.width..).unwrap_or_default(), 2 * self.width, self.width);
        let targets = self.targets.get_or_init(targets);
        targets.weigh(sources.iter().map(|&source| self.part(source, 0)), self.out, out);
        out.iter_mut().for_each(|score| *score += self.bias);
        let Some((pasts, _)) = self.history else { return };
        for (&source, row) in sources.iter().zip(out.chunks_exact_mut(targets.rows().max(1))) {
            for target in pasts.known(source, t) {
                if let Some(score) = row.get_mut(target as usize) {
                    *score = self.score(source, target, t);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use kymo_tensor::Arena;
    use proptest::prelude::*;

    use super::super::fixture::{Steps, VERTICES, steps, store};
    use super::*;

    /// Not a multiple of the lanes, so that there is a rest.
    const WIDTH: usize = 19;

    /// Parameters of which none is zero, and embeddings of all vertices.
    fn random(history: bool, seed: u64) -> (Params, Vec<f32>) {
        let mut params = Params::new(slots(WIDTH, history), seed).unwrap();
        params.values.iter_mut().flatten().enumerate().for_each(|(i, value)| *value += 0.01 * (i % 5) as f32);
        let draws = crate::random::Random::new(seed);
        let embeddings = (0..(VERTICES * WIDTH) as u64).map(|place| draws.share(place) as f32 - 0.5);
        (params, embeddings.collect())
    }

    /// The scores of all pairs on a tape, source by source, and the parts of all vertices side by side.
    fn on_tape(params: &Params, embeddings: &[f32], pasts: Option<&Pasts>, t: Step) -> (Vec<f32>, Vec<f32>) {
        let arena = Arena::new();
        let mut tape = Tape::new(&arena);
        let bound = params.bind(&mut tape).unwrap();
        let embeddings = tape.copied(Shape::new(VERTICES, WIDTH), embeddings).unwrap();
        let extra = OF_VERTICES.map(|name| bound.get(name).unwrap());
        let both = ends(&mut tape, embeddings, &extra).unwrap();
        let vertices = || 0..VERTICES as Vertex;
        let (sources, targets): (Vec<_>, Vec<_>) =
            vertices().flat_map(|source| vertices().map(move |target| (source, target))).unzip();
        let facts = pasts.map(|pasts| {
            sources
                .iter()
                .zip(&targets)
                .flat_map(|(&source, &target)| pasts.facts(source, target, t))
                .collect()
        });
        let pairs = Pairs { sources, targets, facts: facts.unwrap_or_default() };
        let scores = scores(&mut tape, &bound, both, pairs).unwrap();
        let side_by_side = tape.concatenate_columns(&both).unwrap();
        (tape.value(scores).unwrap().to_vec(), tape.value(side_by_side).unwrap().to_vec())
    }

    /// Every edge with its opposite.
    fn mirrored(steps: &Steps) -> Steps {
        let both = |&(source, target): &(Vertex, Vertex)| [(source, target), (target, source)];
        steps.iter().map(|step| step.iter().flat_map(both).collect()).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn plain_scores_are_those_of_the_tape(
            steps in steps(1..6),
            directed: bool,
            history: bool,
            seed in 0u64..100,
        ) {
            let steps = if directed { steps } else { mirrored(&steps) };
            let folder = tempfile::tempdir().unwrap();
            let pasts = Pasts::new(&store(folder.path(), &steps, directed)).unwrap();
            prop_assert_eq!(pasts.against.is_some(), directed);
            let pasts = history.then_some(&pasts);
            let (params, embeddings) = random(history, seed);
            for t in 0..steps.len() {
                let (expected, parts) = on_tape(&params, &embeddings, pasts, t);
                let decoder = Decoder::new(&parts, pasts, &params).unwrap();
                let all: Vec<Vertex> = (0..VERTICES as Vertex).collect();
                let mut rows = vec![f32::NAN; VERTICES * VERTICES];
                decoder.rows(&all, t, &mut rows);
                let both = expected.chunks(VERTICES).zip(rows.chunks(VERTICES));
                for (source, (expected, row)) in both.enumerate() {
                    let source = source as Vertex;
                    let pairs: Vec<_> = all.iter().map(|&target| (source, target)).collect();
                    let alone: Vec<f32> = pairs.iter().map(|&(u, v)| decoder.score(u, v, t)).collect();
                    // The same bits, so that ties among targets are the same whichever way they are asked
                    // for.
                    prop_assert_eq!(row, &alone);
                    prop_assert_eq!(&decoder.scores(&pairs, t), &alone);
                    for (found, expected) in alone.iter().zip(expected) {
                        prop_assert!((found - expected).abs() < 1e-5, "{} and {}", found, expected);
                    }
                }
            }
        }
    }

    #[test]
    fn a_decoder_without_its_parameters_names_what_is_missing() {
        let (params, embeddings) = random(false, 1);
        let folder = tempfile::tempdir().unwrap();
        let pasts = Pasts::new(&store(folder.path(), &Vec::new(), true)).unwrap();
        let error = Decoder::new(&embeddings, Some(&pasts), &params).err().unwrap().to_string();
        assert!(error.contains(HISTORY), "{error}");
    }
}
