//! Work on all rows of a matrix, in pieces of a fixed number of rows.
//!
//! A matrix of at most [`ROWS`] rows is one piece, done by the calling thread: that is what a block of a sum
//! by rows is made of. More rows are split between threads, in pieces that depend on the number of rows
//! alone, and sums over pieces are taken in order: the result does not depend on how many threads there are.

use std::ops::Range;

use rayon::prelude::*;

use super::ROWS;

/// Buffers to be written to, each with as many numbers for one row as for another; `None` where none is
/// wanted.
pub(crate) type Slots<'a, 'b> = &'a mut [Option<&'b mut [f32]>];

/// Runs `body` for every piece of rows with the rows of the buffers that belong to it; the sum of its
/// results.
pub(crate) fn sum_by_pieces<'b>(
    rows: usize,
    buffers: Slots<'_, 'b>,
    body: impl Fn(Range<usize>, Slots<'_, 'b>) -> f64 + Sync,
) -> f64 {
    if rows <= ROWS {
        return if rows == 0 { 0.0 } else { body(0..rows, buffers) };
    }
    let mut pieces: Vec<Vec<Option<&mut [f32]>>> =
        (0..rows.div_ceil(ROWS)).map(|_| Vec::with_capacity(buffers.len())).collect();
    for buffer in buffers {
        let mut rest = buffer.take();
        let columns = rest.as_ref().map_or(0, |all| all.len() / rows);
        for (number, slots) in pieces.iter_mut().enumerate() {
            let count = ROWS.min(rows - number * ROWS);
            slots.push(rest.take().map(|all| {
                let (mine, others) = all.split_at_mut(count * columns);
                rest = Some(others);
                mine
            }));
        }
    }
    let sums: Vec<f64> = pieces
        .into_par_iter()
        .enumerate()
        .map(|(number, mut slots)| body(number * ROWS..((number + 1) * ROWS).min(rows), &mut slots))
        .collect();
    sums.iter().sum()
}

/// Runs `body` for every piece of rows with the rows of the buffers that belong to it.
pub(crate) fn by_pieces<'b>(
    rows: usize,
    buffers: Slots<'_, 'b>,
    body: impl Fn(Range<usize>, Slots<'_, 'b>) + Sync,
) {
    sum_by_pieces(rows, buffers, |range, slots| {
        body(range, slots);
        0.0
    });
}

/// The buffer at `index` of a piece, which the caller put there; empty if it did not.
pub(crate) fn taken<'b>(slots: Slots<'_, 'b>, index: usize) -> &'b mut [f32] {
    slots[index].take().unwrap_or_default()
}

/// The sum of `term` over indices below `length`, in double precision and in eight lanes, so that it
/// vectorises.
#[inline(always)]
pub(crate) fn summed(length: usize, term: impl Fn(usize) -> f64) -> f64 {
    let mut lanes = [0.0; 8];
    let whole = length / 8 * 8;
    for start in (0..whole).step_by(8) {
        for (lane, sum) in lanes.iter_mut().enumerate() {
            *sum += term(start + lane);
        }
    }
    lanes.iter().sum::<f64>() + (whole..length).map(term).sum::<f64>()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::{Arena, Gradients, Result, Shape, Tape, Var};

    /// Fixed numbers between -1 and 1.
    pub(crate) fn numbers(rows: usize, columns: usize, salt: u32) -> (Shape, Vec<f32>) {
        let value = |i: u32| {
            let mixed =
                (i ^ salt.wrapping_mul(0x9E37_79B9)).wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
            ((mixed ^ (mixed >> 15)).wrapping_mul(277_803_737) >> 12) as f32 / 524_288.0 - 1.0
        };
        (Shape::new(rows, columns), (0..(rows * columns) as u32).map(value).collect())
    }

    /// The value of `build`, and the gradients of all inputs for the value itself as the gradient of the
    /// output.
    pub(crate) fn run(
        inputs: &[(Shape, Vec<f32>)],
        build: &dyn Fn(&mut Tape<'_>, &[Var]) -> Result<Var>,
    ) -> Vec<Vec<f32>> {
        let arena = Arena::new();
        let mut tape = Tape::new(&arena);
        let vars: Vec<Var> =
            inputs.iter().map(|(shape, values)| tape.parameter(*shape, values).unwrap()).collect();
        let output = build(&mut tape, &vars).unwrap();
        let gradients: Gradients<'_> = tape.backward_with(output, tape.value(output).unwrap()).unwrap();
        let mut all = vec![tape.value(output).unwrap().to_vec()];
        all.extend(vars.iter().map(|&var| gradients.read(var).unwrap().unwrap_or_default().to_vec()));
        all
    }

    /// Fails unless values and gradients have the same bits for several thread counts.
    pub(crate) fn same_for_any_thread_count(
        inputs: &[(Shape, Vec<f32>)],
        build: impl Fn(&mut Tape<'_>, &[Var]) -> Result<Var> + Sync,
    ) {
        let bits = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let all = pool.install(|| run(inputs, &build));
            all.into_iter()
                .map(|values| values.into_iter().map(f32::to_bits).collect())
                .collect::<Vec<Vec<u32>>>()
        };
        let one = bits(1);
        assert!(one.iter().flatten().all(|&bits| f32::from_bits(bits).is_finite()));
        assert!(bits(2) == one && bits(5) == one, "the result depends on the number of threads");
    }

    /// Fails unless two ways to compute the same give the same values and gradients, up to rounding.
    pub(crate) fn equal(
        inputs: &[(Shape, Vec<f32>)],
        one: impl Fn(&mut Tape<'_>, &[Var]) -> Result<Var>,
        other: impl Fn(&mut Tape<'_>, &[Var]) -> Result<Var>,
    ) {
        let (found, expected) = (run(inputs, &one), run(inputs, &other));
        for (which, (found, expected)) in found.iter().zip(&expected).enumerate() {
            assert_close(found, expected.iter().map(|&value| f64::from(value)), &format!("result {which}"));
        }
    }

    /// Fails unless numbers are those expected, to a relative 1e-5.
    pub(crate) fn assert_close(found: &[f32], expected: impl IntoIterator<Item = f64>, what: &str) {
        let expected: Vec<f64> = expected.into_iter().collect();
        assert_eq!(found.len(), expected.len(), "{what}");
        let largest = expected.iter().fold(1e-3f64, |largest, value| largest.max(value.abs()));
        for (at, (&found, expected)) in found.iter().zip(expected).enumerate() {
            let close = (f64::from(found) - expected).abs() <= 1e-5 * largest;
            assert!(close, "{what}, number {at}: {found}, expected {expected}");
        }
    }

    #[test]
    fn every_row_is_visited_once_and_sums_are_in_order() {
        for rows in [0, 1, ROWS, ROWS + 1, 5 * ROWS - 1] {
            let mut buffer = vec![0.0; rows * 3];
            let sum = sum_by_pieces(rows, &mut [None, Some(&mut buffer)], |range, slots| {
                assert!(slots[0].is_none());
                let mine = taken(slots, 1);
                assert_eq!(mine.len(), range.len() * 3);
                mine.iter_mut().for_each(|value| *value += 1.0);
                range.map(|row| row as f64).sum()
            });
            assert!(buffer.iter().all(|&value| value == 1.0));
            assert_eq!(sum, (0..rows).map(|row| row as f64).sum::<f64>());
        }
        assert_eq!(summed(19, |index| index as f64), 171.0);
    }
}
