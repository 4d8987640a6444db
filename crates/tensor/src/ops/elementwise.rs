//! Operations number by number: sums, differences and products of matrices, a factor, a row added to every
//! row.

use super::dense::column_sums_on;
use super::pieces::{by_pieces, taken};
use super::pointwise::{POINTWISE, add_product_on, add_scaled_on};
use super::product::column_sums;
use crate::cuda;
use crate::error::{Error, Result, expect_input, expect_inputs, expect_shape};
use crate::op::{Back, Op, Shape, View};
use crate::simd::{fma, simd};
use crate::tape::{Tape, Var};

#[inline(always)]
fn add_scaled_body<const FUSED: bool>(x: &[f32], factor: f32, output: &mut [f32]) {
    output.iter_mut().zip(x).for_each(|(sum, &value)| *sum = fma::<FUSED>(factor, value, *sum));
}

simd! {
    /// `output += factor * x`.
    pub(crate) fn add_scaled(x: &[f32], factor: f32, output: &mut [f32]) = add_scaled_body;
}

#[inline(always)]
fn add_product_body<const FUSED: bool>(x: &[f32], y: &[f32], output: &mut [f32]) {
    for ((sum, &x), &y) in output.iter_mut().zip(x).zip(y) {
        *sum = fma::<FUSED>(x, y, *sum);
    }
}

simd! {
    /// `output += x * y`, number by number.
    fn add_product(x: &[f32], y: &[f32], output: &mut [f32]) = add_product_body;
}

/// `output += factor * x` for a whole matrix.
fn add_scaled_matrix(x: View<'_>, factor: f32, output: &mut [f32]) {
    by_pieces(x.shape.rows, &mut [Some(output)], |range, slots| {
        add_scaled(x.rows(range).values, factor, taken(slots, 0));
    });
}

/// `sum over inputs of factor * input`; one factor for each.
struct Combination {
    name: &'static str,
    factors: Vec<f32>,
}

impl Op for Combination {
    fn name(&self) -> &'static str {
        self.name
    }

    fn shape(&self, inputs: &[Shape]) -> Result<Shape> {
        let Some(&first) = inputs.first() else {
            return Err(Error::shape(self.name, "no inputs were given"));
        };
        for (index, &shape) in inputs.iter().enumerate() {
            expect_input(self.name, index, shape, first)?;
        }
        Ok(first)
    }

    fn forward(&self, inputs: &[View<'_>], output: &mut [f32], _: &mut [f32]) -> Result<()> {
        by_pieces(inputs[0].shape.rows, &mut [Some(output)], |range, slots| {
            let output = taken(slots, 0);
            let first = inputs[0].rows(range.clone()).values;
            output.iter_mut().zip(first).for_each(|(output, value)| *output = self.factors[0] * value);
            for (input, &factor) in inputs.iter().zip(&self.factors).skip(1) {
                add_scaled(input.rows(range.clone()).values, factor, output);
            }
        });
        Ok(())
    }

    fn backward(&self, mut back: Back<'_, '_>) -> Result<()> {
        let upstream = View { shape: back.output.shape, values: back.upstream };
        for (index, &factor) in self.factors.iter().enumerate() {
            if let Some(gradient) = back.take(index) {
                add_scaled_matrix(upstream, factor, gradient);
            }
        }
        Ok(())
    }

    fn cuda(&self, call: cuda::Call<'_>) -> Result<()> {
        let (device, output, factors) = (call.device, call.output, &self.factors);
        let x = call.inputs[0].values;
        // Two in one pass, since sums of two are what there is most of.
        match call.inputs.get(1) {
            None => add_scaled_on(device, x, factors[0], cuda::Sum { values: output, adds: false })?,
            Some(y) => {
                let arguments =
                    [x.into(), y.values.into(), factors[0].into(), factors[1].into(), output.into()];
                device.each(&POINTWISE, "combined", output.len(), &arguments)?;
            }
        }
        for (input, &factor) in call.inputs.iter().zip(factors).skip(2) {
            add_scaled_on(device, input.values, factor, cuda::Sum { values: output, adds: true })?;
        }
        Ok(())
    }

    fn cuda_back(&self, back: cuda::Back<'_>) -> Result<()> {
        for (gradient, &factor) in back.gradients.iter().zip(&self.factors) {
            if let Some(gradient) = *gradient {
                add_scaled_on(back.device, back.upstream, factor, gradient)?;
            }
        }
        Ok(())
    }
}

