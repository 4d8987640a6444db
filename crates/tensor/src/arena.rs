//! Buffers that are used again: after the first step of a training nothing is allocated.
//!
//! Fresh memory costs a page fault for every four kilobytes, which is the largest tax of engines that allocate as they go.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustc_hash::FxHashMap;

/// Buffers by length, free to be used.
#[derive(Debug, Default)]
pub struct Arena {
    free: Mutex<FxHashMap<usize, Vec<Vec<f32>>>>,
    allocated: AtomicUsize,
    children: Mutex<Vec<Arena>>,
}

impl Arena {
    /// An arena without buffers.
    pub fn new() -> Self {
        Self::default()
    }

    /// A buffer of this length that holds anything.
    pub fn take(&self, length: usize) -> Vec<f32> {
        let mut free = self.free.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(buffer) = free.get_mut(&length).and_then(Vec::pop) {
            return buffer;
        }
        drop(free);
        self.allocated.fetch_add(length, Ordering::Relaxed);
        vec![0.0; length]
    }

    /// A buffer of this length that holds zeros.
    pub fn zeros(&self, length: usize) -> Vec<f32> {
        let mut buffer = self.take(length);
        buffer.fill(0.0);
        buffer
    }

    /// Gives a buffer back.
    pub fn give(&self, buffer: Vec<f32>) {
        if !buffer.is_empty() {
            let mut free = self.free.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            free.entry(buffer.len()).or_default().push(buffer);
        }
    }

    /// Bytes ever allocated, by this arena and by those lent out of it.
    pub fn bytes(&self) -> usize {
        let children = self.children.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        self.allocated.load(Ordering::Relaxed) * 4 + children.iter().map(Arena::bytes).sum::<usize>()
    }

    /// Lends an arena of its own to a piece of work that runs beside others.
    pub fn lend(&self) -> Arena {
        let mut children = self.children.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        children.pop().unwrap_or_default()
    }

    /// Takes a lent arena back, with its buffers.
    pub fn take_back(&self, child: Arena) {
        self.children.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(child);
    }
}
