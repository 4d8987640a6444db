//! Features of the edges of one step as columns of vertices: of each vertex the mean over the events that
//! lead to it, and the mean over those that begin at it.
//!
//! Sums are taken in double precision in the order of time, as those of weights are. Where the ends of an
//! event are not told apart (undirected graphs), or where a vertex is always at the same end (bipartite
//! ones), there is one mean over all events of the vertex.

use super::fold::Folder;
use crate::event::Event;
use crate::snapshot::Vertex;

/// Rows of some vertices.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    /// The vertices, ascending.
    pub vertices: Vec<Vertex>,
    /// Their rows, one after the other.
    pub values: Vec<f32>,
}

/// Gathers the means of a step.
#[derive(Debug, Default)]
pub struct Means {
    features: usize,
    /// Whether sources and targets have columns of their own.
    apart: bool,
    /// By vertex: where its sums are, and one; 0 for nowhere.
    places: Vec<u32>,
    vertices: Vec<Vertex>,
    counts: Vec<[u64; 2]>,
    sums: Vec<f64>,
}

impl Means {
    /// Means of this number of features.
    pub fn new(features: usize, apart: bool) -> Self {
        Means { features, apart, ..Means::default() }
    }

    /// Columns that a vertex gets: the means over events that lead to it come first.
    pub fn width(&self) -> usize {
        self.features << u32::from(self.apart)
    }

    /// Counts the features of an event for its ends. Events come in the order of time.
    pub fn add(&mut self, event: &Event, features: &[f32], folder: &Folder<'_>) {
        let loops = event.source == event.target;
        if self.features == 0 || event.is_removal() || loops && folder.drop_self_loops {
            return;
        }
        if self.places.is_empty() {
            self.places = vec![0; folder.ranks.len()];
        }
        self.count(folder.ranks[event.target as usize], 0, features);
        if self.apart || !loops {
            self.count(folder.ranks[event.source as usize], usize::from(self.apart), features);
        }
    }

    fn count(&mut self, vertex: Vertex, end: usize, features: &[f32]) {
        let width = self.width();
        let place = &mut self.places[vertex as usize];
        if *place == 0 {
            self.vertices.push(vertex);
            self.counts.push([0; 2]);
            self.sums.resize(self.sums.len() + width, 0.0);
            *place = self.vertices.len() as u32;
        }
        let place = *place as usize - 1;
        self.counts[place][end] += 1;
        let sums = &mut self.sums[place * width + end * self.features..][..self.features];
        sums.iter_mut().zip(features).for_each(|(sum, &value)| *sum += f64::from(value));
    }

    /// The means of the vertices that have events in the step; the next step begins without any. A vertex
    /// without events at one of the ends has zeros there.
    pub fn finish(&mut self) -> Rows {
        let (width, features) = (self.width(), self.features);
        let mut vertices = std::mem::take(&mut self.vertices);
        vertices.sort_unstable();
        let mut values = Vec::with_capacity(vertices.len() * width);
        for &vertex in &vertices {
            let place = std::mem::take(&mut self.places[vertex as usize]) as usize - 1;
            let sums = self.sums[place * width..(place + 1) * width].chunks_exact(features);
            for (sums, &count) in sums.zip(&self.counts[place]) {
                let count = count.max(1) as f64;
                values.extend(sums.iter().map(|sum| (sum / count) as f32));
            }
        }
        self.counts.clear();
        self.sums.clear();
        Rows { vertices, values }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cut::WeightRule;
    use proptest::prelude::*;

    proptest! {
        /// The oracle goes through all events for each vertex and each end, step after step.
        #[test]
        fn means_are_those_over_the_events_of_a_vertex(
            steps in prop::collection::vec(
                prop::collection::vec((0u32..6, 0u32..6, -4i8..5, any::<bool>()), 0..30),
                1..4,
            ),
            apart: bool,
            drop_self_loops: bool,
        ) {
            let ranks = [3, 1, 5, 0, 4, 2];
            let folder =
                Folder { rule: WeightRule::Sum, undirected: !apart, drop_self_loops, ranks: &ranks };
            let mut means = Means::new(2, apart);
            for rows in steps {
                let events: Vec<(Event, [f32; 2])> = rows
                    .iter()
                    .map(|&(u, v, value, removal)| {
                        let event =
                            if removal { Event::removal(u, v, 0.0) } else { Event::new(u, v, 0.0, 1.0) };
                        (event, [f32::from(value) * 0.1, 7.0])
                    })
                    .collect();
                events.iter().for_each(|(event, features)| means.add(event, features, &folder));
                let counts =
                    |event: &Event| !(event.is_removal() || drop_self_loops && event.source == event.target);
                let counted: Vec<_> = events.iter().filter(|(event, _)| counts(event)).collect();
                let mut expected = Rows::default();
                for vertex in 0..6 {
                    let is = |end: u32| ranks[end as usize] == vertex;
                    if !counted.iter().any(|(event, _)| is(event.source) || is(event.target)) {
                        continue;
                    }
                    expected.vertices.push(vertex);
                    let mut mean = |of: &dyn Fn(&Event) -> bool| {
                        let own: Vec<[f32; 2]> =
                            counted.iter().filter(|(event, _)| of(event)).map(|row| row.1).collect();
                        for column in 0..2 {
                            let sum = own.iter().fold(0.0, |sum, row| sum + f64::from(row[column]));
                            expected.values.push((sum / own.len().max(1) as f64) as f32);
                        }
                    };
                    if apart {
                        mean(&|event| is(event.target));
                        mean(&|event| is(event.source));
                    } else {
                        mean(&|event| is(event.source) || is(event.target));
                    }
                }
                prop_assert_eq!(means.finish(), expected);
            }
        }
    }
}