struct Multiply;

impl Op for Multiply {
    fn name(&self) -> &'static str {
        "multiply"
    }

    fn shape(&self, inputs: &[Shape]) -> Result<Shape> {
        let [x, y] = expect_inputs(self.name(), inputs)?;
        expect_shape(self.name(), "the second factor", y, x)?;
        Ok(x)
    }

    fn forward(&self, inputs: &[View<'_>], output: &mut [f32], _: &mut [f32]) -> Result<()> {
        by_pieces(inputs[0].shape.rows, &mut [Some(output)], |range, slots| {
            let (x, y) = (inputs[0].rows(range.clone()).values, inputs[1].rows(range).values);
            taken(slots, 0).iter_mut().zip(x).zip(y).for_each(|((output, x), y)| *output = x * y);
        });
        Ok(())
    }

    fn backward(&self, mut back: Back<'_, '_>) -> Result<()> {
        let upstream = View { shape: back.output.shape, values: back.upstream };
        let (x, y) = (back.inputs[0], back.inputs[1]);
        let mut slots = [back.take(0), back.take(1)];
        by_pieces(upstream.shape.rows, &mut slots, |range, slots| {
            let upstream = upstream.rows(range.clone()).values;
            for (index, factor) in [y, x].into_iter().enumerate() {
                add_product(upstream, factor.rows(range.clone()).values, taken(slots, index));
            }
        });
        Ok(())
    }

    fn cuda(&self, call: cuda::Call<'_>) -> Result<()> {
        let factors = [call.inputs[0].values, call.inputs[1].values];
        add_product_on(call.device, factors, cuda::Sum { values: call.output, adds: false })
    }

    fn cuda_back(&self, back: cuda::Back<'_>) -> Result<()> {
        for (gradient, other) in back.gradients.iter().zip([1, 0]) {
            if let Some(gradient) = *gradient {
                add_product_on(back.device, [back.upstream, back.inputs[other].values], gradient)?;
            }
        }
        Ok(())
    }
}

struct AddRow;

impl Op for AddRow {
    fn name(&self) -> &'static str {
        "add row"
    }

    fn shape(&self, inputs: &[Shape]) -> Result<Shape> {
        let [x, row] = expect_inputs(self.name(), inputs)?;
        expect_shape(self.name(), "the row", row, Shape::new(1, x.columns))?;
        Ok(x)
    }

    fn forward(&self, inputs: &[View<'_>], output: &mut [f32], _: &mut [f32]) -> Result<()> {
        let (x, row) = (inputs[0], inputs[1].values);
        by_pieces(x.shape.rows, &mut [Some(output)], |range, slots| {
            let columns = row.len().max(1);
            let x = x.rows(range).values.chunks_exact(columns);
            for (output, x) in taken(slots, 0).chunks_exact_mut(columns).zip(x) {
                output.iter_mut().zip(x).zip(row).for_each(|((output, x), row)| *output = x + row);
            }
        });
        Ok(())
    }

    fn backward(&self, mut back: Back<'_, '_>) -> Result<()> {
        let upstream = View { shape: back.output.shape, values: back.upstream };
        if let Some(x) = back.take(0) {
            add_scaled_matrix(upstream, 1.0, x);
        }
        if let Some(row) = back.take(1) {
            column_sums(upstream.values, upstream.shape.columns, row);
        }
        Ok(())
    }

    fn cuda(&self, call: cuda::Call<'_>) -> Result<()> {
        let (x, row) = (call.inputs[0], call.inputs[1]);
        let arguments = [x.values.into(), row.values.into(), x.shape.columns.into(), call.output.into()];
        call.device.each(&POINTWISE, "with_row", call.output.len(), &arguments)
    }

    fn cuda_back(&self, back: cuda::Back<'_>) -> Result<()> {
        let Shape { rows, columns } = back.output.shape;
        if let Some(x) = back.gradients[0] {
            add_scaled_on(back.device, back.upstream, 1.0, x)?;
        }
        match back.gradients[1] {
            Some(row) => column_sums_on(back.device, (back.upstream, columns, 0..columns), rows, row),
            None => Ok(()),
        }
    }
}

