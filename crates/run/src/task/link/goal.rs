//! Link prediction: which edges the next snapshot has.
//!
//! Embeddings of what is known up to step `t` score pairs; the edges of `t + 1` are to score higher than
//! pairs that are none.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use kymo_graph::{Edge, Step, Store, Vertex};
use kymo_model::Slot;
use kymo_model::metric::{Metric, Needs};
use kymo_plan::price::Asked;
use kymo_tensor::{Shape, Tape, Var};
use rayon::prelude::*;

use super::super::{Goal, Says, Table, Tallies, Task, Truths, one_horizon};
use crate::config::machine::{Need, require};
use crate::config::{LINK_PREDICTION, Link, Settings, Weigh};
use crate::data::{Part, Split, largest_step};
use crate::error::{Error, Result};
use crate::forward::{Forward, Loss, Outputs};
use crate::random::Random;
use crate::task::link::attacks;
use crate::task::link::decoder::{self, Decoder, NAMES};
use crate::task::link::events;
use crate::task::link::judge::Scorer;
use crate::task::link::lookback::Lookback;
use crate::task::link::pasts::{FACTS, Pasts};
use crate::task::link::rules::{self, Past};
use crate::task::link::tgb::Judged;
use crate::task::link::{Purpose, Recent, Sampler};
use crate::task::pairs::{Pairs, Seen, asked_about, both_ends, loss_of_pairs};

/// The task.
pub struct LinkPrediction;

/// The stream of random numbers that pairs for training come from.
const PAIRS: u64 = 0x9A15;

/// Bytes of an edge in a store.
pub(super) const EDGE_BYTES: u64 = 8;

impl Task for LinkPrediction {
    fn name(&self) -> &'static str {
        LINK_PREDICTION
    }

    fn about(&self) -> &'static str {
        "the edges of the next snapshot; baselines: EdgeBank with all its memory, and with that of a window, \
         targets that were popular lately, preferential attachment, common neighbours, and targets that were \
         never one first, which knows nothing about links"
    }

    fn metrics(&self) -> &'static [&'static str] {
        &["mrr-balanced", "mrr-tgb", "auc", "average-precision"]
    }

    fn shows(&self) -> &'static [Needs] {
        &[Needs::Sampled, Needs::Balanced, Needs::PerSource, Needs::AllPairs]
    }

    fn open(&self, store: &Arc<Store>, settings: &Settings) -> Result<Box<dyn Goal>> {
        one_horizon(self, settings)?;
        Ok(Box::new(Links::open(store, settings)?))
    }
}

impl Links {
    /// The task on a store.
    pub(super) fn open(store: &Arc<Store>, settings: &Settings) -> Result<Links> {
        if store.manifest().edges == 0 {
            let problem = format!("{} has no edges to predict", store.path().display());
            return Err(Error::settings("task.name", problem));
        }
        // Of every change a place in a list that is sorted, and of every pair what came of it, in one
        // direction or both.
        let each = if store.manifest().directed { 108 } else { 64 };
        let history = (store.structure_bytes()? / EDGE_BYTES).saturating_mul(each);
        require("the history of all pairs", history, "cut the data into fewer or later steps")?;
        let window = match settings.link.baseline_window {
            0 => settings.train.window,
            steps => steps,
        };
        let split = Split::of_store(store, 1, settings)?;
        let pasts = Pasts::new(store, window)?;
        let mut targets = pasts.along.seen_targets(store.steps()).to_vec();
        targets.sort_unstable();
        let last = split.samples(Part::Train).end;
        let both = pasts.along.seen_sources(last).iter().chain(pasts.along.seen_targets(last));
        Ok(Links {
            seen: Seen::new(store.vertices(), both.copied()),
            split,
            pasts,
            targets,
            recent: match settings.link.recent {
                0 => None,
                steps => Some(Recent::new(store, steps)?),
            },
            edges: match settings.link.weigh {
                Weigh::Edges => largest_step(store)?,
                Weigh::Events => events::counted(store)?,
            },
            store: store.clone(),
            link: settings.link.clone(),
            lookback: Lookback::new(store, &settings.link, window, last)?,
            window,
            seed: settings.train.seed,
            validation: Mutex::default(),
            latest: Mutex::default(),
        })
    }
}

/// A sample, and what was drawn for it.
type Latest = Option<(Step, Arc<Judged>)>;

/// The task on one store.
pub(super) struct Links {
    pub(super) store: Arc<Store>,
    /// Edges of a large step, or its events where those are asked about.
    pub(super) edges: u64,
    pub(super) split: Split,
    pub(super) pasts: Pasts,
    /// Every vertex that is ever a target, ascending.
    pub(super) targets: Vec<Vertex>,
    /// The vertices that training has seen.
    pub(super) seen: Seen,
    /// What absent targets are drawn from in training, where that is not everything.
    recent: Option<Recent>,
    pub(super) link: Link,
    /// Steps that count as recent for baselines.
    window: usize,
    /// Steps that EdgeBank with a window remembers.
    lookback: Lookback,
    pub(super) seed: u64,
    pub(super) validation: Mutex<BTreeMap<(Step, bool), Arc<Judged>>>,
    /// What was drawn last for other parts: all baselines are shown the same.
    pub(super) latest: Mutex<[Latest; 2]>,
}

