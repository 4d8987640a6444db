//! What is kept of a snapshot from window to window: products with its matrices, by layer and version of the
//! parameters.
//!
//! The features of a snapshot do not change while a model is trained, so neither does the first layer's
//! aggregated input `A_t X`: it is computed once and kept as long as a budget of memory allows, across
//! windows and epochs (the type I and type II reuse of REAL are two uses of this). What deeper layers
//! aggregate follows from the parameters as well, and may be kept while these stay the same. Kept or
//! computed, the bits are the same.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kymo_tensor::Numbers;

use crate::frame::Matrix;

/// Bytes that may still be kept.
#[derive(Debug, Default)]
pub struct Budget(AtomicUsize);

impl Budget {
    /// This many bytes.
    pub fn new(bytes: usize) -> Arc<Budget> {
        Arc::new(Budget(AtomicUsize::new(bytes)))
    }

    /// How many are left.
    pub fn left(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Reserves `bytes`; false if they are not left.
    pub fn take(&self, bytes: usize) -> bool {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes)).is_ok()
    }

    /// Gives them back.
    pub fn give(&self, bytes: usize) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// What a product was computed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// Features alone: it never changes.
    Constant,
    /// Features and parameters, as they were after this many steps of the optimiser.
    Parameters(u64),
}

/// What the rows that are multiplied by a matrix are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// The input of this layer, counted from 0: it follows from the snapshot and the parameters.
    Layer(usize),
    /// Something that follows from earlier snapshots, too: it is another one in every window.
    State,
}

/// The name of a product of one snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SlotKey {
    /// The layer whose input it is.
    pub layer: usize,
    /// The number of the matrix.
    pub matrix: usize,
    /// What it was computed from.
    pub version: Version,
}

impl SlotKey {
    /// The product of a layer's input with a matrix.
    pub fn new(layer: usize, matrix: Matrix, version: Version) -> SlotKey {
        SlotKey { layer, matrix: matrix.number(), version }
    }
}

/// Products of one snapshot, each in a slot of its own.
pub struct ReuseSlots {
    slots: Mutex<BTreeMap<SlotKey, Arc<Numbers>>>,
    budget: Arc<Budget>,
}

impl ReuseSlots {
    /// Nothing yet; what is kept is taken from this budget, and given back in the end.
    pub fn new(budget: Arc<Budget>) -> ReuseSlots {
        ReuseSlots { slots: Mutex::default(), budget }
    }

    fn slots(&self) -> MutexGuard<'_, BTreeMap<SlotKey, Arc<Numbers>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The product of this name, if it is kept.
    pub fn get(&self, key: SlotKey) -> Option<Arc<Numbers>> {
        self.slots().get(&key).cloned()
    }

    /// Whether there is room for a product of this many numbers.
    pub fn has_room(&self, length: usize) -> bool {
        self.budget.left() >= 4 * length
    }

    /// Keeps a product if the budget allows. Those of other versions of the parameters are of no use any
    /// more.
    pub fn put<E>(
        &self,
        key: SlotKey,
        length: usize,
        make: impl FnOnce() -> Result<Numbers, E>,
    ) -> Result<(), E> {
        if let Version::Parameters(_) = key.version {
            let is_stale =
                |other: &SlotKey| other.version != Version::Constant && other.version != key.version;
            self.slots().retain(|other, numbers| {
                let stale = is_stale(other);
                if stale {
                    self.budget.give(4 * numbers.len());
                }
                !stale
            });
        }
        if !self.budget.take(4 * length) {
            return Ok(());
        }
        let made = make().inspect_err(|_| self.budget.give(4 * length))?;
        let mut slots = self.slots();
        // Another thread may have been faster: then its values, which are the same, stay.
        match slots.contains_key(&key) {
            true => self.budget.give(4 * length),
            false => drop(slots.insert(key, Arc::new(made))),
        }
        Ok(())
    }

    /// Bytes kept.
    pub fn bytes(&self) -> usize {
        self.slots().values().map(|numbers| 4 * numbers.len()).sum()
    }
}

impl Drop for ReuseSlots {
    fn drop(&mut self) {
        self.budget.give(self.bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(value: f32) -> Result<Numbers, ()> {
        Ok(Numbers::Host(vec![value; 2].as_slice().into()))
    }

    #[test]
    fn slots_are_told_apart_by_layer_matrix_and_version() {
        let budget = Budget::new(1000);
        let slots = ReuseSlots::new(budget.clone());
        let now = Version::Parameters(7);
        let keys = [
            SlotKey::new(0, Matrix::Mean, Version::Constant),
            SlotKey::new(0, Matrix::Mean, now),
            SlotKey::new(1, Matrix::Mean, now),
            SlotKey::new(1, Matrix::Along, now),
        ];
        for (number, &key) in keys.iter().enumerate() {
            slots.put(key, 2, || numbers(number as f32)).unwrap();
        }
        for (number, &key) in keys.iter().enumerate() {
            assert_eq!(slots.get(key).unwrap().host().unwrap(), [number as f32; 2]);
        }
        // The first that was kept stays.
        slots.put(keys[0], 2, || numbers(9.0)).unwrap();
        assert_eq!(slots.get(keys[0]).unwrap().host().unwrap(), [0.0; 2]);
        assert_eq!((slots.bytes(), budget.left()), (32, 968));
        // A step of the optimiser makes what followed from the parameters useless, and nothing else.
        let later = SlotKey::new(1, Matrix::Mean, Version::Parameters(8));
        assert!(slots.get(later).is_none());
        slots.put(later, 2, || numbers(5.0)).unwrap();
        assert!(slots.get(keys[1]).is_none() && slots.get(keys[3]).is_none());
        assert!(slots.get(keys[0]).is_some() && slots.get(later).is_some());
        assert_eq!((slots.bytes(), budget.left()), (16, 984));
        let failing = SlotKey::new(2, Matrix::Mean, Version::Parameters(8));
        assert!(slots.put(failing, 2, || Err::<Numbers, ()>(())).is_err());
        assert_eq!(budget.left(), 984);
        drop(slots);
        assert_eq!(budget.left(), 1000);
    }
}
