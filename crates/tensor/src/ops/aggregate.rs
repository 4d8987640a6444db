//! Sums over the entries of each line: the kernel under most sparse operations and their gradients.
//!
//! A line's sum is held in registers, a block of columns at a time, while the rows it is made of stream past.
//! Those rows lie anywhere in memory, so what the loop waits for is their arrival: it asks for each some
//! entries before its turn, across the ends of lines, since lines are often too short to fill the wait by
//! themselves.

use std::ops::Range;

use crate::arena::Arena;
use crate::lines::{Cut, Lines, Piece, run};
use crate::simd::{fma, prefetch, prefetch_row, simd};

/// How many entries before its turn a row is asked for.
pub(super) const AHEAD: usize = 24;

/// Entries that are summed before the sum is added to that of the line: few enough that a long line is not
/// the worse rounded for it, and that the lines of the cache which two blocks of columns share are still
/// there for the second.
pub(super) const CHUNK: usize = 64;

/// Which row an entry adds to the sum of its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Take<'a> {
    /// The row of its other end.
    Other,
    /// The row that this list has for its other end.
    Named(&'a [u32]),
    /// Its own row, of a matrix with a row for each entry in the original order.
    Own,
}

/// What rows are multiplied by.
#[derive(Clone, Copy)]
pub(crate) enum Entries<'a> {
    /// One.
    Ones,
    /// These values, one for each entry in the original order and head.
    Given(&'a [f32]),
    /// The products of the factors of both ends: they take a look more at memory that stays in the cache, and
    /// save as many bytes as the places of the entries take.
    Products(&'a [f32]),
}

/// For each line, the sum over its entries of a row of `x` times the value of the entry.
#[derive(Clone, Copy)]
pub(crate) struct Sum<'a> {
    /// The lines.
    pub lines: &'a Lines,
    /// Which rows are summed.
    pub take: Take<'a>,
    /// The values of the entries.
    pub values: Entries<'a>,
    /// Into how many equal parts, each with a value of its own, a row is divided.
    pub heads: usize,
    /// Where the rows come from.
    pub x: &'a [f32],
    /// How wide they are.
    pub width: usize,
}

impl Sum<'_> {
    /// Computes the sums, or adds them.
    pub fn compute(&self, arena: &Arena, output: &mut [f32], add: bool) {
        let width = self.width;
        if width == 0 {
            return;
        }
        let mut scratch = arena.take(self.lines.segments() * width);
        let (jobs, cuts) = self.lines.deal_lines(width, output, &mut scratch);
        run(jobs, |(piece, output)| sum_piece(self, piece, output, add && !piece.is_segment));
        add_segments(cuts, &scratch, add);
        arena.give(scratch);
    }
}

impl Sum<'_> {
    /// Computes the sums of some lines, with the bits that they have among all.
    pub fn compute_lines(&self, arena: &Arena, lines: Range<usize>, output: &mut [f32]) {
        let (pieces, segments) = self.lines.pieces_of(lines);
        let mut scratch = arena.take(segments * self.width);
        let (jobs, cuts) = self.lines.deal(&pieces, self.width, output, &mut scratch);
        jobs.into_iter().for_each(|(piece, output)| sum_piece(self, piece, output, false));
        add_segments(cuts, &scratch, false);
        arena.give(scratch);
    }

    /// The same of lines that are told one by one, ascending, of those from `first` on; `output` has them
    /// all.
    pub fn compute_some(&self, arena: &Arena, lines: &[usize], first: usize, output: &mut [f32]) {
        for run in lines.chunk_by(|a, b| a + 1 == *b) {
            let (Some(&begin), Some(&last)) = (run.first(), run.last()) else { continue };
            let of_run = (begin - first) * self.width..(last + 1 - first) * self.width;
            self.compute_lines(arena, begin..last + 1, &mut output[of_run]);
        }
    }
}

