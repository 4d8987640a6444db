//! Sums and means, of all numbers or over rows.
//!
//! They are taken in double precision over pieces of a fixed size, and the pieces are added in order.

use rayon::prelude::*;

use super::ROWS;
use super::pieces::{by_pieces, sum_by_pieces, summed, taken};
use crate::cuda::{self, Device, Launch, Source};
use crate::error::{Error, Result, expect_inputs};
use crate::op::{Back, Op, Shape, View};
use crate::simd::simd;
use crate::tape::{Tape, Var};

#[inline(always)]
fn sum_body<const FUSED: bool>(x: &[f32]) -> f64 {
    summed(x.len(), |index| f64::from(x[index]))
}

simd! {
    fn sum(x: &[f32]) -> f64 = sum_body;
}

/// The kernels.
pub(crate) const REDUCE: Source = Source { name: "reduce", text: include_str!("reduce.cu"), samples: &[&[]] };

/// Shares of this many numbers that blocks of a GPU sum side by side; they do not depend on the GPU.
pub(super) fn shares(count: usize) -> usize {
    count.div_ceil(2048).min(1024)
}

/// One number: the sum of what this many blocks write to the memory they are given, in double precision,
/// times a factor and divided by a whole number.
pub(super) fn total_on(
    device: &Device,
    blocks: usize,
    (factor, divisor): (f32, usize),
    output: cuda::Slice<'_>,
    write: impl FnOnce(Launch, cuda::Slice<'_>) -> Result<()>,
) -> Result<()> {
    let shares = device.take(2 * blocks)?;
    write(Launch::blocks(blocks), shares.all())?;
    let arguments = [blocks.into(), shares.all().into(), factor.into(), divisor.into(), output.into()];
    device.run(&REDUCE, "total", &[], Launch::blocks(1), &arguments)
}

/// The factor of a sum, or of a mean of this many numbers.
fn factor(op: &'static str, mean: bool, count: usize) -> Result<f64> {
    if mean && count == 0 {
        return Err(Error::shape(op, "the mean of no numbers was asked for"));
    }
    Ok(if mean { 1.0 / count as f64 } else { 1.0 })
}

struct All {
    mean: bool,
}

impl Op for All {
    fn name(&self) -> &'static str {
        if self.mean { "mean" } else { "sum" }
    }

    fn shape(&self, inputs: &[Shape]) -> Result<Shape> {
        let [x] = expect_inputs(self.name(), inputs)?;
        factor(self.name(), self.mean, x.len())?;
        Ok(Shape::SCALAR)
    }

    fn forward(&self, inputs: &[View<'_>], output: &mut [f32], _: &mut [f32]) -> Result<()> {
        let x = inputs[0];
        let total = sum_by_pieces(x.shape.rows, &mut [], |range, _| sum(x.rows(range).values));
        output[0] = (total * factor(self.name(), self.mean, x.shape.len())?) as f32;
        Ok(())
    }

    fn backward(&self, mut back: Back<'_, '_>) -> Result<()> {
        let shape = back.inputs[0].shape;
        let upstream = (f64::from(back.upstream[0]) * factor(self.name(), self.mean, shape.len())?) as f32;
        by_pieces(shape.rows, &mut [back.take(0)], |_, slots| {
            taken(slots, 0).iter_mut().for_each(|sum| *sum += upstream);
        });
        Ok(())
    }

    fn cuda(&self, call: cuda::Call<'_>) -> Result<()> {
        let (device, x) = (call.device, call.inputs[0].values);
        let divisor = if self.mean { x.len() } else { 1 };
        total_on(device, shares(x.len()), (1.0, divisor), call.output, |launch, shares| {
            device.run(&REDUCE, "sum_shares", &[], launch, &[x.len().into(), x.into(), shares.into()])
        })
    }

    fn cuda_back(&self, back: cuda::Back<'_>) -> Result<()> {
        let Some(x) = back.gradients[0] else { return Ok(()) };
        let divisor = if self.mean { x.values.len() } else { 1 };
        let arguments = [back.upstream.into(), divisor.into(), x.values.into(), x.adds.into()];
        back.device.each(&REDUCE, "spread", x.values.len(), &arguments)
    }
}

struct OverRows {
    mean: bool,
}

/// Adds every row to `sums`, column by column.
fn add_rows(rows: &[f32], sums: &mut [f64]) {
    for row in rows.chunks_exact(sums.len().max(1)) {
        sums.iter_mut().zip(row).for_each(|(sum, &value)| *sum += f64::from(value));
    }
}

impl Op for OverRows {
    fn name(&self) -> &'static str {
        if self.mean { "mean over rows" } else { "sum over rows" }
    }

    fn shape(&self, inputs: &[Shape]) -> Result<Shape> {
        let [x] = expect_inputs(self.name(), inputs)?;
        factor(self.name(), self.mean, x.rows)?;
        Ok(Shape::new(1, x.columns))
    }

    fn forward(&self, inputs: &[View<'_>], output: &mut [f32], _: &mut [f32]) -> Result<()> {
        let (x, columns) = (inputs[0], inputs[0].shape.columns);
        let mut totals = vec![0.0; columns];
        if x.shape.rows <= 4 * ROWS || columns == 0 {
            add_rows(x.values, &mut totals);
        } else {
            let pieces: Vec<Vec<f64>> = x
                .values
                .par_chunks(4 * ROWS * columns)
                .map(|rows| {
                    let mut sums = vec![0.0; columns];
                    add_rows(rows, &mut sums);
                    sums
                })
                .collect();
            for piece in pieces {
                totals.iter_mut().zip(piece).for_each(|(total, value)| *total += value);
            }
        }
        let factor = factor(self.name(), self.mean, x.shape.rows)?;
        output.iter_mut().zip(totals).for_each(|(output, total)| *output = (total * factor) as f32);
        Ok(())
    }

    fn backward(&self, mut back: Back<'_, '_>) -> Result<()> {
        let shape = back.inputs[0].shape;
        let (upstream, factor) = (back.upstream, factor(self.name(), self.mean, shape.rows)? as f32);
        by_pieces(shape.rows, &mut [back.take(0)], |_, slots| {
            for row in taken(slots, 0).chunks_exact_mut(shape.columns.max(1)) {
                row.iter_mut().zip(upstream).for_each(|(sum, value)| *sum += factor * value);
            }
        });
        Ok(())
    }

    fn cuda(&self, call: cuda::Call<'_>) -> Result<()> {
        let (device, x) = (call.device, call.inputs[0]);
        let Shape { rows, columns } = x.shape;
        let count = rows.div_ceil(64).min(512);
        let shares = device.take(2 * count * columns)?;
        let launch = Launch { blocks: [count, columns.div_ceil(32)], threads: 256, shared: 0 };
        let arguments = [rows.into(), x.values.into(), columns.into(), shares.all().into()];
        device.run(&REDUCE, "sum_rows", &[], launch, &arguments)?;
        let divisor = if self.mean { rows } else { 1 };
        let arguments =
            [columns.into(), shares.all().into(), (count as i32).into(), divisor.into(), call.output.into()];
        device.run(&REDUCE, "total_rows", &[], Launch::each(32 * columns), &arguments)
    }

    fn cuda_back(&self, back: cuda::Back<'_>) -> Result<()> {
        let Some(x) = back.gradients[0] else { return Ok(()) };
        let Shape { rows, columns } = back.inputs[0].shape;
        let divisor = if self.mean { rows } else { 1 };
        let arguments =
            [back.upstream.into(), columns.into(), divisor.into(), x.values.into(), x.adds.into()];
        back.device.each(&REDUCE, "spread_rows", x.values.len(), &arguments)
    }
}

impl Tape<'_> {
    /// The sum of all numbers.
    pub fn sum(&mut self, x: Var) -> Result<Var> {
        self.apply(All { mean: false }, &[x])
    }

    /// The mean of all numbers.
    pub fn mean(&mut self, x: Var) -> Result<Var> {
        self.apply(All { mean: true }, &[x])
    }

    /// The sum over rows: one row.
    pub fn sum_over_rows(&mut self, x: Var) -> Result<Var> {
        self.apply(OverRows { mean: false }, &[x])
    }

    /// The mean over rows: one row.
    pub fn mean_over_rows(&mut self, x: Var) -> Result<Var> {
        self.apply(OverRows { mean: true }, &[x])
    }
}

