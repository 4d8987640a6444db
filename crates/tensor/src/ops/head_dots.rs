//! The products of each head's columns with a vector of its own: the halves of the scores of graph attention.

use rayon::prelude::*;

use super::ROWS;
use super::dense::shares_of_columns;
use crate::cuda::{self, Launch, Source};
use crate::error::{Error, Result, expect_inputs};
use crate::op::{Back, Op, Shape, View};
use crate::tape::{Tape, Var};

/// The kernels.
pub(crate) const HEAD_DOTS: Source =
    Source { name: "head_dots", text: include_str!("head_dots.cu"), samples: &[&[]] };

struct HeadDots;

impl Op for HeadDots {
    fn name(&self) -> &'static str {
        "head dots"
    }

    fn shape(&self, inputs: &[Shape]) -> Result<Shape> {
        let [x, vectors] = expect_inputs(self.name(), inputs)?;
        if x.columns != vectors.len() {
            let problem = format!(
                "the rows have {} columns, expected {} heads of {}",
                x.columns, vectors.rows, vectors.columns
            );
            return Err(Error::shape(self.name(), problem));
        }
        Ok(Shape::new(x.rows, vectors.rows))
    }

    fn forward(&self, inputs: &[View<'_>], output: &mut [f32], _: &mut [f32]) -> Result<()> {
        let (x, vectors) = (inputs[0], inputs[1]);
        let (columns, heads, dimension) = (x.shape.columns, vectors.shape.rows, vectors.shape.columns);
        if x.values.is_empty() {
            output.fill(0.0);
            return Ok(());
        }
        let piece = |(output, x): (&mut [f32], &[f32])| {
            for (output, x) in output.chunks_exact_mut(heads).zip(x.chunks_exact(columns)) {
                for (head, output) in output.iter_mut().enumerate() {
                    let mine = head * dimension..(head + 1) * dimension;
                    *output = x[mine.clone()].iter().zip(&vectors.values[mine]).map(|(x, v)| x * v).sum();
                }
            }
        };
        output.par_chunks_mut(ROWS * heads).zip(x.values.par_chunks(ROWS * columns)).for_each(piece);
        Ok(())
    }

    fn backward(&self, mut back: Back<'_, '_>) -> Result<()> {
        let (x, vectors) = (back.inputs[0], back.inputs[1]);
        let (columns, heads, dimension) = (x.shape.columns, vectors.shape.rows, vectors.shape.columns);
        if x.values.is_empty() {
            return Ok(());
        }
        if let Some(gradient) = back.take(0) {
            let piece = |(gradient, upstream): (&mut [f32], &[f32])| {
                for (gradient, upstream) in
                    gradient.chunks_exact_mut(columns).zip(upstream.chunks_exact(heads))
                {
                    for (head, &upstream) in upstream.iter().enumerate() {
                        let mine = head * dimension..(head + 1) * dimension;
                        let vector = &vectors.values[mine.clone()];
                        gradient[mine].iter_mut().zip(vector).for_each(|(sum, v)| *sum += upstream * v);
                    }
                }
            };
            gradient
                .par_chunks_mut(ROWS * columns)
                .zip(back.upstream.par_chunks(ROWS * heads))
                .for_each(piece);
        }
        if let Some(gradient) = back.take(1) {
            // Pieces of rows are summed by themselves and added in order, whatever the number of threads.
            let pieces =
                x.values.par_chunks(16 * ROWS * columns).zip(back.upstream.par_chunks(16 * ROWS * heads));
            let sums: Vec<Vec<f32>> = pieces
                .map(|(x, upstream)| {
                    let mut sum = vec![0.0; columns];
                    for (x, upstream) in x.chunks_exact(columns).zip(upstream.chunks_exact(heads)) {
                        for (head, &upstream) in upstream.iter().enumerate() {
                            let mine = head * dimension..(head + 1) * dimension;
                            sum[mine.clone()]
                                .iter_mut()
                                .zip(&x[mine])
                                .for_each(|(sum, x)| *sum += upstream * x);
                        }
                    }
                    sum
                })
                .collect();
            for sum in sums {
                gradient.iter_mut().zip(sum).for_each(|(total, sum)| *total += sum);
            }
        }
        Ok(())
    }

    fn cuda(&self, call: cuda::Call<'_>) -> Result<()> {
        let (x, vectors) = (call.inputs[0], call.inputs[1]);
        let Shape { rows: heads, columns: dimension } = vectors.shape;
        let count = x.shape.rows * heads;
        let arguments = [
            count.into(),
            x.values.into(),
            vectors.values.into(),
            (heads as i32).into(),
            (dimension as i32).into(),
            call.output.into(),
        ];
        call.device.run(&HEAD_DOTS, "head_dots", &[], Launch::each(8 * count), &arguments)
    }

    fn cuda_back(&self, back: cuda::Back<'_>) -> Result<()> {
        let (device, x, vectors) = (back.device, back.inputs[0], back.inputs[1]);
        let Shape { rows, columns } = x.shape;
        let (heads, dimension) = (vectors.shape.rows as i32, vectors.shape.columns as i32);
        if let Some(gradient) = back.gradients[0] {
            let arguments = [
                back.upstream.into(),
                vectors.values.into(),
                heads.into(),
                dimension.into(),
                gradient.values.into(),
                gradient.adds.into(),
            ];
            device.each(&HEAD_DOTS, "head_dots_rows", rows * columns, &arguments)?;
        }
        let Some(gradient) = back.gradients[1] else { return Ok(()) };
        if rows == 0 {
            return if gradient.adds { Ok(()) } else { device.clear(gradient.values) };
        }
        let shares = rows.div_ceil(64).min(512);
        let parts = device.take(shares * columns)?;
        let launch = Launch { blocks: [shares, columns.div_ceil(32)], threads: 256, shared: 0 };
        let arguments = [
            rows.into(),
            x.values.into(),
            back.upstream.into(),
            heads.into(),
            dimension.into(),
            parts.all().into(),
        ];
        device.run(&HEAD_DOTS, "head_dots_vectors", &[], launch, &arguments)?;
        shares_of_columns(device, (parts.all(), columns), shares, gradient)
    }
}

