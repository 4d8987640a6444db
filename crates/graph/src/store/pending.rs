//! Steps that wait to be written as a part.
//!
//! Every array of a part holds the entries of all its steps one after the other; the array with `.at` behind
//! its name says where each step begins. `docs/store.md` lists them.

use std::path::Path;

use super::arrays::{Array, Element, FileEntry, write};
use super::part::{EDGES_ARE_ALL, FEATURES_ARE_ALL};
use crate::delta::Delta;
use crate::error::Result;
use crate::snapshot::{Edge, Snapshot, Vertex};

/// Steps waiting to be written as a part.
#[derive(Default)]
pub struct Pending {
    marks: Vec<u8>,
    times: Vec<[f64; 2]>,
    events: Vec<u64>,
    vertices: Vec<u64>,
    added: List<Edge>,
    added_weights: Vec<f32>,
    removed: List<Edge>,
    removed_weights: Vec<f32>,
    reweighted: List<Edge>,
    reweighted_weights: Vec<[f32; 2]>,
    feature_vertices: List<Vertex>,
    feature_segments: Vec<u32>,
    feature_values: Vec<f32>,
    feature_rows: List<f32>,
    target_vertices: List<Vertex>,
    target_values: Vec<f32>,
    label_vertices: List<Vertex>,
    label_classes: Vec<u32>,
}

/// Entries of several steps and where each step begins.
struct List<T> {
    at: Vec<u64>,
    entries: Vec<T>,
}

impl<T> Default for List<T> {
    fn default() -> Self {
        List { at: vec![0], entries: Vec::new() }
    }
}

impl<T: Element> List<T> {
    fn extend(&mut self, entries: impl IntoIterator<Item = T>) {
        self.entries.extend(entries);
        self.at.push(self.entries.len() as u64);
    }

    fn bytes(&self) -> usize {
        self.entries.len() * size_of::<T>() + self.at.len() * 8
    }
}

/// What a step changes in the features, ready to be stored.
#[derive(Default)]
pub struct FeatureRecords {
    /// All rows, where that is cheaper than the changed segments.
    pub rows: Option<Vec<f32>>,
    /// Vertices of the changed segments, ascending.
    pub vertices: Vec<Vertex>,
    /// The changed segments, ascending within a vertex.
    pub segments: Vec<u32>,
    /// The values of the changed segments, one segment after the other.
    pub values: Vec<f32>,
}

impl Pending {
    /// How many steps wait.
    pub fn steps(&self) -> usize {
        self.marks.len()
    }

    /// Bytes they will take on disk, about.
    pub fn bytes(&self) -> usize {
        let edges = self.added.bytes() + self.removed.bytes() + self.reweighted.bytes();
        let weights =
            self.added_weights.len() + self.removed_weights.len() + 2 * self.reweighted_weights.len();
        let features =
            self.feature_vertices.bytes() * 2 + self.feature_values.len() * 4 + self.feature_rows.bytes();
        edges + weights * 4 + features + (self.target_vertices.bytes() + self.label_vertices.bytes()) * 2
    }

    /// Opens a step; the calls that follow fill it.
    pub fn begin(&mut self, times: [f64; 2], events: u64, vertices: u64) {
        self.marks.push(0);
        self.times.push(times);
        self.events.push(events);
        self.vertices.push(vertices);
    }

    /// The edges of the step, all of them.
    pub fn edges(&mut self, snapshot: &Snapshot<'_>) {
        self.mark(EDGES_ARE_ALL);
        self.added.extend(snapshot.edges.iter().copied());
        self.added_weights.extend((0..snapshot.len()).map(|index| snapshot.weight(index)));
        self.removed.extend([]);
        self.reweighted.extend([]);
    }

