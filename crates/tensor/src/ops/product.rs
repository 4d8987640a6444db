//! Dense products of whole matrices or of some of their columns, split into pieces of rows.
//!
//! The kernel is that of the `gemm` crate. Rows are split into pieces of fixed size, each multiplied by one
//! thread, so that the result does not depend on how many threads there are; the weight gradient is summed
//! over pieces in order.

use std::ops::Range;

use rayon::prelude::*;

use super::ROWS;
use super::sddmm::dot;
use super::turned::turn;
use crate::op::View;
use crate::simd::simd;

/// Some neighbouring columns of a matrix, to be read.
#[derive(Clone, Copy)]
pub(crate) struct Columns<'a> {
    /// The numbers from the first column of the first row on.
    values: &'a [f32],
    rows: usize,
    columns: usize,
    /// From one row to the next.
    stride: usize,
}

impl<'a> Columns<'a> {
    /// The columns of `range` of a matrix with `stride` columns in all.
    pub(crate) fn new(values: &'a [f32], stride: usize, range: Range<usize>) -> Self {
        let rows = values.len().checked_div(stride).unwrap_or(0);
        Columns { values: values.get(range.start..).unwrap_or_default(), rows, columns: range.len(), stride }
    }

    /// Some of the rows.
    fn rows(self, range: Range<usize>) -> Self {
        Columns { values: &self.values[range.start * self.stride..], rows: range.len(), ..self }
    }

    fn plain(self) -> Operand<'a> {
        Operand { values: self.values, row_stride: self.stride, column_stride: 1 }
    }

    fn transposed(self) -> Operand<'a> {
        Operand { values: self.values, row_stride: 1, column_stride: self.stride }
    }
}

impl<'a> From<View<'a>> for Columns<'a> {
    fn from(view: View<'a>) -> Self {
        let (rows, columns) = (view.shape.rows, view.shape.columns);
        Columns { values: view.values, rows, columns, stride: columns }
    }
}

/// Some neighbouring columns of a matrix, to be written to.
pub(crate) struct ColumnsMut<'a> {
    values: &'a mut [f32],
    stride: usize,
    start: usize,
}

impl<'a> ColumnsMut<'a> {
    /// The columns from `start` on of a matrix with `stride` columns in all.
    pub(crate) fn new(values: &'a mut [f32], stride: usize, start: usize) -> Self {
        ColumnsMut { values, stride, start }
    }
}

/// A matrix with its strides.
#[derive(Clone, Copy)]
struct Operand<'a> {
    values: &'a [f32],
    row_stride: usize,
    column_stride: usize,
}

/// `output (+)= left right` with `output` of `rows` by `columns` and `inner` products a number, by one
/// thread.
#[allow(unsafe_code)]
fn product(
    [rows, columns, inner]: [usize; 3],
    output: ColumnsMut<'_>,
    add: bool,
    left: Operand<'_>,
    right: Operand<'_>,
) {
    if rows == 0 || columns == 0 {
        return;
    }
    if inner == 0 {
        if !add {
            let rows = output.values.chunks_mut(output.stride).take(rows);
            rows.for_each(|row| row[output.start..output.start + columns].fill(0.0));
        }
        return;
    }
    let last = |operand: Operand<'_>, a: usize, b: usize| {
        (a - 1) * operand.row_stride + (b - 1) * operand.column_stride
    };
    assert!(output.start + columns <= output.stride, "the output of a product is too narrow");
    assert!(
        output.values.len() >= (rows - 1) * output.stride + output.start + columns,
        "the output of a product is too small"
    );
    assert!(left.values.len() > last(left, rows, inner), "the left side of a product is too small");
    assert!(right.values.len() > last(right, inner, columns), "the right side of a product is too small");
    let values = &mut output.values[output.start..];
    // SAFETY: the three ranges were checked above, and the output is exclusive.
    unsafe {
        gemm::gemm(
            rows,
            columns,
            inner,
            values.as_mut_ptr(),
            1,
            output.stride as isize,
            add,
            left.values.as_ptr(),
            left.column_stride as isize,
            left.row_stride as isize,
            right.values.as_ptr(),
            right.column_stride as isize,
            right.row_stride as isize,
            if add { 1.0 } else { 0.0 },
            1.0,
            false,
            false,
            false,
            gemm::Parallelism::None,
        );
    }
}

/// Whether a matrix is used as it is or with rows and columns exchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Plain,
    Transposed,
}

/// From how many rows on the right side of a product is turned beforehand. The kernel does it, too, number by
/// number and a whole column at a time, which misses the first-level cache where rows are as long as a power
/// of two.
const TURNED_ROWS: usize = 64;

#[inline(always)]
fn multiply_column_body<const FUSED: bool>(
    x: Columns<'_>,
    w: &[f32],
    output: &mut [f32],
    stride: usize,
    add: bool,
) {
    for row in 0..x.rows {
        let product = dot::<FUSED>(&x.values[row * x.stride..][..x.columns], w);
        let output = &mut output[row * stride];
        *output = if add { *output + product } else { product };
    }
}

simd! {
    /// A product with one column, for which the kernel would turn all of the left side.
    fn multiply_column(
        x: Columns<'_>,
        w: &[f32],
        output: &mut [f32],
        stride: usize,
        add: bool,
    ) = multiply_column_body;
}

