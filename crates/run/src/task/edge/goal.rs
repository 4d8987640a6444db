//! A task of edges on one store: which edges are asked about, what is known of them, and who answers.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use kymo_graph::{Edge, Step, Store, Vertex};
use kymo_model::{Params, Slot};
use kymo_plan::price::Asked as AskedPairs;
use kymo_tensor::{Arena, Shape, Tape};
use rayon::prelude::*;

use super::super::pairs::{Pairs, SLICES, Seen, asked_about, both_ends, chosen, loss_of_pairs, scores};
use super::super::{Goal, Says, Table, Tallies, Truths, begin_with};
use super::facts::Known;
use super::past::Past;
use super::{Asked, Kind, NAMES};
use crate::config::machine::{Need, require};
use crate::config::{self, Mode, Settings};
use crate::data::{Part, Split, largest_step};
use crate::error::{Error, Result};
use crate::forward::{Forward, Loss, Outputs};
use crate::random::Random;

/// The stream of random numbers that decides which edges are trained on.
const CHOICE: u64 = 0xED6E;

/// Edges that are judged at a time.
const AT_ONCE: usize = 4096;

/// Rows at most that something is fitted on.
const FITTED: u64 = 1 << 18;

/// Bytes of an edge in a store.
const EDGE_BYTES: u64 = 8;

/// The steps whose edges are trained on.
pub fn trained_on(split: &Split) -> Range<Step> {
    let samples = split.samples(Part::Train);
    samples.start + 1..samples.end + 1
}

/// The task on one store.
pub struct Edges {
    store: Arc<Store>,
    split: Split,
    kind: Box<dyn Kind>,
    past: Past,
    /// The vertices that training has seen.
    seen: Seen,
    edge: config::Edge,
    /// Edges of a large step.
    edges: u64,
    /// Edges that are trained on.
    trained: u64,
    /// Samples of a window.
    samples: usize,
    seed: u64,
    /// Whether a model is at hand that has learnt from other data.
    is_adopted: bool,
    /// What the decoder begins with, once it was fitted.
    start: OnceLock<[Vec<f32>; 2]>,
}

impl Edges {
    /// The task on a store.
    pub(super) fn open(
        store: &Arc<Store>,
        settings: &Settings,
        split: Split,
        kind: Box<dyn Kind>,
    ) -> Result<Edges> {
        // Of every change a place in a list that is sorted, its value, and two vertices whose sums change.
        let each = 40 + 2 * (16 + 24 * kind.numbers() as u64);
        let history = (store.structure_bytes()? / EDGE_BYTES).saturating_mul(each);
        require("the values of all edges", history, "cut the data into fewer or later steps")?;
        let (mut seen, mut trained) = (vec![false; store.vertices()], 0);
        for step in 0..trained_on(&split).end {
            let edges = store.snapshot(step)?.edges;
            let ends = edges.iter().flat_map(|edge| [edge.source(), edge.target()]);
            ends.for_each(|vertex| seen[vertex as usize] = true);
            trained += edges.len() as u64;
        }
        let seen =
            seen.iter().enumerate().filter(|(_, is_seen)| **is_seen).map(|(vertex, _)| vertex as Vertex);
        Ok(Edges {
            past: past(store, &*kind)?,
            kind,
            seen: Seen::new(store.vertices(), seen),
            samples: match settings.train.mode {
                _ if !settings.loss_at_all() => 1,
                Mode::Sequence => split.samples(Part::Train).len(),
                Mode::Windows | Mode::Truncated => settings.train.window,
            },
            split,
            edge: settings.edge.clone(),
            edges: largest_step(store)?,
            trained,
            store: store.clone(),
            seed: settings.train.seed,
            is_adopted: false,
            start: OnceLock::new(),
        })
    }