impl Links {
    pub(super) fn sampler(&self, seed: u64) -> Sampler<'_> {
        Sampler { history: &self.pasts.along, recent: None, vertices: self.store.vertices(), seed }
    }

    fn scorer<'a>(&'a self, says: Says<'a>, t: Step) -> Result<Scorer<'a>> {
        let past = || self.link.history.then(|| self.pasts.at(t));
        Ok(match says {
            Says::Model(outputs, _) if !outputs.iter().all(|value| value.is_finite()) => Scorer::Lost,
            Says::Model(outputs, params) => Scorer::Decoder(Decoder::new(outputs, past(), params)?),
            Says::Baseline(name) => {
                let kind = attacks::find(name);
                let unknown = || Error::settings("baseline", format!("there is none called {name}"));
                let (history, vertices) = (&self.pasts.along, self.store.vertices());
                let (window, memory) = (self.window, self.lookback.at(t));
                let past = Past { history, t, window, memory, vertices };
                Scorer::Rule((kind.ok_or_else(unknown)?.at)(past))
            }
        })
    }

    /// The pairs of one step that are trained on, links first.
    fn drawn(&self, sample: Step, salt: u64) -> Result<Pairs> {
        let edges = self.store.snapshot(sample + 1)?.edges;
        let seed = Random::new(self.seed).stream(PAIRS).word(salt);
        let sampler = Sampler { recent: self.recent.as_ref(), ..self.sampler(seed) };
        let links = sampler.choose(&edges, self.link.positives, Purpose::Train, sample);
        let each = self.link.negatives;
        let mut absent = Vec::new();
        sampler.absent_targets(sample, &edges, &links, each, self.link.historical, &mut absent);
        let sources = links.iter().map(|link| link.source());
        let repeated = links.iter().flat_map(|link| std::iter::repeat_n(link.source(), each));
        let sources: Vec<Vertex> = sources.chain(repeated).collect();
        let targets: Vec<Vertex> = links.iter().map(|link| link.target()).chain(absent).collect();
        let facts = if self.link.history {
            let (past, pairs) = (self.pasts.at(sample), sources.par_iter().zip(&targets).with_min_len(256));
            pairs.flat_map_iter(|(&u, &v)| past.facts(u, v)).collect()
        } else {
            Vec::new()
        };
        let mut truth = vec![0.0; sources.len()];
        truth[..links.len()].fill(1.0);
        Ok(Pairs { sources, targets, truth, facts })
    }
}

impl Links {
    /// How much each pair counts, where links count otherwise than others.
    fn weights(&self, tape: &mut Tape<'_>, truth: &[f32]) -> kymo_tensor::Result<Option<Var>> {
        let weight = self.link.weight as f32;
        if weight == 1.0 {
            return Ok(None);
        }
        let weights: Vec<f32> = truth.iter().map(|&linked| if linked > 0.0 { weight } else { 1.0 }).collect();
        Ok(Some(tape.copied(Shape::new(weights.len(), 1), &weights)?))
    }
}

/// The probability that goes with a score, which is learnt by binary cross entropy: among pairs as they are
/// drawn in training.
fn probability(score: f32) -> f32 {
    (1.0 / (1.0 + (-f64::from(score)).exp())) as f32
}

impl Goal for Links {
    fn split(&self) -> &Split {
        &self.split
    }

    fn slots(&self, width: usize) -> Vec<Slot> {
        decoder::slots(width, self.link.history)
    }

