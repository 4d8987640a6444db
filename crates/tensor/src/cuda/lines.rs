//! The lines of a sparse matrix on a GPU, cut into segments of about equal work.
//!
//! A segment is a line, or a part of one that is too long for a group of lanes; what the parts of a line come
//! to is put aside and added in order. Where many groups can work on one line together, it is cut into
//! [`Pieces`] instead, far fewer. All of it depends on the lines alone, so a sum has the same bits in every
//! run.

use super::call::Slice;
use super::device::Device;
use super::memory::{Array, Arrays};
use super::transpose::transpose;
use crate::error::{Error, Result};
use crate::lines::Lines;

/// Entries of a segment at most.
pub(crate) const SEGMENT: usize = 256;

/// Entries of a piece at most.
const PIECE: usize = 4 * SEGMENT;

/// Tiles of columns that lines of several pieces are put together for.
pub(crate) const TILES: usize = 16;

/// Long lines in pieces for all groups of a block.
#[derive(Debug)]
pub(crate) struct Pieces {
    /// The pieces, the heaps, and how many parts of each heap and tile of columns are there.
    arrays: Arrays<3>,
    /// How many there are.
    pub count: usize,
    /// How many of them are not a whole line.
    pub parts: usize,
}

impl Pieces {
    fn new(device: &Device, cuts: &[[i32; 4]], starts: &[i32]) -> Result<Pieces> {
        let (mut pieces, mut heaps, mut parts) = (Vec::new(), Vec::<[i32; 4]>::new(), 0usize);
        for &[line, ..] in cuts {
            let (start, end) = (starts[line as usize], starts[line as usize + 1]);
            let count = ((end - start) as usize).div_ceil(PIECE);
            if count == 1 {
                pieces.push([line, start, end, 0]);
                continue;
            }
            heaps.push([line, parts as i32, (parts + count) as i32, 0]);
            let bound = |part: usize| start + ((end - start) as usize * part / count) as i32;
            let heap = heaps.len() as i32;
            pieces.extend((0..count).map(|part| [(parts + part) as i32, bound(part), bound(part + 1), heap]));
            parts += count;
        }
        pieces.sort_by_key(|piece: &[i32; 4]| piece[1] - piece[2]);
        let turns = vec![0i32; TILES * heaps.len()];
        let arrays = Arrays::new(device, [Array::of(&pieces), Array::of(&heaps), Array::of(&turns)])?;
        Ok(Pieces { arrays, count: pieces.len(), parts })
    }

    /// Of each its line or its number among the parts, where it begins and ends, and for a part which heap it
    /// belongs to, from one on.
    pub fn all(&self) -> Slice<'_> {
        self.arrays.array(0)
    }

    /// Of each line of several pieces its number, and the first and the end of its parts.
    pub fn heaps(&self) -> Slice<'_> {
        self.arrays.array(1)
    }

    /// How many parts of each heap and tile of columns are there: none, between kernels.
    pub fn turns(&self) -> Slice<'_> {
        self.arrays.array(2)
    }
}

/// Lines in the memory of a GPU.
#[derive(Debug)]
pub(crate) struct LinesOn {
    /// The other ends, the origins, where there are any, the segments, the cuts, and the lines of parts.
    arrays: Arrays<5>,
    are_sorted: bool,
    /// Lines that were cut, in larger pieces.
    pub pieces: Pieces,
    /// How many segments there are.
    pub count: usize,
    /// How many lines were cut.
    pub cut_lines: usize,
    /// How many parts they were cut into.
    pub parts: usize,
}

impl LinesOn {
    /// Brings lines to the GPU.
    pub fn new(device: &Device, lines: &Lines) -> Result<LinesOn> {
        let origins = lines.origins();
        let ends = [Array::of(lines.others()), Array::of(origins.unwrap_or_default())];
        LinesOn::with(device, &narrow(lines.starts())?, ends, origins.is_some())
    }

    /// Makes the transpose of lines on the GPU; `starts` is where its own lines begin.
    pub fn transposed(device: &Device, lines: &LinesOn, starts: &[u64]) -> Result<LinesOn> {
        let (starts, entries) = (narrow(starts)?, lines.others().len());
        let made = LinesOn::with(device, &starts, [Array::Room(entries), Array::Room(entries)], true)?;
        transpose(device, lines, &starts, [made.arrays.array(0), made.arrays.array(1)])?;
        Ok(made)
    }

