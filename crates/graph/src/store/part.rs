//! A part: a file of consecutive steps, as a checked view.
//!
//! Every array of a part holds the entries of all its steps one after the other; the array with `.at` behind
//! its name says where each step begins. `docs/store.md` lists them.

use std::ops::Range;
use std::path::Path;

use super::additive::Split;
use super::arrays::{Arrays, Element, STRETCH};
use super::change::{EdgeChange, EdgeList};
use super::feature_change::ChangeCounts;
use super::manifest::PartEntry;
use crate::error::Result;
use crate::snapshot::{Edge, Vertex};

/// Marks of a step.
pub const EDGES_ARE_ALL: u8 = 1;
/// The features of the step are all there.
pub const FEATURES_ARE_ALL: u8 = 2;

/// The lists of edges, and where each step begins in them.
const EDGES: [(&str, &str); 3] =
    [("added", "added.at"), ("removed", "removed.at"), ("reweighted", "reweighted.at")];

/// Whether the edges ascend and have both ends below `vertices`.
///
/// Every store is checked so, edge for edge, when it is first used: nothing in the loop depends on what is
/// found. The targets ascend with the edges, so that the last one is the highest.
fn are_edges(edges: &[Edge], vertices: u64) -> bool {
    let (ascend, highest) = edges.windows(2).fold((true, 0), |(ascend, highest), pair| {
        (ascend & (pair[0] < pair[1]), pair[0].source().max(highest))
    });
    let inside = |last: &Edge| u64::from(last.target().max(last.source()).max(highest)) < vertices;
    ascend && edges.last().is_none_or(inside)
}

/// Bytes from which on it is worth a call to the system to let go of them.
const MANY: usize = 1 << 16;

/// A mapped part whose arrays have been checked, so that reading it cannot fail.
pub struct Part {
    arrays: Arrays,
    steps: usize,
    segment_width: usize,
}

/// The changed segments of one step.
#[derive(Clone, Copy)]
pub struct Records<'a> {
    /// Vertices, ascending.
    pub vertices: &'a [Vertex],
    /// Segments, ascending within a vertex.
    pub segments: &'a [u32],
    /// Values, a segment after the other.
    pub values: &'a [f32],
}

impl<'a> Records<'a> {
    /// The values of a segment of a vertex, where it changed.
    pub fn find(&self, vertex: Vertex, segment: u32, width: usize) -> Option<&'a [f32]> {
        let from = self.vertices.partition_point(|&v| v < vertex);
        let count = self.vertices[from..].iter().take_while(|&&v| v == vertex).count();
        let index = from + self.segments[from..from + count].iter().position(|&s| s == segment)?;
        Some(&self.values[index * width..(index + 1) * width])
    }
}

impl Part {
    /// Opens and checks a part of a store that has `vertices` vertices and splits features so.
    pub fn open(folder: &Path, entry: &PartEntry, vertices: u64, split: Split) -> Result<Part> {
        let arrays = Arrays::open(folder, &entry.file)?;
        let part = Part { arrays, steps: entry.steps as usize, segment_width: split.segment };
        part.check(vertices, split.width)?;
        Ok(part)
    }

    /// Maps a part without a look at its entries: good for [`Part::changes`] and nothing else.
    pub fn peek(folder: &Path, entry: &PartEntry) -> Result<Part> {
        let arrays = Arrays::peek(folder, &entry.file)?;
        let part = Part { arrays, steps: entry.steps as usize, segment_width: 1 };
        if part.arrays.all::<u8>("step.marks")?.len() != part.steps {
            return Err(part.arrays.damaged("step.marks does not have a mark for each step"));
        }
        part.ranges("added.at", part.arrays.all::<Edge>("added")?.len())?;
        part.ranges("removed.at", part.arrays.all::<Edge>("removed")?.len())?;
        part.ranges("features.at", part.arrays.all::<Vertex>("features.vertex")?.len())?;
        Ok(part)
    }

