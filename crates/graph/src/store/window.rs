//! A window of recent feature rows in memory (DistDy, section 3.2).
//!
//! The first step of the window is held whole and every later one as its changed segments:
//! `|X| + (w - 1) |dX|` numbers instead of `w |X|`. Steps that have left the window are read from disk when
//! they are asked for.

use std::collections::VecDeque;

use super::Store;
use super::part::Records;
use crate::error::Result;
use crate::snapshot::{Step, Vertex};

/// The features of the last steps up to one.
pub struct FeatureWindow<'a> {
    store: &'a Store,
    length: usize,
    first: Step,
    rows: Vec<f32>,
    later: VecDeque<Records<'a>>,
}

impl<'a> FeatureWindow<'a> {
    /// A window of `length` steps that ends with step `last`.
    pub fn new(store: &'a Store, length: usize, last: Step) -> Result<Self> {
        let first = (last + 1).saturating_sub(length.max(1));
        let rows = store.features(first)?.into_owned();
        let mut window = FeatureWindow { store, length: length.max(1), first, rows, later: VecDeque::new() };
        while window.last() < last {
            window.advance()?;
        }
        Ok(window)
    }

    /// The newest step in the window.
    pub fn last(&self) -> Step {
        self.first + self.later.len()
    }

    /// The oldest step in the window.
    pub fn first(&self) -> Step {
        self.first
    }

    /// Numbers held in memory, or mapped and counted on: rows, and the changed segments of the later steps.
    pub fn held(&self) -> usize {
        self.rows.len() + self.later.iter().map(|records| records.values.len()).sum::<usize>()
    }

    /// Moves the window one step on.
    pub fn advance(&mut self) -> Result<()> {
        let next = self.last() + 1;
        let (part, within) = self.store.part(next)?;
        if part.feature_rows(within).is_some() {
            // The step is stored whole: the window cannot be continued by changes and begins anew with it in
            // view.
            self.later.clear();
            self.first = next;
            self.rows = self.store.features(next)?.into_owned();
            return Ok(());
        }
        self.later.push_back(part.feature_records(within));
        while self.later.len() >= self.length {
            if let Some(records) = self.later.pop_front() {
                self.store.split.apply(records, &mut self.rows);
                self.first += 1;
            }
        }
        Ok(())
    }

    /// The features of a vertex at a step: from the window where it reaches, else from disk.
    pub fn row(&self, t: Step, v: Vertex) -> Result<Vec<f32>> {
        if t < self.first || t > self.last() {
            return self.store.feature_row(t, v);
        }
        let split = self.store.split;
        let start = v as usize * split.width;
        let mut row = self.rows[start..start + split.width].to_vec();
        for records in self.later.iter().take(t - self.first) {
            for segment in 0..split.segments() {
                if let Some(values) = records.find(v, segment as u32, split.segment) {
                    let columns = split.columns(segment);
                    row[columns.clone()].copy_from_slice(&values[..columns.len()]);
                }
            }
        }
        Ok(row)
    }
}
