//! Buffers that are used again: after the first step of a training nothing is allocated.
//!
//! Fresh memory costs a page fault for every four kilobytes, which is the largest tax of engines that
//! allocate as they go.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytemuck::{Pod, Zeroable};

use crate::cuda::Device;
use crate::estimate::MemoryEstimate;

/// Sixteen numbers: a line of the cache, and the widest register.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C, align(64))]
struct Line([f32; 16]);

/// Numbers that begin where a line of the cache does: a row of sixteen or more would touch one line more
/// otherwise.
#[derive(Debug, Default)]
pub struct Buffer {
    lines: Vec<Line>,
    length: usize,
}

impl Buffer {
    fn new(length: usize, room: usize) -> Self {
        Buffer { lines: vec![Line([0.0; 16]); room / 16], length }
    }

    /// How many numbers there is room for.
    fn room(&self) -> usize {
        16 * self.lines.len()
    }
}

impl From<&[f32]> for Buffer {
    fn from(values: &[f32]) -> Self {
        let mut buffer = Buffer::new(values.len(), values.len().next_multiple_of(16));
        buffer.copy_from_slice(values);
        buffer
    }
}

impl Deref for Buffer {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &bytemuck::cast_slice(&self.lines)[..self.length]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut bytemuck::cast_slice_mut(&mut self.lines)[..self.length]
    }
}

/// How much room a buffer of this length gets: eight sizes from one power of two to the next, so that lengths
/// which differ from step to step, as numbers of pairs do, share buffers instead of each having its own.
fn room(length: usize) -> usize {
    let class = (length.next_power_of_two() / 16).max(16);
    length.next_multiple_of(class)
}

/// Buffers by length, free to be used.
#[derive(Debug, Default)]
pub struct Arena {
    /// Free buffers by room.
    free: Mutex<BTreeMap<usize, Vec<Buffer>>>,
    allocated: AtomicUsize,
    children: Mutex<Vec<Arena>>,
    /// Whether a buffer may be lent that is much longer than was asked for. Blocks of rows are alike but for
    /// the last one, which is shorter and which another thread may get in the next step: it is to find room
    /// in the buffers of a whole block.
    lends_longer: bool,
    /// Whether a buffer that is a little too short makes place for the one that is made instead. Batches of
    /// some vertices see a few more of them or fewer: lengths that lie around the end of a size would have
    /// buffers of both sizes otherwise.
    grows: bool,
    /// Where tapes with this arena do their work, if not on the host.
    device: Option<Device>,
    /// Where tapes with this arena count what they would take, if they compute nothing.
    estimate: Option<Arc<MemoryEstimate>>,
}

impl Arena {
    /// An arena without buffers.
    pub fn new() -> Self {
        Self::default()
    }

    /// An arena for tapes whose matrices have about as many rows from tape to tape, but not quite.
    pub fn growing() -> Self {
        Arena { grows: true, ..Self::default() }
    }

    /// An arena whose tapes do their work on a GPU.
    pub fn on(device: Device) -> Self {
        Arena { device: Some(device), ..Self::default() }
    }

    /// Where tapes with this arena do their work, if not on the host.
    pub fn device(&self) -> Option<&Device> {
        self.device.as_ref()
    }

    /// An arena whose tapes compute nothing, and count what a GPU would have to hold.
    pub fn estimating(estimate: Arc<MemoryEstimate>) -> Self {
        Arena { estimate: Some(estimate), ..Self::default() }
    }

