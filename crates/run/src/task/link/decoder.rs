//! From two embeddings and the past of a pair to a score: the decoder of pairs ([`super::super::pairs`]) with
//! one column of scores, on a tape and in plain numbers. Facts are the past of the pair ([`super::pasts`]);
//! what is known of a target alone goes with its part. A pair costs one pass over the hidden columns.

use std::sync::OnceLock;

use kymo_graph::Vertex;
use kymo_model::{Params, Slot};
use kymo_tensor::{Tiles, weigh_pair};
use rayon::prelude::*;

use super::super::pairs::Names;
use super::pasts::{AsOf, FACTS};
use crate::error::{Error, Result};

/// The parameters.
pub const NAMES: Names = Names {
    of_vertices: ["link.source", "link.target", "link.bias"],
    facts: HISTORY,
    out: OUT,
    direct: None,
};
const HISTORY: &str = "link.history";
const OUT: [&str; 2] = ["link.out", "link.out_bias"];

/// The parameters above embeddings of this width.
pub fn slots(width: usize, history: bool) -> Vec<Slot> {
    NAMES.slots(width, if history { FACTS } else { 0 }, 1)
}

/// The decoder in plain numbers, for judging, as of one step.
pub struct Decoder<'a> {
    width: usize,
    /// Of every vertex both parts, side by side.
    ends: &'a [f32],
    /// Of every vertex its part as a target, with what is known of it alone, where anything is.
    targets: Option<Vec<f32>>,
    out: &'a [f32],
    bias: f32,
    past: Option<(AsOf<'a>, &'a [f32])>,
    /// The parts of all vertices as targets, once rows are asked for.
    tiles: OnceLock<Tiles>,
}

impl<'a> Decoder<'a> {
    /// The decoder with these parameters; `ends` are the parts of all vertices, both side by side.
    pub fn new(ends: &'a [f32], past: Option<AsOf<'a>>, params: &'a Params) -> Result<Decoder<'a>> {
        let of = |name: &str| {
            params
                .get(name)
                .ok_or_else(|| Error::settings("parameters", format!("there is none called {name}")))
        };
        let (out, bias) = (of(OUT[0])?, of(OUT[1])?[0]);
        let (width, tiles) = (out.len(), OnceLock::new());
        let past = match past {
            Some(past) => Some((past, of(HISTORY)?)),
            None => None,
        };
        let targets = past.as_ref().map(|(past, weights)| {
            let mut targets = Vec::with_capacity(ends.len() / 2);
            for (target, both) in (0..).zip(ends.chunks_exact(2 * width)) {
                let popularity = past.popularity(target);
                let weights = weights[(FACTS - 1) * width..].iter();
                targets.extend(
                    both[width..].iter().zip(weights).map(|(part, weight)| part + popularity * weight),
                );
            }
            targets
        });
        Ok(Decoder { width, ends, targets, out, bias, past, tiles })
    }

    fn source(&self, vertex: Vertex) -> &'a [f32] {
        &self.ends[2 * vertex as usize * self.width..][..self.width]
    }

    fn target(&self, vertex: Vertex) -> &[f32] {
        match &self.targets {
            Some(targets) => &targets[vertex as usize * self.width..][..self.width],
            None => &self.ends[(2 * vertex as usize + 1) * self.width..][..self.width],
        }
    }

    /// The score of a pair.
    pub fn score(&self, source: Vertex, target: Vertex) -> f32 {
        let Some((past, weights)) = &self.past else { return self.alone(self.source(source), target) };
        let facts = past.of_pair(source, target);
        if facts == [0.0; FACTS - 1] {
            return self.alone(self.source(source), target);
        }
        let mut sum = self.source(source).to_vec();
        for (fact, weights) in facts.iter().zip(weights.chunks_exact(self.width)) {
            sum.iter_mut().zip(weights).for_each(|(sum, weight)| *sum += fact * weight);
        }
        self.alone(&sum, target)
    }

    /// The score of what is known of a source with one target.
    fn alone(&self, source: &[f32], target: Vertex) -> f32 {
        self.bias + weigh_pair(source, self.target(target), self.out)
    }