/// Puts lines that were cut together from what their segments came to, in order.
pub(super) fn add_segments(cuts: Vec<Cut<'_>>, scratch: &[f32], add: bool) {
    for (row, segments) in cuts {
        if !add {
            row.fill(0.0);
        }
        let width = row.len();
        for partial in scratch[segments.start * width..segments.end * width].chunks_exact(width) {
            row.iter_mut().zip(partial).for_each(|(sum, value)| *sum += value);
        }
    }
}

simd! {
    fn sum_piece(sum: &Sum<'_>, piece: &Piece, output: &mut [f32], add: bool) = sum_piece_body;
}

/// Chooses the loop by where rows and values come from, so that the loop itself need not ask.
#[inline(always)]
fn sum_piece_body<const FUSED: bool>(sum: &Sum<'_>, piece: &Piece, output: &mut [f32], add: bool) {
    let others = sum.lines.others();
    let heads = sum.heads;
    let other = |k: usize| others[k] as usize;
    match (sum.take, sum.values, sum.lines.origins()) {
        (Take::Other, Entries::Ones, _) => {
            sum_lines::<FUSED>(sum, piece, output, add, other, |_, _, _| 1.0, |_| ());
        }
        (Take::Other, Entries::Given(values), None) => {
            let value = |_: usize, k: usize, head: usize| values[k * heads + head];
            sum_lines::<FUSED>(sum, piece, output, add, other, value, |_| ());
        }
        (Take::Other, Entries::Given(values), Some(origins)) => {
            let value = |_: usize, k: usize, head: usize| values[origins[k] as usize * heads + head];
            // Values in another order lie anywhere, too.
            let ask = |k: usize| prefetch(values, origins[k] as usize * heads);
            sum_lines::<FUSED>(sum, piece, output, add, other, value, ask);
        }
        (Take::Other, Entries::Products(factors), _) => {
            let value = |line: usize, k: usize, _: usize| factors[others[k] as usize] * factors[line];
            let ask = |k: usize| ask_for_factor(factors, others[k]);
            sum_lines::<FUSED>(sum, piece, output, add, other, value, ask);
        }
        (Take::Named(index), Entries::Products(factors), _) => {
            let value = |line: usize, k: usize, _: usize| factors[others[k] as usize] * factors[line];
            let ask = |k: usize| ask_for_factor(factors, others[k]);
            sum_lines::<FUSED>(sum, piece, output, add, |k| index[other(k)] as usize, value, ask);
        }
        (Take::Named(index), values, _) => {
            let value = |_: usize, k: usize, head: usize| match values {
                Entries::Given(values) => values[k * heads + head],
                _ => 1.0,
            };
            sum_lines::<FUSED>(sum, piece, output, add, |k| index[other(k)] as usize, value, |_| ());
        }
        (Take::Own, _, None) => sum_lines::<FUSED>(sum, piece, output, add, |k| k, |_, _, _| 1.0, |_| ()),
        (Take::Own, _, Some(origins)) => {
            sum_lines::<FUSED>(sum, piece, output, add, |k| origins[k] as usize, |_, _, _| 1.0, |_| ());
        }
    }
}

/// Factors that stay in the second-level cache need not be asked for.
const NEAR: usize = 1 << 18;

#[inline(always)]
fn ask_for_factor(factors: &[f32], of: u32) {
    if factors.len() > NEAR {
        prefetch(factors, of as usize);
    }
}

/// Sums over the lines of a piece, with what entries are made of given as functions.
#[inline(always)]
pub(super) fn sum_lines<const FUSED: bool>(
    sum: &Sum<'_>,
    piece: &Piece,
    output: &mut [f32],
    add: bool,
    row: impl Fn(usize) -> usize + Copy,
    value: impl Fn(usize, usize, usize) -> f32 + Copy,
    ask: impl Fn(usize) + Copy,
) {
    let part = sum.width / sum.heads;
    for (line, output) in piece.lines.clone().zip(output.chunks_exact_mut(sum.width)) {
        let value = |k: usize, head: usize| value(line, k, head);
        if !add {
            output.fill(0.0);
        }
        let entries = sum.lines.entries(piece, line);
        for start in entries.clone().step_by(CHUNK) {
            let block = Block { sum, first: start, end: (start + CHUNK).min(entries.end) };
            if sum.heads > 1 && sum.width.is_multiple_of(64) && matches!(part, 8 | 16 | 32) {
                // Several heads at a time: their rows come by together.
                for (column, output) in (0..).step_by(64).zip(output.chunks_exact_mut(64)) {
                    match part {
                        8 => block.add_parts::<FUSED, 8, 8>(column, output, row, value, ask),
                        16 => block.add_parts::<FUSED, 4, 16>(column, output, row, value, ask),
                        _ => block.add_parts::<FUSED, 2, 32>(column, output, row, value, ask),
                    };
                }
                continue;
            }
            for (head, output) in output.chunks_exact_mut(part).enumerate() {
                let value = |k: usize| value(k, head);
                let mut at = 0;
                while at < part {
                    let (column, output) = (head * part + at, &mut output[at..]);
                    at += match part - at {
                        128.. => block.add::<FUSED, 128>(column, output, row, value, ask),
                        64.. => block.add::<FUSED, 64>(column, output, row, value, ask),
                        32.. => block.add::<FUSED, 32>(column, output, row, value, ask),
                        16.. => block.add::<FUSED, 16>(column, output, row, value, ask),
                        8.. => block.add::<FUSED, 8>(column, output, row, value, ask),
                        4.. => block.add::<FUSED, 4>(column, output, row, value, ask),
                        _ => block.add::<FUSED, 1>(column, output, row, value, ask),
                    };
                }
            }
        }
    }
}

/// Some entries of one line.
#[derive(Clone, Copy)]
struct Block<'a> {
    sum: &'a Sum<'a>,
    first: usize,
    end: usize,
}

