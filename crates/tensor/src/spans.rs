//! The entries of the patterns of consecutive snapshots: each once, with the snapshots that it is in.
//!
//! From one snapshot to the next few edges change. What is aggregated at all of them can then go through the
//! edges of all once, instead of through those of each (REAL, section 4.1: there changes are added to and
//! taken from what the snapshot before came to; here every sum has what belongs to it and nothing else, so
//! that nothing cancels out, and none depends on where a chain of changes began).

use std::sync::Arc;

use rayon::prelude::*;

use crate::error::{Error, Result};
use crate::pattern::Pattern;

/// Rows that a thread goes through at a time.
const ROWS: usize = 4096;

/// Consecutive snapshots, from the first to the one before the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first one.
    pub first: u16,
    /// The one behind the last.
    pub end: u16,
}

/// The entries of several patterns of one shape.
pub struct Spans {
    pattern: Pattern,
    spans: Vec<Span>,
    count: usize,
    entries: usize,
}

/// An entry of a row, in order of columns.
#[derive(Clone, Copy)]
struct Entry {
    column: u32,
    span: Span,
}

/// The end of what has not ended.
const OPEN: u16 = u16::MAX;

/// The entries of some rows.
#[derive(Default)]
struct Part {
    lengths: Vec<u32>,
    columns: Vec<u32>,
    spans: Vec<Span>,
}

impl Spans {
    /// The entries of these patterns, whose rows are ascending. One that goes and comes back is there once
    /// for each time.
    pub fn new(patterns: &[Arc<Pattern>]) -> Result<Spans> {
        let wrong = |problem: &str| Err(Error::settings("patterns", problem));
        let Some(first) = patterns.first().filter(|_| patterns.len() < OPEN as usize) else {
            return wrong("there must be one at least, and fewer than 65,535");
        };
        let (rows, columns) = (first.rows(), first.columns());
        if patterns.iter().any(|other| (other.rows(), other.columns()) != (rows, columns)) {
            return wrong("they must have the same rows and columns");
        }
        let starts: Vec<usize> = (0..rows).step_by(ROWS).collect();
        let part = |&start: &usize| part(patterns, start, (start + ROWS).min(rows));
        let Some(parts) = starts.par_iter().map(part).collect::<Option<Vec<Part>>>() else {
            return wrong("the entries of a row must be in the order of columns");
        };
        let entries = parts.iter().map(|part| part.columns.len()).sum();
        let mut starts = Vec::with_capacity(rows + 1);
        let (mut places, mut spans, mut end) = (Vec::with_capacity(entries), Vec::with_capacity(entries), 0);
        starts.push(0);
        for part in parts {
            for length in part.lengths {
                end += u64::from(length);
                starts.push(end);
            }
            places.extend_from_slice(&part.columns);
            spans.extend_from_slice(&part.spans);
        }
        let pattern = Pattern::new(columns, starts, places)?;
        let entries = patterns.iter().map(|pattern| pattern.entries()).sum();
        Ok(Spans { pattern, spans, count: patterns.len(), entries })
    }

    /// Where the entries are, those of all patterns.
    pub fn pattern(&self) -> &Pattern {
        &self.pattern
    }

    /// The patterns that each entry is in.
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// How many patterns there are.
    pub fn count(&self) -> usize {
        self.count
    }

    /// How many entries all patterns have together.
    pub fn entries_of_all(&self) -> usize {
        self.entries
    }
}

/// The entries of rows `start..end`; nothing where a row is not ascending.
fn part(patterns: &[Arc<Pattern>], start: usize, end: usize) -> Option<Part> {
    let mut part = Part::default();
    let (mut row, mut next) = (Vec::new(), Vec::new());
    for line in start..end {
        let mut before: &[u32] = &[];
        row.clear();
        for (number, pattern) in patterns.iter().enumerate() {
            let starts = pattern.starts();
            let now = &pattern.places()[starts[line] as usize..starts[line + 1] as usize];
            if number > 0 && now == before {
                continue;
            }
            if !now.is_sorted() {
                return None;
            }
            change(&row, &mut next, now, number as u16);
            std::mem::swap(&mut row, &mut next);
            before = now;
        }
        part.lengths.push(row.len() as u32);
        part.columns.extend(row.iter().map(|entry| entry.column));
        // What is still there in the last pattern ends with it.
        let end = |span: Span| span.end.min(patterns.len() as u16);
        part.spans.extend(row.iter().map(|&Entry { span, .. }| Span { end: end(span), ..span }));
    }
    Some(part)
}