    /// The scores of many pairs.
    pub fn scores(&self, pairs: &[(Vertex, Vertex)]) -> Vec<f32> {
        pairs.par_iter().with_min_len(256).map(|&(source, target)| self.score(source, target)).collect()
    }

    /// The scores of sources against all vertices, source after source.
    pub fn rows(&self, sources: &[Vertex], out: &mut [f32]) {
        let tiles = || match &self.targets {
            Some(targets) => Tiles::new(targets, self.width, self.width),
            None => Tiles::new(self.ends.get(self.width..).unwrap_or_default(), 2 * self.width, self.width),
        };
        let tiles = self.tiles.get_or_init(tiles);
        tiles.weigh(sources.iter().map(|&source| self.source(source)), self.out, out);
        out.iter_mut().for_each(|score| *score += self.bias);
        let Some((past, _)) = &self.past else { return };
        for (&source, row) in sources.iter().zip(out.chunks_exact_mut(tiles.rows().max(1))) {
            for target in past.known(source) {
                if let Some(score) = row.get_mut(target as usize) {
                    *score = self.score(source, target);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use kymo_tensor::{Arena, Shape, Tape};
    use proptest::prelude::*;

    use super::super::super::pairs::{Pairs, ends, scores};
    use super::super::fixture::{VERTICES, mirrored, steps, store};
    use super::super::pasts::Pasts;
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
    fn on_tape(params: &Params, embeddings: &[f32], past: Option<&AsOf<'_>>) -> (Vec<f32>, Vec<f32>) {
        let arena = Arena::new();
        let mut tape = Tape::new(&arena);
        let bound = params.bind(&mut tape).unwrap();
        let embeddings = tape.copied(Shape::new(VERTICES, WIDTH), embeddings).unwrap();
        let extra = NAMES.of_vertices.map(|name| bound.get(name).unwrap());
        let both = ends(&mut tape, embeddings, &extra).unwrap();
        let vertices = || 0..VERTICES as Vertex;
        let (sources, targets): (Vec<_>, Vec<_>) =
            vertices().flat_map(|source| vertices().map(move |target| (source, target))).unzip();
        let facts = past.map(|past| {
            let pairs = sources.iter().zip(&targets);
            pairs.flat_map(|(&source, &target)| past.facts(source, target)).collect()
        });
        let pairs = Pairs { sources, targets, truth: Vec::new(), facts: facts.unwrap_or_default() };
        let scores = scores(&mut tape, &bound, &NAMES, both, pairs).unwrap();
        let side_by_side = tape.concatenate_columns(&both).unwrap();
        (tape.value(scores).unwrap().to_vec(), tape.value(side_by_side).unwrap().to_vec())
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
            let pasts = Pasts::new(&store(folder.path(), &steps, directed), 2).unwrap();
            prop_assert_eq!(pasts.against.is_some(), directed);
            let (params, embeddings) = random(history, seed);
            for t in 0..steps.len() {
                let past = || history.then(|| pasts.at(t));
                let (expected, parts) = on_tape(&params, &embeddings, past().as_ref());
                let decoder = Decoder::new(&parts, past(), &params).unwrap();
                let all: Vec<Vertex> = (0..VERTICES as Vertex).collect();
                let mut rows = vec![f32::NAN; VERTICES * VERTICES];
                decoder.rows(&all, &mut rows);
                let both = expected.chunks(VERTICES).zip(rows.chunks(VERTICES));
                for (source, (expected, row)) in both.enumerate() {
                    let source = source as Vertex;
                    let pairs: Vec<_> = all.iter().map(|&target| (source, target)).collect();
                    let alone: Vec<f32> = pairs.iter().map(|&(u, v)| decoder.score(u, v)).collect();
                    // The same bits, so that ties among targets are the same whichever way they are asked
                    // for.
                    prop_assert_eq!(row, &alone);
                    prop_assert_eq!(&decoder.scores(&pairs), &alone);
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
        let pasts = Pasts::new(&store(folder.path(), &Vec::new(), true), 2).unwrap();
        let error = Decoder::new(&embeddings, Some(pasts.at(0)), &params).err().unwrap().to_string();
        assert!(error.contains(HISTORY), "{error}");
    }
}