#[cfg(test)]
mod tests {
    use super::super::pieces::tests::{assert_close, numbers, run, same_for_any_thread_count};
    use super::*;
    use crate::Arena;
    use crate::check::gradient;

    type Build = fn(&mut Tape<'_>, &[Var]) -> Result<Var>;
    const ALL: [Build; 4] = [
        |tape, vars| tape.sum(vars[0]),
        |tape, vars| tape.mean(vars[0]),
        |tape, vars| tape.sum_over_rows(vars[0]),
        |tape, vars| tape.mean_over_rows(vars[0]),
    ];

    #[test]
    fn gradients_and_values() {
        for (rows, columns) in [(1, 1), (1, 9), (6, 1), (5, 3), (4001, 5)] {
            let input = [numbers(rows, columns, 3)];
            let value = |index: usize| f64::from(input[0].1[index]);
            let total: f64 = (0..rows * columns).map(value).sum();
            let sums: Vec<f64> =
                (0..columns).map(|column| (0..rows).map(|row| value(row * columns + column)).sum()).collect();
            let means = sums.iter().map(|sum| sum / rows as f64).collect();
            let expected = [vec![total], vec![total / (rows * columns) as f64], sums.clone(), means];
            for (build, expected) in ALL.into_iter().zip(expected) {
                assert_close(&run(&input, &build)[0], expected, "reduction");
                if rows < 10 {
                    gradient(&input, 1e-2, build).unwrap();
                } else {
                    same_for_any_thread_count(&input, build);
                }
            }
        }
    }

    #[test]
    fn the_mean_of_nothing_is_refused() {
        let arena = Arena::new();
        let mut tape = Tape::new(&arena);
        let empty = tape.filled(Shape::new(0, 3), 0.0);
        assert_eq!(tape.mean(empty).unwrap_err().to_string(), "mean: the mean of no numbers was asked for");
        assert!(tape.mean_over_rows(empty).is_err());
        let sum = tape.sum(empty).unwrap();
        assert_eq!(tape.value(sum).unwrap(), [0.0]);
    }
}
