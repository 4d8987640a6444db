//! How a worker that waits spends its time: looking, where it has a core of its own; otherwise it lets those
//! work that it waits for.

use std::time::Duration;

/// The shortest and the longest sleep between two looks.
const SHORTEST: Duration = Duration::from_micros(50);
const LONGEST: Duration = Duration::from_millis(1);

/// How long to look before sleeping.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    looks: Duration,
}

impl Patience {
    /// With all cores to itself.
    pub fn alone() -> Patience {
        Patience::among(1)
    }

    /// Beside this many workers of the machine, itself included.
    pub fn among(workers: usize) -> Patience {
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
        let looks = if workers <= cores { Duration::from_millis(2) } else { Duration::from_micros(20) };
        Patience { looks }
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
