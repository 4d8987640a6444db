//! Matrices that are computed or put together block by block, where blocks need them: products of a sparse
//! matrix with constant rows, and rows that are kept in several lists.
//!
//! The rows phase goes through the vertices block by block. What it starts from is often nothing but `A X`
//! with features that do not change: then no block but its own ever needs a row of it, and the whole of it,
//! as wide as the features, for every step of a window, need not be in memory. A row has the same bits
//! whether it is computed alone or with the others, and whether it is computed or copied from the step
//! before, where it was made of the same (REAL, section 4.1).

use std::ops::Range;
use std::sync::Arc;

use super::aggregate::{Sum, Take};
use crate::arena::Arena;
use crate::clock::Stage;
use crate::cuda::Resident;
use crate::error::Result;
use crate::op::{Back, Op, Shape, View};
use crate::pattern::Pattern;
use crate::row::Row;
use crate::versions::RowVersions;

/// A matrix that is not there as a whole.
#[derive(Clone)]
pub(crate) enum Lazy<'a> {
    /// A product that has not been computed.
    Product(LazyProduct<'a>),
    /// Rows that are in several lists.
    Versions(Arc<RowVersions>),
}

impl Lazy<'_> {
    /// All of it.
    pub fn compute(&self, arena: &Arena, output: &mut [f32]) {
        match self {
            Lazy::Product(product) => product.sum().compute(arena, output, false),
            Lazy::Versions(versions) => versions.copy_all(output),
        }
    }
}

/// A product that has not been computed.
#[derive(Clone)]
pub(crate) struct LazyProduct<'a> {
    pub pattern: Arc<Pattern>,
    pub values: Arc<Resident>,
    /// The rows that are multiplied, each distinct one once where there is an index.
    pub x: &'a [f32],
    pub index: Option<&'a [u32]>,
    pub width: usize,
}

impl LazyProduct<'_> {
    fn sum(&self) -> Sum<'_> {
        Sum {
            lines: self.pattern.by_row(),
            take: self.index.map_or(Take::Other, Take::Named),
            values: self.values.entries(),
            heads: 1,
            x: self.x,
            width: self.width,
        }
    }

    /// Whether a row of it is that of another product, to the bit, because it is made of the same.
    fn has_row_of(&self, other: &LazyProduct<'_>, row: usize) -> bool {
        let of = |product: &LazyProduct<'_>, is: &dyn Fn(Row<'_>) -> bool| {
            is(Row::of(&product.pattern, product.values.entries(), row))
        };
        of(self, &|mine| of(other, &|theirs| mine.is(&theirs) && self.takes_rows_of(other, mine.places)))
    }

    /// Whether the rows that are multiplied are those of another product, at these places.
    fn takes_rows_of(&self, other: &LazyProduct<'_>, places: &[u32]) -> bool {
        std::ptr::eq(self.x, other.x)
            && match (self.index, other.index) {
                (None, None) => true,
                (Some(now), Some(before)) => places.iter().all(|&at| now[at as usize] == before[at as usize]),
                _ => false,
            }
    }

    /// Whether rows of it may be those of another product, and to look is cheaper than to add.
    pub fn may_have_rows_of(&self, other: &LazyProduct<'_>) -> bool {
        let shape =
            |product: &LazyProduct<'_>| [product.pattern.rows(), product.pattern.columns(), product.width];
        self.width >= WIDE && shape(self) == shape(other) && std::ptr::eq(self.x, other.x)
    }
}

/// From this many columns on, an entry costs more to add than to compare with another.
const WIDE: usize = 8;

/// Some rows of a matrix that is not there as a whole. Where rows of another product may be the same, these
/// are the input, and those that are made of the same are copied.
pub(super) struct LazyRows<'a> {
    pub arena: &'a Arena,
    pub matrix: Lazy<'a>,
    pub before: Option<LazyProduct<'a>>,
    pub rows: Range<usize>,
}