    fn check(&self, known: u64, width: usize) -> Result<()> {
        let steps = self.steps;
        let length = |name: &str, found: usize, expected: usize| {
            let problem = || self.arrays.damaged(format!("{name} has {found} entries, expected {expected}"));
            if found == expected { Ok(()) } else { Err(problem()) }
        };
        length("step.marks", self.arrays.all::<u8>("step.marks")?.len(), steps)?;
        length("step.time", self.arrays.all::<[f64; 2]>("step.time")?.len(), steps)?;
        length("step.events", self.arrays.all::<u64>("step.events")?.len(), steps)?;
        let vertices = self.arrays.all::<u64>("step.vertices")?;
        length("step.vertices", vertices.len(), steps)?;
        if vertices.iter().any(|&count| count > known) {
            return Err(self
                .arrays
                .damaged(format!("step.vertices counts more than the {known} of the store")));
        }
        for (name, at) in EDGES {
            let edges = self.arrays.all::<Edge>(name)?;
            let mut seen = 0;
            for (step, range) in self.ranges(at, edges.len())?.into_iter().enumerate() {
                seen += size_of::<Edge>() * range.len();
                if !are_edges(&edges[range], vertices[step]) {
                    return Err(self.arrays.damaged(format!("{name} is not a sorted list of edges")));
                }
                if seen > STRETCH {
                    self.arrays.release();
                    seen = 0;
                }
            }
            let weights = format!("{name}.weight");
            match name {
                "reweighted" => length(&weights, self.arrays.all::<[f32; 2]>(&weights)?.len(), edges.len())?,
                _ => {
                    if let Some(found) = self.arrays.get::<f32>(&weights)? {
                        length(&weights, found.len(), edges.len())?;
                    }
                }
            }
        }
        let lists = [
            ("features.vertex", "features.at"),
            ("targets.vertex", "targets.at"),
            ("labels.vertex", "labels.at"),
        ];
        for (name, at) in lists {
            let entries = self.arrays.all::<Vertex>(name)?;
            for (step, range) in self.ranges(at, entries.len())?.into_iter().enumerate() {
                let list = &entries[range];
                let inside = list.last().is_none_or(|&highest| u64::from(highest) < vertices[step]);
                if !inside || !list.is_sorted() {
                    return Err(self.arrays.damaged(format!("{name} is not a sorted list of vertices")));
                }
            }
        }
        let records = self.arrays.all::<Vertex>("features.vertex")?.len();
        let segments = self.arrays.all::<u32>("features.segment")?;
        length("features.segment", segments.len(), records)?;
        let highest = segments.iter().max();
        if highest.is_some_and(|&segment| (segment as usize).saturating_mul(self.segment_width) >= width) {
            return Err(self.arrays.damaged("features.segment names a segment that does not exist"));
        }
        length(
            "features.value",
            self.arrays.all::<f32>("features.value")?.len(),
            records.saturating_mul(self.segment_width),
        )?;
        length(
            "targets.value",
            self.arrays.all::<f32>("targets.value")?.len(),
            self.arrays.all::<u32>("targets.vertex")?.len(),
        )?;
        length(
            "labels.class",
            self.arrays.all::<u32>("labels.class")?.len(),
            self.arrays.all::<u32>("labels.vertex")?.len(),
        )?;
        let marks = self.arrays.all::<u8>("step.marks")?;
        let rows = self.arrays.all::<f32>("features.rows")?.len();
        for (step, range) in self.ranges("features.rows.at", rows)?.into_iter().enumerate() {
            let all = marks[step] & FEATURES_ARE_ALL != 0;
            let expected = if all { (vertices[step] as usize).saturating_mul(width) } else { 0 };
            length("features.rows", range.len(), expected)?;
        }
        Ok(())
    }

    /// Where each step begins and ends in an array of `length` entries.
    fn ranges(&self, at: &str, length: usize) -> Result<Vec<Range<usize>>> {
        let Some(at) = self.arrays.get::<u64>(at)? else {
            return if length == 0 {
                Ok(vec![0..0; self.steps])
            } else {
                Err(self.arrays.damaged(format!("{at} is missing")))
            };
        };
        let fits = at.len() == self.steps + 1
            && at.first() == Some(&0)
            && at.last() == Some(&(length as u64))
            && at.is_sorted();
        if !fits {
            return Err(self.arrays.damaged("the beginnings of the steps are not in order"));
        }
        Ok(at.windows(2).map(|pair| pair[0] as usize..pair[1] as usize).collect())
    }

    fn array<T: Element>(&self, name: &str) -> &[T] {
        // Checked when the part was opened; an absent array is an empty one.
        self.arrays.all(name).unwrap_or_default()
    }

    fn range(&self, at: &str, step: usize) -> Range<usize> {
        let at = self.array::<u64>(at);
        if at.is_empty() { 0..0 } else { at[step] as usize..at[step + 1] as usize }
    }

    fn is(&self, step: usize, mark: u8) -> bool {
        self.array::<u8>("step.marks")[step] & mark != 0
    }

    /// When the step begins and ends.
    pub fn time(&self, step: usize) -> [f64; 2] {
        self.array("step.time")[step]
    }

    /// Input rows of the step.
    pub fn events(&self, step: usize) -> u64 {
        self.array("step.events")[step]
    }

    /// Bytes of the arrays with these names.
    pub fn bytes(&self, names: &[&str]) -> u64 {
        self.arrays.bytes(names)
    }

    /// How many edges the entry of the step adds and takes away, and whether those it adds are all.
    pub fn counts(&self, step: usize) -> (usize, usize, bool) {
        let [added, removed] = ["added.at", "removed.at"].map(|at| self.range(at, step).len());
        (added, removed, self.is(step, EDGES_ARE_ALL))
    }

