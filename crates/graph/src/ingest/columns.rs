//! Rows of features that follow from the steps: the columns that vertices have anyway, and behind them the
//! means of what the events of a step carry.
//!
//! Means stand for the events of their step alone, however long edges live: without events they are zeros
//! again. So a step changes the rows of the vertices that have events in it or had some in the step before.

use crate::cut::Rows;
use crate::snapshot::{Snapshot, Vertex};
use crate::step::FeatureChange;

/// What stands in front of the means.
#[derive(Clone, Debug, PartialEq)]
pub enum Base {
    /// Nothing.
    Nothing,
    /// The logarithms of one and the degrees, in and out, as training takes them.
    Degrees,
    /// Rows of all vertices: those of a file, or those of a signal at the latest step.
    Rows { width: usize, values: Vec<f32> },
}

impl Base {
    /// Its columns.
    pub fn width(&self) -> usize {
        match self {
            Base::Nothing => 0,
            Base::Degrees => 2,
            Base::Rows { width, .. } => *width,
        }
    }

    /// The names of its columns.
    fn names(&self) -> Vec<String> {
        match self {
            Base::Nothing => Vec::new(),
            Base::Degrees => ["in", "out"].map(|end| format!("log(1 + {end}-degree)")).to_vec(),
            Base::Rows { width, .. } => (0..*width).map(|column| format!("feature {column}")).collect(),
        }
    }
}

/// Makes the rows of one step after the other.
#[derive(Debug)]
pub struct Columns {
    base: Base,
    /// Whether the rows of all vertices are new.
    fresh: bool,
    /// Columns of means.
    means: usize,
    /// Whether there is one graph, whose events hold in all steps.
    lasting: bool,
    /// What lasts.
    held: Rows,
    /// The vertices whose degrees or means are not zero.
    busy: Vec<Vertex>,
    degrees: Vec<[u32; 2]>,
}

impl Columns {
    /// Columns of `base` with this many means behind them.
    pub fn new(base: Base, means: usize, lasting: bool) -> Self {
        let fresh = matches!(base, Base::Rows { .. });
        let (busy, degrees) = (Vec::new(), Vec::new());
        Columns { base, fresh, means, lasting, held: Rows::default(), busy, degrees }
    }

    /// Columns of a row.
    pub fn width(&self) -> usize {
        self.base.width() + self.means
    }

    /// Names of the columns, where features of edges have these and `apart` says that the ends of events are
    /// told apart.
    pub fn names(&self, features: &[String], apart: bool) -> Vec<String> {
        let ends: &[&str] = if apart { &["to it", "from it"] } else { &["at it"] };
        let mean = |end: &&str| -> Vec<String> {
            features.iter().map(|name| format!("mean of '{name}' over events {end}")).collect()
        };
        self.base.names().into_iter().chain(ends.iter().flat_map(mean)).collect()
    }

    /// From now on all vertices have other rows in front of their means.
    pub fn replace(&mut self, rows: Vec<f32>) {
        if let Base::Rows { values, .. } = &mut self.base {
            *values = rows;
            self.fresh = true;
        }
    }

    /// What a step changes, whose edges are these and whose events have these means.
    pub fn step(&mut self, snapshot: &Snapshot<'_>, means: Rows, vertices: usize) -> FeatureChange {
        if let Base::Rows { width, values } = &mut self.base {
            // A signal may begin later than the graph.
            values.resize(vertices * *width, 0.0);
        }
        if self.lasting && !means.vertices.is_empty() {
            self.held = means.clone();
        }
        let means = if self.lasting { self.held.clone() } else { means };
        let before = std::mem::take(&mut self.busy);
        self.busy.clone_from(&means.vertices);
        if self.base == Base::Degrees {
            self.count_degrees(snapshot, &before, vertices);
        }
        let mut listed: Vec<Vertex> = match std::mem::take(&mut self.fresh) {
            true => (0..vertices as Vertex).collect(),
            false => before.into_iter().chain(self.busy.iter().copied()).collect(),
        };
        listed.sort_unstable();
        listed.dedup();
        let mut values = Vec::with_capacity(listed.len() * self.width());
        let mut at = 0;
        for &vertex in &listed {
            match &self.base {
                Base::Nothing => {}
                Base::Degrees => {
                    values.extend(self.degrees[vertex as usize].map(|degree| (degree as f32).ln_1p()));
                }
                Base::Rows { width, values: rows } => {
                    values.extend_from_slice(&rows[vertex as usize * width..][..*width]);
                }
            }
            if means.vertices.get(at) == Some(&vertex) {
                values.extend_from_slice(&means.values[at * self.means..(at + 1) * self.means]);
                at += 1;
            } else {
                values.resize(values.len() + self.means, 0.0);
            }
        }
        FeatureChange::Rows(listed, values)
    }

