//! Inverted dropout (Srivastava et al., 2014): some numbers become zero, the others are scaled up to keep the
//! mean.
//!
//! Whether a number stays is a function of the seed and of its place, so the backward pass computes it again
//! instead of storing it, and the mask does not depend on threads or on how rows are split into blocks.

use super::pieces::{by_pieces, taken};
use super::pointwise::POINTWISE;
use crate::cuda::{self, Argument};
use crate::error::{Error, Result, expect_inputs};
use crate::op::{Back, Op, Shape, View};
use crate::simd::{fma, simd};
use crate::tape::{Tape, Var};

/// Mixes the bits of a number: the finaliser of SplitMix64 (Steele, Lea and Flood, 2014).
#[inline(always)]
fn mixed(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

/// What decides about a number: stays if its hash is below `bound`, multiplied by `factor`.
#[derive(Clone, Copy)]
struct Mask {
    key: u64,
    bound: u64,
    factor: f32,
}

#[inline(always)]
fn masked_body<const FUSED: bool>(x: &[f32], mask: Mask, first: u64, output: &mut [f32]) {
    for ((index, output), &x) in (first..).zip(output).zip(x) {
        let hash = mixed(mask.key.wrapping_add(index.wrapping_mul(0x9E37_79B9_7F4A_7C15))) >> 32;
        let factor = if hash < mask.bound { mask.factor } else { 0.0 };
        *output = fma::<FUSED>(factor, x, *output);
    }
}

simd! {
    /// `output += mask * x`, where the first number of `x` has the place `first`.
    fn masked(x: &[f32], mask: Mask, first: u64, output: &mut [f32]) = masked_body;
}

/// Which rows of a larger matrix the rows of a part are: what decides about a number is its place in the
/// larger one.
#[derive(Clone, Debug)]
pub enum Places<'a> {
    /// Those from this one on.
    From(usize),
    /// These, in order.
    Rows(&'a [u32]),
}

struct Dropout {
    mask: Mask,
    first: usize,
    rows: Option<Vec<u32>>,
}

impl Dropout {
    fn add(&self, x: View<'_>, output: Option<&mut [f32]>, start_at_zero: bool) {
        let columns = x.shape.columns;
        by_pieces(x.shape.rows, &mut [output], |range, slots| {
            let output = taken(slots, 0);
            if start_at_zero {
                output.fill(0.0);
            }
            let x = x.rows(range.clone()).values;
            match &self.rows {
                None => masked(x, self.mask, ((self.first + range.start) * columns) as u64, output),
                Some(rows) => {
                    let numbers = x.chunks_exact(columns.max(1)).zip(output.chunks_exact_mut(columns.max(1)));
                    for ((x, output), &row) in numbers.zip(&rows[range]) {
                        masked(x, self.mask, row as u64 * columns as u64, output);
                    }
                }
            }
        });
    }

    /// The same on a GPU: a number stays there if it stays here.
    fn add_on(
        &self,
        device: &cuda::Device,
        x: cuda::Slice<'_>,
        columns: usize,
        output: cuda::Sum<'_>,
    ) -> Result<()> {
        let rows = self.rows.as_ref().map(|rows| device.upload(rows)).transpose()?;
        let arguments = [
            columns.into(),
            x.into(),
            // The bits are what counts: kernels take them as numbers without a sign.
            Argument::Long(self.mask.key as i64),
            Argument::Long(self.mask.bound as i64),
            self.mask.factor.into(),
            self.first.into(),
            rows.as_ref().map(cuda::Memory::all).into(),
            output.values.into(),
            output.adds.into(),
        ];
        device.each(&POINTWISE, "dropped", x.len(), &arguments)
    }
}

impl Op for Dropout {
    fn name(&self) -> &'static str {
        "dropout"
    }

    fn shape(&self, inputs: &[Shape]) -> Result<Shape> {
        let [x] = expect_inputs(self.name(), inputs)?;
        if let Some(rows) = self.rows.as_ref().filter(|rows| rows.len() != x.rows) {
            return Err(Error::shape(
                self.name(),
                format!("the places of {} rows were given for {x}", rows.len()),
            ));
        }
        Ok(x)
    }

    fn forward(&self, inputs: &[View<'_>], output: &mut [f32], _: &mut [f32]) -> Result<()> {
        self.add(inputs[0], Some(output), true);
        Ok(())
    }

    fn backward(&self, mut back: Back<'_, '_>) -> Result<()> {
        let upstream = View { shape: back.output.shape, values: back.upstream };
        self.add(upstream, back.take(0), false);
        Ok(())
    }

    fn cuda(&self, call: cuda::Call<'_>) -> Result<()> {
        let (x, output) = (call.inputs[0], cuda::Sum { values: call.output, adds: false });
        self.add_on(call.device, x.values, x.shape.columns, output)
    }

    fn cuda_back(&self, back: cuda::Back<'_>) -> Result<()> {
        match back.gradients[0] {
            Some(x) => self.add_on(back.device, back.upstream, back.output.shape.columns, x),
            None => Ok(()),
        }
    }
}

impl Tape<'_> {
    /// Every number is zero with probability `rate`, and multiplied by `1 / (1 - rate)` otherwise.
    ///
    /// `seed` is to change from step to step and from layer to layer. A rate of zero gives `x` itself.
    pub fn dropout(&mut self, x: Var, rate: f32, seed: u64, places: Places<'_>) -> Result<Var> {
        if !(0.0..1.0).contains(&rate) {
            let problem = format!("{rate} was given, expected at least 0 and less than 1");
            return Err(Error::settings("the rate of a dropout", problem));
        }
        if rate == 0.0 {
            return Ok(x);
        }
        let bound = ((1.0 - f64::from(rate)) * 4_294_967_296.0) as u64;
        let mask = Mask { key: mixed(seed ^ 0x6B79_6D6F), bound, factor: 1.0 / (1.0 - rate) };
        let (first, rows) = match places {
            Places::From(first) => (first, None),
            Places::Rows(rows) => (0, Some(rows.to_vec())),
        };
        self.apply(Dropout { mask, first, rows }, &[x])
    }
}

