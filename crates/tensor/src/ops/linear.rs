//! Dense products: `x W + b`, and the products of its gradient.
//!
//! The kernel is that of the `gemm` crate. Rows are split into pieces of fixed size, each multiplied by one thread, so that
//! the result does not depend on how many threads there are; the weight gradient is summed over pieces in order.

use rayon::prelude::*;

use super::ROWS;
use crate::error::{Result, expect_inputs, expect_shape};
use crate::op::{Back, Op, Shape, View};
use crate::tape::{Tape, Var};

/// A matrix with its strides, for products.
#[derive(Clone, Copy)]
struct Operand<'a> {
    values: &'a [f32],
    row_stride: usize,
    column_stride: usize,
}

/// `output (+)= left right` with `output` of `rows` by `columns` and `inner` products a number, by one thread.
#[allow(unsafe_code)]
fn product(
    [rows, columns, inner]: [usize; 3],
    output: &mut [f32],
    add: bool,
    left: Operand<'_>,
    right: Operand<'_>,
) {
    if rows == 0 || columns == 0 {
        return;
    }
    if inner == 0 {
        if !add {
            output[..rows * columns].fill(0.0);
        }
        return;
    }
    let last = |operand: Operand<'_>, a: usize, b: usize| {
        (a - 1) * operand.row_stride + (b - 1) * operand.column_stride
    };
    assert!(output.len() >= rows * columns, "the output of a product is too small");
    assert!(left.values.len() > last(left, rows, inner), "the left side of a product is too small");
    assert!(right.values.len() > last(right, inner, columns), "the right side of a product is too small");
    // SAFETY: the three ranges were checked above, and the output is exclusive.
    unsafe {
        gemm::gemm(
            rows,
            columns,
            inner,
            output.as_mut_ptr(),
            1,
            columns as isize,
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

fn plain(values: &[f32], columns: usize) -> Operand<'_> {
    Operand { values, row_stride: columns, column_stride: 1 }
}

fn transposed(values: &[f32], columns: usize) -> Operand<'_> {
    Operand { values, row_stride: 1, column_stride: columns }
}

/// Whether a matrix is used as it is or with rows and columns exchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Plain,
    Transposed,
}

/// `output (+)= x w`, or `x w^T`.
pub(crate) fn multiply_side(x: View<'_>, w: View<'_>, side: Side, output: &mut [f32], add: bool) {
    let (inner, columns) = match side {
        Side::Plain => (w.shape.rows, w.shape.columns),
        Side::Transposed => (w.shape.columns, w.shape.rows),
    };
    let right = match side {
        Side::Plain => plain(w.values, w.shape.columns),
        Side::Transposed => transposed(w.values, w.shape.columns),
    };
    let piece = |(output, x): (&mut [f32], &[f32])| {
        product([output.len() / columns, columns, inner], output, add, plain(x, inner), right);
    };
    if x.shape.rows <= ROWS || columns == 0 || inner == 0 {
        if columns > 0 {
            piece((output, x.values));
        }
        return;
    }
    output.par_chunks_mut(ROWS * columns).zip(x.values.par_chunks(ROWS * inner)).for_each(piece);
}

/// `output = x w`.
pub fn multiply(x: View<'_>, w: View<'_>, output: &mut [f32]) {
    multiply_side(x, w, Side::Plain, output, false);
}

/// `output += x w`.
pub fn multiply_into(x: View<'_>, w: View<'_>, output: &mut [f32]) {
    multiply_side(x, w, Side::Plain, output, true);
}

/// Rows that are summed by one thread before sums are added in order: a number that depends on the rows alone.
fn rows_per_sum(rows: usize) -> usize {
    rows.div_ceil(16).next_multiple_of(ROWS).max(4 * ROWS)
}

/// `output += x^T y`: the gradient of a weight.
pub fn weight_gradient(x: View<'_>, y: View<'_>, output: &mut [f32]) {
    let (inner, columns, rows) = (x.shape.columns, y.shape.columns, x.shape.rows);
    let sum = |output: &mut [f32], x: &[f32], y: &[f32]| {
        let count = x.len() / inner.max(1);
        product([inner, columns, count], output, true, transposed(x, inner), plain(y, columns));
    };
    let piece = rows_per_sum(rows);
    if rows <= piece || inner == 0 || columns == 0 {
        if inner > 0 && columns > 0 {
            sum(output, x.values, y.values);
        }
        return;
    }
    let sums: Vec<Vec<f32>> = x
        .values
        .par_chunks(piece * inner)
        .zip(y.values.par_chunks(piece * columns))
        .map(|(x, y)| {
            let mut partial = vec![0.0; inner * columns];
            // A product over a long inner dimension is split so that both sides stay in the cache.
            for (x, y) in x.chunks(ROWS * 4 * inner).zip(y.chunks(ROWS * 4 * columns)) {
                sum(&mut partial, x, y);
            }
            partial
        })
        .collect();
    for partial in sums {
        output.iter_mut().zip(partial).for_each(|(sum, value)| *sum += value);
    }
}

/// `output += sum over rows of x`: the gradient of a bias.
pub(crate) fn column_sums(x: &[f32], columns: usize, output: &mut [f32]) {
    for row in x.chunks_exact(columns.max(1)) {
        output.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
    }
}

struct Linear {
    has_bias: bool,
}

