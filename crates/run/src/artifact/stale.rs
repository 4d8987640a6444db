//! What a checkpoint has of rows that were sent before (DGC, section 5.2), so that a run that is resumed
//! compares with the same ones: an array for every list of rows, and facts about the epoch under way.

use std::path::Path;

use kymo_graph::Step;
use serde::{Deserialize, Serialize};

use super::checkpoint::{Array, Checkpoint};
use crate::error::{Error, Result};
use crate::halo::{Kept, LastRows, RowsKey, Tally};

/// What is kept, but for the rows.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct StaleFacts {
    first_loss: Option<f64>,
    threshold: f64,
    /// What each worker counted in the epoch under way.
    tallies: Vec<Tally>,
}

/// The name of the rows that a worker sent last: `stale.WORKER.sent.RECEIVER.STEP.EXCHANGE.COLUMNS`.
fn name(worker: usize, key: &RowsKey) -> String {
    let RowsKey { other, step, exchange, columns } = key;
    format!("stale.{worker}.sent.{other}.{step}.{exchange}.{columns}")
}

/// What a name says; nothing where it is that of another array.
fn key(name: &str) -> Option<(usize, RowsKey)> {
    let (worker, rest) = name.strip_prefix("stale.")?.split_once(".sent.")?;
    let numbers: Vec<usize> = rest.split('.').map(|number| number.parse().ok()).collect::<Option<_>>()?;
    let [other, step, exchange, columns] = numbers[..] else { return None };
    Some((worker.parse().ok()?, RowsKey { other, step: step as Step, exchange, columns }))
}

/// Puts rows into a checkpoint; the facts that go with them.
pub(super) fn put(kept: &Kept, checkpoint: &mut Checkpoint) -> StaleFacts {
    for (worker, sent) in kept.sent.iter().enumerate() {
        for (key, rows) in sent {
            let shape = vec![rows.len() / key.columns.max(1), key.columns];
            checkpoint.arrays.insert(name(worker, key), Array { shape, values: rows.clone() });
        }
    }
    let Kept { first_loss, threshold, ref tallies, .. } = *kept;
    StaleFacts { first_loss, threshold, tallies: tallies.clone() }
}

/// What a checkpoint has of them.
pub(super) fn take(facts: &StaleFacts, checkpoint: &Checkpoint, path: &Path) -> Result<Kept> {
    let StaleFacts { first_loss, threshold, tallies } = facts.clone();
    let mut sent = vec![LastRows::new(); tallies.len()];
    for (name, array) in checkpoint.arrays.iter().filter(|(name, _)| name.starts_with("stale.")) {
        let place = key(name).and_then(|(worker, key)| Some((sent.get_mut(worker)?, key)));
        let Some((rows, key)) = place else {
            let problem = format!("its array {name} belongs to no worker: it is damaged; begin a new run");
            return Err(Error::file(path, problem));
        };
        rows.insert(key, array.values.clone());
    }
    Ok(Kept { first_loss, threshold, tallies, sent })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_from_a_checkpoint_and_strange_names_are_refused() {
        let key = |other, step| RowsKey { other, step, exchange: 3, columns: 2 };
        let sent = vec![
            LastRows::from([(key(1, 12), vec![1.0, 2.0, 3.0, 4.0]), (key(1, 2), vec![5.0, 6.0])]),
            LastRows::from([(key(0, 12), vec![7.0, 8.0])]),
        ];
        let tallies = vec![Tally { sent: 1, exact: 2, largest: 0.1, distances: 0.2, squares: 0.3 }; 2];
        let kept = Kept { first_loss: Some(0.1), threshold: 0.25, tallies, sent };
        let mut checkpoint = Checkpoint::default();
        let facts = put(&kept, &mut checkpoint);
        assert_eq!(checkpoint.arrays["stale.0.sent.1.12.3.2"].shape, [2, 2]);
        let text = serde_json::to_string(&facts).unwrap();
        let facts: StaleFacts = serde_json::from_str(&text).unwrap();
        assert_eq!(take(&facts, &checkpoint, Path::new("run")).unwrap(), kept);
        for strange in ["stale.2.sent.1.12.3.2", "stale.0.sent.1.12.3", "stale.0", "stale.x.sent.1.1.1.1"] {
            let mut other = checkpoint.clone();
            other.arrays.insert(strange.into(), Array::default());
            let error = take(&facts, &other, Path::new("run")).unwrap_err().to_string();
            assert!(error.contains("belongs to no worker: it is damaged"), "{error}");
        }
    }
}
