//! Matrices of which most rows are those of an earlier one: each has a list of the rows that are its own, and
//! an index says in which list every row is.
//!
//! Rows are the same where their bits are, so that a matrix comes back as it was put in, whatever came before
//! it.

use std::ops::Range;
use std::sync::Arc;

use rayon::prelude::*;

use crate::tape::Numbers;

/// Bits of an entry of the index that are the row within a list; those above are the list.
const ROW_BITS: u32 = 26;
/// Lists that an index can tell apart.
const LISTS: usize = 1 << (u32::BITS - ROW_BITS);
/// Rows that one thread compares at least.
const PIECE: usize = 512;

/// A matrix in the memory of the host, as rows of several lists.
#[derive(Clone, Debug)]
pub struct RowVersions {
    lists: Vec<Arc<Numbers>>,
    /// Of each row, its place; nothing where all are in the first list, in their order.
    index: Option<Arc<Vec<u32>>>,
    columns: usize,
}

impl RowVersions {
    /// A matrix with all rows its own; nothing where it is not in the memory of the host, or has too many
    /// rows.
    pub fn whole(values: Arc<Numbers>, columns: usize) -> Option<RowVersions> {
        let count = values.host().ok()?.len().checked_div(columns)?;
        (count < 1 << ROW_BITS).then(|| RowVersions { lists: vec![values], index: None, columns })
    }

    /// The matrix itself, where all rows are its own.
    pub fn as_whole(&self) -> Option<&Arc<Numbers>> {
        self.lists.first().filter(|_| self.index.is_none())
    }

    /// The rows of the matrix.
    pub fn rows(&self) -> usize {
        self.index.as_ref().map_or(self.list(0).len() / self.columns, |index| index.len())
    }

    /// The columns of the matrix.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Bytes of the rows that are its own, and of the index.
    pub fn own_bytes(&self) -> usize {
        let own = self.lists.last().map_or(0, |list| 4 * list.len());
        own + self.index.as_ref().map_or(0, |index| 4 * index.len())
    }

    /// A matrix as what differs from this one; nothing where that is not at most `most` bytes, or where there
    /// are too many lists.
    pub fn next(&self, values: &[f32], most: usize) -> Option<RowVersions> {
        let (columns, rows) = (self.columns, self.rows());
        let index_bytes = 4 * rows;
        if self.lists.len() == LISTS || values.len() != rows * columns || index_bytes > most {
            return None;
        }
        let row = |v: usize| &values[v * columns..][..columns];
        let differs = |&v: &usize| bits(row(v)) != bits(self.row(v));
        let own: Vec<usize> = (0..rows).into_par_iter().with_min_len(PIECE).filter(differs).collect();
        if 4 * own.len() * columns > most - index_bytes {
            return None;
        }
        let mut list = Vec::with_capacity(own.len() * columns);
        own.iter().for_each(|&v| list.extend_from_slice(row(v)));
        let mut index = match &self.index {
            Some(index) => index.to_vec(),
            None => (0..rows as u32).collect(),
        };
        let place = (self.lists.len() as u32) << ROW_BITS;
        for (number, v) in (0..).zip(own) {
            index[v] = place | number;
        }
        let mut lists = self.lists.clone();
        lists.push(Arc::new(Numbers::Host(list.as_slice().into())));
        Some(RowVersions { lists, index: Some(Arc::new(index)), columns })
    }

    /// Copies rows out.
    pub(crate) fn copy(&self, rows: Range<usize>, output: &mut [f32]) {
        for (v, output) in rows.zip(output.chunks_exact_mut(self.columns)) {
            output.copy_from_slice(self.row(v));
        }
    }

    /// Copies all rows out.
    pub(crate) fn copy_all(&self, output: &mut [f32]) {
        let pieces = output.par_chunks_mut(PIECE * self.columns).enumerate();
        pieces.for_each(|(piece, output)| {
            let first = piece * PIECE;
            self.copy(first..first + output.len() / self.columns, output);
        });
    }

    fn row(&self, v: usize) -> &[f32] {
        let place = self.index.as_ref().map_or(v as u32, |index| index[v]);
        let row = (place & ((1 << ROW_BITS) - 1)) as usize;
        &self.list((place >> ROW_BITS) as usize)[row * self.columns..][..self.columns]
    }

    fn list(&self, number: usize) -> &[f32] {
        // All lists are in the memory of the host.
        self.lists[number].host().unwrap_or_default()
    }
}

