//! What is kept of a snapshot from window to window: products with its matrices, by layer and version of the
//! parameters.
//!
//! The features of a snapshot do not change while a model is trained, so neither does the first layer's
//! aggregated input `A_t X`: it is computed once and kept as long as a budget of memory allows, across
//! windows and epochs (the type I and type II reuse of REAL are two uses of this). What deeper layers
//! aggregate follows from the parameters as well, and may be kept while these stay the same. Kept or
//! computed, the bits are the same.
//!
//! Where few edges change from step to step, few rows of `A_t X` do: those alone are kept then, beside a
//! nearby step that was kept before ([`Nearby`]). With means and sums a row changes with its own edges; with
//! symmetric normalisation also with the degree of any neighbour, so that nearly all rows do.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use kymo_tensor::{Numbers, RowVersions};

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

/// Bytes that are taken from a budget until nobody needs them.
#[derive(Debug)]
struct Charge {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Charge {
    fn take(budget: &Arc<Budget>, bytes: usize) -> Option<Charge> {
        budget.take(bytes).then(|| Charge { budget: budget.clone(), bytes })
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.budget.give(self.bytes);
    }
}

/// A product that is kept.
#[derive(Clone, Debug)]
pub enum Kept {
    /// All of it.
    Whole(Arc<Numbers>),
    /// Rows of its own, and rows of steps nearby.
    Rows(Arc<RowVersions>),
}

/// What is held of a product, and what it takes: its own bytes last, and before them those of what it is the
/// next version of.
#[derive(Debug)]
struct Held {
    kept: Kept,
    charges: Vec<Arc<Charge>>,
}

impl Held {
    fn bytes(&self) -> usize {
        self.charges.last().map_or(0, |charge| charge.bytes)
    }
}

/// Products of steps that are near each other, of which each may be the next version of another: the latest
/// of each name that is still kept.
#[derive(Debug, Default)]
pub struct Nearby(Mutex<BTreeMap<SlotKey, Weak<Held>>>);

/// Of the bytes of a whole product, the part that a next version may take: it is put together whenever it is
/// read, which has to be worth it.
const MOST: usize = 2;

/// Products of one snapshot, each in a slot of its own.
#[derive(Debug)]
pub struct ReuseSlots {
    slots: Mutex<BTreeMap<SlotKey, Arc<Held>>>,
    budget: Arc<Budget>,
    nearby: Option<Arc<Nearby>>,
}

impl ReuseSlots {
    /// Nothing yet; what is kept is whole, taken from this budget, and given back in the end.
    pub fn new(budget: Arc<Budget>) -> ReuseSlots {
        ReuseSlots { slots: Mutex::default(), budget, nearby: None }
    }

    /// The same, where products may have rows of those of other steps.
    pub fn near(budget: Arc<Budget>, nearby: Arc<Nearby>) -> ReuseSlots {
        ReuseSlots { nearby: Some(nearby), ..ReuseSlots::new(budget) }
    }

    fn slots(&self) -> MutexGuard<'_, BTreeMap<SlotKey, Arc<Held>>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The product of this name, if it is kept.
    pub fn get(&self, key: SlotKey) -> Option<Kept> {
        self.slots().get(&key).map(|held| held.kept.clone())
    }

    /// Whether there is room for a product of this many numbers.
    pub fn has_room(&self, length: usize) -> bool {
        self.budget.left() >= 4 * length
    }

    /// Keeps a product if the budget allows: `values` are its numbers where the host has them, `make` makes a
    /// copy. Those of other versions of the parameters are of no use any more.
    pub fn put<E>(
        &self,
        key: SlotKey,
        columns: usize,
        (length, values): (usize, Option<&[f32]>),
        make: impl FnOnce() -> Result<Numbers, E>,
    ) -> Result<(), E> {
        if let Version::Parameters(_) = key.version {
            let is_stale =
                |other: &SlotKey| other.version != Version::Constant && other.version != key.version;
            self.slots().retain(|other, _| !is_stale(other));
        } else if let (Some(values), Some(nearby)) = (values, &self.nearby) {
            return self.put_near(nearby, key, (columns, values), make);
        }
        if let Some(charge) = Charge::take(&self.budget, 4 * length) {
            let kept = Kept::Whole(Arc::new(make()?));
            self.insert(key, Arc::new(Held { kept, charges: vec![Arc::new(charge)] }));
        }
        Ok(())
    }

    /// Keeps what differs from the step nearby that was kept last, or else all of it.
    fn put_near<E>(
        &self,
        nearby: &Nearby,
        key: SlotKey,
        (columns, values): (usize, &[f32]),
        make: impl FnOnce() -> Result<Numbers, E>,
    ) -> Result<(), E> {
        // Not held while rows are compared: threads that help there may come here themselves.
        let others = || nearby.0.lock().unwrap_or_else(PoisonError::into_inner);
        let whole = 4 * values.len();
        let latest = others().get(&key).and_then(Weak::upgrade);
        let next = latest.and_then(|latest| {
            let next = match &latest.kept {
                Kept::Whole(numbers) => {
                    RowVersions::whole(numbers.clone(), columns)?.next(values, whole / MOST)
                }
                Kept::Rows(versions) => versions.next(values, whole / MOST),
            }?;
            let charge = Charge::take(&self.budget, next.own_bytes())?;
            let charges = latest.charges.iter().cloned().chain([Arc::new(charge)]).collect();
            Some(Held { kept: Kept::Rows(Arc::new(next)), charges })
        });
        let held = match next {
            Some(held) => held,
            None => {
                let Some(charge) = Charge::take(&self.budget, whole) else { return Ok(()) };
                Held { kept: Kept::Whole(Arc::new(make()?)), charges: vec![Arc::new(charge)] }
            }
        };
        let held = Arc::new(held);
        others().insert(key, Arc::downgrade(&held));
        self.insert(key, held);
        Ok(())
    }