#[cfg(test)]
mod tests {
    use super::super::pieces::tests::{numbers, run, same_for_any_thread_count};
    use super::*;
    use crate::Arena;
    use crate::check::gradient;

    #[test]
    fn gradients() {
        for (rows, columns) in [(1, 1), (1, 9), (5, 1), (3, 7)] {
            let inputs = [numbers(rows, columns, 5)];
            gradient(&inputs, 1e-2, |tape, vars| tape.dropout(vars[0], 0.4, 7, Places::From(0))).unwrap();
        }
        same_for_any_thread_count(&[numbers(3000, 7, 1)], |tape, vars| {
            tape.dropout(vars[0], 0.5, 1, Places::From(0))
        });
    }

    #[test]
    fn the_share_is_the_rate_and_blocks_see_the_mask_of_the_whole() {
        let ones = (Shape::new(10_000, 10), vec![1.0; 100_000]);
        let drop = |rate, seed, rows: std::ops::Range<usize>| {
            let part = [(Shape::new(rows.len(), 10), ones.1[..rows.len() * 10].to_vec())];
            run(&part, &|tape, vars| tape.dropout(vars[0], rate, seed, Places::From(rows.start)))
                .swap_remove(0)
        };
        for rate in [0.1f32, 0.5, 0.9] {
            let found = drop(rate, 3, 0..10_000);
            let zeros = found.iter().filter(|&&value| value == 0.0).count() as f32 / 1e5;
            assert!((zeros - rate).abs() < 0.01, "{zeros} of a rate of {rate}");
            assert!(found.iter().all(|&value| value == 0.0 || value == 1.0 / (1.0 - rate)));
            assert_eq!(drop(rate, 3, 300..500), found[3000..5000]);
            assert_ne!(drop(rate, 4, 0..10_000), found);
            let some = [(Shape::new(3, 10), vec![1.0; 30])];
            let rows = [7, 4000, 12];
            let part =
                run(&some, &|tape, vars| tape.dropout(vars[0], rate, 3, Places::Rows(&rows))).swap_remove(0);
            let expected: Vec<f32> =
                rows.iter().flat_map(|&row| found[row as usize * 10..][..10].to_vec()).collect();
            assert_eq!(part, expected);
        }
        assert_eq!(drop(0.0, 3, 0..10), vec![1.0; 100]);
    }

    #[test]
    fn wrong_rates() {
        let arena = Arena::new();
        let mut tape = Tape::new(&arena);
        let x = tape.filled(Shape::new(1, 1), 1.0);
        assert!(
            [-0.1, 1.0, f32::NAN].into_iter().all(|rate| tape.dropout(x, rate, 1, Places::From(0)).is_err())
        );
    }
}
