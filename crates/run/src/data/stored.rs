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

/// The columns of stored features at some steps.
pub struct Stored<'a> {
    /// What is stored of consecutive steps, the first of which is whole.
    changes: Vec<StoredFeatures<'a>>,
    /// The first of those steps.
    first: Step,
    /// How many columns there are.
    pub columns: usize,
    vertices: usize,
    zeros: Vec<f32>,
}

impl<'a> Stored<'a> {
    /// The features at these steps.
    pub fn new(store: &'a Store, columns: usize, steps: Range<Step>) -> Result<Stored<'a>> {
        let (mut changes, mut first) = (Vec::new(), steps.start);
        // The first step of a store is whole, or is refused.
        loop {
            changes.push(store.feature_change(first)?);
            match changes.last() {
                Some(StoredFeatures::Segments(_)) => first -= 1,
                _ => break,
            }
        }
        changes.reverse();
        for t in steps.skip(1) {
            changes.push(store.feature_change(t)?);
        }
        Ok(Stored { changes, first, columns, vertices: store.vertices(), zeros: vec![0.0; columns] })
    }

    /// What is stored of each step, the first of which is whole.
    pub fn changes(&self) -> &[StoredFeatures<'a>] {
        &self.changes
    }

    /// The row of a vertex among those of all that there were: zero where it came later.
    pub fn row<'s>(&'s self, all: &'s [f32], vertex: usize) -> &'s [f32] {
        all.get(vertex * self.columns..(vertex + 1) * self.columns).unwrap_or(&self.zeros)
    }

    /// The vertices whose rows are others at a step than at the one before, ascending.
    pub fn changed(&self, t: Step) -> Vec<Vertex> {
        let (columns, rows) = (self.columns, piece(self.columns));
        match self.changes[t - self.first] {
            StoredFeatures::Segments(segments) => {
                let mut vertices = segments.vertices().to_vec();
                vertices.dedup();
                vertices
            }
            StoredFeatures::Whole(all) => (0..self.vertices)
                .step_by(rows)
                .flat_map(|first| {
                    let mut before = vec![0.0; rows.min(self.vertices - first) * columns];
                    self.write(t - 1, &Scales::default(), first, &mut before, columns);
                    let differs = move |index: &usize| {
                        let before = &before[index * columns..(index + 1) * columns];
                        !is_same(self.row(all, first + index), before)
                    };
                    (0..rows.min(self.vertices - first)).filter(differs).map(move |i| (first + i) as Vertex)
                })
                .collect(),
        }
    }

    /// Writes the rows that the vertices from `first` on have at a step into the first columns of rows of
    /// `width` numbers.
    pub fn write(&self, t: Step, scales: &Scales, first: usize, places: &mut [f32], width: usize) {
        let mut later = &self.changes[..=t - self.first];
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

    /// Writes the rows that some vertices, ascending, have at a step into the first columns of rows of
    /// `width` numbers; `before` has those of the step before, scaled.
    pub fn write_changed<'r>(
        &self,
        t: Step,
        scales: &Scales,
        vertices: &[Vertex],
        (places, width): (&mut [f32], usize),
        before: impl Fn(Vertex) -> &'r [f32],
    ) {
        let rows = vertices.iter().zip(places.chunks_mut(width));
        match (self.changes[t - self.first], vertices) {
            (StoredFeatures::Whole(all), _) => rows.for_each(|(&vertex, place)| {
                scales.write(0, self.row(all, vertex as usize), &mut place[..self.columns]);
            }),
            (StoredFeatures::Segments(segments), &[first, .., last] | &[first @ last]) => {
                let mut segments = segments.within(first..last.saturating_add(1)).iter().peekable();
                for (&vertex, place) in rows {
                    // What lies between the changed segments stays: nothing is written twice.
                    let (before, mut done) = (before(vertex), 0);
                    while let Some((_, column, values)) = segments.next_if(|segment| segment.0 == vertex) {
                        let (kept, end) = (done..column.max(done), column + values.len());
                        place[kept.clone()].copy_from_slice(&before[kept]);
                        scales.write(column, values, &mut place[column..end]);
                        done = done.max(end);
                    }
                    place[done..self.columns].copy_from_slice(&before[done..self.columns]);
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
