//! What some vertices see of the snapshots of a window: themselves and all from which they can be reached
//! along a few edges (DynaHB, section 3: a batch of vertices with its L-hop neighbourhood).
//!
//! The vertices are the same at every step, so that a state stays in its row. Those whose outputs count come
//! first, then those one edge away, and so on; of each distance they ascend. Values of edges are those of the
//! whole snapshot. The rows of the last vertices lack their neighbours: nobody looks that far.

mod sight;

use std::ops::Range;
use std::sync::Arc;

use kymo_tensor::pattern::Pattern;
use kymo_tensor::{Error, Pool, Resident, Result};
use rayon::prelude::*;

use super::weighted::Weighted;
use super::{Graph, Normalisation};

pub use sight::Sight;

/// Rows that are one piece of work.
const ROWS: usize = 2048;

/// Some vertices and those that they see.
pub struct Near {
    /// The vertices, in the order of their rows.
    pub vertices: Arc<Vec<u32>>,
    /// How many of them count: the first.
    pub targets: usize,
    /// How many have all their neighbours, from the first on.
    inner: usize,
    /// The row of each vertex that is seen; anything for others.
    rows: Vec<u32>,
    /// Where arrays come from, and go back to.
    pool: Pool,
}

impl Near {
    /// What these vertices, of which none is there twice, see of snapshots within this many edges.
    pub fn new(targets: &[u32], hops: usize, graphs: &[&Graph], sight: &mut Sight) -> Result<Near> {
        let count = graphs.first().map_or(0, |graph| graph.vertices());
        let wrong = |problem: &str| Err(Error::settings("neighbourhood", problem));
        if graphs.iter().any(|graph| graph.vertices() != count || graph.part.is_some()) {
            return wrong("the snapshots must be whole, and have the same vertices");
        }
        sight.begin(count);
        let pool = sight.pool().clone();
        let mut near =
            Near { vertices: Arc::default(), targets: targets.len(), inner: 0, rows: pool.take(count), pool };
        for (row, &vertex) in (0..).zip(targets) {
            if vertex as usize >= count || !sight.add(vertex) {
                return wrong("a target is there twice, or does not exist");
            }
            near.rows[vertex as usize] = row;
        }
        let mut vertices = near.pool.copied(targets);
        for _ in 0..hops {
            let end = vertices.len();
            for pattern in graphs.iter().filter_map(|graph| graph.seen()) {
                sight.look(pattern, &vertices[near.inner..end]);
            }
            sight.number(&mut vertices, &mut near.rows);
            near.inner = end;
        }
        near.vertices = Arc::new(vertices);
        Ok(near)
    }

    /// Bytes of the tables.
    pub fn bytes(&self) -> usize {
        4 * (self.vertices.capacity() + self.rows.capacity())
    }

    /// Where the entries of a row are among those of a pattern of the whole. Of the last vertices, a loop
    /// alone, where there is one: no sum is empty that is not so in the whole.
    fn entries(&self, row: usize, pattern: &Pattern) -> Range<usize> {
        let vertex = self.vertices[row];
        let starts = &pattern.starts()[vertex as usize..vertex as usize + 2];
        let entries = starts[0] as usize..starts[1] as usize;
        if row < self.inner {
            return entries;
        }
        match pattern.places()[entries.clone()].binary_search(&vertex) {
            Ok(place) => entries.start + place..entries.start + place + 1,
            Err(_) => entries.start..entries.start,
        }
    }

    /// The rows of a pattern of the whole that are here, with columns as they are numbered here. Where it has
    /// a loop at every vertex, none has to be looked for.
    fn of(&self, pattern: &Pattern, has_loops: bool) -> Result<Arc<Pattern>> {
        let count = self.vertices.len();
        let mut starts: Vec<u64> = self.pool.take(count + 1);
        starts[0] = 0;
        starts[1..].par_chunks_mut(ROWS).enumerate().for_each(|(piece, lengths)| {
            for (row, length) in (piece * ROWS..).zip(lengths) {
                let is_loop = has_loops && row >= self.inner;
                *length = if is_loop { 1 } else { self.entries(row, pattern).len() as u64 };
            }
        });
        let mut end = 0;
        for start in &mut starts[1..] {
            end += *start;
            *start = end;
        }
        let mut columns: Vec<u32> = self.pool.take(end as usize);
        pieces(&starts, &mut columns).into_par_iter().for_each(|(piece, columns)| {
            let mut at = 0;
            for row in piece * ROWS..((piece + 1) * ROWS).min(count) {
                if has_loops && row >= self.inner {
                    (columns[at], at) = (row as u32, at + 1);
                    continue;
                }
                let places = &pattern.places()[self.entries(row, pattern)];
                let into = columns[at..at + places.len()].iter_mut();
                into.zip(places).for_each(|(column, &place)| *column = self.rows[place as usize]);
                at += places.len();
            }
        });
        let (starts, columns) = (Arc::new(starts), Arc::new(columns));
        Ok(Arc::new(Pattern::shared(count, starts, columns, &self.pool)?))
    }

