//! Arrays that are used again. Snapshots that do not fit into memory come and go: in new memory, each of them
//! would cost a page fault for every four kilobytes.
//!
//! An [`Array`] goes back to its pool when the last one who holds it drops it, wherever that is: nobody who
//! reads one can see it change.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Arrays that nobody uses any more, to be taken again. The default has none, and keeps none.
#[derive(Clone, Default)]
pub struct Pool(Option<Arc<Shelves>>);

#[derive(Default)]
struct Shelves {
    free: Mutex<Free>,
    fresh: AtomicUsize,
}

/// Arrays that are free, of each kind those that came last at the end.
#[derive(Default)]
pub struct Free {
    /// Bytes that may be free.
    most: usize,
    bytes: usize,
    words: VecDeque<Vec<u64>>,
    indices: VecDeque<Vec<u32>>,
    numbers: VecDeque<Vec<f32>>,
}

/// What arrays of a pool are made of.
pub trait Element: Copy + Default + Send + Sync + 'static {
    /// The free arrays of its kind.
    fn of(free: &mut Free) -> &mut VecDeque<Vec<Self>>;
}

macro_rules! element {
    ($($type:ty: $field:ident),*) => {
        $(impl Element for $type {
            fn of(free: &mut Free) -> &mut VecDeque<Vec<Self>> {
                &mut free.$field
            }
        })*
    };
}

element!(u64: words, u32: indices, f32: numbers);

impl Pool {
    /// A pool that keeps nothing until it is [told](Pool::keep_up_to) what it may.
    pub fn new() -> Pool {
        Pool(Some(Arc::default()))
    }

    fn free(&self) -> Option<MutexGuard<'_, Free>> {
        // A panic while it is held leaves nothing half done.
        self.0.as_ref().map(|shelves| shelves.free.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// From now on this many bytes may be free.
    pub fn keep_up_to(&self, bytes: usize) {
        let Some(mut free) = self.free() else { return };
        free.most = bytes;
        free.shrink::<u64>(bytes);
        free.shrink::<u32>(bytes);
        free.shrink::<f32>(bytes);
    }

    /// Bytes that are free.
    pub fn bytes(&self) -> usize {
        self.free().map_or(0, |free| free.bytes)
    }

    /// How many arrays had to be made because none was free.
    pub fn fresh(&self) -> usize {
        self.0.as_ref().map_or(0, |shelves| shelves.fresh.load(Ordering::Relaxed))
    }

    /// An array of this length that holds anything.
    pub fn take<T: Element>(&self, length: usize) -> Vec<T> {
        match self.found(length) {
            Some(mut array) => {
                array.resize(length, T::default());
                array
            }
            None => self.made(length),
        }
    }

    /// A new array of zeros.
    fn made<T: Element>(&self, length: usize) -> Vec<T> {
        let Some(shelves) = self.0.as_ref().filter(|_| length > 0) else { return vec![T::default(); length] };
        shelves.fresh.fetch_add(1, Ordering::Relaxed);
        // Pages of new memory are zero: nobody has to write those that are not used.
        let mut array = vec![T::default(); room(length)];
        array.truncate(length);
        array
    }

    /// An array of zeros.
    pub fn zeros<T: Element>(&self, length: usize) -> Vec<T> {
        match self.found(length) {
            Some(mut array) => {
                array.clear();
                array.resize(length, T::default());
                array
            }
            // Not `take`: what another thread has given back since is not zero.
            None => self.made(length),
        }
    }

    /// An empty array with room for this many.
    pub fn empty<T: Element>(&self, room: usize) -> Vec<T> {
        let mut array = self.take(room);
        array.clear();
        array
    }

    /// A copy of these.
    pub fn copied<T: Element>(&self, values: &[T]) -> Vec<T> {
        let mut array = self.take(values.len());
        array.copy_from_slice(values);
        array
    }

    /// The smallest free array that has room for this many, and not for many more: another needs that.
    fn found<T: Element>(&self, length: usize) -> Option<Vec<T>> {
        let mut free = self.free().filter(|_| length > 0)?;
        let arrays = T::of(&mut free);
        let fits = |array: &Vec<T>| (length..=2 * room(length)).contains(&array.capacity());
        let best = (0..arrays.len()).filter(|&at| fits(&arrays[at])).min_by_key(|&at| arrays[at].capacity());
        let array = best.and_then(|at| arrays.remove(at))?;
        free.bytes -= bytes(&array);
        Some(array)
    }

    /// Gives an array back. Where there is no room for it, those of its kind go that nobody took for longest.
    pub fn give<T: Element>(&self, array: Vec<T>) {
        let Some(mut free) = self.free() else { return };
        let (most, size) = (free.most, bytes(&array));
        if size == 0 || size > most {
            return;
        }
        free.shrink::<T>(most - size);
        if free.bytes + size <= most {
            free.bytes += size;
            T::of(&mut free).push_back(array);
        }
    }
}

impl Free {
    /// Lets arrays of a kind go until no more than these bytes are free, if that is enough.
    fn shrink<T: Element>(&mut self, most: usize) {
        while self.bytes > most {
            let Some(array) = T::of(self).pop_front() else { return };
            self.bytes -= bytes(&array);
        }
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pool")
    }
}

fn bytes<T>(array: &Vec<T>) -> usize {
    size_of::<T>() * array.capacity()
}

/// How much room a new array of this length gets: lengths that differ a little from step to step share
/// arrays.
fn room(length: usize) -> usize {
    length.next_multiple_of((length.next_power_of_two() / 64).max(1))
}

/// An array that does not change, and that others may hold as well. It goes back to its pool when the last of
/// them is done with it.
#[derive(Clone)]
pub struct Array<T: Element> {
    values: Arc<Vec<T>>,
    pool: Pool,
}

impl<T: Element> Array<T> {
    /// An array for a pool.
    pub fn new(values: Arc<Vec<T>>, pool: &Pool) -> Array<T> {
        Array { values, pool: pool.clone() }
    }
}

impl<T: Element> From<Vec<T>> for Array<T> {
    fn from(values: Vec<T>) -> Self {
        Array::new(Arc::new(values), &Pool::default())
    }
}

impl<T: Element> Deref for Array<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.values
    }
}

