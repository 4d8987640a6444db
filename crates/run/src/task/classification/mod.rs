//! Node classification: the class of every vertex, some steps ahead, or for good where classes never change.

mod facts;
mod neighbours;
mod said;

use std::sync::{Arc, OnceLock};

use kymo_graph::{Step, Store};
use kymo_model::metric::{Evidence, Needs};
use kymo_model::params::Initial;
use kymo_model::{Params, Slot};
use kymo_tensor::{Shape, Tape, Var};

use facts::Facts;
use neighbours::Edges;

use super::{Goal, Says, Table, Tallies, Task, Truths, one_horizon};
use crate::config::machine::Need;
use crate::config::{ClassWeights, NODE_CLASSIFICATION, Settings, memory};
use crate::data::{Part, Split};
use crate::error::{Error, Result};
use crate::forward::{Forward, Loss, Outputs, OwnRows};
use crate::random::Random;

/// The task.
pub struct Classification;

impl Task for Classification {
    fn name(&self) -> &'static str {
        NODE_CLASSIFICATION
    }

    fn about(&self) -> &'static str {
        "the class of every vertex at the next step, or of vertices held out; baselines: majority, its last \
         class, the vote of its neighbours, label propagation"
    }

    fn metrics(&self) -> &'static [&'static str] {
        &["accuracy", "macro-f1", "micro-f1"]
    }

    fn shows(&self) -> &'static [Needs] {
        &[Needs::Classes]
    }

    /// By validation, over the sets of bench/results/classes.md.
    fn defaults(&self, settings: &mut Settings) {
        (settings.train.learning_rate, settings.train.weight_decay) = (0.003, 0.0005);
    }

    fn open(&self, store: &Arc<Store>, settings: &Settings) -> Result<Box<dyn Goal>> {
        one_horizon(self, settings)?;
        let labels = &store.manifest().labels;
        let names = labels.classes.clone();
        if !(labels.per_step || labels.fixed) || names.is_empty() {
            let problem = format!(
                "{} has no classes to predict; ingest them (kymo ingest --labels) or choose another task",
                store.path().display()
            );
            return Err(Error::settings("task.name", problem));
        }
        let (split, horizon, fixed) = if labels.per_step {
            let horizon = settings.task.horizon;
            (Split::of_store(store, horizon, settings)?, horizon, None)
        } else {
            let fixed = store.fixed()?;
            let parts = deal_out(&fixed.classes, &fixed.splits, settings);
            (Split::by_vertex(store.steps(), settings)?, 0, Some((fixed.classes, parts)))
        };
        // A baseline is not worth more memory than what is trained.
        let around = Edges::bytes(store, names.len())?;
        let asks_neighbours = around <= memory(&settings.run.memory)? as u64 / 4;
        let facts = (settings.task.labels && around <= facts::MOST_BYTES)
            .then(|| Facts::new(store.vertices(), 2 * names.len(), store.steps(), settings.train.seed));
        let mut goal = Classes {
            store: store.clone(),
            names,
            facts,
            around,
            split,
            horizon,
            fixed,
            counts: Vec::new(),
            usual: Vec::new(),
            weights: None,
            asks_neighbours,
            edges: OnceLock::new(),
        };
        goal.count()?;
        let all: u64 = goal.counts.iter().sum();
        goal.usual = goal.counts.iter().map(|&count| count as f32 / all.max(1) as f32).collect();
        if settings.task.class_weights == ClassWeights::Balanced {
            let all: f32 = goal.counts.iter().sum::<u64>() as f32;
            let present = goal.counts.iter().filter(|&&count| count > 0).count() as f32;
            let weight = |&count: &u64| if count == 0 { 0.0 } else { all / (present * count as f32) };
            goal.weights = Some(goal.counts.iter().map(weight).collect());
        }
        Ok(Box::new(goal))
    }
}

/// The stream of random numbers that assigns vertices to parts.
const VERTICES: u64 = 0x5917;

/// The part of every vertex: as the store says where it does, otherwise by chance.
fn deal_out(classes: &[i32], splits: &[u8], settings: &Settings) -> Vec<Option<Part>> {
    let random = Random::new(settings.train.seed).stream(VERTICES);
    let told = splits.iter().any(|&split| split > 0);
    let deal = |(vertex, &class): (usize, &i32)| {
        if class < 0 {
            return None;
        }
        if told {
            return match splits[vertex] {
                1 => Some(Part::Train),
                2 => Some(Part::Validation),
                3 => Some(Part::Test),
                _ => None,
            };
        }
        Some(match random.share(vertex as u64) {
            share if share < settings.split.train => Part::Train,
            share if share < settings.split.train + settings.split.validation => Part::Validation,
            _ => Part::Test,
        })
    };
    classes.iter().enumerate().map(deal).collect()
}

