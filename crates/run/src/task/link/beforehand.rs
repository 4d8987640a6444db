//! What attacks reach on a store before anything is trained on it: in a time that does not grow with it.

use std::collections::BTreeMap;
use std::sync::Arc;

use kymo_graph::{Progress, Step, Store};
use kymo_model::metric::{self, Metric, Needs};
use kymo_trace::schema::Metrics;

use super::attacks;
use super::goal::{EDGE_BYTES, LinkPrediction, Links};
use super::judge::BY_SOURCE;
use crate::config::{LINK_PREDICTION, Settings};
use crate::data::Part;
use crate::error::{Error, Result};
use crate::task::{Goal, Says, Tallies, Task};

/// Changes of edges of a store that is looked at, at most.
const CHANGES: u64 = 5_000_000;

/// Steps of the test part that are looked at, at most.
const STEPS: usize = 12;

/// Links of each of them, at most.
const LINKS: usize = 500;

/// Pairs that a metric may look at for each attack, where it does not keep to these links.
const PAIRS: usize = 10_000_000;

/// What every attack reaches by every metric of links that is cheap, on steps spread over the part that a run
/// with default settings would be tested on. Nothing where the store has no such part, no links that come, or
/// more changes than there is time for.
pub fn attacked(store: &Arc<Store>, progress: &Progress) -> Result<Option<BTreeMap<String, Metrics>>> {
    if store.manifest().edges == 0 || store.structure_bytes()? / EDGE_BYTES > CHANGES {
        return Ok(None);
    }
    let mut settings = Settings::default();
    settings.task.name = LINK_PREDICTION.into();
    settings.link.evaluate_positives = LINKS;
    let links = match Links::open(store, &settings) {
        Ok(links) => links,
        // Too few steps for three parts, or too little memory.
        Err(Error::Settings { .. }) => return Ok(None),
        Err(other) => return Err(other),
    };
    let come = (1..store.steps()).any(|step| !links.pasts.along.came(step).is_empty());
    let samples = spread(links.split.samples(Part::Test).collect());
    if !come || samples.is_empty() {
        return Ok(None);
    }
    let sources = store.vertices().min(links.edges as usize);
    let looks_at = |needs: Needs| match needs {
        Needs::PerSource => BY_SOURCE.saturating_mul(sources).saturating_mul(samples.len()),
        Needs::AllPairs => store.vertices().saturating_mul(sources).saturating_mul(samples.len()),
        _ => 0,
    };
    let is_cheap = |metric: &&&dyn Metric| {
        LinkPrediction.shows().contains(&metric.needs()) && looks_at(metric.needs()) <= PAIRS
    };
    let metrics: Vec<&'static dyn Metric> = metric::ALL.iter().filter(is_cheap).copied().collect();
    let mut all: Vec<(&str, Tallies)> =
        attacks::names().into_iter().map(|name| (name, Tallies::new(&metrics))).collect();
    for sample in samples {
        for (name, tallies) in &mut all {
            progress.check()?;
            links.judge(Part::Test, sample, Says::Baseline(name), tallies)?;
        }
    }
    let named = |tallies: &Tallies| -> Metrics {
        tallies.values().into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    };
    let reached: BTreeMap<String, Metrics> =
        all.iter().map(|(name, tallies)| ((*name).to_owned(), named(tallies))).collect();
    Ok(Some(reached).filter(|reached| reached.values().all(|metrics| !metrics.is_empty())))
}

/// Some of these steps, evenly spread, the first and the last one among them.
fn spread(samples: Vec<Step>) -> Vec<Step> {
    let (count, last) = (samples.len().min(STEPS), samples.len().saturating_sub(1));
    (0..count).map(|number| samples[number * last / (count - 1).max(1)]).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::fixture::{Steps, store_of};
    use super::*;

    fn of(steps: &Steps) -> Option<BTreeMap<String, Metrics>> {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(store_of(folder.path(), 2_000, steps, true));
        attacked(&store, &Progress::default()).unwrap()
    }

    /// All targets are replaced at every step.
    fn replaced(count: usize) -> Steps {
        (0..count as u32).map(|t| (0..40).map(|n| (n % 7, 7 + t * 40 + n)).collect()).collect()
    }

    #[test]
    fn every_attack_is_told_by_every_metric() {
        let reached = of(&replaced(40)).unwrap();
        assert_eq!(
            reached.keys().map(String::as_str).collect::<BTreeSet<_>>(),
            attacks::names().into_iter().collect()
        );
        assert!(reached["new-first"]["auc"] > 0.9 && reached["new-first"]["mrr-balanced"] < 0.05);
        for metrics in reached.values() {
            assert_eq!(metrics.len(), 7, "small stores are looked at by all metrics of links");
        }
    }

    #[test]
    fn where_there_is_nothing_to_judge_nothing_is_said() {
        assert!(of(&replaced(2)).is_none(), "too few steps for three parts");
        assert!(of(&vec![BTreeSet::new(); 30]).is_none(), "no edges");
        let same = BTreeSet::from([(0, 1), (1, 2)]);
        assert!(of(&vec![same; 30]).is_none(), "no link ever comes");
    }

    #[test]
    fn steps_are_spread_over_all() {
        assert_eq!(spread((10..13).collect()), [10, 11, 12]);
        let some = spread((0..1000).collect());
        assert!(some.len() == STEPS && some[0] == 0 && some[STEPS - 1] == 999);
        assert!(some.windows(2).all(|pair| (89..93).contains(&(pair[1] - pair[0]))));
        assert!(spread(Vec::new()).is_empty() && spread(vec![5]) == [5]);
    }
}
