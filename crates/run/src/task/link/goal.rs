//! Link prediction: which edges the next snapshot has.
//!
//! Embeddings of what is known up to step `t` score pairs; the edges of `t + 1` are to score higher than
//! pairs that are none.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use kymo_graph::{Edge, Step, Store, Vertex};
use kymo_model::Slot;
use kymo_model::metric::{Evidence, Metric, Needs};
use kymo_plan::price::Asked;
use kymo_tensor::{Shape, Tape, Var};
use rayon::prelude::*;

use super::super::{Goal, Says, Table, Tallies, Task};
use crate::config::machine::{Need, require};
use crate::config::{LINK_PREDICTION, Link, Settings};
use crate::data::{Part, Split, largest_step};
use crate::error::{Error, Result};
use crate::forward::{Forward, Loss};
use crate::halo::moved;
use crate::random::Random;
use crate::task::link::decoder::{self, Decoder, FACTS, Pairs, Pasts};
use crate::task::link::rules::{self, Past, Rule};
use crate::task::link::spread::spread;
use crate::task::link::{BySource, Purpose, Recent, Sampler};

/// The task.
pub struct LinkPrediction;

/// The stream of random numbers that pairs for training come from.
const PAIRS: u64 = 0x9A15;

/// Bytes of an edge in a store.
const EDGE_BYTES: u64 = 8;

/// Pairs without a link for every source, as ROLAND judges.
const BY_SOURCE: usize = 1000;

impl Task for LinkPrediction {
    fn name(&self) -> &'static str {
        LINK_PREDICTION
    }

    fn about(&self) -> &'static str {
        "the edges of the next snapshot; baselines: EdgeBank with all its memory, and with that of a window, \
         targets that were popular lately, preferential attachment, common neighbours"
    }

    fn metrics(&self) -> &'static [&'static str] {
        &["mrr-tgb", "auc", "average-precision"]
    }

    fn shows(&self) -> &'static [Needs] {
        &[Needs::Sampled, Needs::Balanced, Needs::PerSource, Needs::AllPairs]
    }

    fn open(&self, store: &Arc<Store>, settings: &Settings) -> Result<Box<dyn Goal>> {
        if store.manifest().edges == 0 {
            let problem = format!("{} has no edges to predict", store.path().display());
            return Err(Error::settings("task.name", problem));
        }
        // Of every change a place in a list that is sorted, and of every pair what came of it, in one
        // direction or both.
        let each = if store.manifest().directed { 100 } else { 60 };
        let history = (store.structure_bytes()? / EDGE_BYTES).saturating_mul(each);
        require("the history of all pairs", history, "cut the data into fewer or later steps")?;
        Ok(Box::new(Links {
            split: Split::by_time(store.steps().saturating_sub(1), settings)?,
            pasts: Pasts::new(store)?,
            recent: match settings.link.recent {
                0 => None,
                steps => Some(Recent::new(store, steps)?),
            },
            edges: largest_step(store)?,
            store: store.clone(),
            link: settings.link.clone(),
            window: settings.train.window,
            seed: settings.train.seed,
            validation: Mutex::default(),
        }))
    }
}

/// The task on one store.
struct Links {
    store: Arc<Store>,
    /// Edges of a large step.
    edges: u64,
    split: Split,
    pasts: Pasts,
    /// What absent targets are drawn from in training, where that is not everything.
    recent: Option<Recent>,
    link: Link,
    /// Steps that count as recent for baselines.
    window: usize,
    seed: u64,
    validation: Mutex<BTreeMap<(Step, bool), Arc<Judged>>>,
}

/// Links, and for each of them as many targets that are none.
type Judged = (Vec<Edge>, Vec<Vertex>);

