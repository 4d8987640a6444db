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
    /// I live, and wait for this worker, if for any.
    Beat(Option<usize>),
    /// I have done my part, and go.
    Done,
    /// This worker is lost, for this reason; what it exits with, or 0 where it did not say so itself.
    Lost(usize, u8, String),
}

impl Word {
    /// As words of a message.
    pub fn packed(&self) -> Vec<f32> {
        let (kind, rank, code, text) = match self {
            Word::Beat(waits) => (0, waits.map_or(0, |rank| rank as u32 + 1), 0, ""),
            Word::Done => (1, 0, 0, ""),
            Word::Lost(rank, code, why) => (2, *rank as u32, u32::from(*code), why.as_str()),
        };
        let bytes = text.bytes().map(u32::from);
        [kind, rank, code].into_iter().chain(bytes).map(f32::from_bits).collect()
    }

    /// What a message says; nothing where it makes no sense.
    pub fn unpacked(words: &[f32]) -> Option<Word> {
        let [kind, rank, code, text @ ..] = words else { return None };
        match kind.to_bits() {
            0 => Some(Word::Beat((rank.to_bits() as usize).checked_sub(1))),
            1 => Some(Word::Done),
            2 => {
                let bytes = text.iter().map(|word| word.to_bits() as u8).collect();
                let why = String::from_utf8(bytes).ok()?;
                Some(Word::Lost(rank.to_bits() as usize, code.to_bits() as u8, why))
            }
            _ => None,
        }
    }
}

/// When others were heard of last.
pub struct Health {
    rank: usize,
    heard: Vec<Instant>,
    /// Whom each said to wait for when it was heard last.
    waits: Vec<Option<usize>>,
    done: Vec<bool>,
    beaten: Option<Instant>,
    /// When it was last asked who is lost.
    asked: Instant,
    deadline: Duration,
}

impl Health {
    /// All are heard now.
    pub fn new(rank: usize, size: usize, deadline: Duration) -> Health {
        let now = Instant::now();
        let (heard, waits, done) = (vec![now; size], vec![None; size], vec![false; size]);
        Health { rank, heard, waits, done, beaten: None, asked: now, deadline }
    }

    /// Something came from a worker.
    pub fn hear(&mut self, from: usize) {
        self.heard[from] = Instant::now();
    }

    /// A worker said whom it waits for.
    pub fn note(&mut self, from: usize, waits: Option<usize>) {
        self.waits[from] = waits;
    }

    /// Whom one really waits for who waits for `first`: a worker of whom nothing is heard, or else the one at
    /// the end of those who wait for each other.
    pub fn cause(&self, first: usize) -> usize {
        let silent = self.watched().filter(|&rank| !self.done[rank] && self.silence(rank) > 4 * BEAT);
        if let Some(silent) = silent.max_by_key(|&rank| self.silence(rank)) {
            return silent;
        }
        // What others said may be old: this worker waits, and is not the one that it waits for.
        let next = |rank: &usize| self.waits.get(*rank).copied().flatten().filter(|&next| next != self.rank);
        // As many steps as there are workers: those who wait in a circle have no end.
        std::iter::successors(Some(first), next).take(self.heard.len()).last().unwrap_or(first)
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

    /// Nobody was heard because nobody listened.
    fn listen_anew(&mut self) {
        self.heard.fill(Instant::now());
    }

    /// How long nothing has been heard of a worker.
    pub fn silence(&self, rank: usize) -> Duration {
        self.heard[rank].elapsed()
    }

    /// A worker that has been silent for too long, and for how long. Who was stopped for a while, as all are
    /// when a job is suspended, has heard nobody meanwhile: then it listens anew.
    pub fn lost(&mut self) -> Option<(usize, Duration)> {
        if self.asked.elapsed() > 4 * BEAT {
            self.listen_anew();
        }
        self.asked = Instant::now();
        let silent = self.watched().filter(|&rank| !self.done[rank]);
        silent.map(|rank| (rank, self.silence(rank))).find(|(_, silence)| *silence > self.deadline)
    }

    /// Whether a worker has done its part.
    pub fn is_done(&self, rank: usize) -> bool {
        self.done[rank]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_survive() {
        for word in [
            Word::Beat(None),
            Word::Beat(Some(0)),
            Word::Beat(Some(7)),
            Word::Done,
            Word::Lost(3, 2, "on näme: gone".into()),
        ] {
            assert_eq!(Word::unpacked(&word.packed()), Some(word));
        }
        assert_eq!(Word::unpacked(&[]), None);
        assert_eq!(Word::unpacked(&[f32::from_bits(9), 0.0, 0.0]), None);
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

    /// Rank 0 waits for 1, who waits for 2, who computes: 2 is the slow one.
    #[test]
    fn the_last_of_those_who_wait_is_waited_for() {
        let mut health = Health::new(0, 4, Duration::from_secs(60));
        assert_eq!(health.cause(1), 1);
        health.note(1, Some(2));
        assert_eq!((health.cause(1), health.cause(3)), (2, 3));
        health.note(3, Some(0));
        assert_eq!(health.cause(3), 3, "not this one");
        health.note(2, Some(1));
        assert!([1, 2].contains(&health.cause(1)), "a circle has no end, and is left");
        health.heard[3] -= 5 * BEAT;
        assert_eq!(health.cause(1), 3, "who is silent may be stopped, and says nothing of it");
        health.finish(3);
        assert_ne!(health.cause(1), 3);
    }

    /// A job that was suspended as a whole goes on: nobody was heard, but nobody listened either.
    #[test]
    fn who_was_stopped_itself_listens_anew() {
        let mut health = Health::new(0, 2, 5 * BEAT);
        health.heard[1] -= 6 * BEAT;
        assert_eq!(health.lost().map(|(rank, _)| rank), Some(1), "it was listened for");
        health.asked -= 6 * BEAT;
        assert_eq!(health.lost(), None);
    }
}
