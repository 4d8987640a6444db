//! Buffers that are used again: fresh memory costs a page fault for every four kilobytes, more than it takes
//! to send them to another process of the machine.

/// Numbers below which a buffer is not worth keeping.
const SMALL: usize = 1 << 10;

/// Buffers that are kept.
const MOST: usize = 32;

/// Buffers that nobody uses.
#[derive(Default)]
pub struct Spare(Vec<Vec<f32>>);

impl Spare {
    /// A buffer with this capacity, whatever it holds: the smallest that has it and is not much larger.
    pub fn take(&mut self, numbers: usize) -> Vec<f32> {
        let fits = |buffer: &Vec<f32>| (numbers..=4 * numbers.max(SMALL)).contains(&buffer.capacity());
        let found = self.0.iter().enumerate().filter(|(_, buffer)| fits(buffer));
        match found.min_by_key(|(_, buffer)| buffer.capacity()).map(|(place, _)| place) {
            Some(place) => self.0.swap_remove(place),
            None => Vec::with_capacity(numbers),
        }
    }

    /// Keeps a buffer; the smallest goes where there are many.
    pub fn give(&mut self, buffer: Vec<f32>) {
        if buffer.capacity() < SMALL {
            return;
        }
        self.0.push(buffer);
        if self.0.len() > MOST {
            let smallest = self.0.iter().enumerate().min_by_key(|(_, buffer)| buffer.capacity());
            if let Some((place, _)) = smallest {
                self.0.swap_remove(place);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_that_fits_is_used_again() {
        let mut spare = Spare::default();
        [5000, 3000, 100_000, 8].into_iter().for_each(|room| spare.give(Vec::with_capacity(room)));
        assert_eq!(spare.0.len(), 3, "small ones are not kept");
        assert_eq!(spare.take(2000).capacity(), 3000);
        assert_eq!(spare.take(2000).capacity(), 5000);
        assert_eq!(spare.take(2000).capacity(), 2000, "no waste of a large one");
        (0..100).for_each(|more| spare.give(Vec::with_capacity(200_000 + more)));
        assert_eq!(spare.0.len(), MOST);
        assert!(spare.0.iter().all(|buffer| buffer.capacity() >= 200_000));
    }
}
