//! A line of `averaging.jsonl`: when workers averaged their models, so that it can be done again in the same
//! order.

use serde::{Deserialize, Serialize};

use super::record;

/// The rounds of averaging between two places at which all workers met.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AveragingRecord {
    /// The version of this layout.
    #[serde(default, serialize_with = "AveragingRecord::write_version")]
    pub version: u32,
    /// The epoch in which they met, counted from 0.
    pub epoch: usize,
    /// Windows of the epoch that were done then.
    pub window: usize,
    /// Iterations since they met before, or since training began.
    pub iterations: u64,
    /// The rounds in between, in order.
    pub rounds: Vec<AveragingRound>,
}

/// One round: iterations are counted from 1 since workers met, and 0 says that it did not come to that before
/// they met again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AveragingRound {
    /// Of each worker, the iteration after which it handed in its model.
    pub handed_in: Vec<u64>,
    /// Of each worker, the iteration after which it took over the mean.
    pub taken: Vec<u64>,
}

record!(
    AveragingRecord,
    1,
    "a record of averaged models",
    "restore the file, or train without averaging.replay",
    sound
);

/// What holds for every record: rounds follow each other, and each says something of every worker.
fn sound(record: &AveragingRecord) -> Result<(), String> {
    let workers = record.rounds.first().map_or(0, |round| round.handed_in.len());
    let mut after = vec![0; workers];
    for (number, round) in record.rounds.iter().enumerate() {
        let AveragingRound { handed_in, taken } = round;
        if handed_in.len() != workers || taken.len() != workers {
            return Err(format!("round {number} is not of {workers} workers, as the first one is"));
        }
        for (worker, (&handed_in, &taken)) in handed_in.iter().zip(taken).enumerate() {
            // A model is handed in after the mean of the round before was taken.
            let follows = handed_in == 0 || handed_in > after[worker];
            let is_taken = taken == 0 || handed_in > 0 && taken >= handed_in;
            if !follows || !is_taken || handed_in.max(taken) > record.iterations {
                return Err(format!(
                    "worker {worker} hands in round {number} after {handed_in} of {} iterations and takes it \
                     after {taken}, which cannot be",
                    record.iterations
                ));
            }
            // Who has not taken a mean has come to the end.
            after[worker] = if taken == 0 { u64::MAX } else { taken };
        }
        // The first worker takes a mean once it has the models of all, and others get it from there.
        if taken.iter().any(|&taken| taken > 0) && (taken[0] == 0 || handed_in.contains(&0)) {
            return Err(format!("round {number} has a mean, but not of all models"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::check;
    use super::*;

    fn record(rounds: &[([u64; 2], [u64; 2])]) -> AveragingRecord {
        let round = |&(handed_in, taken): &([u64; 2], [u64; 2])| AveragingRound {
            handed_in: handed_in.to_vec(),
            taken: taken.to_vec(),
        };
        let rounds = rounds.iter().map(round).collect();
        AveragingRecord { version: 1, epoch: 2, window: 7, iterations: 9, rounds }
    }

    #[test]
    fn records_come_back_and_what_cannot_be_is_refused() {
        check(&record(&[([1, 2], [3, 2]), ([4, 3], [5, 0])]), "rounds");
        let good = [
            &[][..],
            &[([1, 0], [0, 0])],
            &[([1, 1], [1, 9]), ([0, 0], [0, 0])],
            // The first worker goes on while the other one has not looked yet.
            &[([1, 1], [2, 0]), ([3, 0], [0, 0])],
        ];
        for good in good {
            sound(&record(good)).unwrap();
        }
        for wrong in [
            // Taken before it was handed in, or without.
            ([2, 2], [1, 2]),
            ([2, 0], [2, 0]),
            // Nobody has a mean before the first worker.
            ([1, 1], [0, 1]),
            ([1, 10], [1, 0]),
        ] {
            assert!(sound(&record(&[wrong])).is_err(), "{wrong:?}");
        }
        // Handed in before the mean of the round before was taken.
        assert!(sound(&record(&[([1, 1], [3, 3]), ([3, 4], [0, 0])])).is_err());
        assert!(sound(&record(&[([1, 1], [3, 0]), ([4, 4], [0, 0])])).is_err());
        let mut other = record(&[([1, 1], [1, 1]), ([2, 2], [2, 2])]);
        other.rounds[1].taken.pop();
        assert!(sound(&other).unwrap_err().contains("round 1 is not of 2 workers"));
    }
}
