//! Additive features (DistDy, section 3.2): a row is split into segments, and a step stores the changed ones.
//!
//! DistDy keeps the changed segments of every step and follows references for the others. Here all rows are
//! stored anew as soon as the changes since the last full step would take more room than the rows themselves:
//! the room is at most twice that of the changes, and a step is rebuilt by reading at most twice its own
//! size.

use super::part::Records;
use super::pending::FeatureRecords;
use crate::error::{Error, Result};
use crate::snapshot::Vertex;
use crate::step::FeatureChange;

/// How rows are split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    /// Columns of a row.
    pub width: usize,
    /// Columns of a segment; the last segment of a row may have fewer that count.
    pub segment: usize,
}

impl Split {
    /// Rows of `width` columns in at most `segments` segments.
    pub fn new(width: usize, segments: usize) -> Self {
        Split { width, segment: width.div_ceil(segments.max(1)).max(1) }
    }

    /// How many segments a row has.
    pub fn segments(self) -> usize {
        self.width.div_ceil(self.segment)
    }

    /// The columns of a segment.
    pub fn columns(self, segment: usize) -> std::ops::Range<usize> {
        segment * self.segment..((segment + 1) * self.segment).min(self.width)
    }

    /// Writes the segments of a step into the rows of all vertices.
    pub fn apply(self, records: Records<'_>, rows: &mut [f32]) {
        let values = records.values.chunks_exact(self.segment);
        for ((&vertex, &segment), values) in records.vertices.iter().zip(records.segments).zip(values) {
            let columns = self.columns(segment as usize);
            let start = vertex as usize * self.width;
            rows[start + columns.start..start + columns.end].copy_from_slice(&values[..columns.len()]);
        }
    }
}

/// The features as they stand after the last step, from which the next change is told.
pub struct Additive {
    /// How rows are split.
    pub split: Split,
    rows: Vec<f32>,
    stored_since: usize,
    fresh: bool,
}

impl Additive {
    /// Features before the first step: all zero, nothing stored.
    pub fn new(split: Split) -> Self {
        Additive { split, rows: Vec::new(), stored_since: 0, fresh: true }
    }

    /// Features that stand at `rows`, with `stored_since` numbers stored since all of them were.
    pub fn resume(split: Split, rows: Vec<f32>, stored_since: usize) -> Self {
        Additive { split, rows, stored_since, fresh: false }
    }

    /// Takes a step's change and says what is to be stored of it.
    pub fn change(&mut self, change: FeatureChange, vertices: usize) -> Result<FeatureRecords> {
        let grown = self.rows.len() != vertices * self.split.width;
        self.rows.resize(vertices * self.split.width, 0.0);
        let mut records = FeatureRecords::default();
        let (listed, values) = match change {
            FeatureChange::Same => (Vec::new(), Vec::new()),
            FeatureChange::All(values) => ((0..vertices as Vertex).collect(), values),
            FeatureChange::Rows(listed, values) => (listed, values),
        };
        if values.len() != listed.len() * self.split.width || listed.iter().any(|&v| v as usize >= vertices) {
            let problem =
                format!("rows of {} values were expected for {} vertices", self.split.width, listed.len());
            return Err(Error::settings("features", problem));
        }
        for (&vertex, row) in listed.iter().zip(values.chunks_exact(self.split.width.max(1))) {
            let start = vertex as usize * self.split.width;
            let old = &mut self.rows[start..start + self.split.width];
            for segment in 0..self.split.segments() {
                let columns = self.split.columns(segment);
                let same = old[columns.clone()]
                    .iter()
                    .zip(&row[columns.clone()])
                    .all(|(a, b)| a.to_bits() == b.to_bits());
                if !same {
                    old[columns.clone()].copy_from_slice(&row[columns.clone()]);
                    records.vertices.push(vertex);
                    records.segments.push(segment as u32);
                    records.values.extend_from_slice(&row[columns.clone()]);
                    records.values.extend((columns.len()..self.split.segment).map(|_| 0.0));
                }
            }
        }
        self.stored_since += cost(records.vertices.len(), self.split);
        if self.fresh || grown || self.stored_since > self.rows.len() {
            self.fresh = false;
            self.stored_since = 0;
            records = FeatureRecords { rows: Some(self.rows.clone()), ..FeatureRecords::default() };
        }
        Ok(records)
    }
}

/// Numbers that `records` changed segments take on disk: their values, their vertex and their number.
pub fn cost(records: usize, split: Split) -> usize {
    records * (split.segment + 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The oracle keeps every step's rows whole.
        #[test]
        fn what_is_stored_rebuilds_every_step(
            width in 1usize..9,
            segments in 1usize..6,
            steps in prop::collection::vec(prop::collection::vec((0u32..5, 0usize..9, -2i8..3), 0..6), 1..12),
        ) {
            let (split, vertices) = (Split::new(width, segments), 5);
            let mut additive = Additive::new(split);
            let (mut truth, mut rebuilt) = (vec![0.0f32; vertices * width], vec![f32::NAN; vertices * width]);
            for (step, changes) in steps.into_iter().enumerate() {
                for &(v, column, value) in &changes {
                    truth[v as usize * width + column % width] = value.into();
                }
                let mut listed: Vec<u32> = changes.iter().map(|change| change.0).collect();
                listed.sort_unstable();
                listed.dedup();
                let rows =
                    listed.iter().flat_map(|&v| truth[v as usize * width..][..width].to_vec()).collect();
                let change = if step % 3 == 2 {
                    FeatureChange::All(truth.clone())
                } else {
                    FeatureChange::Rows(listed, rows)
                };
                let stored = additive.change(change, vertices).unwrap();
                if let Some(rows) = &stored.rows {
                    rebuilt.clone_from(rows);
                }
                prop_assert!(stored.vertices.len() * split.segment <= vertices * width);
                let records = Records {
                    vertices: &stored.vertices,
                    segments: &stored.segments,
                    values: &stored.values,
                };
                split.apply(records, &mut rebuilt);
                prop_assert_eq!(&rebuilt, &truth);
            }
        }
    }
}
