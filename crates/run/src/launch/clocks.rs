//! How far the clocks of machines are apart, so that timelines of workers on several can be shown beside each
//! other.
//!
//! The first worker asks each of the others for the time, some rounds. The answer was given between question
//! and arrival: taken to be in the middle, it is wrong by half of the time that the round took at most. The
//! fastest round counts.

use std::time::{Instant, SystemTime};

use kymo_trace::WorkerTrace;

use crate::error::{Error, Result};
use crate::workers::WorkerGroup;

/// How often each worker is asked.
const ROUNDS: usize = 32;

/// How far a clock is ahead of the first worker's, and by how much that may be wrong, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Offset {
    pub ahead: i64,
    pub error: u64,
}

/// Nanoseconds since 1970, by the clock of this machine.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(0)
}

/// The offsets of all workers, at the first one. All workers come here together; those of one process have
/// one clock.
pub(super) fn offsets(group: &WorkerGroup) -> Result<Vec<Offset>> {
    let mut found = vec![Offset::default(); group.size()];
    if group.host(0).is_none() {
        return Ok(found);
    }
    if !group.leads() {
        for _ in 0..ROUNDS {
            group.asked_for_time(now)?;
        }
        return Ok(found);
    }
    for (rank, offset) in found.iter_mut().enumerate().skip(1) {
        let mut best = u64::MAX;
        for _ in 0..ROUNDS {
            let (asked, begun) = (now(), Instant::now());
            let told = group.ask_for_time(rank)?;
            let took = begun.elapsed().as_nanos() as u64;
            if took < best {
                best = took;
                *offset = of_round(asked, took, told);
            }
        }
        if offset.error == 0 {
            return Err(Error::peer(rank, "answered before it was asked"));
        }
    }
    Ok(found)
}

/// What a round tells: when it was begun, how long it took, and the time that was told.
fn of_round(asked: u64, took: u64, told: u64) -> Offset {
    let middle = asked.saturating_add(took / 2);
    let ahead = i64::try_from(i128::from(told) - i128::from(middle)).unwrap_or(0);
    Offset { ahead, error: took.div_ceil(2).max(1) }
}

/// Brings the origin of a timeline to the clock of the first worker.
pub(super) fn adjust(trace: &mut WorkerTrace, offset: Offset) {
    if trace.origin > 0 {
        trace.origin = trace.origin.saturating_add_signed(-offset.ahead);
    }
    trace.error = offset.error;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_was_given_in_the_middle() {
        let offset = of_round(1_000, 60, 5_030);
        assert_eq!(offset, Offset { ahead: 4_000, error: 30 });
        assert_eq!(of_round(1_000, 61, 530), Offset { ahead: -500, error: 31 });
        let mut trace = WorkerTrace { origin: 9_000, ..Default::default() };
        adjust(&mut trace, offset);
        assert_eq!((trace.origin, trace.error), (5_000, 30));
        let mut unknown = WorkerTrace::default();
        adjust(&mut unknown, offset);
        assert_eq!(unknown.origin, 0);
    }
}