/// The task on one store.
struct Classes {
    store: Arc<Store>,
    names: Vec<String>,
    split: Split,
    horizon: usize,
    /// Classes that never change, and which vertices are for what.
    fixed: Option<(Vec<i32>, Vec<Option<Part>>)>,
    /// How often each class occurs in training.
    counts: Vec<u64>,
    /// The shares of classes where the model was trained, which stand where nothing is known.
    usual: Vec<f32>,
    weights: Option<Vec<f32>>,
    /// Whether there is room for the neighbours of all vertices.
    asks_neighbours: bool,
    /// What classes around each vertex say, where the model sees that (task.labels).
    facts: Option<Facts>,
    /// Bytes of the neighbours of all vertices.
    around: u64,
    /// All edges, once a baseline or facts have asked for them.
    edges: OnceLock<Edges>,
}

/// Parameters: of the embedding, of nothing, and of facts.
const NAMES: [&str; 3] = ["head.weight", "head.bias", "head.facts"];

fn head(tape: &mut Tape<'_>, embedding: Var, extra: &[Var]) -> kymo_tensor::Result<Var> {
    tape.linear(embedding, extra[0], extra[1])
}

impl Classes {
    /// The parameters of the head.
    fn params(&self) -> &'static [&'static str] {
        if self.facts.is_some() { &NAMES } else { &NAMES[..2] }
    }

    /// The facts of the vertices that rows stand for.
    fn of_rows(&self, facts: Arc<Vec<f32>>, own: &OwnRows) -> Arc<Vec<f32>> {
        let OwnRows::Some(vertices) = own else { return facts };
        let columns = 2 * self.names.len();
        let row = |&vertex: &u32| &facts[vertex as usize * columns..][..columns];
        Arc::new(vertices.iter().flat_map(row).copied().collect())
    }
}

/// The baselines.
const MAJORITY: &str = "majority";
const LAST_CLASS: &str = "last-class";
const VOTE: &str = "neighbours-vote";
const PROPAGATION: &str = "label-propagation";

impl Goal for Classes {
    fn split(&self) -> &Split {
        &self.split
    }

    fn slots(&self, width: usize) -> Vec<Slot> {
        let classes = self.names.len();
        let mut slots = vec![Slot::weight(NAMES[0], width, classes), Slot::bias(NAMES[1], classes)];
        if self.facts.is_some() {
            let (shape, initial) = (Shape::new(2 * classes, classes), Initial::Constant(0.0));
            slots.push(Slot { name: NAMES[2].into(), shape, initial });
        }
        slots
    }

    fn measured(&self) -> Vec<f32> {
        if self.facts.is_some() { self.usual.clone() } else { Vec::new() }
    }

    fn adopt(&mut self, measured: &[f32]) -> bool {
        if self.facts.is_none() || measured.len() != self.names.len() {
            return measured.is_empty();
        }
        self.usual = measured.to_vec();
        measured.iter().all(|share| (0.0..=1.0).contains(share))
    }

    fn start(&self, params: &mut Params) -> Result<()> {
        if self.facts.is_some() { self.begin(params) } else { Ok(()) }
    }

    fn needs(&self, _: usize) -> Vec<Need> {
        let bytes = |facts: &Facts| {
            self.around.saturating_add(facts.bytes(self.store.vertices(), 2 * self.names.len()))
        };
        let need =
            |facts| Need { what: "classes around vertices", bytes: bytes(facts), lower: "task.labels" };
        self.facts.iter().map(need).collect()
    }

