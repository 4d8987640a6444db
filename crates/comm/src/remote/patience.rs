//! How a worker that waits spends its time: looking, where it has a core of its own; otherwise it lets those
//! work that it waits for.

use std::time::Duration;

/// The shortest and the longest sleep between two looks.
const SHORTEST: Duration = Duration::from_micros(50);
const LONGEST: Duration = Duration::from_millis(1);

/// Looks at memory before asking for messages, and how many of them let others work in between.
const LOOKS: usize = 1000;
const YIELDS: usize = 20;

/// How long to look before sleeping.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    looks: Duration,
    spins: usize,
}

impl Patience {
    /// With all cores to itself.
    pub fn alone() -> Patience {
        Patience::among(1)
    }

    /// Beside this many workers that may use the same cores, itself included.
    pub fn among(workers: usize) -> Patience {
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
        match workers <= cores {
            true => Patience { looks: Duration::from_millis(2), spins: LOOKS - YIELDS },
            false => Patience { looks: Duration::from_micros(20), spins: 0 },
        }
    }

    /// Looks for a short while, without asking for messages: what comes through memory comes within
    /// microseconds where others are at it.
    pub fn look<T>(&self, mut look: impl FnMut() -> Option<T>) -> Option<T> {
        for number in 0..LOOKS {
            if let Some(found) = look() {
                return Some(found);
            }
            match number < self.spins {
                true => std::hint::spin_loop(),
                false => std::thread::yield_now(),
            }
        }
        None
    }

    /// Passes the time between two looks, after having waited this long: the longer that was, the longer, so
    /// that looking takes a small part of it and what is waited for comes a few per cent later at most. What
    /// is `under_way` from here has to be pushed on.
    pub fn pause(&self, waited: Duration, under_way: bool) {
        let longest = if under_way { SHORTEST } else { LONGEST };
        match waited < self.looks {
            true => std::thread::yield_now(),
            false => std::thread::sleep((waited / 32).clamp(SHORTEST, longest)),
        }
    }
}