    fn weighted(&self, pattern: &Arc<Pattern>, whole: &Weighted) -> Result<Weighted> {
        let values = match whole.values.factors() {
            Some(factors) => {
                let mut here: Vec<f32> = self.pool.take(self.vertices.len());
                let pieces = here.par_chunks_mut(ROWS).zip(self.vertices.par_chunks(ROWS));
                pieces.for_each(|(here, vertices)| {
                    let each = here.iter_mut().zip(vertices);
                    each.for_each(|(here, &vertex)| *here = factors[vertex as usize]);
                });
                Resident::products(pattern.clone(), here)?
            }
            None => {
                let mut values: Vec<f32> = self.pool.take(pattern.entries());
                let all = &whole.values[..];
                pieces(pattern.starts(), &mut values).into_par_iter().for_each(|(piece, values)| {
                    let mut at = 0;
                    for row in piece * ROWS..((piece + 1) * ROWS).min(self.vertices.len()) {
                        let entries = self.entries(row, &whole.pattern);
                        values[at..at + entries.len()].copy_from_slice(&all[entries.clone()]);
                        at += entries.len();
                    }
                });
                Resident::reusable(values, &self.pool)
            }
        };
        Ok(Weighted { pattern: pattern.clone(), values: Arc::new(values) })
    }
}

impl Drop for Near {
    fn drop(&mut self) {
        self.pool.give(std::mem::take(&mut self.rows));
        if let Some(vertices) = Arc::into_inner(std::mem::take(&mut self.vertices)) {
            self.pool.give(vertices);
        }
    }
}

/// The entries of every [`ROWS`] rows, with the number of the piece.
fn pieces<'e, T>(starts: &[u64], mut entries: &'e mut [T]) -> Vec<(usize, &'e mut [T])> {
    let rows = starts.len().saturating_sub(1);
    let cut = |piece: usize| {
        let length = starts[((piece + 1) * ROWS).min(rows)] - starts[piece * ROWS];
        let (mine, rest) = std::mem::take(&mut entries).split_at_mut(length as usize);
        entries = rest;
        (piece, mine)
    };
    (0..rows.div_ceil(ROWS)).map(cut).collect()
}

impl Graph {
    /// The edges that vertices look along, if any have been made.
    fn seen(&self) -> Option<&Arc<Pattern>> {
        self.plain.get().or(self.with_loops.get())
    }

    /// What some vertices see of the snapshot: of what was made of it, the same.
    pub fn near(&self, near: &Near) -> Result<Graph> {
        if self.diffusion.get().is_some() {
            return Err(Error::settings(
                "neighbourhood",
                "walks along edges and against them see everything",
            ));
        }
        let mut edges = 0;
        let graph = Graph { pool: near.pool.clone(), ..Graph::empty(near.vertices.len(), 0) };
        if let Some(pattern) = self.with_loops.get() {
            let pattern = near.of(pattern, true)?;
            edges = pattern.entries().saturating_sub(near.vertices.len());
            for kind in Normalisation::ALL {
                if let Some(whole) = self.normalised[kind as usize].get() {
                    let part = near.weighted(&pattern, whole)?;
                    graph.normalised[kind as usize].get_or_init(|| part);
                }
            }
            graph.with_loops.get_or_init(|| pattern);
        }
        if let Some(pattern) = self.plain.get() {
            let pattern = near.of(pattern, false)?;
            edges = pattern.entries();
            if let Some(whole) = self.mean.get() {
                let part = near.weighted(&pattern, whole)?;
                graph.mean.get_or_init(|| part);
            }
            graph.plain.get_or_init(|| pattern);
        }
        Ok(Graph { edges, ..graph })
    }
}