impl Tape<'_> {
    /// For `x` of heads side by side and a row of `vectors` for each head: the product of each head with its
    /// vector.
    pub fn head_dots(&mut self, x: Var, vectors: Var) -> Result<Var> {
        self.apply(HeadDots, &[x, vectors])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::gradient;

    #[test]
    fn products_and_gradients() {
        let numbers =
            |count: usize, step: f32| (0..count).map(|i| (i as f32 * step).sin()).collect::<Vec<f32>>();
        for (rows, heads, dimension) in [(5, 2, 3), (1, 1, 1), (4, 3, 1), (0, 2, 2)] {
            let inputs = [
                (Shape::new(rows, heads * dimension), numbers(rows * heads * dimension, 0.7)),
                (Shape::new(heads, dimension), numbers(heads * dimension, 1.3)),
            ];
            gradient(&inputs, 1e-2, |tape, vars| tape.head_dots(vars[0], vars[1])).unwrap();
        }
        let arena = crate::Arena::new();
        let mut tape = Tape::new(&arena);
        let (x, v) = (vec![1.0, 2.0, 3.0, 4.0], vec![1.0, 10.0, 100.0, 1000.0]);
        let x = tape.copied(Shape::new(1, 4), &x).unwrap();
        let v = tape.copied(Shape::new(2, 2), &v).unwrap();
        let y = tape.head_dots(x, v).unwrap();
        assert_eq!(tape.value(y).unwrap(), [21.0, 4300.0]);
        let wide = tape.filled(Shape::new(1, 5), 1.0);
        assert!(tape.head_dots(wide, v).unwrap_err().to_string().contains("expected 2 heads of 2"));
    }
}
