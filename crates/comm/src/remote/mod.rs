//! Workers that are processes, on one machine or on many.
//!
//! A thread beside the worker keeps messages moving while it computes: a message that was handed over does
//! not go out by itself. It also tells the others that this worker lives, and notices who does not. Nothing
//! waits for longer than the deadline for a worker of whom nothing is heard.
//!
//! Sums are taken in the order of ranks, each worker summing its slice of the numbers: the same bits as with
//! threads, and as few bytes as any way of summing takes. Workers of one machine sum through memory that they
//! share.

mod beside;
mod board;
mod collectives;
pub mod health;
mod inbox;
pub mod neighbours;
mod patience;
pub mod spare;
pub mod wire;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use board::Board;
use health::{Health, Word};
use inbox::{Inbox, TRAILER, seal};
use neighbours::{Process, Seat};
use patience::Patience;
use wire::{Arrival, Lane, Wire};

use crate::error::{Error, Result};
use crate::traffic::{Counters, Traffic, bytes_of};
use crate::{Comm, End, Tag};

/// How workers deal with each other.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How long a worker may be silent before it counts as lost.
    pub deadline: Duration,
    /// Whether sums are left to the carrier, which may add in any order.
    pub native_sums: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options { deadline: Duration::from_secs(30), native_sums: false }
    }
}

/// How long those who leave give their last words to arrive.
const FAREWELL: Duration = Duration::from_secs(2);

/// How long the others give the first one to say why all end.
const LAST_WORDS: Duration = Duration::from_secs(10);

struct Shared {
    wire: Mutex<Box<dyn Wire>>,
    inbox: Mutex<Inbox>,
    health: Mutex<Health>,
    /// What is known of the others once all have met.
    others: OnceLock<Others>,
    /// Whom this worker waits for, and since when.
    waits: Mutex<Option<(usize, Instant)>>,
    /// Why the group is at an end.
    end: Arc<OnceLock<End>>,
    ended: AtomicBool,
    /// Whether somebody wants to know at once who is there.
    alarm: Arc<AtomicBool>,
    /// When something last moved, in nanoseconds since the beginning.
    moved: AtomicU64,
    begun: Instant,
}

/// Where workers are.
struct Others {
    /// The machine of each.
    hosts: Vec<String>,
    /// Those whose processes can be watched.
    neighbours: Vec<(usize, Process)>,
}

/// The endpoint of one worker.
pub struct Remote {
    rank: usize,
    size: usize,
    shared: Arc<Shared>,
    beside: Option<JoinHandle<()>>,
    counters: Counters,
    patience: Patience,
    native_sums: bool,
    /// Memory that all share, where they can.
    board: Option<Board>,
    /// The number of the next collective; held during one.
    turn: Mutex<u64>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Moves messages, unless another thread is at it; whether any are under way.
    fn progress(&self) -> bool {
        let mut wire = match self.wire.try_lock() {
            Ok(wire) => wire,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return true,
        };
        let mut arrived = Vec::new();
        let under_way = wire.poll(&mut arrived).unwrap_or_else(|error| {
            self.fail(error);
            false
        });
        if under_way || !arrived.is_empty() {
            self.moved.store(self.begun.elapsed().as_nanos() as u64, Ordering::Relaxed);
        }
        // Still with the lock: what arrived first is put first.
        arrived.into_iter().for_each(|arrival| self.deliver(arrival));
        under_way
    }

    fn deliver(&self, arrival: Arrival) {
        let from = arrival.from;
        let mut health = lock(&self.health);
        health.hear(from);
        if arrival.lane != Lane::Health {
            drop(health);
            if let Err(error) = lock(&self.inbox).put(arrival) {
                self.fail(error);
            }
            return;
        }
        match Word::unpacked(&arrival.words) {
            Some(Word::Beat(waits)) => health.note(from, waits),
            Some(Word::Done) => health.finish(from),
            Some(Word::Lost(rank, code, why)) => self.finish(Error::peer(rank, why), code),
            None => self.fail(Error::peer(from, "sent something that makes no sense")),
        }
    }

    fn fail(&self, error: Error) {
        self.finish(error, 0);
    }

    fn finish(&self, error: Error, code: u8) {
        // The first reason is the reason.
        let _ = self.end.set(End { error, code });
    }

    /// Why the group is at an end.
    fn failed(&self) -> Option<&Error> {
        self.end.get().map(|end| &end.error)
    }

    fn say(&self, to: usize, word: &Word) {
        let sent = lock(&self.wire).send(to, Lane::Health, word.packed());
        if let Err(error) = sent {
            self.fail(error);
        }
    }

    /// The machine of a worker, in words.
    fn host(&self, rank: usize) -> &str {
        let known = self.others.get().and_then(|others| others.hosts.get(rank));
        known.map_or("an unknown machine", String::as_str)
    }
}