    /// Whether tapes with this arena have their numbers anywhere but in the memory of the host.
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.device.is_some() || self.estimate.is_some()
    }

    /// Where what a GPU would have to hold is counted, if nothing is computed.
    pub fn estimate(&self) -> Option<&Arc<MemoryEstimate>> {
        self.estimate.as_ref()
    }

    /// A buffer of this length that holds anything.
    pub fn take(&self, length: usize) -> Buffer {
        if length == 0 {
            return Buffer::default();
        }
        let room = room(length);
        let most = if self.lends_longer { usize::MAX } else { 2 * room };
        let mut free = self.free.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let exact = free.get_mut(&room).and_then(Vec::pop);
        let found = exact.or_else(|| {
            let longer = free.range_mut(room..=most).find(|(_, buffers)| !buffers.is_empty());
            longer.and_then(|(_, buffers)| buffers.pop())
        });
        if let Some(buffer) = found {
            return Buffer { length, ..buffer };
        }
        let shorter = free.range_mut(room - room / 8..room).rev().find(|(_, buffers)| !buffers.is_empty());
        let shorter = shorter.filter(|_| self.grows).and_then(|(_, buffers)| buffers.pop());
        drop(free);
        let gone = shorter.map_or(0, |buffer| buffer.room());
        self.allocated.fetch_add(room, Ordering::Relaxed);
        self.allocated.fetch_sub(gone, Ordering::Relaxed);
        Buffer::new(length, room)
    }

    /// A buffer of this length that holds zeros.
    pub fn zeros(&self, length: usize) -> Buffer {
        let mut buffer = self.take(length);
        buffer.fill(0.0);
        buffer
    }

    /// A buffer that holds these numbers.
    pub fn copied(&self, values: &[f32]) -> Buffer {
        let mut buffer = self.take(values.len());
        buffer.copy_from_slice(values);
        buffer
    }

    /// Gives a buffer back.
    pub fn give(&self, buffer: Buffer) {
        if buffer.room() > 0 {
            let mut free = self.free.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            free.entry(buffer.room()).or_default().push(buffer);
        }
    }

    /// Bytes allocated, by this arena and by those lent out of it.
    pub fn bytes(&self) -> usize {
        let children = self.children.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        self.allocated.load(Ordering::Relaxed) * 4 + children.iter().map(Arena::bytes).sum::<usize>()
    }

    /// Lends an arena of its own to a piece of work that runs beside others.
    pub fn lend(&self) -> Arena {
        let mut children = self.children.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        children.pop().unwrap_or_else(|| Arena { lends_longer: true, ..Arena::default() })
    }

    /// Takes a lent arena back, with its buffers.
    pub fn take_back(&self, child: Arena) {
        self.children.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(child);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_that_differ_share_buffers() {
        let arena = Arena::new();
        for length in (1000..2000).chain(1000..2000) {
            let buffer = arena.take(length);
            assert!(buffer.len() == length && buffer.room() <= 2000 + 128);
            arena.give(buffer);
        }
        assert!(arena.bytes() <= 4 * 9 * 2048, "{}", arena.bytes());
        for length in 1..5000usize {
            let room = room(length);
            assert!(room >= length && room.is_multiple_of(16) && room <= (length + 15).max(length * 9 / 8));
        }
    }

    /// Lengths around the end of a size have one buffer where the arena grows, whatever comes first.
    #[test]
    fn a_buffer_that_is_too_short_makes_place() {
        let (short, long) = (room(1100), room(1200));
        assert!(short < long && long <= 2 * short);
        for (arena, held) in [(Arena::new(), short + long), (Arena::growing(), long)] {
            for length in [1100, 1200, 1100, 1200] {
                arena.give(arena.take(length));
            }
            assert_eq!(arena.bytes(), 4 * held);
            // What is in use stays.
            let both = [1200, 1100].map(|length| arena.take(length));
            assert_eq!(arena.bytes(), 4 * (short + long));
            both.into_iter().for_each(|buffer| arena.give(buffer));
        }
        let arena = Arena::growing();
        arena.give(arena.take(900));
        arena.give(arena.take(1200));
        assert_eq!(arena.bytes(), 4 * (room(900) + long), "one that is much shorter is for others");
    }

    #[test]
    fn buffers_are_used_again_and_lent_arenas_give_longer_ones() {
        let arena = Arena::new();
        for _ in 0..3 {
            let buffers = [arena.take(5), arena.take(7)];
            assert_eq!(buffers.map(|buffer| (buffer.len(), arena.give(buffer)).0), [5, 7]);
        }

        assert_eq!(arena.bytes(), 4 * 2 * 16);
        assert!(arena.take(5).as_ptr().addr().is_multiple_of(64));
        let lent = arena.lend();
        lent.give(lent.take(100));
        for length in [30, 100, 1] {
            let buffer = lent.take(length);
            assert_eq!(buffer.len(), length);
            lent.give(buffer);
        }
        arena.take_back(lent);
        assert_eq!(arena.bytes(), 4 * (2 * 16 + 112));
    }
}
