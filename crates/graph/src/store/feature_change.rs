//! What a step changes in dense features, as it lies in the mapped file, and how much steps change.

use std::ops::Range;

use super::Store;
use super::additive::Split;
use super::part::{Part, Records};
use crate::error::{Error, Result};
use crate::snapshot::{Step, Vertex};

/// What a step stores of dense features; nothing is copied.
#[derive(Clone, Copy)]
pub enum StoredFeatures<'a> {
    /// The rows of all vertices that there were when the step was written; those of later ones are zero.
    Whole(&'a [f32]),
    /// What turns the rows of the step before into those of this one.
    Segments(ChangedSegments<'a>),
}

/// The changed segments of a step, in the order of their vertices and, of a vertex, of their columns.
#[derive(Clone, Copy)]
pub struct ChangedSegments<'a> {
    split: Split,
    records: Records<'a>,
}

impl<'a> ChangedSegments<'a> {
    /// The vertex of each segment, ascending: one with several segments is there several times.
    pub fn vertices(&self) -> &'a [Vertex] {
        self.records.vertices
    }

    /// Whether a segment is a whole row.
    pub fn are_rows(&self) -> bool {
        self.split.segments() == 1
    }

    /// The segments of the vertices in a range.
    pub fn within(&self, vertices: Range<Vertex>) -> ChangedSegments<'a> {
        let [from, to] =
            [vertices.start, vertices.end].map(|end| self.records.vertices.partition_point(|&v| v < end));
        let (from, width) = (from.min(to), self.split.segment);
        let records = Records {
            vertices: &self.records.vertices[from..to],
            segments: &self.records.segments[from..to],
            values: &self.records.values[from * width..to * width],
        };
        ChangedSegments { records, ..*self }
    }

    /// The vertex, the first column and the values of each segment.
    pub fn iter(&self) -> impl Iterator<Item = (Vertex, usize, &'a [f32])> + use<'a> {
        let (Records { vertices, segments, values }, split) = (self.records, self.split);
        let values = values.chunks_exact(split.segment);
        vertices.iter().zip(segments).zip(values).map(move |((&vertex, &segment), values)| {
            let columns = split.columns(segment as usize);
            (vertex, columns.start, &values[..columns.len()])
        })
    }
}

/// How many entries a step has of what it changes; `None` where it is stored whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChangeCounts {
    /// Edges that are added or taken away.
    pub edges: Option<usize>,
    /// Segments of features that change.
    pub segments: Option<usize>,
}

impl Store {
    /// What step `t` stores of dense features, as it lies in the file.
    pub fn feature_change(&self, t: Step) -> Result<StoredFeatures<'_>> {
        let (part, within) = self.part(t)?;
        match part.feature_rows(within) {
            Some(rows) => Ok(StoredFeatures::Whole(rows)),
            None if t == 0 => {
                Err(Error::store(&self.path, "the store is damaged: its first step has no features"))
            }
            None => {
                let records = part.feature_records(within);
                Ok(StoredFeatures::Segments(ChangedSegments { split: self.split, records }))
            }
        }
    }

    /// How much the steps change, without a look at what is in them: no checksum is verified.
    pub fn change_counts(&self, steps: Range<Step>) -> Result<Vec<ChangeCounts>> {
        let mut counts = Vec::with_capacity(steps.len());
        for (index, (entry, &first)) in self.manifest.parts.iter().zip(&self.firsts).enumerate() {
            let last = first + entry.steps as usize;
            let here = steps.start.max(first)..steps.end.min(last);
            if here.is_empty() {
                continue;
            }
            let peeked;
            let part = match self.parts[index].get() {
                Some(part) => part,
                None => {
                    peeked = Part::peek(&self.path, entry)?;
                    &peeked
                }
            };
            counts.extend(here.map(|t| part.changes(t - first)));
        }
        Ok(counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{FeatureFacts, FeatureKind, Plan, Writer};
    use crate::{Delta, Edge, FeatureChange, Ids, Snapshot, StepData, StepEdges};

    /// Counts are the same whether their part was opened or not; views have the segments that differ, without
    /// what fills the last one of a row.
    #[test]
    fn what_changes_is_counted_and_viewed_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let mut writer = Writer::create(&path, false).unwrap();
        let features = FeatureFacts { kind: FeatureKind::Dense, width: 5, segments: 2 };
        writer.plan(Plan { directed: true, features, part_bytes: 1, ..Plan::default() });
        writer.add_vertices(&Ids::Number((0..4).collect())).unwrap();
        let edges: Vec<Edge> = (0..4).flat_map(|u| (0..4).map(move |v| Edge::new(u, v))).collect();
        let first = StepEdges::All(Snapshot::from_edges(edges));
        let step = |edges, features| StepData { edges, features, ..StepData::default() };
        writer.push(step(first, FeatureChange::All((0..20).map(|x| x as f32).collect()))).unwrap();
        let delta = Delta { removed: vec![(Edge::new(0, 1), 1.0)], ..Delta::default() };
        let rows = [5.0, 6.0, 7.0, 8.0, -1.0, -2.0, 16.0, 17.0, 18.0, -3.0];
        let change = FeatureChange::Rows(vec![1, 3], rows.to_vec());
        writer.push(step(StepEdges::Delta(delta), change)).unwrap();
        let store = writer.finish().unwrap();
        let [whole, some] = [(None, None), (Some(1), Some(3))];
        let expected = [whole, some].map(|(edges, segments)| ChangeCounts { edges, segments });
        assert_eq!(store.change_counts(0..2).unwrap(), expected);
        assert_eq!(store.change_counts(1..2).unwrap(), expected[1..]);

        let StoredFeatures::Whole(rows) = store.feature_change(0).unwrap() else { panic!("not whole") };
        assert_eq!(rows.len(), 20);
        let StoredFeatures::Segments(changed) = store.feature_change(1).unwrap() else { panic!("whole") };
        assert!(!changed.are_rows() && changed.vertices() == [1, 3, 3]);
        let all: Vec<(Vertex, usize, &[f32])> = changed.iter().collect();
        // The last segment of a row is shorter.
        assert_eq!(all, [(1, 3, &[8.0, -1.0][..]), (3, 0, &[-2.0, 16.0, 17.0]), (3, 3, &[18.0, -3.0])]);
        assert_eq!(changed.within(2..9).iter().collect::<Vec<_>>(), all[1..]);
        assert_eq!(changed.within(0..2).vertices(), [1]);
        assert_eq!(changed.within(2..3).iter().count(), 0);
        assert_eq!(store.change_counts(0..2).unwrap(), expected, "of opened parts");
    }
}
