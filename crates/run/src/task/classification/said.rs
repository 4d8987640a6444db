//! What is known of classes, and what a model or a baseline says of them.

use std::sync::Arc;

use kymo_graph::Step;
use kymo_model::Params;
use rayon::prelude::*;

use super::facts::Facts;
use super::neighbours::{Edges, Neighbours};
use super::{Classes, MAJORITY, NAMES, PROPAGATION, VOTE};
use crate::data::Part;
use crate::error::{Error, Result};
use crate::task::{Says, begin_with};

/// Samples of training by which it is decided what the head begins with, where classes change.
const MOST_LOOKS: usize = 16;

impl Classes {
    /// The vertices that are labelled at a sample in a part, with their classes.
    pub(super) fn truth(&self, part: Part, sample: Step) -> Result<Vec<(u32, u32)>> {
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

    pub(super) fn count(&mut self) -> Result<()> {
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

    /// The neighbours that vertices have had up to a step.
    fn neighbours(&self, sample: Step) -> Result<Neighbours> {
        let edges = match self.edges.get() {
            Some(edges) => edges,
            None => {
                let edges = Edges::new(&self.store)?;
                self.edges.get_or_init(|| edges)
            }
        };
        Ok(edges.up_to(sample, self.store.vertices()))
    }

    /// What classes around each vertex say at a sample: a row of facts for each, where they are looked at.
    pub(super) fn facts_at(&self, sample: Step) -> Result<Option<Arc<Vec<f32>>>> {
        let Some(facts) = &self.facts else { return Ok(None) };
        let step = facts.step(sample);
        let made = facts.get(step, || {
            let (neighbours, known) = (self.neighbours(step)?, self.known(step)?);
            Ok::<_, Error>(match self.fixed {
                Some(_) => facts.of_others(&neighbours, &known, &self.usual),
                None => Facts::of_past(&neighbours, &known, &self.usual),
            })
        })?;
        Ok(Some(made))
    }

    /// What the head begins with where facts are looked at: the better half of them as it is, by samples of
    /// training, and nothing of the embedding.
    pub(super) fn begin(&self, params: &mut Params) -> Result<()> {
        let classes = self.names.len();
        let train = self.split.samples(Part::Train);
        let stride = match self.fixed {
            Some(_) => train.len().max(1),
            None => train.len().div_ceil(MOST_LOOKS).max(1),
        };
        let mut hits = [0usize; 2];
        for sample in train.rev().step_by(stride) {
            let Some(facts) = self.facts_at(sample)? else { return Ok(()) };
            for (vertex, class) in self.truth(Part::Train, sample)? {
                let row = &facts[vertex as usize * 2 * classes..][..2 * classes];
                for (hits, half) in hits.iter_mut().zip(row.chunks_exact(classes)) {
                    *hits += usize::from(largest(half) == class as usize);
                }
            }
        }
        let better = usize::from(hits[1] >= hits[0]);
        let mut weights = vec![0.0; 2 * classes * classes];
        for class in 0..classes {
            weights[(better * classes + class) * classes + class] = 1.0;
        }
        begin_with(params, NAMES[0], None)?;
        begin_with(params, NAMES[1], None)?;
        begin_with(params, NAMES[2], Some(&weights))
    }

    /// What a model says: the part of the embedding, and that of facts, which outputs do not have because
    /// they do not say which step they are about.
    fn with_facts(&self, sample: Step, outputs: &[f32], params: &Params) -> Result<Vec<f32>> {
        let mut scores = outputs.to_vec();
        let Some(facts) = self.facts_at(sample)? else { return Ok(scores) };
        let classes = self.names.len();
        let weights = params
            .get(NAMES[2])
            .filter(|weights| weights.len() == 2 * classes * classes)
            .ok_or_else(|| Error::Bug(format!("{} of the model are missing, or too few", NAMES[2])))?;
        let rows = scores.par_chunks_exact_mut(classes.max(1));
        rows.zip(facts.par_chunks_exact(2 * classes.max(1))).for_each(|(row, facts)| {
            for (&fact, weights) in facts.iter().zip(weights.chunks_exact(classes)) {
                row.iter_mut().zip(weights).for_each(|(sum, &weight)| *sum = fact.mul_add(weight, *sum));
            }
        });
        Ok(scores)
    }

    /// A score for each class of each vertex.
    pub(super) fn scores(&self, sample: Step, says: Says<'_>) -> Result<Vec<f32>> {
        let (vertices, classes) = (self.store.vertices(), self.names.len());
        let rule = match says {
            Says::Model(outputs, params) => return self.with_facts(sample, outputs, params),
            Says::Baseline(rule) => rule,
        };
        let known = if rule == MAJORITY { vec![None; vertices] } else { self.known(sample)? };
        let mut scores = match rule {
            VOTE => self.neighbours(sample)?.votes(&known, classes),
            PROPAGATION => self.neighbours(sample)?.spread(&known, classes),
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

/// The first of the largest numbers.
fn largest(row: &[f32]) -> usize {
    let most = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    row.iter().position(|&score| score == most).unwrap_or(0)
}
