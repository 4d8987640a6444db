//! Who is there. Every worker tells the first one that it lives, and the first one tells all others: where
//! nothing has been heard for longer than the deadline, a worker counts as lost, and everybody is told.
//!
//! A carrier alone does not do this: when a machine disappears without closing its connections, MPI waits for
//! minutes.

use std::time::{Duration, Instant};

/// How often a worker shows that it lives.
pub const BEAT: Duration = Duration::from_millis(500);

/// What a message of the health lane says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Word {
    /// I live.
    Beat,
    /// I have done my part, and go.
    Done,
    /// This worker is lost, for this reason.
    Lost(usize, String),
}

impl Word {
    /// As words of a message.
    pub fn packed(&self) -> Vec<f32> {
        let (kind, rank, text) = match self {
            Word::Beat => (0, 0, ""),
            Word::Done => (1, 0, ""),
            Word::Lost(rank, why) => (2, *rank as u32, why.as_str()),
        };
        let bytes = text.bytes().map(u32::from);
        [kind, rank].into_iter().chain(bytes).map(f32::from_bits).collect()
    }

    /// What a message says; nothing where it makes no sense.
    pub fn unpacked(words: &[f32]) -> Option<Word> {
        let [kind, rank, text @ ..] = words else { return None };
        match kind.to_bits() {
            0 => Some(Word::Beat),
            1 => Some(Word::Done),
            2 => {
                let bytes = text.iter().map(|word| word.to_bits() as u8).collect();
                Some(Word::Lost(rank.to_bits() as usize, String::from_utf8(bytes).ok()?))
            }
            _ => None,
        }
    }
}

/// When others were heard of last.
pub struct Health {
    rank: usize,
    heard: Vec<Instant>,
    done: Vec<bool>,
    beaten: Option<Instant>,
    deadline: Duration,
}

impl Health {
    /// All are heard now.
    pub fn new(rank: usize, size: usize, deadline: Duration) -> Health {
        Health { rank, heard: vec![Instant::now(); size], done: vec![false; size], beaten: None, deadline }
    }

    /// Something came from a worker.
    pub fn hear(&mut self, from: usize) {
        self.heard[from] = Instant::now();
    }

    /// A worker has done its part.
    pub fn finish(&mut self, rank: usize) {
        self.done[rank] = true;
    }

    /// Whether the first worker has gone.
    pub fn first_has_gone(&self) -> bool {
        self.done[0]
    }

    /// Whether all others have done their part.
    pub fn are_done(&self) -> bool {
        self.done.iter().enumerate().all(|(rank, &done)| done || rank == self.rank)
    }

    /// Those that this worker watches and tells that it lives.
    pub fn watched(&self) -> std::ops::Range<usize> {
        match self.rank {
            0 => 1..self.heard.len(),
            _ => 0..1,
        }
    }

    /// Whether it is time for a sign of life.
    pub fn is_due(&mut self) -> bool {
        let due = self.beaten.is_none_or(|beaten| beaten.elapsed() >= BEAT);
        if due {
            self.beaten = Some(Instant::now());
        }
        due
    }

    /// How long nothing has been heard of a worker.
    pub fn silence(&self, rank: usize) -> Duration {
        self.heard[rank].elapsed()
    }

    /// A worker that has been silent for too long, and for how long.
    pub fn lost(&self) -> Option<(usize, Duration)> {
        let silent = self.watched().filter(|&rank| !self.done[rank]);
        silent.map(|rank| (rank, self.silence(rank))).find(|(_, silence)| *silence > self.deadline)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_survive() {
        for word in [Word::Beat, Word::Done, Word::Lost(3, "on näme: gone".into())] {
            assert_eq!(Word::unpacked(&word.packed()), Some(word));
        }
        assert_eq!(Word::unpacked(&[]), None);
        assert_eq!(Word::unpacked(&[f32::from_bits(9), 0.0]), None);
    }

    #[test]
    fn the_silent_are_lost_and_those_who_are_done_may_be_silent() {
        let mut first = Health::new(0, 3, Duration::ZERO);
        std::thread::sleep(Duration::from_millis(2));
        assert_eq!(first.lost().map(|(rank, _)| rank), Some(1));
        first.finish(1);
        assert_eq!(first.lost().map(|(rank, _)| rank), Some(2));
        assert!(!first.are_done());
        first.finish(2);
        assert!(first.lost().is_none() && first.are_done());
        let mut other = Health::new(2, 3, Duration::from_secs(60));
        assert_eq!((other.watched(), first.watched()), (0..1, 1..3));
        assert!(other.lost().is_none());
        assert!(other.is_due() && !other.is_due());
    }
}
