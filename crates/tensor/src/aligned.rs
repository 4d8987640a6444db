//! Large matrices that begin where a line of the cache does.
//!
//! Random rows of sixteen numbers that begin anywhere else are in two lines each, and take twice as long to
//! arrive. Unlike [`crate::arena::Buffer`], memory that has not been written to costs nothing: it comes from
//! the system as zeros, and pages are got by those who write to it first, in as many threads as they like.

use std::ops::{Deref, DerefMut};

use crate::pool::Pool;

/// Bytes of a line.
const LINE: usize = 64;

/// Numbers whose first one is where a line begins.
pub struct Aligned {
    numbers: Vec<f32>,
    skipped: usize,
}

impl Aligned {
    /// This many zeros, in an array of a pool.
    pub fn zeros(count: usize, pool: &Pool) -> Aligned {
        let spare = LINE / size_of::<f32>() - 1;
        let mut numbers: Vec<f32> = pool.zeros(count + spare);
        let skipped = numbers.as_ptr().align_offset(LINE).min(spare);
        numbers.truncate(skipped + count);
        Aligned { numbers, skipped }
    }

    /// Only the first `count` of them.
    pub fn truncate(&mut self, count: usize) {
        self.numbers.truncate(self.skipped + count);
    }

    /// The numbers, behind some that do not count, and how many those are.
    pub(crate) fn into_parts(self) -> (Vec<f32>, usize) {
        (self.numbers, self.skipped)
    }
}

impl Deref for Aligned {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.numbers[self.skipped..]
    }
}

impl DerefMut for Aligned {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.numbers[self.skipped..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Resident;

    #[test]
    fn numbers_begin_with_a_line_and_stay_there() {
        for count in [0, 1, 15, 16, 17, 50_000] {
            let mut numbers = Aligned::zeros(count, &Pool::default());
            assert_eq!(numbers[..], vec![0.0; count]);
            numbers.iter_mut().zip(1u16..).for_each(|(number, value)| *number = f32::from(value));
            numbers.truncate(count.saturating_sub(3));
            let expected: Vec<f32> = numbers.to_vec();
            let resident = Resident::aligned(numbers, &Pool::default());
            assert_eq!((resident.len(), &resident[..]), (expected.len(), &expected[..]));
            assert_eq!(resident.as_ptr().addr() % LINE, 0);
        }
    }
}