impl Tape<'_> {
    /// `x + y`.
    pub fn add(&mut self, x: Var, y: Var) -> Result<Var> {
        self.apply(Combination { name: "add", factors: vec![1.0, 1.0] }, &[x, y])
    }

    /// `x - y`.
    pub fn subtract(&mut self, x: Var, y: Var) -> Result<Var> {
        self.apply(Combination { name: "subtract", factors: vec![1.0, -1.0] }, &[x, y])
    }

    /// `x * y`, number by number.
    pub fn multiply(&mut self, x: Var, y: Var) -> Result<Var> {
        self.apply(Multiply, &[x, y])
    }

    /// `factor * x`.
    pub fn scale(&mut self, x: Var, factor: f32) -> Result<Var> {
        self.apply(Combination { name: "scale", factors: vec![factor] }, &[x])
    }

    /// The sum of several matrices.
    pub fn add_all(&mut self, all: &[Var]) -> Result<Var> {
        self.apply(Combination { name: "add all", factors: vec![1.0; all.len()] }, all)
    }

    /// `x` with the one row `row` added to every row.
    pub fn add_row(&mut self, x: Var, row: Var) -> Result<Var> {
        self.apply(AddRow, &[x, row])
    }
}

#[cfg(test)]
mod tests {
    use super::super::pieces::tests::{assert_close, numbers, run, same_for_any_thread_count};
    use super::*;
    use crate::Arena;
    use crate::check::gradient;

    fn everything(tape: &mut Tape<'_>, vars: &[Var]) -> Result<Var> {
        let sum = tape.add(vars[0], vars[1])?;
        let difference = tape.subtract(sum, vars[2])?;
        let product = tape.multiply(difference, vars[1])?;
        let row = tape.add_row(product, vars[3])?;
        let scaled = tape.scale(row, -0.7)?;
        tape.add_all(&[scaled, vars[0], vars[2], scaled])
    }

    fn inputs(rows: usize, columns: usize) -> [(Shape, Vec<f32>); 4] {
        let of = |rows, salt| numbers(rows, columns, salt);
        [of(rows, 1), of(rows, 2), of(rows, 3), of(1, 4)]
    }

    #[test]
    fn gradients_and_values() {
        for (rows, columns) in [(1, 1), (1, 5), (4, 1), (3, 7)] {
            let inputs = inputs(rows, columns);
            gradient(&inputs, 1e-2, everything).unwrap();
            let expected = (0..rows * columns).map(|at| {
                let [a, b, c] = [0, 1, 2].map(|which| f64::from(inputs[which].1[at]));
                let row = f64::from(inputs[3].1[at % columns]);
                2.0 * -0.7 * ((a + b - c) * b + row) + a + c
            });
            assert_close(&run(&inputs, &everything)[0], expected, "everything");
        }
        let square = |tape: &mut Tape<'_>, vars: &[Var]| tape.multiply(vars[0], vars[0]);
        gradient(&[numbers(3, 3, 1)], 1e-2, square).unwrap();
    }

    #[test]
    fn any_thread_count_gives_the_same() {
        same_for_any_thread_count(&inputs(5003, 3), everything);
    }

    #[test]
    fn wrong_shapes() {
        let arena = Arena::new();
        let mut tape = Tape::new(&arena);
        let (a, b) = (tape.filled(Shape::new(2, 3), 1.0), tape.filled(Shape::new(3, 2), 1.0));
        assert_eq!(tape.add(a, b).unwrap_err().to_string(), "add: input 1 is 3 x 2, expected 2 x 3");
        assert!(tape.subtract(a, b).is_err() && tape.multiply(a, b).is_err());
        assert_eq!(tape.add_row(a, b).unwrap_err().to_string(), "add row: the row is 3 x 2, expected 1 x 3");
        assert_eq!(tape.add_all(&[]).unwrap_err().to_string(), "add all: no inputs were given");
        let empty = tape.filled(Shape::new(0, 3), 1.0);
        assert!(tape.add(empty, empty).is_ok());
    }
}
