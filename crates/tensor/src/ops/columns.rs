//! Columns of several matrices beside each other, and some columns of one.

use std::ops::Range;

use super::pieces::{by_pieces, taken};
use super::pointwise::{POINTWISE, copy_columns_on};
use crate::cuda;
use crate::error::{Error, Result, expect_input, expect_inputs};
use crate::op::{Back, Op, Shape, View};
use crate::tape::{Tape, Var};

/// The rows of a buffer, of `columns` numbers each.
fn rows_of(values: &[f32], columns: usize) -> impl Iterator<Item = &[f32]> {
    values.chunks_exact(columns.max(1))
}

struct Concatenate;

impl Op for Concatenate {
    fn name(&self) -> &'static str {
        "concatenate columns"
    }

    fn shape(&self, inputs: &[Shape]) -> Result<Shape> {
        let Some(first) = inputs.first() else {
            return Err(Error::shape(self.name(), "no inputs were given"));
        };
        for (index, &shape) in inputs.iter().enumerate() {
            let expected = Shape::new(first.rows, shape.columns);
            expect_input(self.name(), index, shape, expected)?;
        }
        Ok(Shape::new(first.rows, inputs.iter().map(|shape| shape.columns).sum()))
    }

    fn forward(&self, inputs: &[View<'_>], output: &mut [f32], _: &mut [f32]) -> Result<()> {
        let stride: usize = inputs.iter().map(|input| input.shape.columns).sum();
        by_pieces(inputs[0].shape.rows, &mut [Some(output)], |range, slots| {
            let output = taken(slots, 0);
            let mut start = 0;
            for input in inputs {
                let columns = input.shape.columns;
                let from = rows_of(input.rows(range.clone()).values, columns);
                for (to, from) in output.chunks_exact_mut(stride.max(1)).zip(from) {
                    to[start..start + columns].copy_from_slice(from);
                }
                start += columns;
            }
        });
        Ok(())
    }

    fn backward(&self, back: Back<'_, '_>) -> Result<()> {
        let upstream = View { shape: back.output.shape, values: back.upstream };
        let inputs = back.inputs;
        by_pieces(upstream.shape.rows, back.gradients, |range, slots| {
            let mut start = 0;
            for (slot, input) in slots.iter_mut().zip(inputs) {
                let columns = input.shape.columns;
                let to = slot.take().unwrap_or_default().chunks_exact_mut(columns.max(1));
                for (to, from) in to.zip(rows_of(upstream.rows(range.clone()).values, upstream.shape.columns))
                {
                    let from = &from[start..start + columns];
                    to.iter_mut().zip(from).for_each(|(sum, value)| *sum += value);
                }
                start += columns;
            }
        });
        Ok(())
    }

    fn cuda(&self, call: cuda::Call<'_>) -> Result<()> {
        let stride = call.inputs.iter().map(|input| input.shape.columns).sum();
        let mut start = 0;
        for input in call.inputs {
            let Shape { rows, columns } = input.shape;
            let (from, to) = ((input.values, columns, 0), (call.output, stride, start));
            copy_columns_on(call.device, (rows, columns), from, to, false)?;
            start += columns;
        }
        Ok(())
    }

    fn cuda_back(&self, back: cuda::Back<'_>) -> Result<()> {
        let stride = back.output.shape.columns;
        let mut start = 0;
        for (input, gradient) in back.inputs.iter().zip(back.gradients) {
            let Shape { rows, columns } = input.shape;
            if let Some(gradient) = gradient {
                let (from, to) = ((back.upstream, stride, start), (gradient.values, columns, 0));
                copy_columns_on(back.device, (rows, columns), from, to, gradient.adds)?;
            }
            start += columns;
        }
        Ok(())
    }
}

struct Slice {
    range: Range<usize>,
}

