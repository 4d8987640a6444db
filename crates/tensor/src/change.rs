//! What makes the product of one sparse matrix out of that of another (REAL, section 4.1, Eq. 3): for each
//! row a factor that its sum is scaled by, and entries that are added to it.
//!
//! Of consecutive snapshots most entries are the same. A row of a mean has all its values changed by one edge
//! more or less, and by the same factor: its sum is scaled, and what the edge brings is added. Rows of which
//! little is left are summed anew: their factor is zero, and their entries are all there are. So no sum is
//! made of more entries than it has, and nothing is taken away from a sum of which it was nearly all.
//!
//! Where values are products of factors of both ends, as in graph convolution with the usual normalisation,
//! an edge more or less changes the factors of its two ends: that of the row scales its sum, and that of a
//! column is one entry in each row that has it. So there is a change that is smaller than the matrix where
//! few vertices have another degree; where most have, a look at some of the rows tells, and that is all.
//!
//! Instead of being updated, rows of which anything changed may be summed anew, all of them ([`Changed`]):
//! then the product has the bits that it has without any of this.

use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::atomic::{self, AtomicUsize};

use rayon::prelude::*;

use crate::error::Result;
use crate::ops::Entries;
use crate::pattern::Pattern;
use crate::pool::Pool;
use crate::row::{Matrix, Row, Values};

/// Rows that one thread compares at a time.
const PIECE: usize = 4096;

/// Values that are as near to each other are the same: they are ratios that were rounded twice.
const NEAR: f32 = 4.0 * f32::EPSILON;

/// Of the rows of a large matrix, one in 31 is looked at first: a prime, so that what comes again from
/// vertex to vertex is met as often as it is.
const SAMPLE: usize = 31;

/// What a change costs, in entries of a product that is made from nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// What an entry costs that has to be found, put in order both ways and added.
    pub entry: f64,
    /// What it costs to compare a row and to scale it.
    pub row: f64,
}

impl Default for Costs {
    /// What `cargo bench --bench increments` measured; where it is far from that of a machine, little is
    /// lost.
    fn default() -> Costs {
        Costs { entry: 1.6, row: 1.5 }
    }
}

/// What turns the product of a matrix into that of another.
#[derive(Debug)]
pub struct Change {
    /// What the sum of each row is multiplied by.
    pub(crate) scales: Vec<f32>,
    /// Where entries are added.
    pub(crate) pattern: Pattern,
    /// What they are, in the order of the pattern.
    pub(crate) values: Vec<f32>,
    pool: Pool,
}

/// What is found of some rows, one after the other.
#[derive(Default)]
struct Found {
    scales: Vec<f32>,
    /// Where the entries of each row end.
    ends: Vec<u64>,
    places: Vec<u32>,
    values: Vec<f32>,
}

impl Change {
    /// What turns the product of the first matrix into that of the second, which has as many rows; nothing
    /// where that takes longer than the product itself.
    pub fn between(before: Matrix<'_>, now: Matrix<'_>, costs: Costs) -> Result<Option<Change>> {
        let (rows, entries) = (now.0.rows() as f64, now.0.entries() as f64);
        Change::within(before, now, (entries - costs.row * rows) / costs.entry)
    }

    /// The same however long it takes; nothing where shapes are others.
    pub fn always(before: Matrix<'_>, now: Matrix<'_>) -> Result<Option<Change>> {
        Change::within(before, now, f64::INFINITY)
    }

    /// The same where no more than `most` entries are added.
    fn within(before: Matrix<'_>, now: Matrix<'_>, most: f64) -> Result<Option<Change>> {
        let Some(pair) = Pair::of(before, now) else { return Ok(None) };
        let (rows, new) = (now.0.rows(), now.0);
        if most <= 0.0 || pair.expected_entries() > most {
            return Ok(None);
        }
        // Where there are too many, the rest is not looked at.
        let entries = AtomicUsize::new(0);
        let is_too_much = || entries.load(atomic::Ordering::Relaxed) as f64 > most;
        let piece = |number: usize| {
            let all = number * PIECE..((number + 1) * PIECE).min(rows);
            let found = pair.differences(if is_too_much() { 0..0 } else { all });
            entries.fetch_add(found.places.len(), atomic::Ordering::Relaxed);
            found
        };
        let pieces: Vec<Found> = (0..rows.div_ceil(PIECE)).into_par_iter().map(piece).collect();
        if is_too_much() {
            return Ok(None);
        }
        let entries = entries.into_inner();
        let pool = new.pool().clone();
        let (mut scales, mut starts) = (pool.empty(rows), pool.empty(rows + 1));
        let (mut places, mut values) = (pool.empty(entries), pool.empty(entries));
        starts.push(0);
        for piece in pieces {
            let first = places.len() as u64;
            scales.extend_from_slice(&piece.scales);
            starts.extend(piece.ends.iter().map(|end| first + end));
            places.extend_from_slice(&piece.places);
            values.extend_from_slice(&piece.values);
        }
        let pattern = Pattern::shared(new.columns(), Arc::new(starts), Arc::new(places), &pool)?;
        Ok(Some(Change { scales, pattern, values, pool }))
    }

    /// Entries that are added.
    pub fn entries(&self) -> usize {
        self.pattern.entries()
    }
}

/// Two matrices of one shape.
struct Pair<'a> {
    before: (&'a Pattern, Entries<'a>),
    now: (&'a Pattern, Entries<'a>),
}