/// `output (+)= x w`, or `x w^T`, for some columns of all three.
pub(crate) fn multiply_columns(
    x: Columns<'_>,
    w: Columns<'_>,
    side: Side,
    output: ColumnsMut<'_>,
    add: bool,
) {
    let turned;
    let (inner, columns, right) = match side {
        Side::Plain => (w.rows, w.columns, w.plain()),
        Side::Transposed if x.rows < TURNED_ROWS => (w.columns, w.rows, w.transposed()),
        Side::Transposed => {
            turned = turn(w.values, [w.rows, w.columns], w.stride);
            (w.columns, w.rows, Columns::new(&turned, w.rows, 0..w.rows).plain())
        }
    };
    debug_assert_eq!(x.columns, inner, "the sides of a product do not go together");
    if side == Side::Plain && w.columns == 1 && w.stride == 1 && x.rows <= ROWS && x.rows * inner > 0 {
        return multiply_column(
            x,
            &w.values[..inner],
            &mut output.values[output.start..],
            output.stride,
            add,
        );
    }
    if x.rows <= ROWS || columns == 0 {
        return product([x.rows, columns, inner], output, add, x.plain(), right);
    }
    let (stride, start) = (output.stride, output.start);
    output.values.par_chunks_mut(ROWS * stride).enumerate().for_each(|(number, values)| {
        let x = x.rows(number * ROWS..((number + 1) * ROWS).min(x.rows));
        product([x.rows, columns, inner], ColumnsMut::new(values, stride, start), add, x.plain(), right);
    });
}

/// `output (+)= x w`, or `x w^T`.
pub(crate) fn multiply_side(x: View<'_>, w: View<'_>, side: Side, output: &mut [f32], add: bool) {
    let columns = if side == Side::Plain { w.shape.columns } else { w.shape.rows };
    multiply_columns(x.into(), w.into(), side, ColumnsMut::new(output, columns, 0), add);
}

/// `output = x w`.
pub fn multiply(x: View<'_>, w: View<'_>, output: &mut [f32]) {
    multiply_side(x, w, Side::Plain, output, false);
}

/// `output += x w`.
pub fn multiply_into(x: View<'_>, w: View<'_>, output: &mut [f32]) {
    multiply_side(x, w, Side::Plain, output, true);
}

/// Rows that are summed by one thread before sums are added in order: a number that depends on the rows
/// alone.
fn rows_per_sum(rows: usize) -> usize {
    rows.div_ceil(16).next_multiple_of(ROWS).max(4 * ROWS)
}

/// `output += sum`, where `sum` adds up the rows of a range: piece by piece, the pieces in order.
fn sum_in_order(rows: usize, output: &mut [f32], sum: impl Fn(Range<usize>, &mut [f32]) + Sync) {
    let piece = rows_per_sum(rows);
    if rows <= piece {
        return sum(0..rows, output);
    }
    let length = output.len();
    let partials: Vec<Vec<f32>> = (0..rows.div_ceil(piece))
        .into_par_iter()
        .map(|number| {
            let mut partial = vec![0.0; length];
            let end = ((number + 1) * piece).min(rows);
            // A long sum is split so that both sides of a product stay in the cache.
            for start in (number * piece..end).step_by(4 * ROWS) {
                sum(start..(start + 4 * ROWS).min(end), &mut partial);
            }
            partial
        })
        .collect();
    for partial in partials {
        output.iter_mut().zip(partial).for_each(|(sum, value)| *sum += value);
    }
}

/// `output += x^T y`, for some columns of all three: the gradient of a weight.
pub(crate) fn weight_gradient_columns(x: Columns<'_>, y: Columns<'_>, output: ColumnsMut<'_>) {
    let (stride, start) = (output.stride, output.start);
    sum_in_order(x.rows, output.values, |rows, sum| {
        let (x, y) = (x.rows(rows.clone()), y.rows(rows));
        let output = ColumnsMut::new(sum, stride, start);
        product([x.columns, y.columns, x.rows], output, true, x.transposed(), y.plain());
    });
}

/// `output += x^T y`: the gradient of a weight.
pub fn weight_gradient(x: View<'_>, y: View<'_>, output: &mut [f32]) {
    weight_gradient_columns(x.into(), y.into(), ColumnsMut::new(output, y.shape.columns, 0));
}

#[inline(always)]
fn add_rows_body<const FUSED: bool>(x: &[f32], stride: usize, output: &mut [f32]) {
    for row in x.chunks(stride) {
        output.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
    }
}

simd! {
    fn add_rows(x: &[f32], stride: usize, output: &mut [f32]) = add_rows_body;
}

/// `output += sum over rows of x`, for some columns: the gradient of a bias.
pub(crate) fn sum_columns(x: Columns<'_>, output: &mut [f32]) {
    if x.columns > 0 {
        sum_in_order(x.rows, output, |rows, sum| {
            let values = &x.values[rows.start * x.stride..];
            let end = (rows.len() * x.stride).min(values.len());
            add_rows(&values[..end], x.stride, sum);
        });
    }
}

/// `output += sum over rows of x`: the gradient of a bias.
pub(crate) fn column_sums(x: &[f32], columns: usize, output: &mut [f32]) {
    sum_columns(Columns::new(x, columns, 0..columns), output);
}