fn bits(row: &[f32]) -> &[u32] {
    bytemuck::cast_slice(row)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{Arena, Shape, Tape};

    fn numbers(values: &[f32]) -> Arc<Numbers> {
        Arc::new(Numbers::Host(values.into()))
    }

    fn all(versions: &RowVersions) -> Vec<u32> {
        let mut values = vec![7.0; versions.rows() * versions.columns()];
        versions.copy_all(&mut values);
        let mut again = values.clone();
        versions.copy(0..versions.rows(), &mut again);
        assert_eq!(bits(&values), bits(&again));
        bits(&values).to_vec()
    }

    proptest! {
        /// Whatever changes from matrix to matrix, every one of them comes back to the bit, also where zeros
        /// have signs and numbers are none.
        #[test]
        fn matrices_come_back(
            rows in 1usize..40, columns in 1usize..4, seeds in prop::collection::vec(any::<u32>(), 1..80),
        ) {
            let palette = [0.0, -0.0, 1.0, f32::NAN, f32::INFINITY, 2.5];
            let mut now = vec![1.0; rows * columns];
            let mut versions = vec![RowVersions::whole(numbers(&now), columns).unwrap()];
            let mut expected = vec![bits(&now).to_vec()];
            for (number, &seed) in seeds.iter().enumerate() {
                for turn in 0..number % 3 {
                    let place = (seed as usize).rotate_left(7 * turn as u32) % now.len();
                    now[place] = palette[(seed as usize + turn) % palette.len()];
                }
                let before = versions.last().unwrap();
                let next = match before.next(&now, usize::MAX) {
                    Some(next) => next,
                    None => {
                        prop_assert_eq!(before.lists.len(), LISTS);
                        RowVersions::whole(numbers(&now), columns).unwrap()
                    }
                };
                versions.push(next);
                expected.push(bits(&now).to_vec());
            }
            for (versions, expected) in versions.iter().zip(&expected) {
                prop_assert_eq!(&all(versions), expected);
            }
        }
    }

    #[test]
    fn rows_that_stay_are_not_held_again() {
        let first = RowVersions::whole(numbers(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), 2).unwrap();
        assert_eq!((first.rows(), first.own_bytes(), first.as_whole().is_some()), (3, 24, true));
        let changed = [1.0, 2.0, 9.0, 4.0, 5.0, 6.0];
        let second = first.next(&changed, 20).unwrap();
        assert_eq!((second.own_bytes(), second.as_whole().is_some()), (8 + 12, false));
        assert!(first.next(&changed, 19).is_none(), "a row and the index are twenty bytes");
        assert!(first.next(&changed[..4], 100).is_none(), "fewer rows");
        assert_eq!(second.next(&changed, 12).unwrap().own_bytes(), 12, "no row is another");
        assert!(RowVersions::whole(numbers(&[]), 0).is_none());
    }

    #[test]
    fn tapes_read_them_as_a_whole_and_in_blocks() {
        let (rows, columns) = (1500, 3);
        let mut values: Vec<f32> = (0..rows * columns).map(|k| (k as f32 * 0.3).sin()).collect();
        let first = RowVersions::whole(numbers(&values), columns).unwrap();
        values.iter_mut().skip(10).step_by(700).for_each(|value| *value += 1.0);
        let second = Arc::new(first.next(&values, usize::MAX).unwrap());
        let arena = Arena::new();
        let run = |versions: bool, read_before: bool| {
            let weight = [1.0, 0.5, -1.0];
            let (mut tape, shape) = (Tape::new(&arena), Shape::new(rows, columns));
            let x = match versions {
                true => tape.versions(second.clone()),
                false => tape.constant(shape, &values).unwrap(),
            };
            let w = tape.parameter(Shape::new(columns, 1), &weight).unwrap();
            assert_eq!(tape.shape(x), shape);
            if read_before {
                tape.sum(x).unwrap();
            }
            let sum = tape.sum_by_rows(rows, &[x], &[w], |tape, _, x, w| {
                let product = tape.matmul(x[0], w[0])?;
                let bent = tape.tanh(product)?;
                tape.sum(bent)
            });
            let sum = sum.unwrap();
            assert_eq!(tape.value(x).is_ok(), !versions || read_before, "it was not needed whole");
            let gradients = tape.backward(sum).unwrap();
            let gradient = gradients.read(w).unwrap().unwrap().into_owned();
            (tape.value(sum).unwrap().to_vec(), gradient)
        };
        assert_eq!(run(true, false), run(false, false));
        assert_eq!(run(true, true), run(false, false));
    }
}
