//! A part of a snapshot: the rows of some vertices.

use kymo_tensor::{Error, Result};

use super::weighted::Weighted;
use super::{Graph, OwnRows};

/// What a part of a snapshot has to know of the rest.
pub(super) struct Part {
    /// The vertex of each column: those of the rows, then those beyond.
    pub vertices: Vec<u32>,
    /// Of each column, the weight that comes in, a loop included.
    pub degrees: Vec<f32>,
    /// The rows of both walks, where they are wanted.
    pub walks: Option<[Weighted; 2]>,
}

impl Graph {
    /// The part with the rows of `own`, which ascend, and of their neighbours `beyond`; with both random
    /// walks where `walks`, and then `beyond` has to hold the neighbours in both directions.
    pub fn part(&self, own: &[u32], beyond: &[u32], walks: bool) -> Result<Graph> {
        let mut columns = vec![u32::MAX; self.vertices()];
        let vertices: Vec<u32> = own.iter().chain(beyond).copied().collect();
        for (column, &vertex) in (0..).zip(&vertices) {
            let slot = columns.get_mut(vertex as usize);
            *slot.ok_or_else(|| Error::settings("graph", "a part has a vertex that does not exist"))? =
                column;
        }
        let rows = self.rows()?;
        let row =
            |vertex: u32| rows.starts[vertex as usize] as usize..rows.starts[vertex as usize + 1] as usize;
        let (mut starts, mut sources) = (vec![0], Vec::new());
        let mut weights = rows.weights.map(|_| Vec::new());
        for &vertex in own {
            sources.extend(rows.sources[row(vertex)].iter().map(|&source| columns[source as usize]));
            if let (Some(weights), Some(all)) = (&mut weights, rows.weights) {
                weights.extend_from_slice(&all[row(vertex)]);
            }
            starts.push(sources.len() as u64);
        }
        if sources.contains(&u32::MAX) {
            return Err(Error::settings("graph", "a part lacks a neighbour of its vertices"));
        }
        // In the order of the row, with the loop in its place, as the whole sums them up.
        let degree = |&vertex: &u32| {
            let at = rows.sources[row(vertex)].partition_point(|&source| source < vertex);
            let has_loop = rows.sources[row(vertex)].get(at) == Some(&vertex);
            let mut sum = 0.0;
            for (place, index) in row(vertex).enumerate() {
                if place == at && !has_loop {
                    sum += 1.0;
                }
                sum += rows.weight(index);
            }
            if at == row(vertex).len() { sum + 1.0 } else { sum }
        };
        let degrees = vertices.iter().map(degree).collect();
        let walks = match walks {
            true => {
                let [along, against] = self.diffusion()?;
                Some([
                    along.rows(own, &columns, vertices.len())?,
                    against.rows(own, &columns, vertices.len())?,
                ])
            }
            false => None,
        };
        let part = Some(Part { vertices, degrees, walks });
        Ok(Graph { part, ..Graph::of(OwnRows { starts, sources, weights }) })
    }
}
