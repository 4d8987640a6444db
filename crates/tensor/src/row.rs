//! A row of a sparse matrix beside the same row of another one: where its entries are, and what they are.

use std::ops::Range;
use std::sync::Arc;

use crate::cuda::Resident;
use crate::ops::Entries;
use crate::pattern::Pattern;

/// A matrix: where its entries are, and what they are.
pub type Matrix<'a> = (&'a Arc<Pattern>, &'a Resident);

/// What the entries of a row are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Values<'a> {
    /// One.
    Ones,
    /// These, one for each.
    Given(&'a [f32]),
    /// The factor of the row times those of the columns.
    Products(f32, &'a [f32]),
}

/// A row: columns, ascending, and values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row<'a> {
    pub places: &'a [u32],
    pub values: Values<'a>,
}

impl<'a> Row<'a> {
    /// A row of a matrix.
    pub fn of(pattern: &'a Pattern, entries: Entries<'a>, row: usize) -> Row<'a> {
        let range: Range<usize> = pattern.starts()[row] as usize..pattern.starts()[row + 1] as usize;
        let values = match entries {
            Entries::Ones => Values::Ones,
            Entries::Given(values) => Values::Given(&values[range.clone()]),
            Entries::Products(factors) => Values::Products(factors[row], factors),
        };
        Row { places: &pattern.places()[range], values }
    }

    /// What an entry is.
    pub fn value(&self, entry: usize) -> f32 {
        match self.values {
            Values::Ones => 1.0,
            Values::Given(values) => values[entry],
            Values::Products(own, factors) => factors[self.places[entry] as usize] * own,
        }
    }

    /// Whether its entries are those of another, to the bit.
    pub fn is(&self, other: &Row<'_>) -> bool {
        let same = |a: f32, b: f32| a.to_bits() == b.to_bits();
        if self.places != other.places {
            return false;
        }
        match (self.values, other.values) {
            (Values::Ones, Values::Ones) => true,
            (Values::Products(a, of), Values::Products(b, by)) => {
                same(a, b) && self.places.iter().all(|&at| same(of[at as usize], by[at as usize]))
            }
            _ => (0..self.places.len()).all(|entry| same(self.value(entry), other.value(entry))),
        }
    }
}
