//! Dense layers: `x W + b` with its gradient, where `x` may be several matrices that stand side by side
//! without being copied there, and where the positive part may be taken while the rows are in the cache: what
//! it is taken of need not be kept.

use std::ops::Range;

use super::dense::{DENSE, column_sums_on};
use super::pieces::{by_pieces, taken};
pub(crate) use super::product::{Side, column_sums, multiply_side};
pub use super::product::{multiply, multiply_into, weight_gradient};
use super::thin;
use crate::cuda;
use crate::error::{Error, Result, expect_shape};
use crate::op::{Back, Op, Shape, View};
use crate::tape::{Tape, Var};

/// The inputs are the weight, the bias if there is one, and the matrices side by side.
pub(super) struct Linear {
    pub(super) has_bias: bool,
    pub(super) is_positive: bool,
}

impl Linear {
    /// Where the first of the matrices stands among the inputs.
    fn first(&self) -> usize {
        1 + usize::from(self.has_bias)
    }

    /// Whether a GPU has kernels for so few outputs.
    fn is_thin(&self, inputs: &[cuda::View<'_>]) -> bool {
        !self.is_positive && inputs.len() == self.first() + 1 && thin::is_thin(inputs[0].shape)
    }

    /// Each of the matrices by its place among the inputs, and the rows of the weight that belong to it.
    fn parts<'v>(&self, inputs: &'v [View<'v>]) -> impl Iterator<Item = (usize, Range<usize>)> + 'v {
        let first = self.first();
        inputs[first..].iter().enumerate().scan(0, move |end, (number, x)| {
            let start = *end;
            *end += x.shape.columns;
            Some((first + number, start..*end))
        })
    }
}

impl Op for Linear {
    fn name(&self) -> &'static str {
        "linear"
    }

    fn shape(&self, inputs: &[Shape]) -> Result<Shape> {
        let (Some(w), Some(xs @ [x, ..])) = (inputs.first(), inputs.get(self.first()..)) else {
            return Err(Error::shape(self.name(), "no matrix was given"));
        };
        if self.has_bias {
            expect_shape(self.name(), "the bias", inputs[1], Shape::new(1, w.columns))?;
        }
        for other in xs {
            expect_shape(
                self.name(),
                "a matrix beside the first",
                *other,
                Shape::new(x.rows, other.columns),
            )?;
        }
        let columns = xs.iter().map(|x| x.columns).sum();
        expect_shape(self.name(), "the weight", *w, Shape::new(columns, w.columns))?;
        Ok(Shape::new(x.rows, w.columns))
    }

    fn forward(&self, inputs: &[View<'_>], output: &mut [f32], _: &mut [f32]) -> Result<()> {
        let columns = inputs[0].shape.columns;
        by_pieces(inputs[self.first()].shape.rows, &mut [Some(output)], |range, slots| {
            let output = taken(slots, 0);
            if self.has_bias {
                for row in output.chunks_exact_mut(columns.max(1)) {
                    row.copy_from_slice(inputs[1].values);
                }
            }
            let mut add = self.has_bias;
            for (number, rows) in self.parts(inputs) {
                multiply_side(
                    inputs[number].rows(range.clone()),
                    inputs[0].rows(rows),
                    Side::Plain,
                    output,
                    add,
                );
                add = true;
            }
            if self.is_positive {
                output.iter_mut().for_each(|value| *value = value.max(0.0));
            }
        });
        Ok(())
    }

    fn scratch(&self, inputs: &[Shape]) -> usize {
        match (self.is_positive, inputs.get(self.first())) {
            (true, Some(x)) => x.rows * inputs[0].columns,
            _ => 0,
        }
    }

    fn backward(&self, mut back: Back<'_, '_>) -> Result<()> {
        let (inputs, shape) = (back.inputs, back.output.shape);
        let columns = shape.columns;
        let scratch = std::mem::take(&mut back.scratch);
        let upstream = match self.is_positive {
            true => {
                let (all, output) = (back.upstream, back.output.values);
                by_pieces(shape.rows, &mut [Some(&mut *scratch)], |range, slots| {
                    let range = range.start * columns..range.end * columns;
                    let passed = all[range.clone()].iter().zip(&output[range]);
                    for (masked, (&upstream, &value)) in taken(slots, 0).iter_mut().zip(passed) {
                        *masked = if value > 0.0 { upstream } else { 0.0 };
                    }
                });
                View { shape, values: scratch }
            }
            false => View { shape, values: back.upstream },
        };
        let mut weight = back.take(0);
        for (number, rows) in self.parts(inputs) {
            if let Some(x) = back.take(number) {
                multiply_side(upstream, inputs[0].rows(rows.clone()), Side::Transposed, x, true);
            }
            if let Some(weight) = weight.as_deref_mut() {
                weight_gradient(
                    inputs[number],
                    upstream,
                    &mut weight[rows.start * columns..rows.end * columns],
                );
            }
        }
        if self.has_bias
            && let Some(bias) = back.take(1)
        {
            column_sums(upstream.values, columns, bias);
        }
        Ok(())
    }

    fn cuda(&self, call: cuda::Call<'_>) -> Result<()> {
        let (device, w) = (call.device, call.inputs[0]);
        if self.is_thin(call.inputs) {
            return thin::forward(&call, self.has_bias);
        }
        let (columns, rows) = (w.shape.columns, call.inputs[self.first()].shape.rows);
        let mut at = 0;
        for (number, x) in call.inputs[self.first()..].iter().enumerate() {
            let inner = x.shape.columns;
            let weight = w.values.range(at * columns..(at + inner) * columns);
            let keep = if number == 0 { 0.0 } else { 1.0 };
            device.product(
                [rows, inner, columns],
                x.values.factor(inner),
                weight.factor(columns),
                keep,
                (call.output, columns),
            )?;
            at += inner;
        }
        let bias = self.has_bias.then(|| call.inputs[1].values);
        if !self.has_bias && !self.is_positive {
            return Ok(());
        }
        let arguments = [call.output.into(), bias.into(), columns.into(), self.is_positive.into()];
        device.each(&DENSE, "finish", rows * columns, &arguments)
    }

    fn cuda_back(&self, back: cuda::Back<'_>) -> Result<()> {
        if self.is_thin(back.inputs) {
            return thin::backward(&back, self.has_bias);
        }
        let (device, w) = (back.device, back.inputs[0]);
        let Shape { rows, columns } = back.output.shape;
        let upstream = back.upstream;
        if self.is_positive {
            // In place: nothing needs the gradient of what was cut off.
            let arguments = [back.output.values.into(), upstream.into()];
            device.each(&DENSE, "only_positive", rows * columns, &arguments)?;
        }
        let mut at = 0;
        for (number, x) in back.inputs.iter().enumerate().skip(self.first()) {
            let inner = x.shape.columns;
            let range = at * columns..(at + inner) * columns;
            at += inner;
            if let Some(sum) = back.gradients[number] {
                let weight = w.values.range(range.clone()).transposed(columns);
                let output = (sum.values, inner);
                device.product(
                    [rows, columns, inner],
                    upstream.factor(columns),
                    weight,
                    sum.keep(),
                    output,
                )?;
            }
            if let Some(sum) = back.gradients[0] {
                let output = (sum.values.range(range), columns);
                let x = x.values.transposed(inner);
                device.product([inner, rows, columns], x, upstream.factor(columns), sum.keep(), output)?;
            }
        }
        match back.gradients.get(1).copied().flatten().filter(|_| self.has_bias) {
            Some(bias) => column_sums_on(device, (upstream, columns, 0..columns), rows, bias),
            None => Ok(()),
        }
    }
}

impl Tape<'_> {
    /// `x w`.
    pub fn matmul(&mut self, x: Var, w: Var) -> Result<Var> {
        self.linear_or_again(Linear { has_bias: false, is_positive: false }, &[w], x)
    }

    /// `x w + b`, with the one row `b` added to every row.
    pub fn linear(&mut self, x: Var, w: Var, b: Var) -> Result<Var> {
        self.linear_or_again(Linear { has_bias: true, is_positive: false }, &[w, b], x)
    }

    /// `[x, y, ...] w + b` for matrices side by side, which are not copied there.
    pub fn linear_of(&mut self, side_by_side: &[Var], w: Var, b: Var) -> Result<Var> {
        self.apply(Linear { has_bias: true, is_positive: false }, &[&[w, b], side_by_side].concat())
    }

    /// The positive part of `x w + b`.
    pub fn linear_relu(&mut self, x: Var, w: Var, b: Var) -> Result<Var> {
        self.linear_or_again(Linear { has_bias: true, is_positive: true }, &[w, b], x)
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
        for (rows, inner, columns) in [(3, 4, 5), (1, 1, 1), (7, 2, 1), (600, 3, 2)] {
            let inputs = [
                numbers(Shape::new(rows, inner), 1),
                numbers(Shape::new(inner, columns), 2),
                numbers(Shape::new(1, columns), 3),
            ];
            gradient(&inputs, 1e-2, |tape, vars| tape.linear(vars[0], vars[1], vars[2])).unwrap();
            gradient(&inputs[..2], 1e-2, |tape, vars| tape.matmul(vars[0], vars[1])).unwrap();
            super::super::pieces::tests::equal(
                &inputs,
                |tape, vars| tape.linear_relu(vars[0], vars[1], vars[2]),
                |tape, vars| {
                    let all = tape.linear(vars[0], vars[1], vars[2])?;
                    tape.relu(all)
                },
            );
            let beside = [
                numbers(Shape::new(rows, inner), 1),
                numbers(Shape::new(rows, 2), 4),
                numbers(Shape::new(inner + 2, columns), 2),
                numbers(Shape::new(1, columns), 3),
            ];
            gradient(&beside, 1e-2, |tape, vars| tape.linear_of(&vars[..2], vars[2], vars[3])).unwrap();
            super::super::pieces::tests::equal(
                &beside,
                |tape, vars| tape.linear_of(&vars[..2], vars[2], vars[3]),
                |tape, vars| {
                    let copied = tape.concatenate_columns(&vars[..2])?;
                    tape.linear(copied, vars[2], vars[3])
                },
            );
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
            let gradients = tape.backward_with(y, tape.value(y).unwrap()).unwrap();
            (tape.value(y).unwrap().to_vec(), gradients.read(wv).unwrap().unwrap().to_vec())
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
            assert!(tape.value(y).unwrap().iter().all(|&value| value == inner as f32));
        }
    }
}
