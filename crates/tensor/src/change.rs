//! What makes the product of one sparse matrix out of that of another (REAL, section 4.1, Eq. 3): for each
//! row a factor that its sum is scaled by, and entries that are added to it.
//!
//! Of consecutive snapshots most entries are the same. A row of a mean has all its values changed by one edge
//! more or less, and by the same factor: its sum is scaled, and what the edge brings is added. Rows of which
//! little is left are summed anew: their factor is zero, and their entries are all there are. So no sum is
//! made of more entries than it has, and nothing is taken away from a sum of which it was nearly all.
//!
//! Where values are products of factors of both ends, as in graph convolution with the usual normalisation,
//! an edge changes those of all others at its ends: nearly all entries are others then, and there is no
//! change that would be smaller than the matrix.

use std::cmp::Ordering;
use std::sync::Arc;

use rayon::prelude::*;

use crate::cuda::Resident;
use crate::error::Result;
use crate::pattern::Pattern;
use crate::pool::Pool;

/// Rows that one thread compares at a time.
const PIECE: usize = 4096;

/// Values that are as near to each other are the same: they are ratios that were rounded twice.
const NEAR: f32 = 4.0 * f32::EPSILON;

/// What an entry costs that has to be found, put in order both ways and added, over one that is added, and
/// what it costs to scale a row, in entries: see `cargo bench --bench increments`.
const ENTRY: f64 = 1.6;
const ROW: f64 = 1.5;

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

/// A matrix: where its entries are, and what they are.
pub type Matrix<'a> = (&'a Arc<Pattern>, &'a Resident);

/// A row of a matrix: columns and values.
type Row<'a> = (&'a [u32], &'a [f32]);

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
    pub fn between(before: Matrix<'_>, now: Matrix<'_>) -> Result<Option<Change>> {
        let (rows, entries) = (now.0.rows() as f64, now.0.entries() as f64);
        Change::within(before, now, entries - ROW * rows)
    }

    /// The same however long it takes; nothing where values are products of factors of both ends, or shapes
    /// are others.
    pub fn always(before: Matrix<'_>, now: Matrix<'_>) -> Result<Option<Change>> {
        Change::within(before, now, f64::INFINITY)
    }

    /// The same where what is added costs no more than `most` entries of the whole.
    fn within(before: Matrix<'_>, now: Matrix<'_>, most: f64) -> Result<Option<Change>> {
        let ((old, old_values), (new, new_values)) = (before, now);
        let is_product = old_values.are_products() || new_values.are_products();
        let rows = new.rows();
        if is_product || [rows, new.columns()] != [old.rows(), old.columns()] || most <= 0.0 {
            return Ok(None);
        }
        let (old_values, new_values): (&[f32], &[f32]) = (old_values, new_values);
        let row = |pattern: &'_ Pattern, at: usize| {
            pattern.starts()[at] as usize..pattern.starts()[at + 1] as usize
        };
        let piece = |number: usize| {
            let mut found = Found::default();
            for at in number * PIECE..((number + 1) * PIECE).min(rows) {
                let (was, is) = (row(old, at), row(new, at));
                found.add(
                    (&old.places()[was.clone()], &old_values[was]),
                    (&new.places()[is.clone()], &new_values[is]),
                );
            }
            found
        };
        let pieces: Vec<Found> = (0..rows.div_ceil(PIECE)).into_par_iter().map(piece).collect();
        let entries: usize = pieces.iter().map(|piece| piece.places.len()).sum();
        if ENTRY * entries as f64 > most {
            return Ok(None);
        }
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

impl Drop for Change {
    fn drop(&mut self) {
        self.pool.give(std::mem::take(&mut self.scales));
        self.pool.give(std::mem::take(&mut self.values));
    }
}

impl Found {
    fn add(&mut self, before: Row<'_>, now: Row<'_>) {
        let begun = self.places.len();
        let scale = self.differences(before, now).unwrap_or_else(|| {
            self.places.truncate(begun);
            self.values.truncate(begun);
            self.places.extend_from_slice(now.0);
            self.values.extend_from_slice(now.1);
            0.0
        });
        self.scales.push(scale);
        self.ends.push(self.places.len() as u64);
    }

    /// The factor of a row, with what is left added; nothing where that is no less than the row.
    fn differences(&mut self, (was, old): Row<'_>, (is, new): Row<'_>) -> Option<f32> {
        let most = self.places.len() + is.len();
        let (first, same) = first_common(was, is)?;
        let scale = new[same] / old[first];
        if !scale.is_finite() || scale == 0.0 {
            return None;
        }
        let (mut i, mut j) = (0, 0);
        while i < was.len() || j < is.len() {
            match place(was, i).cmp(&place(is, j)) {
                Ordering::Less => {
                    self.push(was[i], -scale * old[i]);
                    i += 1;
                }
                Ordering::Greater => {
                    self.push(is[j], new[j]);
                    j += 1;
                }
                Ordering::Equal => {
                    let difference = new[j] - scale * old[i];
                    if difference.abs() > NEAR * new[j].abs() {
                        self.push(is[j], difference);
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