    pub(super) fn known(&self) -> Known<'_> {
        Known { past: &self.past, kind: &*self.kind, directed: self.store.manifest().directed }
    }

    /// How many facts the decoder sees of an edge.
    fn facts(&self) -> usize {
        if self.edge.history { self.known().facts() } else { 0 }
    }

    /// Edges as pairs that are asked about at a sample, without what is true of them.
    fn pairs_of(&self, edges: &[Edge], sample: Step) -> Pairs {
        let known = self.known();
        let facts = |edges: &[Edge]| {
            let mut facts = Vec::with_capacity(edges.len() * known.facts());
            edges.iter().for_each(|edge| known.write(edge.source(), edge.target(), sample, &mut facts));
            facts
        };
        Pairs {
            sources: edges.iter().map(|edge| edge.source()).collect(),
            targets: edges.iter().map(|edge| edge.target()).collect(),
            truth: Vec::new(),
            facts: match self.edge.history {
                true => edges.par_chunks(256).flat_map_iter(facts).collect(),
                false => Vec::new(),
            },
        }
    }

    /// The edges of one step that are trained on, with what is true of them.
    pub(super) fn drawn(&self, sample: Step, salt: u64) -> Result<Pairs> {
        let snapshot = self.store.snapshot(sample + 1)?;
        let draws = Random::new(self.seed).stream(CHOICE).stream(salt).stream(sample as u64);
        let edges = chosen(&snapshot.edges, self.edge.trained, &draws);
        let truth = |edge: &Edge| {
            // All of them are edges of the step.
            let at = snapshot.edges.binary_search(edge).unwrap_or_default();
            self.kind.truth(snapshot.weight(at))
        };
        let truth = edges.iter().map(truth).collect();
        Ok(Pairs { truth, ..self.pairs_of(&edges, sample) })
    }

    /// Shows facts and truths of edges of the training part, at most about [`FITTED`] of them.
    pub(super) fn rows(&self, show: &mut dyn FnMut(&[f32], f32)) -> Result<()> {
        let (known, mut facts) = (self.known(), Vec::new());
        let stride = self.trained.div_ceil(FITTED).max(1) as usize;
        for sample in self.split.samples(Part::Train) {
            let snapshot = self.store.snapshot(sample + 1)?;
            // Not the same edges at every sample.
            for at in (sample % stride..snapshot.len()).step_by(stride) {
                let edge = snapshot.edges[at];
                facts.clear();
                known.write(edge.source(), edge.target(), sample, &mut facts);
                show(&facts, self.kind.truth(snapshot.weight(at)));
            }
        }
        Ok(())
    }

    /// What is said of edges at a sample, as metrics see it: as many numbers for each as there are scores.
    fn said(&self, edges: &[Edge], sample: Step, says: Says<'_>) -> Result<Vec<f32>> {
        match says {
            Says::Model(outputs, params) => self.scored(edges, sample, outputs, params),
            Says::Baseline(name) => {
                let (known, mut said) = (self.known(), Vec::new());
                self.kind.fit(name, known, &|show| self.rows(show))?;
                for edge in edges {
                    let asked = Asked { known, source: edge.source(), target: edge.target(), t: sample };
                    if !self.kind.baseline(name, asked, &mut said) {
                        return Err(Error::settings("baseline", format!("there is none called {name}")));
                    }
                }
                Ok(said)
            }
        }
    }

    /// What the decoder makes of the parts of all vertices, both side by side.
    fn scored(&self, edges: &[Edge], sample: Step, outputs: &[f32], params: &Params) -> Result<Vec<f32>> {
        let count = self.kind.scores();
        // Rectifying turns NaN into 0, which would look like an answer.
        if !outputs.iter().all(|value| value.is_finite()) {
            return Ok(vec![f32::NAN; edges.len() * count]);
        }
        let width = outputs.len() / self.store.vertices().max(1) / 2;
        let part = |vertex: Vertex, end: usize| &outputs[(2 * vertex as usize + end) * width..][..width];
        let mut said = Vec::with_capacity(edges.len() * count);
        let arena = Arena::new();
        for edges in edges.chunks(AT_ONCE) {
            let mut tape = Tape::new(&arena);
            let bound = params.bind(&mut tape)?;
            let shape = Shape::new(edges.len(), width);
            let sources: Vec<f32> = edges.iter().flat_map(|edge| part(edge.source(), 0)).copied().collect();
            let targets: Vec<f32> = edges.iter().flat_map(|edge| part(edge.target(), 1)).copied().collect();
            let ends = [tape.copied(shape, &sources)?, tape.copied(shape, &targets)?];
            // Each has its own rows.
            let rows: Vec<Vertex> = (0..edges.len() as Vertex).collect();
            let pairs = Pairs { sources: rows.clone(), targets: rows, ..self.pairs_of(edges, sample) };
            let scores = scores(&mut tape, &bound, &NAMES, ends, pairs)?;
            said.extend_from_slice(tape.value(scores)?);
        }
        self.kind.read(&mut said);
        Ok(said)
    }

    /// Shows metrics what was said of all edges, and of those whose ends training has seen apart.
    fn show(&self, edges: &[Edge], (said, truth): (&[f32], &[f32]), tallies: &mut Tallies) {
        let mut classes = Vec::new();
        let (needs, evidence) = self.kind.evidence(said, truth, &mut classes);
        tallies.add(needs, &evidence);
        if !tallies.are_sliced() {
            return;
        }
        let width = self.kind.scores();
        for (number, name) in SLICES.into_iter().enumerate() {
            let belongs = |&at: &usize| self.seen.slice(edges[at].source(), edges[at].target()) == number;
            let own: Vec<usize> = (0..edges.len()).filter(belongs).collect();
            let said: Vec<f32> = own.iter().flat_map(|&at| &said[at * width..][..width]).copied().collect();
            let truth: Vec<f32> = own.iter().map(|&at| truth[at]).collect();
            let (needs, evidence) = self.kind.evidence(&said, &truth, &mut classes);
            tallies.add_slice(name, own.len(), needs, &evidence);
        }
    }
}

