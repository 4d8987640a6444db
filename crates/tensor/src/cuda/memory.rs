//! Memory of a GPU that is used again, within a budget.
//!
//! Taking memory from the driver waits for all work on the GPU, so what is given back is kept for the next
//! allocation. Where the budget is used up, what is kept and fits no request goes back to the driver first;
//! then it is an error that says how much was wanted.

use std::collections::BTreeMap;
use std::ops::Range;

use super::call::Slice;
use super::device::{Device, problem};
use crate::error::{Error, Result};

/// Free memory by size, and what is taken.
pub(super) struct Pool {
    free: BTreeMap<usize, Vec<u64>>,
    /// Bytes that are free to be used again.
    kept: usize,
    /// Bytes in use.
    pub(super) used: usize,
    pub(super) most_used: usize,
    pub(super) budget: usize,
}

impl Pool {
    pub(super) fn new(budget: usize) -> Pool {
        Pool { free: BTreeMap::new(), kept: 0, used: 0, most_used: 0, budget }
    }

    pub(super) fn all_free(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.free).into_values().flatten().collect()
    }
}

/// How many bytes are allocated for a request: eight sizes from one power of two to the next, and pages of
/// two megabytes for what is large.
pub(crate) fn room(bytes: usize) -> usize {
    const PAGE: usize = 2 << 20;
    let class = (bytes.next_power_of_two() / 16).max(512);
    if bytes < PAGE { bytes.next_multiple_of(class) } else { bytes.next_multiple_of(class.min(PAGE)) }
}

/// Memory of a GPU, given back when it is dropped.
pub struct Memory {
    device: Device,
    at: u64,
    length: usize,
}

impl Memory {
    /// All of it.
    pub fn all(&self) -> Slice<'_> {
        Slice::new(self.at, self.length)
    }

    /// How many numbers there are.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The GPU that it belongs to.
    pub fn device(&self) -> &Device {
        &self.device
    }
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} numbers on {:?}", self.length, self.device)
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.length == 0 {
            return;
        }
        let room = room(4 * self.length);
        let mut pool = self.device.0.pool();
        pool.used -= room;
        pool.kept += room;
        pool.free.entry(room).or_default().push(self.at);
    }
}

impl Device {
    /// Memory for this many numbers, uninitialised.
    pub fn take(&self, length: usize) -> Result<Memory> {
        let with = |at: u64| Memory { device: self.clone(), at, length };
        if length == 0 {
            return Ok(with(0));
        }
        let room = room(4 * length);
        let mut pool = self.0.pool();
        // What is a quarter longer at most may do as well, but then it must be given back as what it is: only
        // equal rooms are lent.
        if let Some(at) = pool.free.get_mut(&room).and_then(Vec::pop) {
            pool.kept -= room;
            pool.used += room;
            pool.most_used = pool.most_used.max(pool.used);
            return Ok(with(at));
        }
        let refused = |pool: &Pool| {
            let gib = |bytes: usize| bytes as f64 / f64::from(1 << 30);
            Error::Device(format!(
                "{:.2} GiB were asked for, {:.2} of {:.2} GiB are in use on {}; choose a shorter \
                 train.window, a smaller model.hidden, \
                 a smaller run.memory (what is kept of snapshots), or run on the CPU",
                gib(room),
                gib(pool.used),
                gib(pool.budget),
                self.facts().name
            ))
        };
        if pool.used + room > pool.budget {
            return Err(refused(&pool));
        }
        if pool.used + pool.kept + room > pool.budget {
            self.trim(&mut pool);
        }
        let at = match self.0.driver.allocate(room).map_err(problem)? {
            Some(at) => at,
            None => {
                self.trim(&mut pool);
                self.0.driver.allocate(room).map_err(problem)?.ok_or_else(|| refused(&pool))?
            }
        };
        pool.used += room;
        pool.most_used = pool.most_used.max(pool.used);
        Ok(with(at))
    }

    /// Gives everything that is kept back to the driver.
    fn trim(&self, pool: &mut Pool) {
        pool.all_free().into_iter().for_each(|at| self.0.driver.release(at));
        pool.kept = 0;
    }
}

/// Arrays side by side in one piece of memory: to take it from the driver may wait for the GPU.
#[derive(Debug)]
pub(crate) struct Arrays<const COUNT: usize> {
    memory: Memory,
    places: [Range<usize>; COUNT],
}

/// What one of them is to be: numbers of four bytes each, or room for this many of them.
pub(crate) enum Array<'a> {
    Bytes(&'a [u8]),
    Room(usize),
}

impl<'a> Array<'a> {
    /// Numbers of four bytes each, or several of them together.
    pub fn of<T: bytemuck::Pod>(values: &'a [T]) -> Array<'a> {
        Array::Bytes(bytemuck::cast_slice(values))
    }
}

impl<const COUNT: usize> Arrays<COUNT> {
    /// Takes memory for arrays and brings those that are there.
    pub fn new(device: &Device, arrays: [Array<'_>; COUNT]) -> Result<Self> {
        let mut end = 0;
        let places = std::array::from_fn(|number| {
            let length = match arrays[number] {
                Array::Bytes(bytes) => bytes.len() / 4,
                Array::Room(length) => length,
            };
            let start = end;
            // Kernels read several numbers at a time.
            end = (start + length).next_multiple_of(64);
            start..start + length
        });
        let made = Arrays { memory: device.take(end)?, places };
        for (number, array) in arrays.iter().enumerate() {
            if let Array::Bytes(bytes) = array {
                device.set(made.array(number), bytes)?;
            }
        }
        Ok(made)
    }

    /// One of them.
    pub fn array(&self, number: usize) -> Slice<'_> {
        self.memory.all().range(self.places[number].clone())
    }
}

#[cfg(test)]
mod tests {
    use super::room;

    #[test]
    fn rooms_are_little_longer_than_what_is_asked_for() {
        for bytes in (4..100_000).step_by(4).chain([5 << 20, (1 << 30) + 4, 7_000_000_000]) {
            let room = room(bytes);
            assert!(room >= bytes && room.is_multiple_of(256), "{bytes} {room}");
            assert!(room <= bytes + 512 + bytes / 8, "{bytes} {room}");
        }
    }
}
