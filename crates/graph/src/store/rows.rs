//! The rows of a step out of a sorted list of edges, or out of the rows of another step and what changed.

use std::ops::Range;

use super::fates::{Fate, Weight};
use crate::delta::{Mismatch, seek};
use crate::snapshot::{Csr, Edge, Vertex};

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

/// Fills the rows, but for the weights, with these sorted edges.
pub fn fill(edges: &[Edge], vertices: usize, rows: &mut Csr) {
    rows.columns.resize(edges.len(), 0);
    rows.starts.clear();
    rows.starts.resize(vertices + 1, 0);
    // The last edge of a row says where the next one begins; empty rows begin where the one before does.
    for ((edge, column), end) in edges.iter().zip(&mut rows.columns).zip(1..) {
        *column = edge.source();
        rows.starts[edge.target() as usize + 1] = end;
    }
    let mut latest = 0;
    for start in &mut rows.starts {
        latest = latest.max(*start);
        *start = latest;
    }
}

/// Fills `new` with the rows that `old` becomes by the fates of these edges, in one pass.
///
/// Weights come apart from the rows, because they may be of no size.
pub fn apply<W: Weight>(
    (old, old_weights): (&Csr, &[W]),
    (edges, fates): (&[Edge], &[Fate<W>]),
    (new, new_weights): (&mut Csr, &mut Vec<W>),
) -> Result<(), Mismatch> {
    let appear = fates.iter().filter(|[before, _]| before.is_none()).count();
    let most = old.columns.len() + appear + LONG;
    new.starts.clear();
    new.starts.resize(old.starts.len(), SAME);
    new.columns.resize(most, 0);
    new_weights.resize(most, W::default());
    let (columns, weights, starts) = (&mut new.columns[..], &mut new_weights[..], &mut new.starts[..]);
    let (mut done, mut next) = (0, 0);
    for (&edge, &[before, after]) in edges.iter().zip(fates) {
        let (source, target) = (edge.source(), edge.target() as usize);
        let (begin, end) = (old.starts[target] as usize, old.starts[target + 1] as usize);
        // A short row is gone through from its beginning, so that its changes do not wait for each other.
        let from = if end - begin <= BLOCK { begin } else { begin.max(done) };
        let at = from + position(&old.columns[from..], end - from, source);
        // At any place where there is none at this one: whether there is cannot be foreseen.
        let here = at.min(old.columns.len().saturating_sub(1));
        let found = (at < end) & (old.columns.get(here) == Some(&source));
        let held = old_weights.get(here).copied().unwrap_or_default();
        if found != before.is_some() || !before.unwrap_or(held).same(held) {
            return Err(Mismatch(edge));
        }
        copy(&old.columns, done..at, columns, next);
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
    for (start, &before) in starts.iter_mut().zip(&old.starts) {
        moved = if *start == SAME { moved } else { start.wrapping_sub(before) };
        *start = before.wrapping_add(moved);
    }
    let rest = done..old.columns.len();
    let length = next + rest.len();
    columns[next..length].copy_from_slice(&old.columns[rest.clone()]);
    weights[next..length].copy_from_slice(&old_weights[rest]);
    new.columns.truncate(length);
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