/// Who scores pairs.
enum Scorer<'a> {
    Decoder(Decoder<'a>),
    Rule(Box<dyn Rule + 'a>),
    /// A model whose outputs are not finite: what its decoder makes of them would look like scores, because
    /// rectifying turns NaN into 0.
    Lost,
}

impl Scorer<'_> {
    fn scores(&self, pairs: &[(Vertex, Vertex)], t: Step) -> Vec<f32> {
        match self {
            Scorer::Decoder(decoder) => decoder.scores(pairs, t),
            Scorer::Rule(rule) => {
                pairs.par_iter().with_min_len(256).map(|&(u, v)| rule.score(u, v)).collect()
            }
            Scorer::Lost => vec![f32::NAN; pairs.len()],
        }
    }

    /// The scores of sources against all vertices, source after source.
    fn rows(&self, sources: &[Vertex], t: Step, out: &mut [f32]) {
        match self {
            Scorer::Decoder(decoder) => decoder.rows(sources, t, out),
            Scorer::Rule(rule) => {
                let rows = out.chunks_exact_mut(out.len().checked_div(sources.len()).unwrap_or(0).max(1));
                sources.iter().zip(rows).for_each(|(&source, row)| rule.row(source, row));
            }
            Scorer::Lost => out.fill(f32::NAN),
        }
    }
}

impl Links {
    fn sampler(&self, seed: u64) -> Sampler<'_> {
        Sampler { history: &self.pasts.along, recent: None, vertices: self.store.vertices(), seed }
    }

    fn scorer<'a>(&'a self, says: Says<'a>, t: Step) -> Result<Scorer<'a>> {
        let pasts = self.link.history.then_some(&self.pasts);
        Ok(match says {
            Says::Model(outputs, _) if !outputs.iter().all(|value| value.is_finite()) => Scorer::Lost,
            Says::Model(outputs, params) => Scorer::Decoder(Decoder::new(outputs, pasts, params)?),
            Says::Baseline(name) => {
                let kind = rules::ALL.iter().find(|kind| kind.name == name);
                let unknown = || Error::settings("baseline", format!("there is none called {name}"));
                let (history, vertices) = (&self.pasts.along, self.store.vertices());
                let past = Past { history, t, window: self.window, vertices };
                Scorer::Rule((kind.ok_or_else(unknown)?.at)(past))
            }
        })
    }

    /// The pairs of one step that are trained on, links first, and how many links there are.
    fn drawn(&self, sample: Step, salt: u64) -> Result<(Pairs, usize)> {
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
            let pairs = sources.par_iter().zip(&targets).with_min_len(256);
            pairs.flat_map_iter(|(&u, &v)| self.pasts.facts(u, v, sample)).collect()
        } else {
            Vec::new()
        };
        Ok((Pairs { sources, targets, facts }, links.len()))
    }

    /// The links that are judged, and targets that are none, as many new ones among these as among those
    /// where it is to be `balanced`. Those of the validation are the same after every epoch, so they are
    /// drawn once and kept.
    fn judged(&self, sample: Step, edges: &[Edge], part: Part, balanced: bool) -> Arc<Judged> {
        let kept = || self.validation.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let (Part::Validation, Some(judged)) = (part, kept().get(&(sample, balanced))) {
            return judged.clone();
        }
        let most = match part {
            Part::Validation => self.link.validate_positives,
            Part::Train | Part::Test => self.link.evaluate_positives,
        };
        let sampler = self.sampler(self.seed);
        let links = sampler.choose(edges, most, Purpose::Judge, sample);
        let (each, mut targets) = (self.link.evaluate_negatives, Vec::new());
        sampler.absent_targets(sample, edges, &links, each, self.link.historical, &mut targets);
        if balanced {
            sampler.balance(sample, edges, &links, each, &mut targets);
        }
        let judged = Arc::new((links, targets));
        if part == Part::Validation {
            kept().insert((sample, balanced), judged.clone());
        }
        judged
    }

    fn judge_sampled(
        &self,
        sample: Step,
        edges: &[Edge],
        (part, needs): (Part, Needs),
        scorer: &Scorer<'_>,
        tallies: &mut Tallies,
    ) {
        let (links, targets) = &*self.judged(sample, edges, part, needs == Needs::Balanced);
        let each = self.link.evaluate_negatives;
        let pairs: Vec<(Vertex, Vertex)> = links.iter().map(|link| (link.source(), link.target())).collect();
        let present = score(scorer, &pairs, sample, tallies);
        let sources = links.iter().flat_map(|link| std::iter::repeat_n(link.source(), each));
        let pairs: Vec<(Vertex, Vertex)> = sources.zip(targets.iter().copied()).collect();
        let absent = score(scorer, &pairs, sample, tallies);
        tallies.add(needs, &Evidence::Sampled { present: &present, absent: &absent });
    }

    fn judge_by_source(&self, sample: Step, edges: &[Edge], scorer: &Scorer<'_>, tallies: &mut Tallies) {
        let mut grouped = BySource::default();
        self.sampler(self.seed).absent_by_source(sample, edges, edges, BY_SOURCE, &mut grouped);
        let sources = grouped.sources.iter().zip(grouped.starts.windows(2));
        let sources = sources.flat_map(|(&source, range)| std::iter::repeat_n(source, range[1] - range[0]));
        let pairs: Vec<(Vertex, Vertex)> = sources.zip(grouped.targets.iter().copied()).collect();
        let present = score(scorer, &pairs, sample, tallies);
        let sources = grouped.sources.iter().flat_map(|&source| std::iter::repeat_n(source, BY_SOURCE));
        let pairs: Vec<(Vertex, Vertex)> = sources.zip(grouped.absent.iter().copied()).collect();
        let absent = score(scorer, &pairs, sample, tallies);
        let (starts, present, absent) = (&grouped.starts[..], &present[..], &absent[..]);
        tallies.add(Needs::PerSource, &Evidence::PerSource { starts, present, absent });
    }
}