impl Op for LazyRows<'_> {
    fn name(&self) -> &'static str {
        "rows of a product"
    }

    fn stage(&self) -> Stage {
        Stage::Aggregation
    }

    fn shape(&self, _: &[Shape]) -> Result<Shape> {
        let width = match &self.matrix {
            Lazy::Product(product) => product.width,
            Lazy::Versions(versions) => versions.columns(),
        };
        Ok(Shape::new(self.rows.len(), width))
    }

    fn forward(&self, inputs: &[View<'_>], output: &mut [f32], _: &mut [f32]) -> Result<()> {
        let rows = self.rows.clone();
        match (&self.matrix, &self.before, inputs) {
            (Lazy::Product(product), Some(before), [made]) => {
                let (same, others): (Vec<usize>, Vec<usize>) =
                    rows.partition(|&row| product.has_row_of(before, row));
                let (first, width) = (self.rows.start, product.width);
                for row in same.into_iter().map(|row| row - first) {
                    output[row * width..(row + 1) * width].copy_from_slice(made.row(row));
                }
                product.sum().compute_some(self.arena, &others, first, output);
            }
            (Lazy::Product(product), ..) => product.sum().compute_lines(self.arena, rows, output),
            (Lazy::Versions(versions), ..) => versions.copy(rows, output),
        }
        Ok(())
    }

    fn backward(&self, _: Back<'_, '_>) -> Result<()> {
        // Nothing that a gradient flows through is computed so.
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tape::Tape;

    /// A row for each vertex: its neighbours, and the rows that they have.
    fn product<'a>(rows: &[Vec<u32>], x: &'a [f32], index: Option<&'a [u32]>) -> LazyProduct<'a> {
        let mut starts = vec![0];
        starts.extend(rows.iter().scan(0, |end, row| {
            *end += row.len() as u64;
            Some(*end)
        }));
        let pattern = Arc::new(Pattern::new(4, starts, rows.concat()).unwrap());
        let values = Arc::new(Resident::from(vec![0.5; pattern.entries()]));
        LazyProduct { pattern, values, x, index, width: WIDE }
    }

    /// Rows of a block that come out of a product and one before, whose rows are all 9 where they are copied.
    fn rows_of(now: &LazyProduct<'_>, before: &LazyProduct<'_>) -> Vec<f32> {
        let arena = Arena::new();
        let mut tape = Tape::new(&arena);
        let made = tape.filled(Shape::new(3, WIDE), 9.0);
        let (matrix, before) = (Lazy::Product(now.clone()), Some(before.clone()));
        let some = LazyRows { arena: &arena, matrix, before, rows: 1..4 };
        let var = tape.apply(some, &[made]).unwrap();
        tape.value(var).unwrap().iter().step_by(WIDE).copied().collect()
    }

    #[test]
    fn rows_that_are_made_of_the_same_are_copied_and_others_are_not() {
        let x: Vec<f32> = (0..8 * WIDE).map(|at| (at / WIDE) as f32).collect();
        let rows = [vec![0, 1], vec![1, 2], vec![0, 3], vec![2]];
        let now = product(&rows, &x, None);
        assert_eq!(rows_of(&now, &now), [9.0; 3]);
        let mut other = rows.clone();
        other[2] = vec![0, 2];
        assert_eq!(rows_of(&now, &product(&other, &x, None)), [9.0, 1.5, 9.0]);
        other[1] = vec![1];
        other[3] = vec![3];
        assert_eq!(rows_of(&now, &product(&other, &x, None)), [1.5, 1.5, 1.0]);
        // The same places, of which one has another row.
        let (first, second) = ([4, 5, 6, 7], [4, 5, 6, 3]);
        let (before, now) = (product(&rows, &x, Some(&first)), product(&rows, &x, Some(&second)));
        assert_eq!(rows_of(&now, &before), [9.0, 3.5, 9.0]);
        assert_eq!(rows_of(&now, &product(&rows, &x, None)), [5.5, 3.5, 3.0]);
    }

    #[test]
    fn rows_are_looked_for_where_that_may_pay() {
        let (x, other) = ([1.0; 4 * WIDE], [1.0; 4 * WIDE]);
        let rows = [vec![0], vec![1], vec![2], vec![3]];
        let now = product(&rows, &x, None);
        assert!(now.may_have_rows_of(&now));
        assert!(!now.may_have_rows_of(&product(&rows, &other, None)));
        assert!(!now.may_have_rows_of(&product(&rows[..3], &x, None)));
        let narrow = LazyProduct { width: WIDE - 1, ..now.clone() };
        assert!(!narrow.may_have_rows_of(&narrow));
    }
}
