//! Pairs of rows: the last layer of a perceptron over sums of two rows, as decoders of links have it.
//!
//! The number of a pair is the sum over columns of `weight * max(left + right, 0)`. It has the same bits
//! whether it is asked for alone or among those of many rows, which stand in tiles: there, a column of
//! several rows is one register, so that nothing is summed across registers and a tile stays in the cache
//! while several lefts go over it.

use crate::simd::{fma, simd};

/// Sums that columns are added to in turn. The order of additions follows from it and not from the machine's
/// instructions.
const SUMS: usize = 4;

/// Rows of a tile.
const TILE: usize = 32;

#[inline(always)]
fn weigh_pair_body<const FUSED: bool>(left: &[f32], right: &[f32], weights: &[f32]) -> f32 {
    let (left, right) = (&left[..weights.len()], &right[..weights.len()]);
    let mut sums = [0.0; SUMS];
    let mut add = |lane: usize, at: usize| {
        sums[lane] = fma::<FUSED>(weights[at], (left[at] + right[at]).max(0.0), sums[lane]);
    };
    let whole = weights.len() / SUMS * SUMS;
    for start in (0..whole).step_by(SUMS) {
        (0..SUMS).for_each(|lane| add(lane, start + lane));
    }
    (whole..weights.len()).for_each(|at| add(at - whole, at));
    (sums[0] + sums[1]) + (sums[2] + sums[3])
}

simd! {
    /// The number of one pair. It panics where a row is shorter than the weights.
    pub fn weigh_pair(left: &[f32], right: &[f32], weights: &[f32]) -> f32 = weigh_pair_body;
}

/// Adds a column of a tile to the sums of its rows.
#[inline(always)]
fn add_column<const FUSED: bool>(sums: &mut [f32; TILE], left: f32, weight: f32, column: &[f32]) {
    for row in 0..TILE {
        sums[row] = fma::<FUSED>(weight, (left + column[row]).max(0.0), sums[row]);
    }
}

/// The numbers of a left and the rows of a tile, whose columns follow each other.
#[inline(always)]
fn weigh_tile_body<const FUSED: bool>(left: &[f32], tile: &[f32], weights: &[f32], out: &mut [f32; TILE]) {
    let (width, whole) = (weights.len(), weights.len() / SUMS * SUMS);
    let (left, tile) = (&left[..width], &tile[..width * TILE]);
    let [mut a, mut b, mut c, mut d] = [[0.0f32; TILE]; SUMS];
    for at in (0..whole).step_by(SUMS) {
        let (left, weight, columns) =
            (&left[at..][..SUMS], &weights[at..][..SUMS], &tile[at * TILE..][..SUMS * TILE]);
        add_column::<FUSED>(&mut a, left[0], weight[0], &columns[..TILE]);
        add_column::<FUSED>(&mut b, left[1], weight[1], &columns[TILE..2 * TILE]);
        add_column::<FUSED>(&mut c, left[2], weight[2], &columns[2 * TILE..3 * TILE]);
        add_column::<FUSED>(&mut d, left[3], weight[3], &columns[3 * TILE..]);
    }
    let rest = |sums: &mut [f32; TILE], at: usize| {
        if at < width {
            add_column::<FUSED>(sums, left[at], weights[at], &tile[at * TILE..][..TILE]);
        }
    };
    rest(&mut a, whole);
    rest(&mut b, whole + 1);
    rest(&mut c, whole + 2);
    for row in 0..TILE {
        out[row] = (a[row] + b[row]) + (c[row] + d[row]);
    }
}

simd! {
    fn weigh_tile(left: &[f32], tile: &[f32], weights: &[f32], out: &mut [f32; TILE]) = weigh_tile_body;
}

/// Rows to be paired with others, in tiles.
#[derive(Debug)]
pub struct Tiles {
    rows: usize,
    width: usize,
    /// Tile after tile, and in a tile column after column; what is missing in the last one is zero.
    values: Vec<f32>,
}

impl Tiles {
    /// Rows of this many columns, which begin `stride` numbers from each other. It panics where a row is
    /// shorter.
    ///
    /// One thread does it: a thread that waits for it inside a lock must not be given other work meanwhile.
    pub fn new(rights: &[f32], stride: usize, width: usize) -> Tiles {
        let rows = if width == 0 { 0 } else { (rights.len() + stride - width) / stride };
        let mut values = vec![0.0; rows.div_ceil(TILE) * TILE * width];
        for (row, right) in rights.chunks(stride.max(1)).take(rows).enumerate() {
            let tile = &mut values[row / TILE * TILE * width..];
            right[..width]
                .iter()
                .enumerate()
                .for_each(|(column, value)| tile[column * TILE + row % TILE] = *value);
        }
        Tiles { rows, width, values }
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The numbers of each left and all rows, left after left.
    pub fn weigh<'l>(
        &self,
        lefts: impl Iterator<Item = &'l [f32]> + Clone,
        weights: &[f32],
        out: &mut [f32],
    ) {
        if self.width == 0 || self.rows == 0 {
            return out.fill(0.0);
        }
        for (number, tile) in self.values.chunks_exact(TILE * self.width).enumerate() {
            let start = number * TILE;
            let end = (start + TILE).min(self.rows);
            for (left, out) in lefts.clone().zip(out.chunks_exact_mut(self.rows)) {
                let mut numbers = [0.0; TILE];
                weigh_tile(left, tile, weights, &mut numbers);
                out[start..end].copy_from_slice(&numbers[..end - start]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_the_plain_sum_alone_and_in_tiles(
            width in 0usize..70,
            more in 0usize..40,
            rows in 0usize..100,
            lefts in 1usize..4,
            seed in 0u64..1000,
        ) {
            let number = |i: usize| ((i as u64 * 2_654_435_761 + seed * 97) % 1000) as f32 / 500.0 - 1.0;
            let stride = width + more.max(1);
            let left: Vec<f32> = (0..lefts * width).map(number).collect();
            let lefts = (0..lefts).map(|at| &left[at * width..][..width]);
            let weights: Vec<f32> = (0..width).map(|i| number(i + 7)).collect();
            let rights: Vec<f32> = (0..rows * stride).map(|i| number(i + 13)).collect();
            let mut out = vec![f32::NAN; lefts.len() * rows];
            Tiles::new(&rights, stride, width).weigh(lefts.clone(), &weights, &mut out);
            for (at, found) in out.iter().enumerate() {
                let (left, right) = (&left[at / rows * width..][..width], &rights[at % rows * stride..]);
                let term = |i: usize| f64::from(weights[i]) * f64::from((left[i] + right[i]).max(0.0));
                let terms = (0..width).map(term);
                let expected: f64 = terms.sum();
                prop_assert!((f64::from(*found) - expected).abs() < 1e-4, "{} and {}", found, expected);
                prop_assert_eq!(weigh_pair(left, right, &weights).to_bits(), found.to_bits());
            }
        }
    }

    #[test]
    fn the_last_row_may_end_with_its_last_column() {
        let rights: Vec<f32> = (0..7).map(|i| i as f32).collect();
        let mut out = [0.0; 2];
        Tiles::new(&rights, 4, 3).weigh([&[0.0; 3][..]].into_iter(), &[1.0; 3], &mut out);
        assert_eq!(out, [3.0, 15.0]);
    }
}