/// The scores of pairs; the time they take is that of the model.
fn score(scorer: &Scorer<'_>, pairs: &[(Vertex, Vertex)], t: Step, tallies: &mut Tallies) -> Vec<f32> {
    let begun = Instant::now();
    let scores = scorer.scores(pairs, t);
    tallies.scoring += begun.elapsed();
    scores
}

impl Links {
    /// How much each pair counts, where links count otherwise than others.
    fn weights(&self, tape: &mut Tape<'_>, truth: &[f32]) -> Result<Option<Var>> {
        let weight = self.link.weight as f32;
        if weight == 1.0 {
            return Ok(None);
        }
        let weights: Vec<f32> = truth.iter().map(|&linked| if linked > 0.0 { weight } else { 1.0 }).collect();
        Ok(Some(tape.copied(Shape::new(weights.len(), 1), &weights)?))
    }
}

fn both_ends(tape: &mut Tape<'_>, embedding: Var, extra: &[Var]) -> kymo_tensor::Result<Var> {
    let ends = decoder::ends(tape, embedding, extra)?;
    tape.concatenate_columns(&ends)
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
        let mut steps = Vec::with_capacity(at.len());
        let mut count = 0;
        for &(place, sample) in at {
            let (pairs, links) = self.drawn(sample, salt)?;
            // A pair counts where its source does.
            let (pairs, links) = match forward.some_targets() {
                None => (pairs, links),
                Some(_) => pairs.with_sources(links, |source| forward.counts(source)),
            };
            count += pairs.sources.len();
            steps.push((place, pairs, links));
        }
        if count == 0 {
            return Ok(None);
        }
        let embeddings = forward.all_rows()?;
        let (tape, params, cells) = (&mut *forward.tape, forward.params, forward.cells);
        let extra = decoder::OF_VERTICES
            .iter()
            .map(|name| params.get(name))
            .collect::<kymo_tensor::Result<Vec<_>>>()?;
        let mut losses = Vec::with_capacity(steps.len());
        for (place, pairs, links) in steps {
            let length = pairs.sources.len();
            if length == 0 {
                continue;
            }
            let mut truth = vec![0.0; length];
            truth[..links].fill(1.0);
            let mut ends = decoder::ends(tape, embeddings[place], &extra)?;
            let pairs = match cells {
                None => pairs,
                // A pair is scored where its source is; its target comes from elsewhere.
                Some((cells, window)) => {
                    let dealt = spread(cells, &window.owners[place], &window.own[place], &pairs);
                    truth = dealt.kept.iter().map(|&pair| truth[pair]).collect();
                    let beyond =
                        moved(tape, &window.group, &Arc::new(dealt.route), window.tag(place), ends[1])?;
                    ends[1] = tape.concatenate_rows(&[ends[1], beyond])?;
                    dealt.pairs
                }
            };
            let scores = decoder::scores(tape, params, ends, pairs)?;
            let weights = self.weights(tape, &truth)?;
            let truth = tape.copied(Shape::new(truth.len(), 1), &truth)?;
            losses.push(tape.binary_cross_entropy(scores, truth, weights, 1.0 / count as f32)?);
        }
        Ok(Some(Loss::Taken(tape.add_all(&losses)?)))
    }

    fn pairs(&self, at: &[(usize, Step)], salt: u64) -> Result<Vec<Asked>> {
        let of = |&(_, sample): &(usize, Step)| {
            let (pairs, _) = self.drawn(sample, salt)?;
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
        self.pasts.bytes()
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

    fn outputs(&self, forward: &mut Forward<'_, '_>) -> Result<Vec<f32>> {
        let width = 2 * forward.model.width();
        Ok(forward.last_rows(width, &decoder::OF_VERTICES, both_ends)?)
    }

    fn judge(&self, part: Part, sample: Step, says: Says<'_>, tallies: &mut Tallies) -> Result<()> {
        let snapshot = self.store.snapshot(sample + 1)?;
        if snapshot.is_empty() {
            return Ok(());
        }
        let scorer = self.scorer(says, sample)?;
        for needs in [Needs::Sampled, Needs::Balanced] {
            if tallies.want(needs) {
                self.judge_sampled(sample, &snapshot.edges, (part, needs), &scorer, tallies);
            }
        }
        if tallies.want(Needs::PerSource) {
            self.judge_by_source(sample, &snapshot.edges, &scorer, tallies);
        }
        if tallies.want(Needs::AllPairs) {
            let vertices = self.store.vertices();
            let rows = snapshot.by_source(vertices);
            let starts: Vec<usize> = rows.starts.iter().map(|&start| start as usize).collect();
            let scores = |sources: &[Vertex], out: &mut [f32]| scorer.rows(sources, sample, out);
            let (starts, targets) = (&starts[..], &rows.columns[..]);
            tallies.add(Needs::AllPairs, &Evidence::AllPairs { vertices, starts, targets, scores: &scores });
        }
        Ok(())
    }

    fn baselines(&self) -> Vec<&'static str> {
        rules::ALL.iter().map(|kind| kind.name).collect()
    }

    fn table(&self, sample: Step, says: Says<'_>, top: usize) -> Result<Table> {
        let scorer = self.scorer(says, sample)?;
        let vertices = self.store.vertices();
        let best = |source: Vertex| {
            let mut scores = vec![0.0; vertices];
            scorer.rows(&[source], sample, &mut scores);
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
                .map(|target| (vec![source, target], vec![scores[target as usize].to_string()]))
                .collect::<Vec<_>>()
        };
        // A source that never linked to any target is not asked about.
        let mut sources = self.pasts.along.seen_sources(sample).to_vec();
        sources.sort_unstable();
        let rows: Vec<_> = sources.into_par_iter().flat_map_iter(best).collect();
        let (vertices, values) = rows.into_iter().unzip();
        Ok(Table { header: vec!["source", "target", "score"], vertices, values })
    }
}
