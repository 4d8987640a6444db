//! Who keeps a sum of the carrier's own from ending. No messages go meanwhile; but all are on one machine,
//! and those who wait in the library of MPI look for messages all the time: the one that is waited for is the
//! one that does nothing, because it was stopped.

use std::time::Instant;

use super::health::BEAT;
use super::neighbours::{LOOK, Process};

/// A sum that lasts.
#[derive(Default)]
pub struct Stall {
    /// When it was begun, by which it is known.
    sum: u64,
    seen: Option<Seen>,
}

struct Seen {
    since: Instant,
    looked: Instant,
    /// What others had computed by then.
    worked: Vec<(usize, Process, u64)>,
    /// Who has done least since.
    idle: Option<usize>,
}

impl Stall {
    /// Whom the sum that was begun then waits for, and since when; nobody at first.
    pub fn look(&mut self, sum: u64, neighbours: &[(usize, Process)]) -> Option<(usize, Instant)> {
        let now = Instant::now();
        // Who was stopped itself, as all are when a job is suspended, begins anew.
        let fresh = self.seen.take().filter(|seen| self.sum == sum && seen.looked.elapsed() <= 4 * BEAT);
        let mut seen =
            fresh.unwrap_or_else(|| Seen { since: now, looked: now, worked: Vec::new(), idle: None });
        self.sum = sum;
        if seen.looked.elapsed() >= LOOK {
            seen.look(neighbours);
        }
        let found = seen.idle.map(|rank| (rank, seen.since));
        self.seen = Some(seen);
        found
    }
}

impl Seen {
    fn look(&mut self, neighbours: &[(usize, Process)]) {
        self.looked = Instant::now();
        let work = |process: &Process| process.worked();
        if self.worked.is_empty() {
            let known =
                neighbours.iter().filter_map(|(rank, process)| Some((*rank, *process, work(process)?)));
            self.worked = known.collect();
            return;
        }
        let done = self
            .worked
            .iter()
            .filter_map(|(rank, process, before)| Some((work(process)?.saturating_sub(*before), *rank)));
        self.idle = done.min().map(|(_, rank)| rank);
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Guards that the right one is named: this process works, the other one sleeps.
    #[test]
    fn who_does_nothing_is_waited_for() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let others = [(3, Process::this().unwrap()), (5, Process::living(child.id()).unwrap())];
        let mut stall = Stall::default();
        assert_eq!(stall.look(1, &others), None, "it may end at once");
        let (begun, mut found) = (Instant::now(), None);
        while begun.elapsed() < Duration::from_millis(900) {
            found = stall.look(1, &others);
        }
        let (rank, since) = found.unwrap();
        assert!(rank == 5 && since.elapsed() > Duration::from_millis(800), "{rank}, {:?}", since.elapsed());
        assert_eq!(stall.look(2, &others), None, "another sum");
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
