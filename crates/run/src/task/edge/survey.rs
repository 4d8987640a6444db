//! What the weights of the edges that are trained on are like: means, signs, distinct values.

use std::ops::Range;

use kymo_graph::{Step, Store};

use crate::error::{Error, Result};

/// Distinct values that are counted one by one.
pub const MOST: usize = 32;

/// What the weights of some steps are like.
#[derive(Debug, Default)]
pub struct Survey {
    /// How many edges there are.
    pub count: u64,
    /// How many of them weigh less than 0.
    pub negative: u64,
    /// The first distinct weights, ascending, and how often each occurs.
    pub distinct: Vec<(f32, u64)>,
    /// Whether there are more.
    pub has_more: bool,
    least: f32,
    greatest: f32,
}

impl Survey {
    /// The weights of these steps.
    pub fn new(store: &Store, steps: Range<Step>) -> Result<Survey> {
        let mut survey = Survey { least: f32::INFINITY, greatest: f32::NEG_INFINITY, ..Survey::default() };
        for step in steps {
            let snapshot = store.snapshot(step)?;
            (0..snapshot.len()).for_each(|edge| survey.add(snapshot.weight(edge)));
        }
        Ok(survey)
    }

    fn add(&mut self, weight: f32) {
        self.count += 1;
        self.negative += u64::from(weight < 0.0);
        (self.least, self.greatest) = (self.least.min(weight), self.greatest.max(weight));
        // There is a zero of either sign.
        let weight = weight + 0.0;
        match self.distinct.binary_search_by(|(other, _)| other.total_cmp(&weight)) {
            Ok(at) => self.distinct[at].1 += 1,
            Err(at) if self.distinct.len() < MOST => self.distinct.insert(at, (weight, 1)),
            Err(_) => self.has_more = true,
        }
    }

    /// Fails where all weights are the same; where there is no edge, another complaint says more.
    pub fn check(&self, store: &Store, what: &str) -> Result<()> {
        if self.count == 0 || self.least < self.greatest {
            return Ok(());
        }
        let found = match self.least == 1.0 {
            true => "has no weights".to_owned(),
            false => format!("has edges that all weigh {}", self.least),
        };
        let problem = format!(
            "{} {found} in the training part, so there are no {what} of edges to predict; ingest a column of \
             weights (kymo ingest --columns source,target,weight,time), or choose link-prediction",
            store.path().display()
        );
        Err(Error::settings("task.name", problem))
    }
}