    /// Counts the degrees of a step; `before` are the vertices that had some in the step before.
    fn count_degrees(&mut self, snapshot: &Snapshot<'_>, before: &[Vertex], vertices: usize) {
        self.degrees.resize(vertices, [0; 2]);
        before.iter().for_each(|&vertex| self.degrees[vertex as usize] = [0; 2]);
        for edge in snapshot.edges.iter() {
            for (end, vertex) in [edge.target(), edge.source()].into_iter().enumerate() {
                let degrees = &mut self.degrees[vertex as usize];
                if *degrees == [0; 2] {
                    self.busy.push(vertex);
                }
                degrees[end] += 1;
            }
        }
        self.busy.sort_unstable();
        self.busy.dedup();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::Edge;
    use proptest::prelude::*;

    /// The rows of every vertex after each step, from what the steps are said to change.
    fn followed(columns: &mut Columns, steps: &[(Vec<(u32, u32)>, Rows)], vertices: usize) -> Vec<Vec<f32>> {
        let width = columns.width();
        let mut rows = vec![0.0; vertices * width];
        let step = |(edges, means): &(Vec<(u32, u32)>, Rows)| {
            let edges = edges.iter().map(|&(source, target)| Edge::new(source, target)).collect();
            let snapshot = Snapshot::from_edges(edges);
            let FeatureChange::Rows(listed, values) = columns.step(&snapshot, means.clone(), vertices) else {
                panic!("rows");
            };
            assert!(listed.is_sorted() && values.len() == listed.len() * width);
            for (&vertex, row) in listed.iter().zip(values.chunks(width)) {
                rows[vertex as usize * width..][..width].copy_from_slice(row);
            }
            rows.clone()
        };
        steps.iter().map(step).collect()
    }

    proptest! {
        /// The oracle makes every row of every step anew.
        #[test]
        fn what_changes_makes_the_rows_of_every_step(
            steps in prop::collection::vec(
                (
                    prop::collection::btree_set((0u32..6, 0u32..6), 0..9),
                    prop::collection::btree_map(0u32..6, 1u8..9, 0..5),
                ),
                1..6,
            ),
            degrees: bool,
        ) {
            let steps: Vec<(Vec<(u32, u32)>, Rows)> = steps
                .into_iter()
                .map(|(edges, means)| {
                    let vertices = means.keys().copied().collect();
                    let values = means.values().map(|&value| value.into()).collect();
                    (edges.into_iter().collect(), Rows { vertices, values })
                })
                .collect();
            let file: Vec<f32> = (0..6).map(|vertex| vertex as f32 * 0.5).collect();
            let base = || if degrees { Base::Degrees } else { Base::Rows { width: 1, values: file.clone() } };
            let expected: Vec<Vec<f32>> = steps
                .iter()
                .map(|(edges, means)| {
                    let row = |vertex: u32| {
                        let mean = means.vertices.iter().position(|&other| other == vertex);
                        let mean = mean.map_or(0.0, |at| means.values[at]);
                        let count = |end: fn(&(u32, u32)) -> u32| {
                            edges.iter().filter(|edge| end(edge) == vertex).count() as f32
                        };
                        let [inward, outward] = [count(|edge| edge.1), count(|edge| edge.0)];
                        match degrees {
                            true => vec![inward.ln_1p(), outward.ln_1p(), mean],
                            false => vec![file[vertex as usize], mean],
                        }
                    };
                    (0..6).flat_map(row).collect()
                })
                .collect();
            prop_assert_eq!(followed(&mut Columns::new(base(), 1, false), &steps, 6), expected);
        }
    }

    #[test]
    fn the_events_of_one_graph_last_and_signals_replace_all_rows() {
        let means = Rows { vertices: vec![1], values: vec![4.0] };
        let steps = [(vec![(0, 1)], means), (vec![(0, 1)], Rows::default())];
        let mut lasting = Columns::new(Base::Nothing, 1, true);
        assert_eq!(followed(&mut lasting, &steps, 2), [[0.0, 4.0], [0.0, 4.0]]);
        let mut signal = Columns::new(Base::Rows { width: 1, values: Vec::new() }, 1, false);
        assert_eq!(followed(&mut signal, &steps[1..], 2), [[0.0; 4]]);
        signal.replace(vec![7.0, 8.0]);
        assert_eq!(followed(&mut signal, &steps[..1], 2), [[7.0, 0.0, 8.0, 4.0]]);
        signal.replace(vec![9.0, 8.0]);
        assert_eq!(followed(&mut signal, &steps[1..], 2), [[9.0, 0.0, 8.0, 0.0]]);
    }
}
