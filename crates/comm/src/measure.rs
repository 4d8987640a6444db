//! What the wire between workers carries, measured with exchanges like those of rows: all workers send to all
//! others at the same time.

use std::time::Instant;

use crate::error::Result;
use crate::{Comm, Tag};

/// How fast a wire is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Bytes that each worker sends, and receives, in a second.
    pub rate: f64,
    /// Seconds that an exchange takes whatever its size.
    pub latency: f64,
}

/// Numbers from each worker to each other: at least, and at most.
const SIZES: [usize; 2] = [1 << 14, 1 << 20];

/// Seconds that an exchange takes whose rate can be told.
const ENOUGH: f64 = 0.1;

/// Measures for a second or two; all workers come here together, and come to the same figures. Nothing for a
/// worker alone.
pub fn measure(comm: &dyn Comm) -> Result<Option<Measured>> {
    if comm.size() < 2 {
        return Ok(None);
    }
    let latency = median(comm, 1, 31)?;
    let mut numbers = SIZES[0];
    while numbers < SIZES[1] && slowest(comm, numbers)? < ENOUGH {
        numbers *= 2;
    }
    let bytes = 4.0 * numbers as f64 * (comm.size() - 1) as f64;
    let seconds = median(comm, numbers, 7)? - latency;
    Ok(Some(Measured { rate: bytes / seconds.max(1e-9), latency }))
}

/// The seconds of an exchange in the middle of several.
fn median(comm: &dyn Comm, numbers: usize, rounds: usize) -> Result<f64> {
    let mut seconds = (0..rounds).map(|_| slowest(comm, numbers)).collect::<Result<Vec<f64>>>()?;
    seconds.sort_by(f64::total_cmp);
    Ok(seconds[rounds / 2])
}

/// The seconds of an exchange until the last worker has all of it, at every worker.
fn slowest(comm: &dyn Comm, numbers: usize) -> Result<f64> {
    const TAG: Tag = Tag(0);
    let (rank, size) = (comm.rank(), comm.size());
    let fill = |_| {
        let mut words = comm.buffer(numbers);
        words.resize(numbers, 1.0);
        words
    };
    let messages: Vec<Vec<f32>> = (1..size).map(fill).collect();
    comm.barrier()?;
    let begun = Instant::now();
    for (offset, message) in (1..).zip(messages) {
        comm.send((rank + offset) % size, TAG, message)?;
    }
    for offset in 1..size {
        comm.recycle(comm.receive((rank + size - offset) % size, TAG)?);
    }
    let mine = begun.elapsed().as_secs_f64();
    let all = comm.all_gather(&mine.to_le_bytes())?;
    let seconds = all.iter().filter_map(|bytes| bytes.as_slice().try_into().ok()).map(f64::from_le_bytes);
    Ok(seconds.fold(0.0, f64::max))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::threads;

    #[test]
    fn all_workers_come_to_the_same_figures() {
        let found: Vec<_> = std::thread::scope(|scope| {
            let start = |comm: threads::Threads| scope.spawn(move || measure(&comm).unwrap());
            let workers: Vec<_> = threads(3).into_iter().map(start).collect();
            workers.into_iter().map(|worker| worker.join().unwrap()).collect()
        });
        let first = found[0].unwrap();
        assert!(first.rate > 0.0 && first.rate.is_finite() && first.latency >= 0.0, "{first:?}");
        assert!(found.iter().all(|measured| *measured == Some(first)), "{found:?}");
        assert_eq!(measure(&threads(1).swap_remove(0)).unwrap(), None, "alone");
    }
}
