//! How a thread waits for others, and who of them is still here.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use crate::error::Error;

/// A few microseconds: what others need to arrive when every worker has a core.
const SPINS: usize = 100;

/// Times another thread is let in before going to sleep.
const YIELDS: usize = 4;

/// A lock that goes on after a panic: every change under it is made whole.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How long to look before going to sleep.
pub(super) struct Patience {
    spins: usize,
}

impl Patience {
    /// Where workers have to share cores, looking keeps the awaited one from working.
    pub(super) fn for_workers(size: usize) -> Patience {
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
        Patience { spins: if size <= cores { SPINS } else { 0 } }
    }

    /// Looks for a short while whether something has happened.
    pub(super) fn look(&self, happened: impl Fn() -> bool) {
        for _ in 0..self.spins {
            if happened() {
                return;
            }
            std::hint::spin_loop();
        }
        for _ in 0..YIELDS {
            if happened() {
                return;
            }
            std::thread::yield_now();
        }
    }
}

const HERE: u8 = 0;
const LEFT: u8 = 1;
const PANICKED: u8 = 2;

/// Who is here. Who has gone stays gone.
pub(super) struct Roll {
    workers: Vec<AtomicU8>,
    first: OnceLock<usize>,
}

impl Roll {
    pub(super) fn new(size: usize) -> Roll {
        Roll { workers: (0..size).map(|_| AtomicU8::new(HERE)).collect(), first: OnceLock::new() }
    }

    pub(super) fn leave(&self, rank: usize) {
        let how = if std::thread::panicking() { PANICKED } else { LEFT };
        self.workers[rank].store(how, Ordering::SeqCst);
        // Only the first counts: others often go because it went.
        let _ = self.first.set(rank);
    }

    pub(super) fn has_gone(&self, rank: usize) -> bool {
        self.workers[rank].load(Ordering::SeqCst) != HERE
    }

    /// The worker that went first, if any did.
    pub(super) fn first_gone(&self) -> Option<usize> {
        self.first.get().copied()
    }

    /// The error of a worker that needed `rank`, which has gone, for `what`.
    pub(super) fn error(&self, rank: usize, what: impl std::fmt::Display) -> Error {
        let how = match self.workers[rank].load(Ordering::SeqCst) {
            PANICKED => "panicked",
            _ => "has left",
        };
        Error::peer(rank, format!("{how} and was needed for {what}"))
    }
}