impl<T: Element + fmt::Debug> fmt::Debug for Array<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: Element> Drop for Array<T> {
    fn drop(&mut self) {
        // Of all who hold it, exactly one is the last.
        if self.pool.0.is_some()
            && let Some(values) = Arc::into_inner(std::mem::take(&mut self.values))
        {
            self.pool.give(values);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[test]
    fn arrays_are_used_again_once_nobody_holds_them() {
        let pool = Pool::new();
        pool.keep_up_to(1 << 20);
        let array = Array::new(Arc::new(pool.take::<u32>(1000)), &pool);
        let (other, at) = (array.clone(), array.as_ptr());
        drop(array);
        assert_eq!((pool.bytes(), pool.fresh()), (0, 1), "another one holds it");
        drop(other);
        assert!(pool.bytes() >= 4000);
        let again = pool.zeros::<u32>(990);
        assert_eq!((again.as_ptr(), pool.bytes(), pool.fresh()), (at, 0, 1));
        assert_eq!(again, vec![0; 990]);
        // Neither one that is too short nor one that is much too long.
        pool.give(again);
        assert_eq!((pool.take::<u32>(2000).len(), pool.take::<u32>(100).len(), pool.fresh()), (2000, 100, 3));
        assert_eq!(pool.take::<f32>(1000).len(), 1000, "numbers are no indices");
        assert_eq!((pool.empty::<u32>(999).len(), pool.fresh()), (0, 4));
    }

    /// Guards zeros against what another thread gives back at that moment.
    #[test]
    fn zeros_are_zeros_while_others_give_back() {
        let pool = Pool::new();
        pool.keep_up_to(600);
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_done.load(Ordering::Relaxed) {
                    pool.give(vec![7u64; 64]);
                }
            });
            let all_zero = (0..1_000_000).all(|_| pool.zeros::<u64>(64).iter().all(|&value| value == 0));
            is_done.store(true, Ordering::Relaxed);
            assert!(all_zero);
        });
    }

    #[test]
    fn no_more_is_free_than_may_be() {
        let pool = Pool::new();
        pool.give(vec![0u64; 10]);
        assert_eq!(pool.bytes(), 0, "nothing was said yet");
        pool.keep_up_to(200);
        (0..5).for_each(|_| pool.give(vec![0u64; 10]));
        assert_eq!(pool.bytes(), 160);
        // The last ones stay; those of another kind do not have to go for them.
        pool.give(vec![0u64; 12]);
        assert_eq!((pool.take::<u64>(12).capacity(), pool.bytes()), (12, 80));
        pool.give(vec![0f32; 40]);
        assert_eq!(pool.bytes(), 80);
        pool.keep_up_to(79);
        assert_eq!(pool.bytes(), 0);
        let none = Pool::default();
        none.keep_up_to(100);
        none.give(vec![0u32; 10]);
        assert_eq!((none.bytes(), none.zeros::<u32>(3), none.fresh()), (0, vec![0; 3], 0));
    }
}
