//! The edges of a snapshot in compressed rows, wherever they are, and what matrices are made of.

use kymo_tensor::{Error, Pool, Result};

use super::weighted::Normalisation;

/// Edges by target: the in-neighbours of vertex `v` are `starts[v]..starts[v + 1]` of `sources`, ascending.
#[derive(Clone, Copy)]
pub struct Rows<'r> {
    /// Where each row begins, and the end of the last.
    pub starts: &'r [u64],
    /// The source of each edge.
    pub sources: &'r [u32],
    /// The weight of each edge; all are 1 where there are none.
    pub weights: Option<&'r [f32]>,
}

/// Rows with a loop at every vertex: their beginnings, columns and weights.
pub(super) type Looped = (Vec<u64>, Vec<u32>, Option<Vec<f32>>);

impl Rows<'_> {
    /// How many rows there are.
    pub fn count(&self) -> usize {
        self.starts.len().saturating_sub(1)
    }

    /// Fails unless these are rows of a graph.
    pub fn check(&self) -> Result<()> {
        let wrong = |problem: &str| Err(Error::settings("graph", problem));
        let (starts, sources) = (self.starts, self.sources);
        if starts.first() != Some(&0) || starts.last() != Some(&(sources.len() as u64)) || !starts.is_sorted()
        {
            return wrong("the beginnings of its rows are not in order");
        }
        if sources.iter().any(|&source| source as usize >= self.count()) {
            return wrong("an edge starts at a vertex that does not exist");
        }
        if self.weights.is_some_and(|weights| weights.len() != sources.len()) {
            return wrong("there are not as many weights as edges");
        }
        let ascends = |row: &[u64]| sources[row[0] as usize..row[1] as usize].is_sorted_by(|a, b| a < b);
        if !starts.windows(2).all(ascends) {
            return wrong("the sources of a vertex are not ascending");
        }
        Ok(())
    }

    /// The weight of an edge.
    pub(super) fn weight(&self, index: usize) -> f32 {
        self.weights.map_or(1.0, |weights| weights[index])
    }

    /// The rows with a loop of weight 1 at every vertex that has none, in its place. `vertices` are those
    /// that columns stand for, where these are not the vertices themselves.
    pub(super) fn looped(&self, vertices: Option<&[u32]>, pool: &Pool) -> Looped {
        let room = self.sources.len() + self.count();
        let (mut starts, mut columns) = (pool.empty(self.starts.len()), pool.empty(room));
        let mut weights = self.weights.map(|_| pool.empty(room));
        let vertex = |column: u32| vertices.map_or(column, |vertices| vertices[column as usize]);
        starts.push(0);
        for (own, row) in (0..).zip(self.starts.windows(2)) {
            let range = row[0] as usize..row[1] as usize;
            let sources = &self.sources[range.clone()];
            let at = sources.partition_point(|&source| vertex(source) < vertex(own));
            let added = &[own][usize::from(sources.get(at) == Some(&own))..];
            columns.extend_from_slice(&sources[..at]);
            columns.extend_from_slice(added);
            columns.extend_from_slice(&sources[at..]);
            if let (Some(weights), Some(all)) = (&mut weights, self.weights) {
                weights.extend_from_slice(&all[range.start..range.start + at]);
                weights.extend(added.iter().map(|_| 1.0));
                weights.extend_from_slice(&all[range.start + at..range.end]);
            }
            starts.push(columns.len() as u64);
        }
        (starts, columns, weights)
    }

    /// The weight that comes in at each vertex, summed in the order of the row.
    pub(super) fn degrees(&self, pool: &Pool) -> Vec<f32> {
        let (rows, mut degrees) = (self.starts.windows(2), pool.empty(self.count()));
        match self.weights {
            None => degrees.extend(rows.map(|row| ones(row[1] - row[0]))),
            Some(weights) => {
                let sum = |row: &[u64]| weights[row[0] as usize..row[1] as usize].iter().sum::<f32>();
                degrees.extend(rows.map(sum));
            }
        }
        degrees
    }

    /// The values of the entries.
    pub(super) fn values(&self, kind: Normalisation, factors: &[f32], pool: &Pool) -> Vec<f32> {
        let mut values = pool.take(self.sources.len());
        let rows = |range: &[u64]| range[0] as usize..range[1] as usize;
        let ranges = self.starts.windows(2).map(rows).zip(factors);
        match kind {
            Normalisation::Both => ranges.for_each(|(row, of_target)| {
                let entries = values[row.clone()].iter_mut().zip(&self.sources[row]);
                entries.for_each(|(value, &source)| *value = factors[source as usize] * of_target);
            }),
            Normalisation::Right => ranges.for_each(|(row, factor)| values[row].fill(*factor)),
            Normalisation::None => values.fill(1.0),
        }
        if let Some(weights) = self.weights {
            values.iter_mut().zip(weights).for_each(|(value, weight)| *value *= weight);
        }
        values
    }
}

/// The sum of this many ones, added one by one: without an error until another one changes nothing any more.
pub(super) fn ones(count: u64) -> f32 {
    count.min(1 << f32::MANTISSA_DIGITS) as f32
}

/// Turns degrees into what entries are multiplied by for those of their ends. An edge at a vertex of degree 0
/// has weight 0.
pub(super) fn factors(kind: Normalisation, mut degrees: Vec<f32>) -> Vec<f32> {
    let inverse = |power: fn(f32) -> f32, degrees: &mut [f32]| {
        for degree in degrees {
            *degree = if *degree > 0.0 { 1.0 / power(*degree) } else { 0.0 };
        }
    };
    match kind {
        Normalisation::Both => inverse(f32::sqrt, &mut degrees),
        Normalisation::Right => inverse(|degree| degree, &mut degrees),
        Normalisation::None => degrees.clear(),
    }
    degrees
}