impl Remote {
    /// An endpoint over a wire, whose other ends are opened by the others at the same time. `host` is the
    /// machine that this worker is on.
    pub fn connect(wire: Box<dyn Wire>, host: &str, options: Options) -> Result<Remote> {
        Remote::connect_as(wire, Seat::of_this(host), options)
    }

    fn connect_as(wire: Box<dyn Wire>, seat: Seat, options: Options) -> Result<Remote> {
        let (rank, size) = (wire.rank(), wire.size());
        let begun = Instant::now();
        let shared = Arc::new(Shared {
            health: Mutex::new(Health::new(rank, size, options.deadline)),
            inbox: Mutex::default(),
            wire: Mutex::new(wire),
            others: OnceLock::new(),
            waits: Mutex::new(None),
            end: Arc::default(),
            ended: AtomicBool::new(false),
            alarm: Arc::default(),
            moved: AtomicU64::new(0),
            begun,
        });
        // From the beginning: a machine may disappear while all meet.
        let beside = shared.clone();
        let thread = std::thread::Builder::new().name("post".into()).spawn(move || beside.keep(rank, size));
        let mut remote = Remote {
            rank,
            size,
            shared,
            // Without it messages move when somebody waits for them, and nobody is found to be lost.
            beside: thread.ok(),
            counters: Counters::default(),
            patience: Patience::alone(),
            native_sums: options.native_sums,
            board: None,
            turn: Mutex::new(0),
        };
        let texts = remote.all_gather(seat.described().as_bytes())?;
        let all: Vec<Seat> = texts.iter().map(|text| Seat::read(&String::from_utf8_lossy(text))).collect();
        let neighbours = neighbours::watched(rank, &all);
        let all_near = neighbours.len() + 1 == size;
        let sharing = all.iter().filter(|other| seat.shares_cores(other)).count();
        let hosts = all.into_iter().map(|seat| seat.host).collect();
        // It is set once, here.
        let _ = remote.shared.others.set(Others { hosts, neighbours });
        remote.patience = Patience::among(sharing);
        let near: Vec<bool> = (0..size).map(|other| remote.host(other) == remote.host(rank)).collect();
        lock(&remote.shared.wire).meet(near);
        remote.board = if all_near && size > 1 { remote.shared_board()? } else { None };
        // What was said so far is not part of the work.
        remote.counters = Counters::default();
        Ok(remote)
    }

    /// Memory that all share; nothing where one of them cannot reach it.
    fn shared_board(&self) -> Result<Option<Board>> {
        let made = if self.rank == 0 { Board::create(self.size).ok() } else { None };
        let name = made.as_ref().map_or(String::new(), |(_, name)| name.clone());
        let name = String::from_utf8_lossy(&self.tell_all(0, name.into_bytes())?).into_owned();
        let board = Board::open(&name, self.rank, self.size).ok();
        let reached = self.gather(&[u8::from(board.is_some())])?;
        Ok(board.filter(|_| reached.iter().all(|reached| *reached == [1])))
    }

    /// An error where there is no worker `rank`.
    fn check(&self, rank: usize) -> Result<()> {
        if rank < self.size {
            return Ok(());
        }
        let last = self.size - 1;
        Err(Error::usage(format!(
            "there is no worker {rank}: worker {last} is the last; name one that is there"
        )))
    }

    /// Waits for what another worker sends.
    fn wait<T>(&self, from: usize, mut look: impl FnMut() -> Option<T>) -> Result<T> {
        if let Some(found) = look() {
            return Ok(found);
        }
        let begun = Instant::now();
        *lock(&self.shared.waits) = Some((from, begun));
        let found = loop {
            let under_way = self.shared.progress();
            if let Some(found) = look() {
                break Ok(found);
            }
            if let Some(error) = self.shared.failed() {
                break Err(error.clone());
            }
            self.patience.pause(begun.elapsed(), under_way);
        };
        *lock(&self.shared.waits) = None;
        found
    }

    fn post(&self, to: usize, lane: Lane, words: Vec<f32>) -> Result<()> {
        if let Some(error) = self.shared.failed() {
            return Err(error.clone());
        }
        let mut wire = lock(&self.shared.wire);
        self.shared.moved.store(self.shared.begun.elapsed().as_nanos() as u64, Ordering::Relaxed);
        wire.send(to, lane, words)
    }

    /// The bytes of `numbers` numbers to or from `other`: none where that is this worker.
    fn bytes(&self, other: usize, numbers: usize) -> u64 {
        if other == self.rank { 0 } else { bytes_of(numbers) }
    }

    /// Tells all others, and gives it time to arrive.
    fn tell(&self, word: &Word) {
        for to in (0..self.size).filter(|&to| to != self.rank) {
            self.shared.say(to, word);
        }
        let begun = Instant::now();
        while self.shared.progress() && begun.elapsed() < FAREWELL {
            std::thread::yield_now();
        }
    }
}

