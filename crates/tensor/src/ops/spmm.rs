//! Sparse times dense: every row of the result is a weighted sum of the rows of its neighbours.
//!
//! With several heads, a row is divided into as many parts, and every entry has a weight for each.

use std::sync::Arc;

use super::aggregate::{Entries, Sum, Take};
use super::sddmm::Dots;
use super::sums::{Factors, Rows, dots, sums};
use crate::arena::Arena;
use crate::clock::Stage;
use crate::cuda::{self, Resident};
use crate::error::{Error, Result, expect_inputs, expect_shape};
use crate::estimate::MemoryEstimate;
use crate::lines::Lines;
use crate::op::{Back, Op, Shape, View};
use crate::pattern::Pattern;
use crate::tape::{Tape, Var};

/// Where the values of the entries come from.
enum Values {
    Ones,
    Fixed(Arc<Resident>),
    /// The second input.
    Input,
}

struct Spmm<'a> {
    arena: &'a Arena,
    pattern: Arc<Pattern>,
    values: Values,
    heads: usize,
}

impl Spmm<'_> {
    fn values<'v>(&'v self, inputs: &[View<'v>]) -> Entries<'v> {
        match &self.values {
            Values::Ones => Entries::Ones,
            Values::Fixed(values) => values.entries(),
            Values::Input => Entries::Given(inputs[1].values),
        }
    }
}

/// Fails unless rows of this width can be divided into this many equal parts.
pub(super) fn expect_heads(op: &'static str, width: usize, heads: usize) -> Result<()> {
    if heads == 0 || !width.is_multiple_of(heads) {
        return Err(Error::shape(
            op,
            format!("rows of {width} numbers cannot be divided among {heads} heads"),
        ));
    }
    Ok(())
}

impl Op for Spmm<'_> {
    fn name(&self) -> &'static str {
        "spmm"
    }

    fn stage(&self) -> Stage {
        Stage::Aggregation
    }

    fn shape(&self, inputs: &[Shape]) -> Result<Shape> {
        let entries = self.pattern.entries();
        let x = match &self.values {
            Values::Input => {
                let [x, values] = expect_inputs(self.name(), inputs)?;
                expect_shape(self.name(), "the matrix of values", values, Shape::new(entries, self.heads))?;
                x
            }
            Values::Fixed(values) => {
                let found = Shape::new(values.len(), 1);
                expect_shape(self.name(), "the matrix of values", found, Shape::new(entries, 1))?;
                expect_inputs::<1>(self.name(), inputs)?[0]
            }
            Values::Ones => expect_inputs::<1>(self.name(), inputs)?[0],
        };
        expect_shape(self.name(), "x", x, Shape::new(self.pattern.columns(), x.columns))?;
        expect_heads(self.name(), x.columns, self.heads)?;
        Ok(Shape::new(self.pattern.rows(), x.columns))
    }

    fn forward(&self, inputs: &[View<'_>], output: &mut [f32], _: &mut [f32]) -> Result<()> {
        let sum = Sum {
            lines: self.pattern.by_row(),
            take: Take::Other,
            values: self.values(inputs),
            heads: self.heads,
            x: inputs[0].values,
            width: inputs[0].shape.columns,
        };
        sum.compute(self.arena, output, false);
        Ok(())
    }

    fn backward(&self, mut back: Back<'_, '_>) -> Result<()> {
        let width = back.output.shape.columns;
        if let Some(x) = back.take(0) {
            let sum = Sum {
                lines: self.pattern.by_column(),
                take: Take::Other,
                values: self.values(back.inputs),
                heads: self.heads,
                x: back.upstream,
                width,
            };
            sum.compute(self.arena, x, true);
        }
        if matches!(self.values, Values::Input)
            && let Some(values) = back.take(1)
        {
            let dots = Dots {
                lines: self.pattern.by_row(),
                heads: self.heads,
                left: back.upstream,
                right: back.inputs[0].values,
                width,
            };
            dots.add(values);
        }
        Ok(())
    }

    fn holds(&self, estimate: &MemoryEstimate, back: bool) {
        if back { self.pattern.by_column() } else { self.pattern.by_row() }.hold(estimate);
        if let Values::Fixed(values) = &self.values {
            // In the backward pass in another order: a copy of its own.
            estimate.hold_named(Arc::as_ptr(values).addr() + usize::from(back), values.len());
        }
    }

    fn cuda(&self, call: cuda::Call<'_>) -> Result<()> {
        let factors = match &self.values {
            Values::Ones => Factors::Ones,
            Values::Fixed(values) => Factors::Given(values.on(call.device)?, 1),
            Values::Input => Factors::Given(call.inputs[1].values, self.heads),
        };
        let (lines, x) = (self.pattern.by_row().on(call.device)?, call.inputs[0]);
        let output = cuda::Sum { values: call.output, adds: false };
        sums(call.device, lines, (Rows::Others, factors), (x.values, x.shape.columns), output)
    }

    fn cuda_back(&self, back: cuda::Back<'_>) -> Result<()> {
        let (device, width) = (back.device, back.output.shape.columns);
        if let Some(x) = back.gradients[0] {
            let lines = self.pattern.by_column_on(device)?;
            let factors = match &self.values {
                Values::Ones => Factors::Ones,
                Values::Fixed(values) => Factors::Permuted(values.transposed_on(device, lines)?),
                Values::Input => Factors::Given(back.inputs[1].values, self.heads),
            };
            sums(device, lines, (Rows::Others, factors), (back.upstream, width), x)?;
        }
        match (&self.values, back.gradients.get(1)) {
            (Values::Input, Some(&Some(values))) => {
                let rows = [back.upstream, back.inputs[0].values];
                dots(device, self.pattern.by_row().on(device)?, rows, (width, self.heads), values)
            }
            _ => Ok(()),
        }
    }
}