    /// Whether all edges of this step, or of one before it in this part, are stored.
    pub fn has_whole_up_to(&self, step: usize) -> bool {
        (0..self.steps.min(step.saturating_add(1))).any(|step| self.is(step, EDGES_ARE_ALL))
    }

    /// Lets go of the pages of this part.
    pub fn release(&self) {
        self.arrays.release();
    }

    /// Lets go of the pages with the edges of a step; the bytes of those that are too few for it.
    pub fn release_edges(&self, step: usize) -> usize {
        let mut left = 0;
        for (name, at) in EDGES {
            left += self.release_slice(&self.array::<Edge>(name)[self.range(at, step)]);
        }
        for (weights, at) in [("added.weight", "added.at"), ("removed.weight", "removed.at")] {
            let slice = self.array::<f32>(weights).get(self.range(at, step));
            left += slice.map_or(0, |slice| self.release_slice(slice));
        }
        let range = self.range("reweighted.at", step);
        left + self.release_slice(&self.array::<[f32; 2]>("reweighted.weight")[range])
    }

    /// Lets go of the pages with some of its edges.
    pub fn release_list(&self, edges: &[Edge]) {
        self.arrays.release_slice(edges);
    }

    /// Where they are few, a call to the system would take longer than reading them did.
    fn release_slice<T>(&self, values: &[T]) -> usize {
        let bytes = size_of_val(values);
        if bytes < MANY {
            return bytes;
        }
        self.arrays.release_slice(values);
        0
    }

    /// What the step stores of its edges.
    pub fn change(&self, step: usize) -> EdgeChange<'_> {
        let list = |name: &str, at: &str, weight: &str| {
            let range = self.range(at, step);
            EdgeList::new(&self.array(name)[range.clone()], self.array(weight).get(range))
        };
        let added = list("added", "added.at", "added.weight");
        if self.is(step, EDGES_ARE_ALL) {
            return EdgeChange::Whole(added);
        }
        let reweighted = self.range("reweighted.at", step);
        EdgeChange::Delta {
            removed: list("removed", "removed.at", "removed.weight"),
            added,
            reweighted: &self.array("reweighted")[reweighted.clone()],
            weights: &self.array("reweighted.weight")[reweighted],
        }
    }

    /// How many entries the step has of what it changes; `None` where it is stored whole.
    pub fn changes(&self, step: usize) -> ChangeCounts {
        let edges = || self.range("added.at", step).len() + self.range("removed.at", step).len();
        let segments = || self.range("features.at", step).len();
        ChangeCounts {
            edges: (!self.is(step, EDGES_ARE_ALL)).then(edges),
            segments: (!self.is(step, FEATURES_ARE_ALL)).then(segments),
        }
    }

    /// All features of the step, where they are stored.
    pub fn feature_rows(&self, step: usize) -> Option<&[f32]> {
        self.is(step, FEATURES_ARE_ALL)
            .then(|| &self.array("features.rows")[self.range("features.rows.at", step)])
    }

    /// The changed segments of the step.
    pub fn feature_records(&self, step: usize) -> Records<'_> {
        let range = self.range("features.at", step);
        let width = self.segment_width;
        Records {
            vertices: &self.array("features.vertex")[range.clone()],
            segments: &self.array("features.segment")[range.clone()],
            values: &self.array("features.value")[range.start * width..range.end * width],
        }
    }

    /// The values to be predicted at the step.
    pub fn targets(&self, step: usize) -> (&[Vertex], &[f32]) {
        let range = self.range("targets.at", step);
        (&self.array("targets.vertex")[range.clone()], &self.array("targets.value")[range])
    }

    /// The classes to be predicted at the step.
    pub fn labels(&self, step: usize) -> (&[Vertex], &[u32]) {
        let range = self.range("labels.at", step);
        (&self.array("labels.vertex")[range.clone()], &self.array("labels.class")[range])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_that_do_not_ascend_or_go_beyond_the_vertices_are_seen_wherever_they_do() {
        let good: Vec<Edge> = (0..42).map(|i| Edge::new(1 + i % 2, i / 2)).collect();
        assert!(are_edges(&[], 0) && are_edges(&good, 21) && are_edges(&good[..1], 21));
        assert!(!are_edges(&good, 20), "the last target");
        for at in 0..good.len() {
            let changed = |edge: Edge| {
                let mut list = good.clone();
                list[at] = edge;
                list
            };
            let edge = good[at];
            assert!(!are_edges(&changed(Edge::new(21, edge.target())), 21), "a source at {at}");
            if at > 0 {
                assert!(!are_edges(&changed(good[at - 1]), 21), "an edge twice at {at}");
                assert!(!are_edges(&changed(Edge::new(0, 0)), 21), "a step down at {at}");
            }
        }
        assert!(!are_edges(&good[..1], 1) && !are_edges(&[Edge::new(5, 1)], 5));
    }
}
