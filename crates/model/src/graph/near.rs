//! What some vertices see of the snapshots of a window: themselves and all from which they can be reached
//! along a few edges (DynaHB, section 3: a batch of vertices with its L-hop neighbourhood).
//!
//! The vertices are the same at every step, so that a state stays in its row. Those whose outputs count come
//! first, then those one edge away, and so on. Values of edges are those of the whole snapshot. The rows of
//! the last vertices lack their neighbours: nobody looks that far.

use std::sync::Arc;

use kymo_tensor::pattern::Pattern;
use kymo_tensor::{Error, Resident, Result};

use super::weighted::Weighted;
use super::{Graph, Normalisation};

/// Some vertices and those that they see.
pub struct Near {
    /// The vertices, in the order of their rows.
    pub vertices: Arc<Vec<u32>>,
    /// How many of them count: the first.
    pub targets: usize,
    /// How many have all their neighbours, from the first on.
    inner: usize,
    /// The row of each vertex of the whole, or that it has none.
    rows: Vec<u32>,
}

/// That a vertex has no row.
const NONE: u32 = u32::MAX;

impl Near {
    /// What these vertices, of which none is there twice, see of snapshots within this many edges.
    pub fn new(targets: &[u32], hops: usize, graphs: &[&Graph]) -> Result<Near> {
        let count = graphs.first().map_or(0, |graph| graph.vertices());
        let wrong = |problem: &str| Err(Error::settings("neighbourhood", problem));
        if graphs.iter().any(|graph| graph.vertices() != count || graph.part.is_some()) {
            return wrong("the snapshots must be whole, and have the same vertices");
        }
        let (mut vertices, mut rows) = (targets.to_vec(), vec![NONE; count]);
        for (row, &vertex) in (0..).zip(targets) {
            match rows.get_mut(vertex as usize) {
                Some(place) if *place == NONE => *place = row,
                _ => return wrong("a target is there twice, or does not exist"),
            }
        }
        let mut begun = 0;
        for _ in 0..hops {
            let end = vertices.len();
            for pattern in graphs.iter().filter_map(|graph| graph.seen()) {
                for row in begun..end {
                    let vertex = vertices[row] as usize;
                    let (starts, places) = (pattern.starts(), pattern.places());
                    for &source in &places[starts[vertex] as usize..starts[vertex + 1] as usize] {
                        if rows[source as usize] == NONE {
                            rows[source as usize] = vertices.len() as u32;
                            vertices.push(source);
                        }
                    }
                }
            }
            begun = end;
        }
        Ok(Near { vertices: Arc::new(vertices), targets: targets.len(), inner: begun, rows })
    }

    /// The entries of some rows and columns of a pattern, and where each of them was.
    fn of(&self, pattern: &Pattern) -> Result<(Arc<Pattern>, Vec<usize>)> {
        let (starts, places) = (pattern.starts(), pattern.places());
        let (mut ends, mut columns, mut origins) = (vec![0], Vec::new(), Vec::new());
        for (row, &vertex) in self.vertices.iter().enumerate() {
            let entries = starts[vertex as usize] as usize..starts[vertex as usize + 1] as usize;
            for (entry, &place) in entries.clone().zip(&places[entries]) {
                let column = self.rows[place as usize];
                // Of the last vertices, a loop alone: no sum is empty that is not so in the whole.
                if row < self.inner || column as usize == row {
                    columns.push(column);
                    origins.push(entry);
                }
            }
            ends.push(columns.len() as u64);
        }
        Ok((Arc::new(Pattern::new(self.vertices.len(), ends, columns)?), origins))
    }

    fn weighted(&self, pattern: &Arc<Pattern>, origins: &[usize], whole: &Weighted) -> Result<Weighted> {
        let values = match whole.values.factors() {
            Some(factors) => {
                let factors = self.vertices.iter().map(|&vertex| factors[vertex as usize]).collect();
                Resident::products(pattern.clone(), factors)?
            }
            None => origins.iter().map(|&origin| whole.values[origin]).collect::<Vec<f32>>().into(),
        };
        Ok(Weighted { pattern: pattern.clone(), values: Arc::new(values) })
    }
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
        let graph = Graph { pool: self.pool.clone(), ..Graph::empty(near.vertices.len(), 0) };
        if let Some(pattern) = self.with_loops.get() {
            let (pattern, origins) = near.of(pattern)?;
            edges = pattern.entries().saturating_sub(near.vertices.len());
            for kind in Normalisation::ALL {
                if let Some(whole) = self.normalised[kind as usize].get() {
                    let part = near.weighted(&pattern, &origins, whole)?;
                    graph.normalised[kind as usize].get_or_init(|| part);
                }
            }
            graph.with_loops.get_or_init(|| pattern);
        }
        if let Some(pattern) = self.plain.get() {
            let (pattern, origins) = near.of(pattern)?;
            edges = pattern.entries();
            if let Some(whole) = self.mean.get() {
                let part = near.weighted(&pattern, &origins, whole)?;
                graph.mean.get_or_init(|| part);
            }
            graph.plain.get_or_init(|| pattern);
        }
        Ok(Graph { edges, ..graph })
    }
}