/// The entries of a row, `old`, as they are from pattern `number` on, in which they are at these columns.
fn change(old: &[Entry], new: &mut Vec<Entry>, columns: &[u32], number: u16) {
    let begun = |&column: &u32| Entry { column, span: Span { first: number, end: OPEN } };
    let mut rest = columns;
    new.clear();
    for &entry in old {
        let added = rest.iter().position(|&column| column >= entry.column).unwrap_or(rest.len());
        new.extend(rest[..added].iter().map(begun));
        rest = &rest[added..];
        if entry.span.end != OPEN {
            new.push(entry);
        } else if rest.first() == Some(&entry.column) {
            new.push(entry);
            rest = &rest[1..];
        } else {
            new.push(Entry { span: Span { end: number, ..entry.span }, ..entry });
        }
    }
    new.extend(rest.iter().map(begun));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn patterns(rows: usize, all: &[Vec<(u32, u32)>]) -> Vec<Arc<Pattern>> {
        let pattern = |edges: &Vec<(u32, u32)>| {
            let mut edges = edges.clone();
            edges.sort_unstable();
            edges.dedup();
            Arc::new(Pattern::from_edges(rows, 7, edges).unwrap())
        };
        all.iter().map(pattern).collect()
    }

    fn edges(pattern: &Pattern) -> Vec<(usize, u32)> {
        let rows = pattern.starts().windows(2).enumerate();
        let of = |(row, pair): (usize, &[u64])| {
            let columns = pattern.places()[pair[0] as usize..pair[1] as usize].to_vec();
            columns.into_iter().map(move |column| (row, column))
        };
        rows.flat_map(of).collect()
    }

    proptest! {
        /// The entries whose span has a pattern are those of the pattern, in their order, and no entry could
        /// be joined with another.
        #[test]
        fn spans_are_the_patterns(
            all in prop::collection::vec(prop::collection::vec((0u32..5, 0u32..7), 0..30), 1..7),
        ) {
            let patterns = patterns(5, &all);
            let spans = Spans::new(&patterns).unwrap();
            let found = edges(spans.pattern());
            for (number, pattern) in patterns.iter().enumerate() {
                let is_in = |span: &Span| (span.first..span.end).contains(&(number as u16));
                let mine = found.iter().zip(spans.spans()).filter(|(_, span)| is_in(span));
                prop_assert_eq!(mine.map(|(edge, _)| *edge).collect::<Vec<_>>(), edges(pattern));
            }
            for (pair, span) in found.windows(2).zip(spans.spans().windows(2)) {
                prop_assert!(pair[0] < pair[1] || span[0].end < span[1].first, "{pair:?} {span:?}");
            }
            prop_assert!(spans.spans().iter().all(|span| span.first < span.end));
            prop_assert_eq!(spans.entries_of_all(), patterns.iter().map(|one| one.entries()).sum::<usize>());
        }
    }

    #[test]
    fn many_rows_are_put_together_in_order() {
        let rows = 2 * ROWS + 3;
        let ring = |by: u32| (0..rows as u32).map(|row| (row, (row + by) % 7)).collect();
        let all = patterns(rows, &[ring(0), ring(0), ring(1)]);
        let spans = Spans::new(&all).unwrap();
        assert_eq!(spans.pattern().entries(), 2 * rows);
        assert_eq!(spans.pattern().starts()[rows - 1], 2 * (rows as u64 - 1));
        let mut lengths: Vec<u16> = spans.spans().iter().map(|span| span.end - span.first).collect();
        lengths.sort_unstable();
        assert_eq!((lengths[0], lengths[rows - 1], lengths[rows], lengths[2 * rows - 1]), (1, 1, 2, 2));
    }

    #[test]
    fn what_does_not_go_together_is_refused() {
        let problem = |all: &[Arc<Pattern>]| Spans::new(all).err().map(|error| error.to_string()).unwrap();
        assert!(problem(&[]).contains("one at least"));
        let all =
            [Pattern::from_edges(2, 7, []), Pattern::from_edges(3, 7, [])].map(|one| Arc::new(one.unwrap()));
        assert!(problem(&all).contains("the same rows"));
        let unsorted = [Arc::new(Pattern::new(3, vec![0, 2], vec![2, 1]).unwrap())];
        assert!(problem(&unsorted).contains("order of columns"));
    }
}
