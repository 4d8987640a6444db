//! What workers show each other in a collective.
//!
//! Everything is there twice, for meetings with even and odd numbers. Who shows something for one meeting may
//! be ahead of others who still read what was shown for the meeting before; but no worker can be two meetings
//! ahead. So the locks are never waited for: they are there because the compiler does not know that.

use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// A place for meetings with even numbers and one for those with odd ones.
#[derive(Default)]
pub(super) struct Turns<T>([T; 2]);

impl<T> Turns<T> {
    pub(super) fn at(&self, meeting: u64) -> &T {
        &self.0[(meeting % 2) as usize]
    }
}

/// What one worker shows. Buffers stay, so that nothing is allocated after the first calls.
#[derive(Default)]
pub(super) struct Board {
    pub(super) numbers: Turns<RwLock<Vec<f32>>>,
    pub(super) bytes: Turns<RwLock<Vec<u8>>>,
    pub(super) parts: Turns<Mutex<Vec<Vec<f32>>>>,
}

pub(super) fn read<T>(shown: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    shown.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(shown: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    shown.write().unwrap_or_else(PoisonError::into_inner)
}

/// Shows a copy of `values`.
pub(super) fn show<T: Copy>(shown: &RwLock<Vec<T>>, values: &[T]) {
    let mut shown = write(shown);
    shown.clear();
    shown.extend_from_slice(values);
}
