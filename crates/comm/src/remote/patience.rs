//! How a worker that waits spends its time: looking, where it has a core of its own; otherwise it lets those
//! work that it waits for.

use std::time::Duration;

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

    /// Passes the time between two looks, after having waited this long.
    pub fn pause(&self, waited: Duration) {
        match waited < self.looks {
            true => std::thread::yield_now(),
            false => std::thread::sleep(Duration::from_micros(50)),
        }
    }
}