    /// The edges of the step as a change.
    pub fn delta(&mut self, delta: &Delta) {
        self.added.extend(delta.added.iter().map(|&(edge, _)| edge));
        self.added_weights.extend(delta.added.iter().map(|&(_, weight)| weight));
        self.removed.extend(delta.removed.iter().map(|&(edge, _)| edge));
        self.removed_weights.extend(delta.removed.iter().map(|&(_, weight)| weight));
        self.reweighted.extend(delta.reweighted.iter().map(|change| change.edge));
        self.reweighted_weights.extend(delta.reweighted.iter().map(|change| [change.before, change.after]));
    }

    /// The features, targets and labels of the step.
    pub fn vertices(
        &mut self,
        features: FeatureRecords,
        targets: &[(Vertex, f32)],
        labels: &[(Vertex, u32)],
    ) {
        if features.rows.is_some() {
            self.mark(FEATURES_ARE_ALL);
        }
        self.feature_rows.extend(features.rows.into_iter().flatten());
        self.feature_vertices.extend(features.vertices);
        self.feature_segments.extend(features.segments);
        self.feature_values.extend(features.values);
        self.target_vertices.extend(targets.iter().map(|&(vertex, _)| vertex));
        self.target_values.extend(targets.iter().map(|&(_, value)| value));
        self.label_vertices.extend(labels.iter().map(|&(vertex, _)| vertex));
        self.label_classes.extend(labels.iter().map(|&(_, class)| class));
    }

    fn mark(&mut self, mark: u8) {
        if let Some(last) = self.marks.last_mut() {
            *last |= mark;
        }
    }

    /// Writes the steps as a part and forgets them. Arrays that say nothing (empty ones, weights of 1) are
    /// left out.
    pub fn write(
        &mut self,
        folder: &Path,
        name: String,
        feature_width: usize,
        segment_width: usize,
    ) -> Result<FileEntry> {
        let mut arrays = vec![
            Array::new("step.marks", &self.marks, 1),
            Array::new("step.time", &self.times, 1),
            Array::new("step.events", &self.events, 1),
            Array::new("step.vertices", &self.vertices, 1),
        ];
        let ones = |weights: &[f32]| weights.iter().all(|&weight| weight == 1.0);
        add(&mut arrays, ["added", "added.at"], &self.added, 1);
        if !ones(&self.added_weights) {
            arrays.push(Array::new("added.weight", &self.added_weights, 1));
        }
        add(&mut arrays, ["removed", "removed.at"], &self.removed, 1);
        if !ones(&self.removed_weights) {
            arrays.push(Array::new("removed.weight", &self.removed_weights, 1));
        }
        add(&mut arrays, ["reweighted", "reweighted.at"], &self.reweighted, 1);
        if !self.reweighted_weights.is_empty() {
            arrays.push(Array::new("reweighted.weight", &self.reweighted_weights, 1));
        }
        add(&mut arrays, ["features.rows", "features.rows.at"], &self.feature_rows, feature_width);
        add(&mut arrays, ["features.vertex", "features.at"], &self.feature_vertices, 1);
        if !self.feature_segments.is_empty() {
            arrays.push(Array::new("features.segment", &self.feature_segments, 1));
            arrays.push(Array::new("features.value", &self.feature_values, segment_width));
        }
        add(&mut arrays, ["targets.vertex", "targets.at"], &self.target_vertices, 1);
        if !self.target_values.is_empty() {
            arrays.push(Array::new("targets.value", &self.target_values, 1));
        }
        add(&mut arrays, ["labels.vertex", "labels.at"], &self.label_vertices, 1);
        if !self.label_classes.is_empty() {
            arrays.push(Array::new("labels.class", &self.label_classes, 1));
        }
        let entry = write(folder, name, arrays)?;
        *self = Pending::default();
        Ok(entry)
    }
}

fn add<'a, T: Element>(
    arrays: &mut Vec<Array<'a>>,
    [name, at]: [&'static str; 2],
    list: &'a List<T>,
    columns: usize,
) {
    if !list.entries.is_empty() {
        arrays.push(Array::new(name, &list.entries, columns));
        arrays.push(Array::new(at, &list.at, 1));
    }
}
