//! Node classification: the class of every vertex, some steps ahead, or for good where classes never change.

mod neighbours;

use std::sync::{Arc, OnceLock};

use kymo_graph::{Step, Store};
use kymo_model::Slot;
use kymo_model::metric::{Evidence, Needs};
use kymo_tensor::{Shape, Tape, Var};

use neighbours::Edges;

use super::{Goal, Says, Table, Tallies, Task, Truths, one_horizon};
use crate::config::{ClassWeights, NODE_CLASSIFICATION, Settings, memory};
use crate::data::{Part, Split};
use crate::error::{Error, Result};
use crate::forward::{Forward, Loss, Outputs};
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
            (Split::by_time(store.steps().saturating_sub(horizon), settings)?, horizon, None)
        } else {
            let fixed = store.fixed()?;
            let parts = deal_out(&fixed.classes, &fixed.splits, settings);
            (Split::by_vertex(store.steps(), settings)?, 0, Some((fixed.classes, parts)))
        };
        // A baseline is not worth more memory than what is trained.
        let asks_neighbours = Edges::bytes(store, names.len())? <= memory(&settings.run.memory)? as u64 / 4;
        let mut goal = Classes {
            store: store.clone(),
            names,
            split,
            horizon,
            fixed,
            counts: Vec::new(),
            weights: None,
            asks_neighbours,
            edges: OnceLock::new(),
        };
        goal.count()?;
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
    weights: Option<Vec<f32>>,
    /// Whether there is room for the neighbours of all vertices.
    asks_neighbours: bool,
    /// All edges, once a baseline has asked for them.
    edges: OnceLock<Edges>,
}

const NAMES: [&str; 2] = ["head.weight", "head.bias"];

fn head(tape: &mut Tape<'_>, embedding: Var, extra: &[Var]) -> kymo_tensor::Result<Var> {
    tape.linear(embedding, extra[0], extra[1])
}

impl Classes {
    /// The vertices that are labelled at a sample in a part, with their classes.
    fn truth(&self, part: Part, sample: Step) -> Result<Vec<(u32, u32)>> {
        match &self.fixed {
            Some((classes, parts)) => {
                let mine = |(vertex, _): &(usize, &i32)| parts[*vertex] == Some(part);
                let labelled = classes.iter().enumerate().filter(mine);
                Ok(labelled.map(|(vertex, &class)| (vertex as u32, class as u32)).collect())
            }
            None => {
                let (vertices, classes) = self.store.labels(sample + self.horizon)?;
                Ok(vertices.iter().copied().zip(classes.iter().copied()).collect())
            }
        }
    }

    fn count(&mut self) -> Result<()> {
        self.counts = vec![0; self.names.len()];
        let samples = match self.fixed {
            // The same at every step.
            Some(_) => 0..1,
            None => self.split.samples(Part::Train),
        };
        for sample in samples {
            for (vertex, class) in self.truth(Part::Train, sample)? {
                let Some(count) = self.counts.get_mut(class as usize) else {
                    let problem = format!(
                        "vertex {vertex} has the class {class}, which has no name: the store is damaged"
                    );
                    return Err(kymo_graph::Error::store(self.store.path(), problem).into());
                };
                *count += 1;
            }
        }
        Ok(())
    }

    /// The class that is most frequent in training.
    fn majority(&self) -> usize {
        (0..self.counts.len()).rev().max_by_key(|&class| self.counts[class]).unwrap_or(0)
    }

    /// The classes that are known at `sample`: of those that are trained on, or the newest of each vertex.
    fn known(&self, sample: Step) -> Result<Vec<Option<u32>>> {
        let vertices = self.store.vertices();
        let mut known = vec![None; vertices];
        if self.fixed.is_some() {
            for (vertex, class) in self.truth(Part::Train, sample)? {
                known[vertex as usize] = Some(class);
            }
            return Ok(known);
        }
        let mut missing = vertices;
        for step in (0..=sample).rev() {
            let (vertices, truth) = self.store.labels(step)?;
            for (&vertex, &class) in vertices.iter().zip(truth) {
                if known[vertex as usize].is_none() {
                    known[vertex as usize] = Some(class);
                    missing -= 1;
                }
            }
            if missing == 0 {
                break;
            }
        }
        Ok(known)
    }

    /// A score for each class of each vertex.
    fn scores(&self, sample: Step, says: Says<'_>) -> Result<Vec<f32>> {
        let (vertices, classes) = (self.store.vertices(), self.names.len());
        let rule = match says {
            Says::Model(outputs, _) => return Ok(outputs.to_vec()),
            Says::Baseline(rule) => rule,
        };
        let known = if rule == MAJORITY { vec![None; vertices] } else { self.known(sample)? };
        let mut scores = match rule {
            VOTE | PROPAGATION => {
                let edges = match self.edges.get() {
                    Some(edges) => edges,
                    None => {
                        let edges = Edges::new(&self.store)?;
                        self.edges.get_or_init(|| edges)
                    }
                };
                let neighbours = edges.up_to(sample, vertices);
                match rule == VOTE {
                    true => neighbours.votes(&known, classes),
                    false => neighbours.spread(&known, classes),
                }
            }
            _ => vec![0.0; vertices * classes],
        };
        // Of whom neighbours say nothing, what is known of itself; the most frequent class where that is
        // nothing, either.
        let majority = self.majority();
        for (row, known) in scores.chunks_exact_mut(classes).zip(known) {
            if row.iter().all(|&score| score == 0.0) {
                row[known.map_or(majority, |class| class as usize)] = 1.0;
            }
        }
        Ok(scores)
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
        vec![Slot::weight(NAMES[0], width, self.names.len()), Slot::bias(NAMES[1], self.names.len())]
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
            steps.push((0..own.len()).map(|row| classes[own.vertex(row)]).collect::<Vec<f32>>());
        }
        if total == 0.0 {
            return Ok(None);
        }
        let (scale, weights) = (1.0 / total, self.weights.clone());
        let places: Vec<usize> = at.iter().map(|&(place, _)| place).collect();
        let loss = forward.loss_of_rows(&NAMES, &places, move |tape, number, rows, embedding, extra| {
            let weights = match &weights {
                Some(weights) => Some(tape.copied(Shape::new(1, weights.len()), weights)?),
                None => None,
            };
            let truth = tape.copied(Shape::new(rows.len(), 1), &steps[number][rows])?;
            let scores = head(tape, embedding, extra)?;
            tape.cross_entropy(scores, truth, weights, None, scale)
        })?;
        Ok(Some(loss))
    }

    fn labelled(&self, part: Part, sample: Step) -> Result<Option<usize>> {
        Ok(Some(self.truth(part, sample)?.len()))
    }

    fn outputs<'a>(&self, forward: &mut Forward<'_, 'a>) -> Result<Outputs<'a>> {
        Ok(forward.last_rows(self.names.len(), &NAMES, head)?)
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
