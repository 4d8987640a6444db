//! The rows of a step out of a sorted list of edges, or out of the rows of another step and what changed.

use std::ops::Range;

use super::fates::{Fate, Weight};
use crate::delta::{Mismatch, seek};
use crate::snapshot::{Edge, Vertex};

/// Entries that are looked at or copied at once: more than lie between two changes where a tenth changes.
const BLOCK: usize = 16;

/// More than lie between two changes where a hundredth changes.
const LONG: usize = 128;

/// The start of a row until it is known to have moved otherwise than that of the row before.
const SAME: u64 = u64::MAX;

/// From the right place on: 1 for each entry of a block that counts, 0 for the others.
const INSIDE: [u32; 2 * BLOCK] = {
    let mut inside = [0; 2 * BLOCK];
    let mut index = 0;
    while index < BLOCK {
        inside[index] = 1;
        index += 1;
    }
    inside
};

/// Rows apart from their weights: where each begins, and the sources in it.
pub type Rows<'r> = (&'r [u64], &'r [Vertex]);

/// Rows that are filled anew.
pub type NewRows<'r> = (&'r mut Vec<u64>, &'r mut Vec<Vertex>);

/// Fills rows with these sorted edges.
pub fn fill(edges: &[Edge], vertices: usize, (starts, columns): NewRows<'_>) {
    room(columns, edges.len());
    columns.truncate(edges.len());
    starts.clear();
    starts.resize(vertices + 1, 0);
    // The last edge of a row says where the next one begins; empty rows begin where the one before does.
    for ((edge, column), end) in edges.iter().zip(columns).zip(1..) {
        *column = edge.source();
        starts[edge.target() as usize + 1] = end;
    }
    let mut latest = 0;
    for start in starts {
        latest = latest.max(*start);
        *start = latest;
    }
}

/// Fills rows with these sorted edges and a loop at every vertex.
pub fn fill_with_loops(edges: &[Edge], vertices: usize, (starts, columns): NewRows<'_>) {
    columns.clear();
    columns.reserve(edges.len() + vertices);
    starts.clear();
    starts.push(0);
    let mut edges = edges.iter().peekable();
    for vertex in 0..vertices as Vertex {
        while let Some(edge) = edges.next_if(|edge| edge.target() == vertex && edge.source() < vertex) {
            columns.push(edge.source());
        }
        columns.push(vertex);
        edges.next_if(|edge| edge.target() == vertex && edge.is_loop());
        while let Some(edge) = edges.next_if(|edge| edge.target() == vertex) {
            columns.push(edge.source());
        }
        starts.push(columns.len() as u64);
    }
}

/// Sees to it that there are this many numbers or more. Pages of new memory are zero: nobody has to write
/// them.
fn room(numbers: &mut Vec<Vertex>, length: usize) {
    if numbers.capacity() < length {
        *numbers = vec![0; length];
    } else if numbers.len() < length {
        numbers.resize(length, 0);
    }
}

/// The most columns that are written while rows of this many columns change so: those that have come and not
/// gone again on the way, and what is copied beyond an end.
pub fn most<W: Weight>(old: usize, fates: &[Fate<W>]) -> usize {
    let (mut more, mut most) = (0, 0);
    for [before, after] in fates {
        more += isize::from(before.is_none()) - isize::from(after.is_none());
        most = most.max(more);
    }
    // One is written where an edge goes, too, until what comes next takes its place.
    old + most as usize + 1 + LONG
}

/// Fills `new` with the rows that `old` becomes by the fates of these edges, in one pass.
///
/// Weights come apart from the rows, because they may be of no size.
pub fn apply<W: Weight>(
    ((old_starts, old_columns), old_weights): (Rows<'_>, &[W]),
    (edges, fates): (&[Edge], &[Fate<W>]),
    ((new_starts, new_columns), new_weights): (NewRows<'_>, &mut Vec<W>),
) -> Result<(), Mismatch> {
    let most = most(old_columns.len(), fates);
    new_starts.clear();
    new_starts.resize(old_starts.len(), SAME);
    room(new_columns, most);
    new_weights.resize(most, W::default());
    let (columns, weights, starts) = (&mut new_columns[..], &mut new_weights[..], &mut new_starts[..]);
    let (mut done, mut next) = (0, 0);
    for (&edge, &[before, after]) in edges.iter().zip(fates) {
        let (source, target) = (edge.source(), edge.target() as usize);
        let (begin, end) = (old_starts[target] as usize, old_starts[target + 1] as usize);
        // A short row is gone through from its beginning, so that its changes do not wait for each other.
        let from = if end - begin <= BLOCK { begin } else { begin.max(done) };
        let at = from + position(&old_columns[from..], end - from, source);
        // At any place where there is none at this one: whether there is cannot be foreseen.
        let here = at.min(old_columns.len().saturating_sub(1));
        let found = (at < end) & (old_columns.get(here) == Some(&source));
        let held = old_weights.get(here).copied().unwrap_or_default();
        if found != before.is_some() || !before.unwrap_or(held).same(held) {
            return Err(Mismatch(edge));
        }
        copy(old_columns, done..at, columns, next);
        copy(old_weights, done..at, weights, next);
        next += at - done;
        // Written also where the edge is gone: what comes next takes the place.
        (columns[next], weights[next]) = (source, after.unwrap_or_default());
        next += usize::from(after.is_some());
        done = at + usize::from(found);
        starts[target + 1] = (end + next - done) as u64;
    }
    // Where nothing changed, entries have moved as far as those of the row before.
    let mut moved = 0;
    for (start, &before) in starts.iter_mut().zip(old_starts) {
        moved = if *start == SAME { moved } else { start.wrapping_sub(before) };
        *start = before.wrapping_add(moved);
    }
    let rest = done..old_columns.len();
    let length = next + rest.len();
    columns[next..length].copy_from_slice(&old_columns[rest.clone()]);
    weights[next..length].copy_from_slice(&old_weights[rest]);
    new_columns.truncate(length);
    new_weights.truncate(length);
    Ok(())
}

/// How many of the first `length` columns, which ascend, are below `source`.
#[inline(always)]
fn position(columns: &[Vertex], length: usize, source: Vertex) -> usize {
    if let Some(block) = columns.first_chunk::<BLOCK>() {
        // All of the block at once: cheaper than a loop whose end cannot be foreseen.
        let inside = &INSIDE[BLOCK - length.min(BLOCK)..][..BLOCK];
        let below = block.iter().zip(inside).map(|(&column, &one)| if column < source { one } else { 0 });
        let below = below.sum::<u32>() as usize;
        if below < BLOCK || length == BLOCK {
            return below;
        }
    }
    seek(&columns[..length], source)
}

/// Copies a range of `from` to `to`, where it begins at `at`. What is not long is copied as a whole block,
/// with some of what lies behind it, which what comes next overwrites: no call, and no loop for the rest.
#[inline(always)]
fn copy<T: Copy>(from: &[T], range: Range<usize>, to: &mut [T], at: usize) {
    if size_of::<T>() == 0 {
        return;
    }
    let length = range.len();
    match (from[range.start..].first_chunk::<LONG>(), to[at..].first_chunk_mut::<LONG>()) {
        (Some(from), Some(to)) if length <= BLOCK => to[..BLOCK].copy_from_slice(&from[..BLOCK]),
        (Some(from), Some(to)) if length <= LONG => *to = *from,
        _ => to[at..at + length].copy_from_slice(&from[range]),
    }
}