impl Block<'_> {
    /// Adds `W` columns from `column` on; how many they were.
    #[inline(always)]
    fn add<const FUSED: bool, const W: usize>(
        self,
        column: usize,
        output: &mut [f32],
        row: impl Fn(usize) -> usize,
        value: impl Fn(usize) -> f32,
        ask: impl Fn(usize),
    ) -> usize {
        self.add_parts::<FUSED, 1, W>(column, output, row, |k, _| value(k), ask)
    }

    /// Adds `PARTS` parts of heads, each of `P` columns, from `column` on; how many columns they were.
    #[inline(always)]
    fn add_parts<const FUSED: bool, const PARTS: usize, const P: usize>(
        self,
        column: usize,
        output: &mut [f32],
        row: impl Fn(usize) -> usize,
        value: impl Fn(usize, usize) -> f32,
        ask: impl Fn(usize),
    ) -> usize {
        let (x, width) = (self.sum.x, self.sum.width);
        let head = if PARTS > 1 { column / P } else { 0 };
        let last = self.sum.lines.others().len() - 1;
        let Some(output) = output.as_chunks_mut::<P>().0.first_chunk_mut::<PARTS>() else { return PARTS * P };
        let mut sums = [[0.0; P]; PARTS];
        for k in self.first..self.end {
            let ahead = (k + AHEAD).min(last);
            prefetch_row(x, row(ahead) * width + column, PARTS * P);
            ask(ahead);
            let start = row(k) * width + column;
            let Some(source) = x[start..].as_chunks::<P>().0.first_chunk::<PARTS>() else { continue };
            // All values first: what may fail between two products keeps them from becoming one instruction.
            let mut values = [0.0; PARTS];
            for (part, to) in values.iter_mut().enumerate() {
                *to = value(k, head + part);
            }
            for part in 0..PARTS {
                add_scaled::<FUSED, P>(values[part], &source[part], &mut sums[part]);
            }
        }
        for part in 0..PARTS {
            for j in 0..P {
                output[part][j] += sums[part][j];
            }
        }
        PARTS * P
    }
}

/// `sums += value * row`.
#[inline(always)]
fn add_scaled<const FUSED: bool, const P: usize>(value: f32, row: &[f32; P], sums: &mut [f32; P]) {
    for j in 0..P {
        sums[j] = fma::<FUSED>(value, row[j], sums[j]);
    }
}
