//! Matrices that are computed or put together block by block, where blocks need them: products of a sparse
//! matrix with constant rows, and rows that are kept in several lists.
//!
//! The rows phase goes through the vertices block by block. What it starts from is often nothing but `A X`
//! with features that do not change: then no block but its own ever needs a row of it, and the whole of it,
//! as wide as the features, for every step of a window, need not be in memory. A row has the same bits
//! whether it is computed alone or with the others.

use std::ops::Range;
use std::sync::Arc;

use super::aggregate::{Sum, Take, add_segments};
use crate::arena::Arena;
use crate::clock::Stage;
use crate::cuda::Resident;
use crate::error::Result;
use crate::op::{Back, Op, Shape, View};
use crate::pattern::Pattern;
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

    fn compute_rows(&self, arena: &Arena, rows: Range<usize>, output: &mut [f32]) {
        let (sum, width) = (self.sum(), self.width);
        let (pieces, segments) = sum.lines.pieces_of(rows);
        let mut scratch = arena.take(segments * width);
        let (jobs, cuts) = sum.lines.deal(&pieces, width, output, &mut scratch);
        jobs.into_iter().for_each(|(piece, output)| sum.piece(piece, output));
        add_segments(cuts, &scratch, false);
        arena.give(scratch);
    }
}

/// Some rows of a matrix that is not there as a whole.
pub(super) struct LazyRows<'a> {
    pub arena: &'a Arena,
    pub matrix: Lazy<'a>,
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

    fn forward(&self, _: &[View<'_>], output: &mut [f32], _: &mut [f32]) -> Result<()> {
        match &self.matrix {
            Lazy::Product(product) => product.compute_rows(self.arena, self.rows.clone(), output),
            Lazy::Versions(versions) => versions.copy(self.rows.clone(), output),
        }
        Ok(())
    }

    fn backward(&self, _: Back<'_, '_>) -> Result<()> {
        // Nothing that a gradient flows through is computed so.
        Ok(())
    }
}
