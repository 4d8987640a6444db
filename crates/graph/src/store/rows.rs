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

/// Edges that are gone through before it is told that they are done with.
const STRETCH: usize = super::arrays::STRETCH / size_of::<Edge>();

/// Fills rows with these sorted edges. Of many, `done` is told as soon as some have been copied: they need
/// not stay in memory while the others are.
pub fn fill(edges: &[Edge], vertices: usize, (starts, columns): NewRows<'_>, mut done: impl FnMut(&[Edge])) {
    room(columns, edges.len());
    columns.truncate(edges.len());
    starts.clear();
    starts.resize(vertices + 1, 0);
    // The last edge of a row says where the next one begins; empty rows begin where the one before does.
    let mut ends = 1..;
    for (stretch, columns) in edges.chunks(STRETCH).zip(columns.chunks_mut(STRETCH)) {
        for ((edge, column), end) in stretch.iter().zip(columns).zip(&mut ends) {
            *column = edge.source();
            starts[edge.target() as usize + 1] = end;
        }
        if stretch.len() == STRETCH {
            done(stretch);
        }
    }
    let mut latest = 0;
    for start in starts {
        latest = latest.max(*start);
        *start = latest;
    }
}

/// Fills rows with these sorted edges and a loop at every vertex; `done` is told as in [`fill`].
pub fn fill_with_loops(
    edges: &[Edge],
    vertices: usize,
    (starts, columns): NewRows<'_>,
    mut done: impl FnMut(&[Edge]),
) {
    columns.clear();
    columns.reserve(edges.len() + vertices);
    starts.clear();
    starts.push(0);
    let (mut next, mut told) = (0, 0);
    for vertex in 0..vertices as Vertex {
        let of_row = |at: usize| edges.get(at).filter(|edge| edge.target() == vertex);
        while let Some(edge) = of_row(next).filter(|edge| edge.source() < vertex) {
            columns.push(edge.source());
            next += 1;
        }
        columns.push(vertex);
        next += usize::from(of_row(next).is_some_and(|edge| edge.is_loop()));
        while let Some(edge) = of_row(next) {
            columns.push(edge.source());
            next += 1;
        }
        starts.push(columns.len() as u64);
        if next - told >= STRETCH {
            done(&edges[told..next]);
            told = next;
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Long lists are told of stretch by stretch, in order and without a gap, whether there are loops or not.
    #[test]
    fn what_was_copied_is_told_of() {
        let (vertices, degree) = (STRETCH / 8, 20);
        let source = |v: usize, k: usize| ((v % 7 + k * (vertices / degree)) % vertices) as Vertex;
        let row = |v: usize| {
            let mut row: Vec<Vertex> = (0..degree).map(|k| source(v, k)).collect();
            row.sort_unstable();
            row
        };
        let of_row = |v: usize| row(v).into_iter().map(move |s| Edge::new(s, v as Vertex));
        let edges: Vec<Edge> = (0..vertices).flat_map(of_row).collect();
        for loops in [false, true] {
            let (mut starts, mut columns) = (Vec::new(), Vec::new());
            let (mut told, mut calls) = (0, 0);
            let done = |done: &[Edge]| {
                assert!(done.len() >= STRETCH && std::ptr::eq(done.as_ptr(), &edges[told]));
                told += done.len();
                calls += 1;
            };
            match loops {
                true => fill_with_loops(&edges, vertices, (&mut starts, &mut columns), done),
                false => fill(&edges, vertices, (&mut starts, &mut columns), done),
            }
            assert_eq!(calls, edges.len() / STRETCH);
            for v in 0..vertices {
                let mut expected = row(v);
                if let (true, Err(place)) = (loops, expected.binary_search(&(v as Vertex))) {
                    expected.insert(place, v as Vertex);
                }
                assert_eq!(columns[starts[v] as usize..starts[v + 1] as usize], expected, "row {v}");
            }
        }
    }
}
