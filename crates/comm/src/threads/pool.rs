//! Buffers of messages, to be used again.
//!
//! One pool for all workers: buffers travel with their messages, and a worker that only receives would hoard
//! what a worker that only sends has to make anew.

use std::sync::Mutex;

use super::waiting::lock;

/// Buffers of one class kept for each worker; more are given back to the system.
const KEPT: usize = 64;

/// Buffers sorted by size: those of class `c` have room for at least `2^c` numbers.
pub(super) struct Pool {
    classes: Vec<Mutex<Vec<Vec<f32>>>>,
    kept: usize,
}

impl Pool {
    pub(super) fn new(size: usize) -> Pool {
        Pool { classes: (0..usize::BITS).map(|_| Mutex::default()).collect(), kept: KEPT * size }
    }

    pub(super) fn give(&self, mut buffer: Vec<f32>) {
        if buffer.capacity() == 0 {
            return;
        }
        buffer.clear();
        let mut class = lock(&self.classes[buffer.capacity().ilog2() as usize]);
        if class.len() < self.kept {
            class.push(buffer);
        }
    }

    pub(super) fn take(&self, numbers: usize) -> Vec<f32> {
        if numbers == 0 {
            return Vec::new();
        }
        let Some(room) = numbers.checked_next_power_of_two() else { return Vec::with_capacity(numbers) };
        let found = lock(&self.classes[room.ilog2() as usize]).pop();
        found.unwrap_or_else(|| Vec::with_capacity(room))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_come_back_empty_and_large_enough() {
        let pool = Pool::new(1);
        for numbers in [1, 2, 3, 100, 128, 129] {
            let mut buffer = pool.take(numbers);
            assert!(buffer.is_empty() && buffer.capacity() >= numbers);
            buffer.push(1.0);
            let place = buffer.as_ptr();
            pool.give(buffer);
            let again = pool.take(numbers);
            assert!(again.is_empty() && again.as_ptr() == place);
        }
        // A buffer from elsewhere is given only to those it is large enough for.
        pool.give(Vec::with_capacity(1000));
        assert!(pool.take(1000).capacity() >= 1000);
        pool.give(Vec::new());
        assert_eq!(pool.take(0).capacity(), 0);
    }

    #[test]
    fn what_is_too_much_is_not_kept() {
        let pool = Pool::new(1);
        (0..KEPT + 9).for_each(|_| pool.give(Vec::with_capacity(4)));
        assert_eq!(lock(&pool.classes[2]).len(), KEPT);
    }
}
