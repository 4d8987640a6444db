//! How good a model is on a part of the data, and how good those are that learn nothing.

use kymo_trace::Kind;
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
    let recorder = learner.team.recorder.clone();
    let _judging = recorder.open(Kind::Evaluate, "baselines");
    // Only who judges can tell.
    let judged = if learner.team.leads() { learner.goal().baselines() } else { &[] };
    for &baseline in judged {
        let mut tallies = Tallies::new(learner.settings())?;
        for sample in learner.split().samples(part) {
            learner.goal().judge(part, sample, Says::Baseline(baseline), &mut tallies)?;
        }
        baselines.insert(baseline, named(&tallies));
    }
    Ok(Evaluation { task: learner.settings().task.name.clone(), split: part.name(), metrics, baselines })
}

/// The metrics of a model on a part of the data: the first worker judges and tells the others.
pub fn measure(learner: &mut Learner, part: Part) -> Result<Metrics> {
    let mut tallies = Tallies::new(learner.settings())?;
    learner.outputs(learner.split().samples(part), |learner, sample, outputs| {
        let begun = std::time::Instant::now();
        let recorder = learner.team.recorder.clone();
        let _judging = recorder.open(Kind::Evaluate, "metrics");
        learner.goal().judge(part, sample, Says::Model(&outputs, &learner.params), &mut tallies)?;
        let scoring = std::mem::take(&mut tallies.scoring);
        learner.clock.add(Work::Predict, scoring);
        learner.clock.add(Work::Metrics, begun.elapsed().saturating_sub(scoring));
        Ok(())
    })?;
    let told = learner.team.from_leader(to_bytes(&named(&tallies)))?;
    from_bytes(&told)
}

/// Names and the bits of values: JSON has no numbers that are none.
fn to_bytes(metrics: &Metrics) -> Vec<u8> {
    let line = |(name, value): (&String, &f64)| format!("{name} {}\n", value.to_bits());
    metrics.iter().map(line).collect::<String>().into_bytes()
}

fn from_bytes(bytes: &[u8]) -> Result<Metrics> {
    let wrong =
        || kymo_tensor::Error::Peer("the first worker sent something that is no list of metrics".into());
    let text = std::str::from_utf8(bytes).map_err(|_| wrong())?;
    let line = |line: &str| {
        let (name, bits) = line.split_once(' ')?;
        Some((name.to_owned(), f64::from_bits(bits.parse().ok()?)))
    };
    text.lines().map(|text| line(text).ok_or_else(|| wrong().into())).collect()
}

fn named(tallies: &Tallies) -> Metrics {
    tallies.values().into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
