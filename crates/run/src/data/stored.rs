//! Dense features of the store, step after step, read where they lie: nothing but what is asked for is
//! copied.

use std::ops::Range;

use kymo_graph::store::StoredFeatures;
use kymo_graph::{Step, Store, Vertex};

use super::scale::Scales;
use crate::error::Result;

/// Numbers that one piece of work is about: few enough for the caches of a core. Pieces depend on the data
/// alone, so that results do not depend on the number of threads.
const PIECE: usize = 1 << 16;

/// Rows of `width` numbers that are one piece of work.
pub fn piece(width: usize) -> usize {
    (PIECE / width.max(1)).max(1)
}

/// The columns of stored features at a step.
pub struct Stored<'a> {
    /// What is stored of some steps; the first of them is whole.
    changes: Vec<StoredFeatures<'a>>,
    /// Which of them is the current one.
    at: usize,
    columns: usize,
    vertices: usize,
    zeros: Vec<f32>,
}

impl<'a> Stored<'a> {
    /// The features at the first of some steps.
    pub fn new(store: &'a Store, columns: usize, steps: Range<Step>) -> Result<Stored<'a>> {
        let mut changes = Vec::new();
        // The first step is whole, or is refused.
        for t in (0..=steps.start).rev() {
            changes.push(store.feature_change(t)?);
            if let Some(StoredFeatures::Whole(_)) = changes.last() {
                break;
            }
        }
        changes.reverse();
        let at = changes.len() - 1;
        for t in steps.skip(1) {
            changes.push(store.feature_change(t)?);
        }
        Ok(Stored { changes, at, columns, vertices: store.vertices(), zeros: vec![0.0; columns] })
    }

    /// What is stored of each step, the first of which is whole.
    pub fn changes(&self) -> &[StoredFeatures<'a>] {
        &self.changes
    }

    /// The row of a vertex among those of all that there were: zero where it came later.
    pub fn row<'s>(&'s self, all: &'s [f32], vertex: usize) -> &'s [f32] {
        all.get(vertex * self.columns..(vertex + 1) * self.columns).unwrap_or(&self.zeros)
    }

    /// Goes to the next step.
    pub fn advance(&mut self) {
        self.at += 1;
    }

    /// The vertices whose rows are others than at the step before, ascending.
    pub fn changed(&self) -> Vec<Vertex> {
        let (columns, rows) = (self.columns, piece(self.columns));
        match self.changes[self.at] {
            StoredFeatures::Segments(segments) => {
                let mut vertices = segments.vertices().to_vec();
                vertices.dedup();
                vertices
            }
            StoredFeatures::Whole(all) => (0..self.vertices)
                .step_by(rows)
                .flat_map(|first| {
                    let mut before = vec![0.0; rows.min(self.vertices - first) * columns];
                    self.write_as_of(self.at - 1, &Scales::default(), first, &mut before, columns);
                    let differs = move |index: &usize| {
                        let before = &before[index * columns..(index + 1) * columns];
                        !is_same(self.row(all, first + index), before)
                    };
                    (0..rows.min(self.vertices - first)).filter(differs).map(move |i| (first + i) as Vertex)
                })
                .collect(),
        }
    }

    /// Writes the rows of the vertices from `first` on into the first columns of rows of `width` numbers.
    pub fn write(&self, scales: &Scales, first: usize, places: &mut [f32], width: usize) {
        self.write_as_of(self.at, scales, first, places, width);
    }

    fn write_as_of(&self, at: usize, scales: &Scales, first: usize, places: &mut [f32], width: usize) {
        let mut later = &self.changes[..=at];
        for (number, change) in later.iter().enumerate().rev() {
            if let StoredFeatures::Whole(all) = change {
                for (vertex, place) in (first..).zip(places.chunks_mut(width)) {
                    scales.write(0, self.row(all, vertex), &mut place[..self.columns]);
                }
                later = &later[number + 1..];
                break;
            }
        }
        let vertices = first as Vertex..(first + places.len().div_ceil(width)) as Vertex;
        for change in later {
            let StoredFeatures::Segments(segments) = change else { continue };
            for (vertex, column, values) in segments.within(vertices.clone()).iter() {
                let start = (vertex as usize - first) * width + column;
                scales.write(column, values, &mut places[start..start + values.len()]);
            }
        }
    }

    /// Writes the rows of some vertices, ascending, into the first columns of rows of `width` numbers;
    /// `before` has those of the step before, scaled.
    pub fn write_changed<'r>(
        &self,
        scales: &Scales,
        vertices: &[Vertex],
        places: &mut [f32],
        width: usize,
        before: impl Fn(Vertex) -> &'r [f32],
    ) {
        let rows = vertices.iter().zip(places.chunks_mut(width));
        match (self.changes[self.at], vertices) {
            (StoredFeatures::Whole(all), _) => rows.for_each(|(&vertex, place)| {
                scales.write(0, self.row(all, vertex as usize), &mut place[..self.columns]);
            }),
            (StoredFeatures::Segments(segments), &[first, .., last] | &[first @ last]) => {
                let are_rows = segments.are_rows();
                let mut segments = segments.within(first..last.saturating_add(1)).iter().peekable();
                for (&vertex, place) in rows {
                    let is_new = segments.peek().is_some_and(|segment| segment.0 == vertex);
                    if !(is_new && are_rows) {
                        place[..self.columns].copy_from_slice(&before(vertex)[..self.columns]);
                    }
                    while let Some((_, column, values)) = segments.next_if(|segment| segment.0 == vertex) {
                        scales.write(column, values, &mut place[column..column + values.len()]);
                    }
                }
            }
            (StoredFeatures::Segments(_), []) => {}
        }
    }
}

/// Whether two rows have the same bits.
pub fn is_same(one: &[f32], other: &[f32]) -> bool {
    bytemuck::cast_slice::<f32, u32>(one) == bytemuck::cast_slice::<f32, u32>(other)
}