fn past(store: &Store, kind: &dyn Kind) -> Result<Past> {
    Past::new(store, kind.numbers(), &|weight, factor, numbers| kind.encode(weight, factor, numbers))
}

impl Goal for Edges {
    fn split(&self) -> &Split {
        &self.split
    }

    fn slots(&self, width: usize) -> Vec<Slot> {
        NAMES.slots(width, self.facts(), self.kind.scores())
    }

    fn measured(&self) -> Vec<f32> {
        self.kind.measured()
    }

    fn adopt(&mut self, measured: &[f32]) -> bool {
        if !self.kind.adopt(measured) {
            return false;
        }
        self.is_adopted = true;
        // Sums are of the classes that are told apart.
        match past(&self.store, &*self.kind) {
            Ok(past) => self.past = past,
            Err(_) => return false,
        }
        true
    }

    fn start(&self, params: &mut Params) -> Result<()> {
        if self.is_adopted {
            return Ok(());
        }
        let [direct, bias] = match self.start.get() {
            Some(start) => start,
            None => {
                let start = self.kind.start(self.facts(), &|show| self.rows(show))?;
                self.start.get_or_init(|| start)
            }
        };
        begin_with(params, NAMES.out[0], None)?;
        begin_with(params, NAMES.out[1], Some(bias))?;
        match NAMES.direct {
            Some(name) if !direct.is_empty() => begin_with(params, name, Some(direct)),
            _ => Ok(()),
        }
    }