impl Op for Linear {
    fn name(&self) -> &'static str {
        "linear"
    }

    fn shape(&self, inputs: &[Shape]) -> Result<Shape> {
        let (x, w) = if self.has_bias {
            let [x, w, b] = expect_inputs(self.name(), inputs)?;
            expect_shape(self.name(), "the bias", b, Shape::new(1, w.columns))?;
            (x, w)
        } else {
            let [x, w] = expect_inputs(self.name(), inputs)?;
            (x, w)
        };
        expect_shape(self.name(), "the weight", w, Shape::new(x.columns, w.columns))?;
        Ok(Shape::new(x.rows, w.columns))
    }

    fn forward(&self, inputs: &[View<'_>], output: &mut [f32], _: &mut [f32]) -> Result<()> {
        let columns = inputs[1].shape.columns;
        if self.has_bias {
            for row in output.chunks_exact_mut(columns.max(1)) {
                row.copy_from_slice(inputs[2].values);
            }
        }
        multiply_side(inputs[0], inputs[1], Side::Plain, output, self.has_bias);
        Ok(())
    }

    fn backward(&self, mut back: Back<'_, '_>) -> Result<()> {
        let upstream = View { shape: back.output.shape, values: back.upstream };
        if let Some(x) = back.take(0) {
            multiply_side(upstream, back.inputs[1], Side::Transposed, x, true);
        }
        if let Some(w) = back.take(1) {
            weight_gradient(back.inputs[0], upstream, w);
        }
        if self.has_bias
            && let Some(b) = back.take(2)
        {
            column_sums(back.upstream, upstream.shape.columns, b);
        }
        Ok(())
    }
}

impl Tape<'_> {
    /// `x w`.
    pub fn matmul(&mut self, x: Var, w: Var) -> Result<Var> {
        self.apply(Linear { has_bias: false }, &[x, w])
    }

    /// `x w + b`, with the one row `b` added to every row.
    pub fn linear(&mut self, x: Var, w: Var, b: Var) -> Result<Var> {
        self.apply(Linear { has_bias: true }, &[x, w, b])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Arena;
    use crate::check::gradient;

    fn numbers(shape: Shape, salt: u32) -> (Shape, Vec<f32>) {
        let value =
            |i: u32| ((i.wrapping_add(salt).wrapping_mul(747796405) >> 16) % 200) as f32 / 100.0 - 1.0;
        (shape, (0..shape.len() as u32).map(value).collect())
    }

    #[test]
    fn gradients_are_those_of_differences() {
        for (rows, inner, columns) in [(3, 4, 5), (1, 1, 1), (7, 2, 1)] {
            let inputs = [
                numbers(Shape::new(rows, inner), 1),
                numbers(Shape::new(inner, columns), 2),
                numbers(Shape::new(1, columns), 3),
            ];
            gradient(&inputs, 1e-2, |tape, vars| tape.linear(vars[0], vars[1], vars[2])).unwrap();
            gradient(&inputs[..2], 1e-2, |tape, vars| tape.matmul(vars[0], vars[1])).unwrap();
            gradient(&inputs[..1], 1e-2, |tape, vars| {
                let square = Shape::new(inner, inner);
                let w = tape.filled(square, 0.5);
                let once = tape.matmul(vars[0], w)?;
                tape.matmul(once, w)
            })
            .unwrap();
        }
    }

    #[test]
    fn large_products_are_the_sums_they_should_be_for_any_thread_count() {
        let (x, w) = (numbers(Shape::new(10_000, 7), 1), numbers(Shape::new(7, 5), 2));
        let arena = Arena::new();
        let run = || {
            let mut tape = Tape::new(&arena);
            let (xv, wv) = (tape.parameter(x.0, &x.1).unwrap(), tape.parameter(w.0, &w.1).unwrap());
            let y = tape.matmul(xv, wv).unwrap();
            let gradients = tape.backward_with(y, tape.value(y).to_vec()).unwrap();
            (tape.value(y).to_vec(), gradients.of(wv).unwrap().to_vec())
        };
        let (y, dw) = run();
        for (row, column) in [(0, 0), (9_999, 4), (5_000, 2)] {
            let exact: f64 =
                (0..7).map(|k| f64::from(x.1[row * 7 + k]) * f64::from(w.1[k * 5 + column])).sum();
            assert!((f64::from(y[row * 5 + column]) - exact).abs() < 1e-5);
        }
        let exact: f64 = (0..10_000).map(|row| f64::from(x.1[row * 7]) * f64::from(y[row * 5])).sum();
        assert!((f64::from(dw[0]) - exact).abs() < 1e-3 * exact.abs().max(1.0));
        for threads in [1, 3] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            assert_eq!(pool.install(run), (y.clone(), dw.clone()));
        }
    }

    #[test]
    fn wrong_shapes_and_empty_ones() {
        let arena = Arena::new();
        let mut tape = Tape::new(&arena);
        let (a, b) = (tape.filled(Shape::new(2, 3), 1.0), tape.filled(Shape::new(2, 3), 1.0));
        let error = tape.matmul(a, b).unwrap_err().to_string();
        assert_eq!(error, "linear: the weight is 2 x 3, expected 3 x 3");
        for (rows, inner, columns) in [(0, 3, 2), (2, 0, 2), (2, 3, 0)] {
            let (x, w) =
                (tape.filled(Shape::new(rows, inner), 1.0), tape.filled(Shape::new(inner, columns), 1.0));
            let y = tape.matmul(x, w).unwrap();
            assert!(tape.value(y).iter().all(|&value| value == inner as f32));
        }
    }
}