    fn loss<'a>(
        &self,
        forward: &mut Forward<'_, 'a>,
        at: &[(usize, Step)],
        _: u64,
    ) -> Result<Option<Loss<'a>>> {
        let mut steps = Vec::with_capacity(at.len());
        let mut total = 0.0;
        for &(place, sample) in at {
            let mut classes = vec![-1.0; self.store.vertices()];
            let truth = self.truth(Part::Train, sample)?.into_iter();
            let some = forward.some_targets();
            let counts = |vertex| some.is_none_or(|targets| targets.binary_search(&vertex).is_ok());
            for (vertex, class) in truth.filter(|&(vertex, _)| counts(vertex)) {
                classes[vertex as usize] = class as f32;
                total += self.weights.as_ref().map_or(1.0, |weights| weights[class as usize]);
            }
            let own = forward.own(place);
            let truth = (0..own.len()).map(|row| classes[own.vertex(row)]).collect::<Vec<f32>>();
            steps.push((truth, self.facts_at(sample)?.map(|facts| self.of_rows(facts, &own))));
        }
        if total == 0.0 {
            return Ok(None);
        }
        let (scale, weights) = (forward.parts() as f32 / total, self.weights.clone());
        let places: Vec<usize> = at.iter().map(|&(place, _)| place).collect();
        let columns = 2 * self.names.len();
        let loss =
            forward.loss_of_rows(self.params(), &places, move |tape, number, rows, embedding, extra| {
                let weights = match &weights {
                    Some(weights) => Some(tape.copied(Shape::new(1, weights.len()), weights)?),
                    None => None,
                };
                let (truth, facts) = &steps[number];
                let truth = tape.copied(Shape::new(rows.len(), 1), &truth[rows.clone()])?;
                let mut scores = head(tape, embedding, extra)?;
                if let Some(facts) = facts {
                    let shape = Shape::new(rows.len(), columns);
                    let facts = tape.copied(shape, &facts[rows.start * columns..rows.end * columns])?;
                    let of_facts = tape.matmul(facts, extra[2])?;
                    scores = tape.add(scores, of_facts)?;
                }
                tape.cross_entropy(scores, truth, weights, None, scale)
            })?;
        Ok(Some(loss))
    }

    fn labelled(&self, part: Part, sample: Step) -> Result<Option<usize>> {
        Ok(Some(self.truth(part, sample)?.len()))
    }

    fn outputs<'a>(&self, forward: &mut Forward<'_, 'a>) -> Result<Outputs<'a>> {
        Ok(forward.last_rows(self.names.len(), &NAMES[..2], head)?)
    }

    fn judge(&self, part: Part, sample: Step, says: Says<'_>, tallies: &mut Tallies) -> Result<()> {
        let (all, classes) = (self.scores(sample, says)?, self.names.len());
        let labelled = self.truth(part, sample)?;
        let row = |&(vertex, _): &(u32, u32)| &all[vertex as usize * classes..][..classes];
        let scores: Vec<f32> = labelled.iter().flat_map(row).copied().collect();
        let truth: Vec<u32> = labelled.iter().map(|&(_, class)| class).collect();
        tallies.add(Needs::Classes, &Evidence::Classes { scores: &scores, classes, truth: &truth });
        Ok(())
    }

    fn horizon(&self) -> usize {
        self.horizon
    }

    fn baselines(&self) -> Vec<&'static str> {
        let mut all = vec![MAJORITY];
        all.extend(self.fixed.is_none().then_some(LAST_CLASS));
        all.extend([VOTE, PROPAGATION].into_iter().filter(|_| self.asks_neighbours));
        all
    }

    fn table(&self, sample: Step, says: Says<'_>, _: usize) -> Result<Table> {
        let scores = self.scores(sample, says)?;
        let mut values = Vec::with_capacity(self.store.vertices());
        for row in scores.chunks_exact(self.names.len()) {
            let most = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            let class = row.iter().position(|&score| score == most).unwrap_or(0);
            let sum: f32 = row.iter().map(|score| (score - most).exp()).sum();
            values.push(vec![self.names[class].clone(), (1.0 / sum).to_string()]);
        }
        Ok(Table {
            header: vec!["vertex", "class", "probability"],
            vertices: (0..values.len() as u32).map(|vertex| vec![vertex]).collect(),
            values,
            horizons: Vec::new(),
        })
    }

    fn truth_of(&self, part: Part, sample: Step, table: &Table) -> Result<Option<Truths>> {
        let mut classes: Truths = vec![None; self.store.vertices()];
        for (vertex, class) in self.truth(part, sample)? {
            classes[vertex as usize] = self.names.get(class as usize).cloned();
        }
        let of = |row: &Vec<u32>| row.first().and_then(|&vertex| classes[vertex as usize].clone());
        Ok(Some(table.vertices.iter().map(of).collect()))
    }
}