    /// Another thread may have been faster: then its values, which are the same, stay.
    fn insert(&self, key: SlotKey, held: Arc<Held>) {
        self.slots().entry(key).or_insert(held);
    }

    /// Bytes kept, those of other steps aside.
    pub fn bytes(&self) -> usize {
        self.slots().values().map(|held| held.bytes()).sum()
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
        let put = |key: SlotKey, value: f32| slots.put(key, 1, (2, None), || numbers(value)).unwrap();
        for (number, &key) in keys.iter().enumerate() {
            put(key, number as f32);
        }
        let whole = |key: SlotKey| match slots.get(key).unwrap() {
            Kept::Whole(numbers) => numbers.host().unwrap().to_vec(),
            Kept::Rows(_) => panic!("a whole product"),
        };
        for (number, &key) in keys.iter().enumerate() {
            assert_eq!(whole(key), [number as f32; 2]);
        }
        // The first that was kept stays.
        put(keys[0], 9.0);
        assert_eq!(whole(keys[0]), [0.0; 2]);
        assert_eq!((slots.bytes(), budget.left()), (32, 968));
        // A step of the optimiser makes what followed from the parameters useless, and nothing else.
        let later = SlotKey::new(1, Matrix::Mean, Version::Parameters(8));
        assert!(slots.get(later).is_none());
        put(later, 5.0);
        assert!(slots.get(keys[1]).is_none() && slots.get(keys[3]).is_none());
        assert!(slots.get(keys[0]).is_some() && slots.get(later).is_some());
        assert_eq!((slots.bytes(), budget.left()), (16, 984));
        let failing = SlotKey::new(2, Matrix::Mean, Version::Parameters(8));
        assert!(slots.put(failing, 1, (2, None), || Err::<Numbers, ()>(())).is_err());
        assert_eq!(budget.left(), 984);
        drop(slots);
        assert_eq!(budget.left(), 1000);
    }
    /// Of steps near each other rows that change are kept, and what they stand on is paid for as long as any
    /// of them is there.
    #[test]
    fn steps_nearby_share_rows_and_the_budget_has_every_byte() {
        let (budget, nearby, key) =
            (Budget::new(1000), Arc::<Nearby>::default(), SlotKey::new(0, Matrix::Mean, Version::Constant));
        let columns = 4;
        let mut values: Vec<f32> = (0..40).map(|number| number as f32).collect();
        let mut keep = |change: &[usize]| {
            change.iter().for_each(|&place| values[place] += 0.5);
            let slots = ReuseSlots::near(budget.clone(), nearby.clone());
            let make = || Ok::<_, ()>(Numbers::Host(values.as_slice().into()));
            slots.put(key, columns, (values.len(), Some(&values)), make).unwrap();
            slots
        };
        let first = keep(&[]);
        assert!(matches!(first.get(key), Some(Kept::Whole(_))));
        assert_eq!((first.bytes(), budget.left()), (160, 840));
        // A row of 16 bytes, and an index of 40.
        let second = keep(&[5, 6]);
        assert!(matches!(second.get(key), Some(Kept::Rows(_))));
        assert_eq!((second.bytes(), budget.left()), (56, 784));
        let third = keep(&[0]);
        assert_eq!((third.bytes(), budget.left()), (56, 728));
        // The rows of the first are those of the third, too.
        drop((first, second));
        assert_eq!(budget.left(), 728);
        // Too many rows are others: all of it is kept, and the next stands on that.
        let fourth = keep(&[0, 4, 8, 12]);
        assert_eq!((fourth.bytes(), budget.left()), (160, 568));
        drop(third);
        assert_eq!(budget.left(), 840);
        // Three rows and the index are more than half of all.
        let fifth = keep(&[0, 4, 8]);
        assert_eq!((fifth.bytes(), budget.left()), (160, 680));
        let sixth = keep(&[]);
        assert_eq!((sixth.bytes(), budget.left()), (40, 640));
        drop((fourth, fifth, sixth));
        assert_eq!(budget.left(), 1000);
        // Nothing is left to stand on.
        assert!(matches!(keep(&[1]).get(key), Some(Kept::Whole(_))));
        // Where there is no room, nothing is kept, and nothing is charged.
        let full = ReuseSlots::near(Budget::new(150), nearby);
        full.put(key, columns, (40, Some(&[1.0; 40])), || Err::<Numbers, ()>(())).unwrap();
        assert!(full.get(key).is_none() && full.bytes() == 0);
    }
}