    fn with(
        device: &Device,
        starts: &[i32],
        [others, origins]: [Array<'_>; 2],
        are_sorted: bool,
    ) -> Result<LinesOn> {
        let (mut segments, mut cuts, mut lines_of_parts) = (Vec::new(), Vec::new(), Vec::<i32>::new());
        for (line, bounds) in starts.windows(2).enumerate() {
            let (start, length) = (bounds[0] as usize, (bounds[1] - bounds[0]) as usize);
            if length <= SEGMENT {
                segments.push([line as i32, bounds[0], bounds[1], 0]);
                continue;
            }
            let (count, parts) = (length.div_ceil(SEGMENT), lines_of_parts.len());
            let bound = |part: usize| (start + length * part / count) as i32;
            segments.extend((0..count).map(|part| [(parts + part) as i32, bound(part), bound(part + 1), 1]));
            cuts.push([line as i32, parts as i32, (parts + count) as i32, 0]);
            lines_of_parts.resize(parts + count, line as i32);
        }
        let segments = longest_first(&segments);
        let divided = [Array::of(&segments), Array::of(&cuts), Array::of(&lines_of_parts)];
        let [segments_on, cuts_on, lines_of_parts_on] = divided;
        Ok(LinesOn {
            arrays: Arrays::new(device, [others, origins, segments_on, cuts_on, lines_of_parts_on])?,
            are_sorted,
            pieces: Pieces::new(device, &cuts, starts)?,
            parts: lines_of_parts.len(),
            count: segments.len(),
            cut_lines: cuts.len(),
        })
    }

    /// The other end of each entry.
    pub fn others(&self) -> Slice<'_> {
        self.arrays.array(0)
    }

    /// The number of each entry in its original order, where this is another one.
    pub fn origins(&self) -> Option<Slice<'_>> {
        self.are_sorted.then(|| self.arrays.array(1))
    }

    /// Of each segment its line or its part, where it begins and ends, and whether it is a part; parts come
    /// first.
    pub fn segments(&self) -> Slice<'_> {
        self.arrays.array(2)
    }

    /// Of each line that was cut its number, and the first and the end of its parts.
    pub fn cuts(&self) -> Slice<'_> {
        self.arrays.array(3)
    }

    /// Of each part the line that it belongs to.
    pub fn lines_of_parts(&self) -> Slice<'_> {
        self.arrays.array(4)
    }
}

/// Beginnings as a GPU counts them.
fn narrow(starts: &[u64]) -> Result<Vec<i32>> {
    // They ascend.
    if let Some(last) = starts.last().filter(|&&last| last > i32::MAX as u64) {
        let problem = format!("a snapshot has {last} entries, a GPU numbers them below 2^31");
        return Err(Error::Device(problem));
    }
    Ok(starts.iter().map(|&start| start as i32).collect())
}

/// Parts, then whole lines, the longest first: the last to start should not take long. Lengths are few, so
/// they are counted, not compared.
fn longest_first(segments: &[[i32; 4]]) -> Vec<[i32; 4]> {
    let bucket = |segment: &[i32; 4]| {
        let shorter = SEGMENT - ((segment[2] - segment[1]) as usize).min(SEGMENT);
        if segment[3] == 0 { SEGMENT + 1 + shorter } else { shorter }
    };
    let mut next = vec![0; 2 * (SEGMENT + 1) + 1];
    segments.iter().for_each(|segment| next[bucket(segment) + 1] += 1);
    (1..next.len()).for_each(|bucket| next[bucket] += next[bucket - 1]);
    let mut sorted = vec![[0; 4]; segments.len()];
    for segment in segments {
        let place = &mut next[bucket(segment)];
        sorted[*place] = *segment;
        *place += 1;
    }
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_in_the_order_of_a_stable_sort() {
        let segment = |i: i32| [i, 10 * i, 10 * i + (i * 37) % (SEGMENT as i32 + 1), i32::from(i % 3 == 0)];
        let segments: Vec<[i32; 4]> = (0..2000).map(segment).collect();
        let mut expected = segments.clone();
        expected.sort_by_key(|segment: &[i32; 4]| (segment[3] == 0, segment[1] - segment[2]));
        assert_eq!(longest_first(&segments), expected);
        assert!(longest_first(&[]).is_empty());
    }
}