impl<'a> Pair<'a> {
    fn of(before: Matrix<'a>, now: Matrix<'a>) -> Option<Pair<'a>> {
        let shape = |matrix: Matrix<'_>| [matrix.0.rows(), matrix.0.columns()];
        let pair = Pair { before: (before.0, before.1.entries()), now: (now.0, now.1.entries()) };
        (shape(before) == shape(now)).then_some(pair)
    }

    fn rows(&self, at: usize) -> (Row<'a>, Row<'a>) {
        let row = |(pattern, entries): (&'a Pattern, Entries<'a>)| Row::of(pattern, entries, at);
        (row(self.before), row(self.now))
    }

    fn differences(&self, rows: impl Iterator<Item = usize>) -> Found {
        let mut found = Found::default();
        rows.for_each(|at| found.add(self.rows(at)));
        found
    }

    /// How many entries are added, as some of the rows tell; none, where there are too few to be told by.
    fn expected_entries(&self) -> f64 {
        let rows = self.now.0.rows();
        if rows < PIECE {
            return 0.0;
        }
        (SAMPLE * self.differences((0..rows).step_by(SAMPLE)).places.len()) as f64
    }
}

/// Rows of a product that are others than those of the product before, ascending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed(pub(crate) Arc<[u32]>);

impl Changed {
    /// The rows of the second matrix that are not those of the first, to the bit; nothing where they have
    /// more than half of the entries, or shapes are others.
    pub fn between(before: Matrix<'_>, now: Matrix<'_>) -> Option<Changed> {
        let pair = Pair::of(before, now)?;
        let changed = |rows: std::ops::Range<usize>| -> Vec<u32> {
            let differs = |&at: &usize| {
                let (was, is) = pair.rows(at);
                !is.is(&was)
            };
            rows.filter(differs).map(|at| at as u32).collect()
        };
        let rows = now.0.rows();
        let pieces: Vec<Vec<u32>> = (0..rows.div_ceil(PIECE))
            .into_par_iter()
            .map(|number| changed(number * PIECE..((number + 1) * PIECE).min(rows)))
            .collect();
        let entries = |&at: &u32| now.0.starts()[at as usize + 1] - now.0.starts()[at as usize];
        let summed: u64 = pieces.iter().flatten().map(entries).sum();
        (2 * summed <= now.0.entries() as u64).then(|| Changed(pieces.concat().into()))
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }
}

impl Drop for Change {
    fn drop(&mut self) {
        self.pool.give(std::mem::take(&mut self.scales));
        self.pool.give(std::mem::take(&mut self.values));
    }
}

impl Found {
    fn add(&mut self, (before, now): (Row<'_>, Row<'_>)) {
        let begun = self.places.len();
        let scale = self.differences(&before, &now).unwrap_or_else(|| {
            self.places.truncate(begun);
            self.values.truncate(begun);
            self.places.extend_from_slice(now.places);
            self.values.extend((0..now.places.len()).map(|entry| now.value(entry)));
            0.0
        });
        self.scales.push(scale);
        self.ends.push(self.places.len() as u64);
    }

    /// The factor of a row, with what is left added; nothing where that is no less than the row.
    fn differences(&mut self, before: &Row<'_>, now: &Row<'_>) -> Option<f32> {
        match (before.values, now.values) {
            (Values::Products(old, of), Values::Products(new, by)) => {
                let is_same = |_, _, at: u32| of[at as usize].to_bits() == by[at as usize].to_bits();
                self.merged(before, now, new / old, is_same)
            }
            _ => {
                let (first, same) = first_common(before.places, now.places)?;
                let scale = now.value(same) / before.value(first);
                let is_same = |i, j, _| {
                    let new = now.value(j);
                    (new - scale * before.value(i)).abs() <= NEAR * new.abs()
                };
                self.merged(before, now, scale, is_same)
            }
        }
    }

    /// The same for a factor that is known, where it is known of an entry of both, told by its place in each
    /// and its column, whether it is the same but for the factor.
    fn merged(
        &mut self,
        before: &Row<'_>,
        now: &Row<'_>,
        scale: f32,
        is_same: impl Fn(usize, usize, u32) -> bool,
    ) -> Option<f32> {
        let (was, is) = (before.places, now.places);
        let most = self.places.len() + is.len();
        if !scale.is_finite() || scale == 0.0 {
            return None;
        }
        let (mut i, mut j) = (0, 0);
        while i < was.len() || j < is.len() {
            match place(was, i).cmp(&place(is, j)) {
                Ordering::Less => {
                    self.push(was[i], -scale * before.value(i));
                    i += 1;
                }
                Ordering::Greater => {
                    self.push(is[j], now.value(j));
                    j += 1;
                }
                Ordering::Equal => {
                    if !is_same(i, j, is[j]) {
                        self.push(is[j], now.value(j) - scale * before.value(i));
                    }
                    (i, j) = (i + 1, j + 1);
                }
            }
            if self.places.len() >= most {
                return None;
            }
        }
        Some(scale)
    }

    fn push(&mut self, place: u32, value: f32) {
        self.places.push(place);
        self.values.push(value);
    }
}

/// The column of an entry; behind the last one, none that there is.
fn place(row: &[u32], at: usize) -> u64 {
    row.get(at).map_or(u64::MAX, |&place| place.into())
}

/// Where the first column is that both rows have, in each.
fn first_common(was: &[u32], is: &[u32]) -> Option<(usize, usize)> {
    let (mut i, mut j) = (0, 0);
    while i < was.len() && j < is.len() {
        match was[i].cmp(&is[j]) {
            Ordering::Less => i += 1,
            Ordering::Greater => j += 1,
            Ordering::Equal => return Some((i, j)),
        }
    }
    None
}