impl Remote {
    /// Goes where something has failed. The first one says why before it goes, and launchers end all
    /// processes once one has ended: the others go after it, unless it is lost or has said it already.
    fn go(&self) {
        if self.rank == 0 {
            return self.tell(&Word::Done);
        }
        let begun = Instant::now();
        let waits = !matches!(self.shared.failed(), Some(Error::Peer { rank: 0, .. }));
        while waits && begun.elapsed() < LAST_WORDS && !lock(&self.shared.health).first_has_gone() {
            self.shared.progress();
            std::thread::sleep(Duration::from_micros(200));
        }
    }
}

impl Comm for Remote {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn send(&self, to: usize, tag: Tag, values: Vec<f32>) -> Result<()> {
        self.check(to)?;
        self.counters.messages(self.bytes(to, values.len()), 0);
        let words = seal(values, (tag.0, 0));
        if to == self.rank {
            return lock(&self.shared.inbox).put(Arrival { from: to, lane: Lane::Messages, words });
        }
        self.post(to, Lane::Messages, words)
    }

    fn receive(&self, from: usize, tag: Tag) -> Result<Vec<f32>> {
        self.check(from)?;
        let message = self.wait(from, || lock(&self.shared.inbox).take(from, tag.0))?;
        self.counters.messages(0, self.bytes(from, message.len()));
        Ok(message)
    }

    fn try_receive(&self, from: usize, tag: Tag) -> Result<Option<Vec<f32>>> {
        self.check(from)?;
        let look = || lock(&self.shared.inbox).take(from, tag.0);
        let found = look().or_else(|| {
            self.shared.progress();
            look()
        });
        match found {
            Some(message) => {
                self.counters.messages(0, self.bytes(from, message.len()));
                Ok(Some(message))
            }
            None => self.shared.failed().map_or(Ok(None), |error| Err(error.clone())),
        }
    }

    fn all_reduce(&self, values: &mut [f32]) -> Result<()> {
        self.sum(values)
    }

    fn all_gather(&self, mine: &[u8]) -> Result<Vec<Vec<u8>>> {
        self.gather(mine)
    }

    fn all_to_all(&self, mine: Vec<Vec<f32>>) -> Result<Vec<Vec<f32>>> {
        self.exchange(mine)
    }

    fn broadcast(&self, root: usize, bytes: Vec<u8>) -> Result<Vec<u8>> {
        self.tell_all(root, bytes)
    }

    fn barrier(&self) -> Result<()> {
        self.meet()
    }

    fn traffic(&self) -> Traffic {
        self.counters.read()
    }

    fn leave(&self, why: &str, code: u8) {
        let host = self.shared.host(self.rank);
        if self.shared.failed().is_none() {
            self.tell(&Word::Lost(self.rank, code, format!("on {host} has stopped: {why}")));
        }
        self.shared.fail(Error::peer(self.rank, "has left"));
    }

    fn host(&self, rank: usize) -> Option<&str> {
        self.shared.others.get()?.hosts.get(rank).map(String::as_str)
    }

    fn beside(&self) -> usize {
        let mine = self.host(self.rank);
        (0..self.size).filter(|&rank| self.host(rank) == mine).count().max(1)
    }

    fn waits_for(&self) -> Option<(usize, Duration)> {
        let (from, since) = (*lock(&self.shared.waits))?;
        Some((lock(&self.shared.health).cause(from), since.elapsed()))
    }

    fn end(&self) -> Option<Arc<OnceLock<End>>> {
        Some(self.shared.end.clone())
    }

    fn alarm(&self) -> Option<Arc<AtomicBool>> {
        Some(self.shared.alarm.clone())
    }

    fn recycle(&self, values: Vec<f32>) {
        lock(&self.shared.wire).recycle(values);
    }

    fn buffer(&self, numbers: usize) -> Vec<f32> {
        lock(&self.shared.wire).buffer(numbers + TRAILER)
    }
}

impl Drop for Remote {
    /// Where all has gone well, all go together: a process that ended its connection early would be taken
    /// for one that has died.
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.leave("it has panicked", 0);
        }
        if self.shared.failed().is_none() {
            self.tell(&Word::Done);
            while !lock(&self.shared.health).are_done() && self.shared.failed().is_none() {
                self.shared.progress();
                std::thread::sleep(Duration::from_micros(200));
            }
        }
        if self.shared.failed().is_some() {
            self.go();
        }
        self.shared.ended.store(true, Ordering::Release);
        if let Some(thread) = self.beside.take() {
            // It ends within a millisecond, or has ended by a panic that has been told.
            let _ = thread.join();
        }
        lock(&self.shared.wire).close(self.shared.failed().is_none());
    }
}

#[cfg(test)]
mod tests;