/// `output (+)= A x`, outside a tape: for operations that have a sparse product inside.
pub fn multiply_sparse(
    arena: &Arena,
    pattern: &Pattern,
    values: &[f32],
    x: View<'_>,
    output: &mut [f32],
    add: bool,
) {
    sum(pattern.by_row(), values, x).compute(arena, output, add);
}

/// `output += A^T x`.
pub fn multiply_sparse_transposed(
    arena: &Arena,
    pattern: &Pattern,
    values: &[f32],
    x: View<'_>,
    output: &mut [f32],
) {
    sum(pattern.by_column(), values, x).compute(arena, output, true);
}

fn sum<'a>(lines: &'a Lines, values: &'a [f32], x: View<'a>) -> Sum<'a> {
    Sum {
        lines,
        take: Take::Other,
        values: Entries::Given(values),
        heads: 1,
        x: x.values,
        width: x.shape.columns,
    }
}

impl Tape<'_> {
    /// `A x`, where the matrix `A` has `values` (one for each entry of the pattern), or ones.
    pub fn spmm(&mut self, pattern: Arc<Pattern>, values: Option<Var>, x: Var) -> Result<Var> {
        let arena = self.arena();
        match values {
            Some(values) => {
                self.apply(Spmm { arena, pattern, values: Values::Input, heads: 1 }, &[x, values])
            }
            None => self.apply(Spmm { arena, pattern, values: Values::Ones, heads: 1 }, &[x]),
        }
    }

    /// `A x`, where the matrix `A` has values that need no gradient.
    pub fn spmm_fixed(&mut self, pattern: Arc<Pattern>, values: Arc<Resident>, x: Var) -> Result<Var> {
        let arena = self.arena();
        self.apply(Spmm { arena, pattern, values: Values::Fixed(values), heads: 1 }, &[x])
    }

    /// As many products as `values` has columns, side by side: head `h` multiplies its part of the columns of
    /// `x` by the matrix whose values are column `h`.
    pub fn spmm_heads(&mut self, pattern: Arc<Pattern>, values: Var, x: Var) -> Result<Var> {
        let (arena, heads) = (self.arena(), self.shape(values).columns);
        self.apply(Spmm { arena, pattern, values: Values::Input, heads }, &[x, values])
    }
}
