//! How good a model is on a part of the data, and how good baselines are that learn nothing.

use std::collections::BTreeMap;
use std::time::Instant;

use kymo_model::metric::{Metric, Needs};
use kymo_trace::Kind;
use kymo_trace::schema::{Evaluation, Metrics, Slice};

use super::infer::outputs;
use crate::data::Part;
use crate::error::{Error, Result};
use crate::step::Worker;
use crate::task::{Says, Tallies};
use crate::workers::Work;

/// Pairs up to which attacks are judged by metrics over all pairs.
const PAIRS: f64 = 1e9;

/// The metrics of a model, of all baselines and of attacks on a part of the data; fails where one of the
/// model's is NaN or infinite, or where there is nothing to judge. What baselines come to is told as it is.
pub fn evaluate(worker: &mut Worker, part: Part) -> Result<Evaluation> {
    evaluate_epoch(worker, part, "the best epoch")
}

/// The same for the parameters of the epoch that is called so.
pub(super) fn evaluate_epoch(worker: &mut Worker, part: Part, epoch: &str) -> Result<Evaluation> {
    let progress = worker.progress.clone();
    // The first worker judges for all.
    let mut judged = if worker.group.leads() { shown(worker) } else { Vec::new() };
    progress.announce((judged.len() * worker.split().samples(part).len()) as u64);
    let mut tallies = Tallies::sliced(&worker.context.metrics);
    let metrics = gather(worker, part, &mut tallies)?;
    check_finite(&metrics, part, epoch)?;
    if !metrics.contains_key(worker.context.deciding().name()) {
        let problem = format!(
            "there was nothing to judge in the part for {} ({} samples); change split.train, \
             split.validation or task.horizon so that it has something to predict",
            part.name(),
            worker.split().samples(part).len()
        );
        return Err(Error::settings("split", problem));
    }
    let (mut baselines, mut attacks, mut slices) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
    slices.extend(tallies.slices().into_iter().map(|slice| Slice {
        metrics: named(slice.values),
        name: slice.name,
        count: slice.count as u64,
        baselines: BTreeMap::new(),
    }));
    let recorder = worker.group.recorder.clone();
    let _judging = recorder.open(Kind::Evaluate, "baselines");
    // All of them at a sample before the next one: what is drawn for a sample is drawn once.
    for sample in worker.split().samples(part) {
        for (name, tallies) in &mut judged {
            progress.check()?;
            worker.goal().judge(part, sample, Says::Baseline(name), tallies)?;
            progress.advance(1);
        }
    }
    let known = [worker.goal().baselines(), worker.goal().attacks()];
    for (name, tallies) in judged {
        let [is_baseline, is_attack] = known.each_ref().map(|names| names.contains(&name));
        if is_attack {
            attacks.insert(name.to_owned(), named(tallies.values()));
        }
        if !is_baseline {
            continue;
        }
        baselines.insert(name.to_owned(), named(tallies.values()));
        for told in tallies.slices() {
            if let Some(slice) = slices.iter_mut().find(|slice| slice.name == told.name) {
                slice.baselines.insert(name.to_owned(), named(told.values));
            }
        }
    }
    let (task, split) = (worker.settings().task.name.clone(), part.name().to_owned());
    Ok(Evaluation { task, split, metrics, baselines, attacks, slices })
}

/// Who is judged beside the model, with the metrics of each: baselines by all of them, and on parts; attacks
/// by those that take little time.
fn shown(worker: &Worker) -> Vec<(&'static str, Tallies)> {
    let (goal, metrics) = (worker.goal(), &worker.context.metrics);
    let baselines = goal.baselines();
    let is_cheap = goal.scored_pairs(metrics) <= PAIRS;
    let cheap: Vec<&'static dyn Metric> =
        metrics.iter().filter(|metric| is_cheap || metric.needs() != Needs::AllPairs).copied().collect();
    let attacks: Vec<&'static str> =
        goal.attacks().into_iter().filter(|name| !baselines.contains(name)).collect();
    let baselines = baselines.into_iter().map(|name| (name, Tallies::sliced(metrics)));
    baselines.chain(attacks.into_iter().map(|name| (name, Tallies::new(&cheap)))).collect()
}

/// The metrics of a model on a part of the data: the first worker judges and tells the others.
pub fn measure(worker: &mut Worker, part: Part) -> Result<Metrics> {
    let mut tallies = Tallies::new(&worker.context.metrics);
    gather(worker, part, &mut tallies)
}

fn gather(worker: &mut Worker, part: Part, tallies: &mut Tallies) -> Result<Metrics> {
    let samples = worker.split().samples(part);
    outputs(worker, samples, |worker, sample, outputs| {
        let begun = Instant::now();
        let recorder = worker.group.recorder.clone();
        let _judging = recorder.open(Kind::Evaluate, "metrics");
        let says = Says::Model(&outputs, &worker.replica.params);
        worker.goal().judge(part, sample, says, tallies)?;
        let scoring = std::mem::take(&mut tallies.scoring);
        worker.clock.add(Work::Predict, scoring);
        worker.clock.add(Work::Metrics, begun.elapsed().saturating_sub(scoring));
        Ok(())
    })?;
    let told = worker.group.broadcast(to_bytes(&named(tallies.values())))?;
    from_bytes(&told)
}

/// Fails if a metric is NaN or infinite: such parameters are not worth a checkpoint, and such a test is no
/// result.
pub(super) fn check_finite(metrics: &Metrics, part: Part, epoch: &str) -> Result<()> {
    let Some((name, value)) = metrics.iter().find(|(_, value)| !value.is_finite()) else { return Ok(()) };
    let part = part.name();
    Err(Error::Diverged(format!(
        "training diverged: the {name} of the {part} became {value} with the parameters of {epoch}; the run \
         folder keeps the checkpoint before that, the settings and metrics.jsonl, and gets no summary.json. \
         Lower train.learning_rate, set train.clip, or look for extreme values in the data of the {part}"
    )))
}

/// Names and the bits of values: JSON cannot write NaN.
fn to_bytes(metrics: &Metrics) -> Vec<u8> {
    let line = |(name, value): (&String, &f64)| format!("{name} {}\n", value.to_bits());
    metrics.iter().map(line).collect::<String>().into_bytes()
}

fn from_bytes(bytes: &[u8]) -> Result<Metrics> {
    let wrong = || Error::peer(0, "sent something that is no list of metrics");
    let text = std::str::from_utf8(bytes).map_err(|_| wrong())?;
    let line = |line: &str| {
        let (name, bits) = line.split_once(' ')?;
        Some((name.to_owned(), f64::from_bits(bits.parse().ok()?)))
    };
    text.lines().map(|text| line(text).ok_or_else(wrong)).collect()
}

fn named(values: Vec<(&'static str, f64)>) -> Metrics {
    values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_told_to_the_bit_and_nonsense_is_a_peer_error() {
        let metrics: Metrics = [("auc".to_owned(), 0.1 + 0.2), ("mse".to_owned(), f64::NAN)].into();
        let told = from_bytes(&to_bytes(&metrics)).unwrap();
        assert!(told["mse"].is_nan() && told["auc"].to_bits() == metrics["auc"].to_bits());
        for wrong in [&b"auc"[..], b"auc x\n", b"\xFF"] {
            assert!(matches!(from_bytes(wrong), Err(Error::Peer { rank: 0, .. })));
        }
    }
}
