//! The entries of a sparse matrix line by line, and how the work on them is divided.
//!
//! A line is a row or, in the transpose, a column. Lines are grouped into pieces of about equal work; a line
//! too long for one piece is cut into segments, each a piece of its own, so that one hub does not keep all
//! other threads waiting. The pieces depend on the lines alone, never on the number of threads, and what
//! segments compute is put together in order.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use rayon::prelude::*;

use crate::cuda::Device;
use crate::cuda::lines::{LinesOn, SEGMENT};
use crate::error::Result;
use crate::estimate::MemoryEstimate;
use crate::pool::{Array, Pool};

/// Work of one piece: entries and lines together, since a line without entries has to be written, too.
const PIECE: usize = 2048;

/// What one thread works on at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Its lines.
    pub lines: Range<usize>,
    /// Its entries, numbered in the order of the lines.
    pub entries: Range<usize>,
    /// Whether it is a segment: a part of its only line.
    pub is_segment: bool,
}

/// A piece with what it may write to.
pub(crate) type Job<'p, 'j> = (&'p Piece, &'j mut [f32]);

/// A line that was cut: what it may write to, and the numbers of its segments.
pub(crate) type Cut<'o> = (&'o mut [f32], Range<usize>);

/// Entries sorted by line.
#[derive(Debug)]
pub(crate) struct Lines {
    starts: Array<u64>,
    others: Array<u32>,
    origins: Option<Array<u32>>,
    pieces: Vec<Piece>,
    segments: usize,
    resident: OnceLock<LinesOn>,
}

impl Lines {
    /// Lines whose entries are numbered in the order in which they are given; `starts` has been checked.
    pub fn new(starts: Array<u64>, others: Array<u32>) -> Self {
        let (pieces, segments) = pieces(&starts, 0..starts.len() - 1);
        Lines { starts, others, origins: None, pieces, segments, resident: OnceLock::new() }
    }

    /// Entries sorted by `line`, each below `count`, entries of a line in the order in which they are given.
    pub fn sorted(count: usize, line: &[u32], other: impl Fn(usize) -> u32) -> Self {
        Lines::sorted_in(&Pool::default(), count, line, other)
    }

    /// The same in arrays of a pool.
    pub fn sorted_in(pool: &Pool, count: usize, line: &[u32], other: impl Fn(usize) -> u32) -> Self {
        let mut starts: Vec<u64> = pool.zeros(count + 1);
        for &line in line {
            starts[line as usize + 1] += 1;
        }
        for line in 0..count {
            starts[line + 1] += starts[line];
        }
        let mut next = pool.copied(&starts);
        let (mut others, mut origins) = (pool.take(line.len()), pool.take(line.len()));
        for (origin, &line) in line.iter().enumerate() {
            let at = next[line as usize] as usize;
            next[line as usize] += 1;
            (others[at], origins[at]) = (other(origin), origin as u32);
        }
        let (pieces, segments) = pieces(&starts, 0..count);
        pool.give(next);
        let starts = Array::new(Arc::new(starts), pool);
        let [others, origins] = [others, origins].map(|array| Array::new(Arc::new(array), pool));
        Lines { starts, others, origins: Some(origins), pieces, segments, resident: OnceLock::new() }
    }

    /// The same lines on a GPU, brought there when they are first asked for.
    pub fn on(&self, device: &Device) -> Result<&LinesOn> {
        if let Some(lines) = self.resident.get() {
            return Ok(lines);
        }
        let lines = LinesOn::new(device, self)?;
        Ok(self.resident.get_or_init(|| lines))
    }

    /// Tells of what a GPU has to hold of them.
    pub fn hold(&self, estimate: &MemoryEstimate) {
        let columns = if self.origins.is_some() { 2 } else { 1 };
        estimate.hold(&self.others, columns * self.others.len());
        estimate.hold(&self.starts, 4 * self.count() + 8 * self.others.len() / SEGMENT);
    }

    /// How many lines there are.
    pub fn count(&self) -> usize {
        self.starts.len() - 1
    }

    /// Where each line starts, and the end of the last.
    pub fn starts(&self) -> &[u64] {
        &self.starts
    }

    /// The other end of each entry: its column where lines are rows.
    pub fn others(&self) -> &[u32] {
        &self.others
    }

    /// The number of each entry in its original order; `None` where this is the original order.
    pub fn origins(&self) -> Option<&[u32]> {
        self.origins.as_deref()
    }

    /// How many pieces there are.
    pub fn pieces(&self) -> usize {
        self.pieces.len()
    }

    /// How many pieces are segments of a line.
    pub fn segments(&self) -> usize {
        self.segments
    }

    /// The entries of a line as far as they belong to a piece.
    #[inline]
    pub fn entries(&self, piece: &Piece, line: usize) -> Range<usize> {
        if piece.is_segment {
            return piece.entries.clone();
        }
        self.starts[line] as usize..self.starts[line + 1] as usize
    }

    /// Some lines cut into pieces, as they are among all; how many of those are segments.
    pub fn pieces_of(&self, lines: Range<usize>) -> (Vec<Piece>, usize) {
        pieces(&self.starts, lines)
    }

    /// Divides a matrix with a row for each line. A segment gets a row of `scratch` instead, which has one
    /// for each; lines that were cut are to be put together from them.
    pub fn deal_lines<'p, 'o: 'j, 'j>(
        &'p self,
        width: usize,
        output: &'o mut [f32],
        scratch: &'j mut [f32],
    ) -> (Vec<Job<'p, 'j>>, Vec<Cut<'o>>) {
        self.deal(&self.pieces, width, output, scratch)
    }

