//! Rows of several matrices below each other, and some rows of one: a window of snapshots as one product.

use std::ops::Range;

use rayon::prelude::*;

use super::ROWS;
use super::elementwise::add_scaled;
use super::pointwise::add_scaled_on;
use crate::cuda;
use crate::error::{Error, Result, expect_input, expect_inputs};
use crate::op::{Back, Op, Shape, View};
use crate::tape::{Tape, Var};

/// Runs `piece` for both sides, which are of the same length, in pieces of a fixed length if they are long.
fn pairwise(to: &mut [f32], from: &[f32], columns: usize, piece: impl Fn(&mut [f32], &[f32]) + Sync) {
    let length = ROWS * columns.max(1);
    if to.len() <= length {
        return piece(to, from);
    }
    to.par_chunks_mut(length).zip(from.par_chunks(length)).for_each(|(to, from)| piece(to, from));
}

struct Concatenate;

impl Op for Concatenate {
    fn name(&self) -> &'static str {
        "concatenate rows"
    }

    fn shape(&self, inputs: &[Shape]) -> Result<Shape> {
        let Some(first) = inputs.first() else {
            return Err(Error::shape(self.name(), "no inputs were given"));
        };
        for (index, &shape) in inputs.iter().enumerate() {
            let expected = Shape::new(shape.rows, first.columns);
            expect_input(self.name(), index, shape, expected)?;
        }
        Ok(Shape::new(inputs.iter().map(|shape| shape.rows).sum(), first.columns))
    }

    fn forward(&self, inputs: &[View<'_>], output: &mut [f32], _: &mut [f32]) -> Result<()> {
        let mut rest = output;
        for input in inputs {
            let (mine, others) = rest.split_at_mut(input.values.len());
            pairwise(mine, input.values, input.shape.columns, |to, from| to.copy_from_slice(from));
            rest = others;
        }
        Ok(())
    }

    fn backward(&self, mut back: Back<'_, '_>) -> Result<()> {
        let mut rest = back.upstream;
        for index in 0..back.inputs.len() {
            let (mine, others) = rest.split_at(back.inputs[index].values.len());
            if let Some(gradient) = back.take(index) {
                pairwise(gradient, mine, back.output.shape.columns, |to, from| add_scaled(from, 1.0, to));
            }
            rest = others;
        }
        Ok(())
    }

    fn cuda(&self, call: cuda::Call<'_>) -> Result<()> {
        let mut rest = call.output;
        for input in call.inputs {
            let [mine, others] = rest.split(input.values.len());
            call.device.copy(input.values, mine)?;
            rest = others;
        }
        Ok(())
    }

    fn cuda_back(&self, back: cuda::Back<'_>) -> Result<()> {
        let mut rest = back.upstream;
        for (input, gradient) in back.inputs.iter().zip(back.gradients) {
            let [mine, others] = rest.split(input.values.len());
            if let Some(gradient) = *gradient {
                add_scaled_on(back.device, mine, 1.0, gradient)?;
            }
            rest = others;
        }
        Ok(())
    }
}

struct Slice {
    range: Range<usize>,
}

impl Slice {
    /// Where the numbers of the rows are.
    fn numbers(&self, columns: usize) -> Range<usize> {
        self.range.start * columns..self.range.end * columns
    }
}

impl Op for Slice {
    fn name(&self) -> &'static str {
        "slice rows"
    }

    fn shape(&self, inputs: &[Shape]) -> Result<Shape> {
        let [x] = expect_inputs(self.name(), inputs)?;
        if self.range.start > self.range.end || self.range.end > x.rows {
            let problem = format!("rows {:?} were asked for of {x}", self.range);
            return Err(Error::shape(self.name(), problem));
        }
        Ok(Shape::new(self.range.len(), x.columns))
    }

    fn forward(&self, inputs: &[View<'_>], output: &mut [f32], _: &mut [f32]) -> Result<()> {
        let columns = inputs[0].shape.columns;
        let from = &inputs[0].values[self.numbers(columns)];
        pairwise(output, from, columns, |to, from| to.copy_from_slice(from));
        Ok(())
    }

    fn backward(&self, mut back: Back<'_, '_>) -> Result<()> {
        let columns = back.output.shape.columns;
        if let Some(gradient) = back.take(0) {
            let to = &mut gradient[self.numbers(columns)];
            pairwise(to, back.upstream, columns, |to, from| add_scaled(from, 1.0, to));
        }
        Ok(())
    }

    fn cuda(&self, call: cuda::Call<'_>) -> Result<()> {
        let x = call.inputs[0];
        call.device.copy(x.values.range(self.numbers(x.shape.columns)), call.output)
    }

    fn cuda_back(&self, back: cuda::Back<'_>) -> Result<()> {
        let Some(cuda::Sum { values, adds }) = back.gradients[0] else { return Ok(()) };
        let taken = self.numbers(back.output.shape.columns);
        if !adds {
            back.device.clear(values.range(0..taken.start))?;
            back.device.clear(values.range(taken.end..values.len()))?;
        }
        add_scaled_on(back.device, back.upstream, 1.0, cuda::Sum { values: values.range(taken), adds })
    }
}

impl Tape<'_> {
    /// The rows of several matrices below each other.
    pub fn concatenate_rows(&mut self, all: &[Var]) -> Result<Var> {
        if let Some(var) = self.stacked(all) {
            return Ok(var);
        }
        let var = self.apply(Concatenate, all)?;
        self.note_stacked(all, var);
        Ok(var)
    }

    /// Some rows of a matrix.
    pub fn slice_rows(&mut self, x: Var, range: Range<usize>) -> Result<Var> {
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
        let all = tape.concatenate_rows(&[vars[0], vars[1], vars[0]])?;
        tape.slice_rows(all, 1..tape.shape(all).rows - 1)
    }

    #[test]
    fn gradients_and_values() {
        for (columns, first, second) in [(1, 1, 1), (1, 3, 2), (4, 2, 5)] {
            gradient(&[numbers(first, columns, 1), numbers(second, columns, 2)], 1e-2, both).unwrap();
        }
        let inputs = [(Shape::new(2, 2), vec![1.0, 2.0, 3.0, 4.0]), (Shape::new(1, 2), vec![5.0, 6.0])];
        assert_eq!(run(&inputs, &both)[0], [3.0, 4.0, 5.0, 6.0, 1.0, 2.0]);
        same_for_any_thread_count(&[numbers(2001, 3, 1), numbers(1200, 3, 2)], both);
    }

    #[test]
    fn wrong_shapes() {
        let arena = Arena::new();
        let mut tape = Tape::new(&arena);
        let (a, b) = (tape.filled(Shape::new(2, 3), 1.0), tape.filled(Shape::new(3, 2), 1.0));
        let error = tape.concatenate_rows(&[a, b]).unwrap_err().to_string();
        assert_eq!(error, "concatenate rows: input 1 is 3 x 2, expected 3 x 3");
        let error = tape.slice_rows(a, 1..3).unwrap_err().to_string();
        assert_eq!(error, "slice rows: rows 1..3 were asked for of 2 x 3");
        assert!(tape.concatenate_rows(&[]).is_err());
    }
}