    fn loss<'a>(
        &self,
        forward: &mut Forward<'_, 'a>,
        at: &[(usize, Step)],
        salt: u64,
    ) -> Result<Option<Loss<'a>>> {
        let steps = asked_about(forward, at, |sample| self.drawn(sample, salt))?;
        let truths = steps.iter().flat_map(|(_, pairs)| &pairs.truth);
        let total: f64 = truths.map(|&truth| f64::from(self.kind.weight(truth))).sum();
        if total == 0.0 {
            return Ok(None);
        }
        let scale = (1.0 / total) as f32;
        let errors =
            |tape: &mut Tape<'a>, scores, truth: &[f32]| self.kind.errors(tape, scores, truth, scale);
        Ok(Some(loss_of_pairs(forward, &NAMES, steps, errors)?))
    }

    fn pairs(&self, at: &[(usize, Step)], salt: u64) -> Result<Vec<AskedPairs>> {
        let of = |&(_, sample): &(usize, Step)| {
            let snapshot = self.store.snapshot(sample + 1)?;
            let draws = Random::new(self.seed).stream(CHOICE).stream(salt).stream(sample as u64);
            let edges = chosen(&snapshot.edges, self.edge.trained, &draws);
            Ok((sample, edges.iter().map(|edge| (edge.source(), edge.target())).collect()))
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
        let trained = match self.edge.trained {
            0 => self.edges,
            most => self.edges.min(most as u64),
        };
        let (facts, scores) = (self.facts(), self.kind.scores());
        // Two rows, what is known of the edge, their sum and what follows from it, forward and backward; as
        // steps have different numbers of edges, about half as much again lies idle.
        let row = 4 * (15 * width + 4 * facts + 4 * scores) as u64;
        // Facts, scores and the rows of both ends, a few at a time.
        let judged = self.edges.saturating_mul(4 * (2 + scores) as u64);
        let at_once = self.edges.min(AT_ONCE as u64).saturating_mul(row / 2);
        vec![
            Need {
                what: "edges of a window",
                bytes: trained.saturating_mul(row).saturating_mul(self.samples as u64),
                lower: "edge.trained",
            },
            Need {
                what: "edges that are judged",
                bytes: judged.saturating_add(at_once),
                lower: "the edges of a step: cut the data into more of them",
            },
        ]
    }

    fn held_bytes(&self) -> u64 {
        self.past.bytes()
    }

    fn outputs<'a>(&self, forward: &mut Forward<'_, 'a>) -> Result<Outputs<'a>> {
        let width = 2 * forward.model.width();
        Ok(forward.last_rows(width, &NAMES.of_vertices, both_ends)?)
    }

    fn judge(&self, _: Part, sample: Step, says: Says<'_>, tallies: &mut Tallies) -> Result<()> {
        let snapshot = self.store.snapshot(sample + 1)?;
        if snapshot.is_empty() {
            return Ok(());
        }
        let said = self.said(&snapshot.edges, sample, says)?;
        let truth: Vec<f32> = (0..snapshot.len()).map(|at| self.kind.truth(snapshot.weight(at))).collect();
        self.show(&snapshot.edges, (&said, &truth), tallies);
        Ok(())
    }

    fn baselines(&self) -> Vec<&'static str> {
        self.kind.baselines()
    }

    fn table(&self, sample: Step, says: Says<'_>, _: usize) -> Result<Table> {
        if sample + 1 >= self.store.steps() {
            let problem = format!(
                "step {} is not in the store, and which edges it will have is not known: values and classes \
                 are those of edges that exist; ask for a step before {sample}, or for a part of the data \
                 (--split test), or predict links",
                sample + 1
            );
            return Err(Error::settings("step", problem));
        }
        let edges = self.store.snapshot(sample + 1)?.edges;
        let said = self.said(&edges, sample, says)?;
        Ok(Table {
            header: ["source", "target"].iter().chain(self.kind.header()).copied().collect(),
            vertices: edges.iter().map(|edge| vec![edge.source(), edge.target()]).collect(),
            values: said.chunks_exact(self.kind.scores()).map(|said| self.kind.cells(said)).collect(),
            horizons: Vec::new(),
        })
    }

    fn truth_of(&self, _: Part, sample: Step, table: &Table) -> Result<Option<Truths>> {
        let snapshot = self.store.snapshot(sample + 1)?;
        let of = |row: &Vec<Vertex>| {
            let &[source, target] = &row[..] else { return None };
            let at = snapshot.edges.binary_search(&Edge::new(source, target)).ok()?;
            Some(self.kind.told(self.kind.truth(snapshot.weight(at))))
        };
        Ok(Some(table.vertices.iter().map(of).collect()))
    }
}