    /// Divides a matrix with a row for each line of some pieces.
    pub fn deal<'p, 'o: 'j, 'j>(
        &self,
        pieces: &'p [Piece],
        width: usize,
        mut output: &'o mut [f32],
        mut scratch: &'j mut [f32],
    ) -> (Vec<Job<'p, 'j>>, Vec<Cut<'o>>) {
        let mut jobs: Vec<Job<'p, 'j>> = Vec::with_capacity(pieces.len());
        let mut cuts: Vec<Cut<'o>> = Vec::new();
        let mut segment = 0;
        for piece in pieces {
            if piece.is_segment {
                let (mine, rest) = std::mem::take(&mut scratch).split_at_mut(width);
                scratch = rest;
                jobs.push((piece, mine));
                if piece.entries.start == self.starts[piece.lines.start] as usize {
                    let (row, rest) = std::mem::take(&mut output).split_at_mut(width);
                    output = rest;
                    cuts.push((row, segment..segment));
                }
                segment += 1;
                if let Some((_, segments)) = cuts.last_mut() {
                    segments.end = segment;
                }
            } else {
                let (mine, rest) = std::mem::take(&mut output).split_at_mut(piece.lines.len() * width);
                output = rest;
                jobs.push((piece, mine));
            }
        }
        (jobs, cuts)
    }

    /// Divides a matrix with a row for each entry, in the order of the lines.
    pub fn deal_entries<'p, 'j>(&'p self, width: usize, mut output: &'j mut [f32]) -> Vec<Job<'p, 'j>> {
        let mut jobs = Vec::with_capacity(self.pieces.len());
        for piece in &self.pieces {
            let (mine, rest) = std::mem::take(&mut output).split_at_mut(piece.entries.len() * width);
            output = rest;
            jobs.push((piece, mine));
        }
        jobs
    }
}

/// Works on all jobs, side by side where there are several.
pub(crate) fn run<T: Send>(mut jobs: Vec<T>, work: impl Fn(T) + Sync + Send) {
    match jobs.len() {
        // Not worth waking a thread for.
        1 => jobs.pop().into_iter().for_each(work),
        _ => jobs.into_par_iter().for_each(work),
    }
}

/// Cuts lines into pieces; the number of segments among them.
fn pieces(starts: &[u64], lines: Range<usize>) -> (Vec<Piece>, usize) {
    let mut pieces = Vec::new();
    let mut segments = 0;
    let mut first = lines.start;
    let piece = |lines: Range<usize>| Piece {
        entries: starts[lines.start] as usize..starts[lines.end] as usize,
        lines,
        is_segment: false,
    };
    let work = |lines: Range<usize>| (starts[lines.end] - starts[lines.start]) as usize + lines.len();
    for line in lines.clone() {
        if first < line && work(first..line + 1) > PIECE {
            pieces.push(piece(first..line));
            first = line;
        }
        let entries = starts[line] as usize..starts[line + 1] as usize;
        if entries.len() > PIECE {
            // Segments of about equal length, so that the last one is not a crumb.
            let count = entries.len().div_ceil(PIECE);
            let bound = |segment: usize| entries.start + entries.len() * segment / count;
            pieces.extend((0..count).map(|segment| Piece {
                lines: line..line + 1,
                entries: bound(segment)..bound(segment + 1),
                is_segment: true,
            }));
            segments += count;
            first = line + 1;
        }
    }
    if first < lines.end {
        pieces.push(piece(first..lines.end));
    }
    (pieces, segments)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_all_lines_and_entries_once() {
        let lengths = [0, 5, 10_000, 0, 2048, 2049, 1, 1, 3000, 3, 0];
        let starts: Vec<u64> = std::iter::once(0)
            .chain(lengths.iter().scan(0, |sum, length| {
                *sum += length;
                Some(*sum)
            }))
            .collect();
        let (pieces, segments) = pieces(&starts, 0..lengths.len());
        assert_eq!(segments, 5 + 2 + 2);
        let (mut line, mut entry) = (0, 0);
        for piece in &pieces {
            assert_eq!(piece.entries.start, entry);
            assert!(piece.entries.len() <= PIECE);
            entry = piece.entries.end;
            if !piece.is_segment || piece.entries.start == starts[piece.lines.start] as usize {
                assert_eq!(piece.lines.start, line);
                line = piece.lines.end;
            }
        }
        assert_eq!((line, entry as u64), (lengths.len(), starts[lengths.len()]));

        let lines = Lines::new(starts.clone().into(), vec![0; entry].into());
        let (mut output, mut scratch) = (vec![0.0; lengths.len() * 2], vec![0.0; segments * 2]);
        let (jobs, cuts) = lines.deal_lines(2, &mut output, &mut scratch);
        assert_eq!(cuts.iter().map(|(_, segments)| segments.clone()).collect::<Vec<_>>(), [0..5, 5..7, 7..9]);
        run(jobs, |(_, slice)| slice.iter_mut().for_each(|number| *number += 1.0));
        for (row, segments) in cuts {
            row.fill(segments.len() as f32);
        }
        let expected = [1.0, 1.0, 5.0, 1.0, 1.0, 2.0, 1.0, 1.0, 2.0, 1.0, 1.0];
        assert!(output.chunks(2).zip(expected).all(|(row, expected)| row == [expected; 2]));
        assert!(scratch.iter().all(|&number| number == 1.0));
    }

    #[test]
    fn sorting_keeps_the_order_within_a_line() {
        let lines = Lines::sorted(4, &[2, 0, 2, 3, 0], |origin| 10 + origin as u32);
        assert_eq!(lines.starts(), [0, 2, 2, 4, 5]);
        assert_eq!(lines.others(), [11, 14, 10, 12, 13]);
        assert_eq!(lines.origins().unwrap(), [1, 4, 0, 2, 3]);
    }
}