impl Op for Slice {
    fn name(&self) -> &'static str {
        "slice columns"
    }

    fn shape(&self, inputs: &[Shape]) -> Result<Shape> {
        let [x] = expect_inputs(self.name(), inputs)?;
        if self.range.start > self.range.end || self.range.end > x.columns {
            let problem = format!("columns {:?} were asked for of {x}", self.range);
            return Err(Error::shape(self.name(), problem));
        }
        Ok(Shape::new(x.rows, self.range.len()))
    }

    fn waits(&self) -> bool {
        true
    }

    fn forward(&self, inputs: &[View<'_>], output: &mut [f32], _: &mut [f32]) -> Result<()> {
        let x = inputs[0];
        by_pieces(x.shape.rows, &mut [Some(output)], |range, slots| {
            let to = taken(slots, 0).chunks_exact_mut(self.range.len().max(1));
            for (to, from) in to.zip(rows_of(x.rows(range).values, x.shape.columns)) {
                to.copy_from_slice(&from[self.range.clone()]);
            }
        });
        Ok(())
    }

    fn backward(&self, mut back: Back<'_, '_>) -> Result<()> {
        let upstream = View { shape: back.output.shape, values: back.upstream };
        let columns = back.inputs[0].shape.columns;
        by_pieces(upstream.shape.rows, &mut [back.take(0)], |range, slots| {
            let to = taken(slots, 0).chunks_exact_mut(columns.max(1));
            for (to, from) in to.zip(rows_of(upstream.rows(range).values, upstream.shape.columns)) {
                to[self.range.clone()].iter_mut().zip(from).for_each(|(sum, value)| *sum += value);
            }
        });
        Ok(())
    }

    fn cuda(&self, call: cuda::Call<'_>) -> Result<()> {
        let (x, width) = (call.inputs[0], self.range.len());
        let from = (x.values, x.shape.columns, self.range.start);
        copy_columns_on(call.device, (x.shape.rows, width), from, (call.output, width, 0), false)
    }

    fn cuda_back(&self, back: cuda::Back<'_>) -> Result<()> {
        let Some(x) = back.gradients[0] else { return Ok(()) };
        let columns = back.inputs[0].shape.columns;
        let arguments = [
            columns.into(),
            back.upstream.into(),
            self.range.len().into(),
            self.range.start.into(),
            x.values.into(),
            x.adds.into(),
        ];
        back.device.each(&POINTWISE, "widen_columns", x.values.len(), &arguments)
    }
}

impl Tape<'_> {
    /// The columns of several matrices beside each other.
    pub fn concatenate_columns(&mut self, all: &[Var]) -> Result<Var> {
        self.apply(Concatenate, all)
    }

    /// Some columns of a matrix.
    pub fn slice_columns(&mut self, x: Var, range: Range<usize>) -> Result<Var> {
        self.apply(Slice { range }, &[x])
    }
}

#[cfg(test)]
mod tests {
    use super::super::pieces::tests::{numbers, run, same_for_any_thread_count};
    use super::*;
    use crate::Arena;
    use crate::check::gradient;

    fn both(tape: &mut Tape<'_>, vars: &[Var]) -> Result<Var> {
        let all = tape.concatenate_columns(&[vars[0], vars[1], vars[0]])?;
        tape.slice_columns(all, 1..tape.shape(all).columns - 1)
    }

    #[test]
    fn gradients_and_values() {
        for (rows, first, second) in [(1, 1, 1), (1, 3, 2), (4, 2, 5)] {
            let inputs = [numbers(rows, first, 1), numbers(rows, second, 2)];
            gradient(&inputs, 1e-2, both).unwrap();
        }
        let inputs = [(Shape::new(2, 2), vec![1.0, 2.0, 3.0, 4.0]), (Shape::new(2, 1), vec![5.0, 6.0])];
        assert_eq!(run(&inputs, &both)[0], [2.0, 5.0, 1.0, 4.0, 6.0, 3.0]);
        same_for_any_thread_count(&[numbers(2001, 3, 1), numbers(2001, 2, 2)], both);
    }

    #[test]
    fn wrong_shapes() {
        let arena = Arena::new();
        let mut tape = Tape::new(&arena);
        let (a, b) = (tape.filled(Shape::new(2, 3), 1.0), tape.filled(Shape::new(3, 2), 1.0));
        let error = tape.concatenate_columns(&[a, b]).unwrap_err().to_string();
        assert_eq!(error, "concatenate columns: input 1 is 3 x 2, expected 2 x 2");
        let error = tape.slice_columns(a, 2..4).unwrap_err().to_string();
        assert_eq!(error, "slice columns: columns 2..4 were asked for of 2 x 3");
        assert!(tape.concatenate_columns(&[]).is_err());
        let none = tape.slice_columns(a, 1..1).unwrap();
        assert_eq!(tape.concatenate_columns(&[none, a]).map(|all| tape.shape(all)), Ok(Shape::new(2, 3)));
    }
}
