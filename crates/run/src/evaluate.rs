//! How good a model is on a part of the data, and how good those are that learn nothing.

use serde::Serialize;
use std::collections::BTreeMap;

use crate::clock::Work;
use crate::error::Result;
use crate::learner::Learner;
use crate::split::Part;
use crate::task::{Says, Tallies};

/// Metrics by name.
pub type Metrics = BTreeMap<String, f64>;

/// What an evaluation came to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Evaluation {
    /// The task.
    pub task: String,
    /// The part of the data.
    pub split: &'static str,
    /// The metrics of the model.
    pub metrics: Metrics,
    /// The metrics of each baseline.
    pub baselines: BTreeMap<&'static str, Metrics>,
}

/// The metrics of a model and of all baselines on a part of the data.
pub fn evaluate(learner: &mut Learner, part: Part) -> Result<Evaluation> {
    let metrics = measure(learner, part)?;
    let mut baselines = BTreeMap::new();
    for &baseline in learner.goal.baselines() {
        let mut tallies = Tallies::new(&learner.settings)?;
        for sample in learner.split().samples(part) {
            learner.goal.judge(part, sample, Says::Baseline(baseline), &mut tallies)?;
        }
        baselines.insert(baseline, named(&tallies));
    }
    Ok(Evaluation { task: learner.settings.task.name.clone(), split: part.name(), metrics, baselines })
}

/// The metrics of a model on a part of the data.
pub fn measure(learner: &mut Learner, part: Part) -> Result<Metrics> {
    let mut tallies = Tallies::new(&learner.settings)?;
    learner.outputs(learner.split().samples(part), |learner, sample, outputs| {
        let begun = std::time::Instant::now();
        learner.goal.judge(part, sample, Says::Model(&outputs, &learner.params), &mut tallies)?;
        let scoring = std::mem::take(&mut tallies.scoring);
        learner.clock.add(Work::Predict, scoring);
        learner.clock.add(Work::Metrics, begun.elapsed().saturating_sub(scoring));
        Ok(())
    })?;
    Ok(named(&tallies))
}

fn named(tallies: &Tallies) -> Metrics {
    tallies.values().into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