    fn loss<'a>(
        &self,
        forward: &mut Forward<'_, 'a>,
        at: &[(usize, Step)],
        salt: u64,
    ) -> Result<Option<Loss<'a>>> {
        let steps = asked_about(forward, at, |sample| self.drawn(sample, salt))?;
        let count: usize = steps.iter().map(|(_, pairs)| pairs.len()).sum();
        if count == 0 {
            return Ok(None);
        }
        let errors = |tape: &mut Tape<'a>, scores: Var, truth: &[f32]| {
            let weights = self.weights(tape, truth)?;
            let truth = tape.copied(Shape::new(truth.len(), 1), truth)?;
            tape.binary_cross_entropy(scores, truth, weights, 1.0 / count as f32)
        };
        Ok(Some(loss_of_pairs(forward, &NAMES, steps, errors)?))
    }

    fn pairs(&self, at: &[(usize, Step)], salt: u64) -> Result<Vec<Asked>> {
        let of = |&(_, sample): &(usize, Step)| {
            let pairs = self.drawn(sample, salt)?;
            Ok((sample, pairs.sources.into_iter().zip(pairs.targets).collect()))
        };
        at.iter().map(of).collect()
    }

    fn labelled(&self, _: Part, sample: Step) -> Result<Option<usize>> {
        Ok(Some(self.store.snapshot(sample + 1)?.len()))
    }

    fn holds_all_rows(&self) -> bool {
        true
    }

    fn needs(&self, width: usize) -> Vec<Need> {
        let links = |most: usize| if most == 0 { self.edges } else { self.edges.min(most as u64) };
        let (link, samples) = (&self.link, self.split.samples(Part::Validation).len() as u64);
        let drawn = links(link.positives).saturating_mul(link.negatives as u64 + 1);
        // Two rows, their sum and what follows from it, forward and backward, and what is known of the pair.
        let row = 4 * (8 * width + 3 * FACTS) as u64;
        let judged = |most: usize| links(most).saturating_mul(link.evaluate_negatives as u64);
        // Sources, targets and scores, once as they are and once sorted.
        let scored = judged(link.evaluate_positives).max(judged(link.validate_positives)).saturating_mul(28);
        let kept = judged(link.validate_positives).saturating_mul(4).saturating_mul(samples);
        let lower = "link.evaluate_negatives, link.evaluate_positives or link.validate_positives";
        vec![
            Need {
                what: "pairs of a window",
                bytes: drawn.saturating_mul(row),
                lower: "link.negatives or link.positives",
            },
            Need { what: "pairs that are judged", bytes: scored.saturating_add(kept), lower },
        ]
    }

    fn held_bytes(&self) -> u64 {
        self.pasts.bytes() + self.lookback.bytes()
    }

    fn scored_pairs(&self, metrics: &[&dyn Metric]) -> f64 {
        if !metrics.iter().any(|metric| metric.needs() == Needs::AllPairs) {
            return 0.0;
        }
        // Every source that has a link against every vertex.
        let vertices = self.store.vertices() as f64;
        let samples = [Part::Validation, Part::Test].map(|part| self.split.samples(part).len());
        vertices.min(self.edges as f64) * vertices * samples.iter().sum::<usize>() as f64
    }

    fn outputs<'a>(&self, forward: &mut Forward<'_, 'a>) -> Result<Outputs<'a>> {
        let width = 2 * forward.model.width();
        Ok(forward.last_rows(width, &NAMES.of_vertices, both_ends)?)
    }

    fn judge(&self, part: Part, sample: Step, says: Says<'_>, tallies: &mut Tallies) -> Result<()> {
        self.judge_by(part, sample, |sample| self.scorer(says, sample), tallies)
    }

    fn baselines(&self) -> Vec<&'static str> {
        rules::ALL.iter().map(|kind| kind.name).collect()
    }

    fn attacks(&self) -> Vec<&'static str> {
        attacks::names()
    }

    fn table(&self, sample: Step, says: Says<'_>, top: usize) -> Result<Table> {
        let scorer = self.scorer(says, sample)?;
        let is_trained = matches!(says, Says::Model(..));
        let vertices = self.store.vertices();
        let values = |score: f32| match is_trained {
            true => vec![score.to_string(), probability(score).to_string()],
            false => vec![score.to_string()],
        };
        let best = |source: Vertex| {
            let mut scores = vec![0.0; vertices];
            scorer.rows(&[source], &mut scores);
            // Where no vertex was ever linked to itself, none will be.
            let loops = self.store.manifest().self_loops > 0;
            let mut order: Vec<Vertex> = (0..vertices as Vertex).filter(|&v| loops || v != source).collect();
            let rank =
                |a: &Vertex, b: &Vertex| scores[*b as usize].total_cmp(&scores[*a as usize]).then(a.cmp(b));
            if top < order.len() {
                order.select_nth_unstable_by(top, rank);
                order.truncate(top);
            }
            order.sort_unstable_by(rank);
            order
                .into_iter()
                .map(|target| (vec![source, target], values(scores[target as usize])))
                .collect::<Vec<_>>()
        };
        // A source that never linked to any target is not asked about.
        let mut sources = self.pasts.along.seen_sources(sample).to_vec();
        sources.sort_unstable();
        let rows: Vec<_> = sources.into_par_iter().flat_map_iter(best).collect();
        let (vertices, values) = rows.into_iter().unzip();
        let mut header = vec!["source", "target", "score"];
        if is_trained {
            header.push("probability");
        }
        Ok(Table { header, vertices, values, horizons: Vec::new() })
    }

    fn truth_of(&self, _: Part, sample: Step, table: &Table) -> Result<Option<Truths>> {
        let edges = self.store.snapshot(sample + 1)?.edges;
        let of = |row: &Vec<Vertex>| match row[..] {
            [source, target] => {
                let is_link = edges.binary_search(&Edge::new(source, target)).is_ok();
                Some(u8::from(is_link).to_string())
            }
            _ => None,
        };
        Ok(Some(table.vertices.iter().map(of).collect()))
    }
}
