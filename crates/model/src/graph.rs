//! A snapshot as a model sees it: who hears whom, and the matrices that aggregation multiplies with.
//!
//! Each of those matrices is made when it is first asked for and kept, because a snapshot is used by many windows.

use std::sync::{Arc, OnceLock};

use kymo_tensor::pattern::Pattern;
use kymo_tensor::{Error, Result};

/// How the weights of incoming edges are scaled before they are summed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Normalisation {
    /// By the square roots of the degrees of both ends (Kipf and Welling, 2017).
    #[default]
    Both,
    /// By the degree of the target: the mean over what comes in.
    Right,
    /// Not at all.
    None,
}

/// A sparse matrix: where its entries are, and what they are.
#[derive(Clone)]
pub struct Weighted {
    /// Where.
    pub pattern: Arc<Pattern>,
    /// What, in the order of the pattern.
    pub values: Arc<Vec<f32>>,
}

/// The edges of a snapshot in compressed rows by target: row `v` lists the in-neighbours of `v`.
pub struct Graph {
    starts: Vec<usize>,
    sources: Vec<u32>,
    weights: Option<Vec<f32>>,
    normalised: [OnceLock<Weighted>; 3],
    with_loops: OnceLock<Arc<Pattern>>,
    plain: OnceLock<Arc<Pattern>>,
    mean: OnceLock<Weighted>,
    diffusion: OnceLock<[Weighted; 2]>,
}

impl Graph {
    /// The graph whose row `v` is `starts[v]..starts[v + 1]` of `sources`, ascending, with these weights or all 1.
    pub fn new(starts: Vec<usize>, sources: Vec<u32>, weights: Option<Vec<f32>>) -> Result<Graph> {
        let vertices = starts.len().saturating_sub(1);
        let wrong = |problem: &str| Err(Error::settings("graph", problem));
        if starts.first() != Some(&0) || starts.last() != Some(&sources.len()) || !starts.is_sorted() {
            return wrong("the beginnings of its rows are not in order");
        }
        if sources.iter().any(|&source| source as usize >= vertices) {
            return wrong("an edge starts at a vertex that does not exist");
        }
        if weights.as_ref().is_some_and(|weights| weights.len() != sources.len()) {
            return wrong("there are not as many weights as edges");
        }
        if starts.windows(2).any(|row| !sources[row[0]..row[1]].is_sorted_by(|a, b| a < b)) {
            return wrong("the sources of a vertex are not ascending");
        }
        Ok(Graph {
            starts,
            sources,
            weights,
            normalised: Default::default(),
            with_loops: OnceLock::new(),
            plain: OnceLock::new(),
            mean: OnceLock::new(),
            diffusion: OnceLock::new(),
        })
    }

    /// The graph of these edges (source, target, weight) over so many vertices; of a repeated edge the last counts.
    pub fn from_edges(vertices: usize, edges: &[(u32, u32, f32)]) -> Result<Graph> {
        let mut sorted: Vec<(u32, u32, f32)> = edges.to_vec();
        sorted.sort_by_key(|&(source, target, _)| (target, source));
        sorted.reverse();
        sorted.dedup_by_key(|&mut (source, target, _)| (target, source));
        sorted.reverse();
        let mut starts = vec![0; vertices + 1];
        for &(_, target, _) in &sorted {
            let slot = starts.get_mut(target as usize + 1);
            *slot
                .ok_or_else(|| Error::settings("graph", "an edge ends at a vertex that does not exist"))? +=
                1;
        }
        for vertex in 0..vertices {
            starts[vertex + 1] += starts[vertex];
        }
        let (sources, weights) = sorted.iter().map(|&(source, _, weight)| (source, weight)).unzip();
        Graph::new(starts, sources, Some(weights))
    }

    /// How many vertices there are.
    pub fn vertices(&self) -> usize {
        self.starts.len() - 1
    }

    /// How many edges there are.
    pub fn edges(&self) -> usize {
        self.sources.len()
    }

    fn weight(&self, index: usize) -> f32 {
        self.weights.as_ref().map_or(1.0, |weights| weights[index])
    }

    /// The entries of a row: neighbour and weight, with a loop of weight 1 added where there is none.
    fn row_with_loop(&self, vertex: usize, mut each: impl FnMut(u32, f32)) {
        let mut pending = Some(vertex as u32);
        for index in self.starts[vertex]..self.starts[vertex + 1] {
            let source = self.sources[index];
            if let Some(own) = pending.filter(|&own| own <= source) {
                pending = None;
                if own < source {
                    each(own, 1.0);
                }
            }
            each(source, self.weight(index));
        }
        if let Some(own) = pending {
            each(own, 1.0);
        }
    }

    /// All rows with a loop at every vertex.
    fn looped(&self) -> (Vec<usize>, Vec<u32>, Vec<f32>) {
        let (mut starts, mut columns, mut values) = (vec![0], Vec::new(), Vec::new());
        for vertex in 0..self.vertices() {
            self.row_with_loop(vertex, |source, weight| {
                columns.push(source);
                values.push(weight);
            });
            starts.push(columns.len());
        }
        (starts, columns, values)
    }

    /// Where the edges are, with a loop at every vertex.
    pub fn with_loops(&self) -> Result<Arc<Pattern>> {
        kept(&self.with_loops, || {
            let (starts, columns, _) = self.looped();
            Ok(Arc::new(Pattern::new(self.vertices(), wide(&starts), columns)?))
        })
    }

    /// Where the edges are.
    pub fn plain(&self) -> Result<Arc<Pattern>> {
        kept(&self.plain, || {
            Ok(Arc::new(Pattern::new(self.vertices(), wide(&self.starts), self.sources.clone())?))
        })
    }

    /// The matrix of graph convolution: a loop of weight 1 at every vertex that has none, then the normalisation. Degrees
    /// are weighted and count what comes in; an edge at a vertex of degree 0 has weight 0.
    pub fn normalised(&self, kind: Normalisation) -> Result<Weighted> {
        kept(&self.normalised[kind as usize], || {
            let (starts, columns, mut values) = self.looped();
            let sum = |row: &[usize]| values[row[0]..row[1]].iter().sum::<f32>();
            let degrees: Vec<f32> = starts.windows(2).map(sum).collect();
            let inverse =
                |degree: f32, power: fn(f32) -> f32| if degree > 0.0 { 1.0 / power(degree) } else { 0.0 };
            for (target, row) in starts.windows(2).enumerate() {
                for index in row[0]..row[1] {
                    values[index] *= match kind {
                        Normalisation::None => 1.0,
                        Normalisation::Right => inverse(degrees[target], |degree| degree),
                        Normalisation::Both => {
                            let source = columns[index] as usize;
                            inverse(degrees[source], f32::sqrt) * inverse(degrees[target], f32::sqrt)
                        }
                    };
                }
            }
            Ok(Weighted { pattern: self.with_loops()?, values: Arc::new(values) })
        })
    }

    /// The matrix of the mean over in-neighbours, whatever their weights.
    pub fn mean(&self) -> Result<Weighted> {
        kept(&self.mean, || {
            let share = |row: &[usize]| {
                let count = row[1] - row[0];
                std::iter::repeat_n(1.0 / count as f32, count)
            };
            let values = self.starts.windows(2).flat_map(share).collect();
            Ok(Weighted { pattern: self.plain()?, values: Arc::new(values) })
        })
    }

    /// The two random walks of diffusion convolution (DCRNN, equation 2): along the edges, each vertex handing out its
    /// weight in shares, and against them.
    pub fn diffusion(&self) -> Result<[Weighted; 2]> {
        kept(&self.diffusion, || {
            let vertices = self.vertices();
            let (mut outward, mut inward) = (vec![0.0f32; vertices], vec![0.0f32; vertices]);
            let edges = || {
                self.starts.windows(2).enumerate().flat_map(|(target, row)| {
                    (row[0]..row[1]).map(move |index| (index, self.sources[index] as usize, target))
                })
            };
            for (index, source, target) in edges() {
                outward[source] += self.weight(index);
                inward[target] += self.weight(index);
            }
            let share = |weight: f32, degree: f32| if degree == 0.0 { 0.0 } else { weight / degree };
            let along =
                edges().map(|(index, source, _)| share(self.weight(index), outward[source])).collect();
            let mut starts = vec![0; vertices + 1];
            edges().for_each(|(_, source, _)| starts[source + 1] += 1);
            for vertex in 0..vertices {
                starts[vertex + 1] += starts[vertex];
            }
            let (mut next, mut columns, mut against) =
                (starts.clone(), vec![0; self.edges()], vec![0.0; self.edges()]);
            for (index, source, target) in edges() {
                columns[next[source]] = target as u32;
                against[next[source]] = share(self.weight(index), inward[target]);
                next[source] += 1;
            }
            let back = Arc::new(Pattern::new(vertices, wide(&starts), columns)?);
            Ok([
                Weighted { pattern: self.plain()?, values: Arc::new(along) },
                Weighted { pattern: back, values: Arc::new(against) },
            ])
        })
    }
}

/// Positions as a pattern keeps them.
fn wide(starts: &[usize]) -> Vec<u64> {
    starts.iter().map(|&start| start as u64).collect()
}

/// What a cell holds, made now if it holds nothing yet.
fn kept<T: Clone>(cell: &OnceLock<T>, make: impl FnOnce() -> Result<T>) -> Result<T> {
    if let Some(value) = cell.get() {
        return Ok(value.clone());
    }
    let value = make()?;
    Ok(cell.get_or_init(|| value).clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph() -> Graph {
        Graph::from_edges(4, &[(0, 1, 2.0), (2, 1, 1.0), (1, 1, 3.0), (1, 0, 4.0)]).unwrap()
    }

    #[test]
    fn loops_are_added_where_there_are_none() {
        let (starts, columns, values) = graph().looped();
        assert_eq!(starts, [0, 2, 5, 6, 7]);
        assert_eq!(columns, [0, 1, 0, 1, 2, 2, 3]);
        assert_eq!(values, [1.0, 4.0, 2.0, 3.0, 1.0, 1.0, 1.0]);
    }

    #[test]
    fn normalisations_scale_by_degrees() {
        let graph = graph();
        let right = graph.normalised(Normalisation::Right).unwrap();
        assert_eq!(right.values[..5], [0.2, 0.8, 2.0 / 6.0, 0.5, 1.0 / 6.0]);
        let both = graph.normalised(Normalisation::Both).unwrap();
        assert!((both.values[1] - 4.0 / (5.0f32 * 6.0).sqrt()).abs() < 1e-6);
        assert_eq!(*graph.normalised(Normalisation::None).unwrap().values, graph.looped().2);
        assert_eq!(*graph.mean().unwrap().values, [1.0, 1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0]);
    }

    #[test]
    fn walks_hand_out_shares() {
        let [along, against] = graph().diffusion().unwrap();
        assert_eq!(*along.values, [4.0 / 7.0, 1.0, 3.0 / 7.0, 1.0]);
        assert_eq!(*against.values, [2.0 / 6.0, 1.0, 3.0 / 6.0, 1.0 / 6.0]);
    }

    #[test]
    fn impossible_graphs_are_refused() {
        assert!(Graph::new(vec![0, 1], vec![5], None).is_err());
        assert!(Graph::new(vec![0, 2], vec![0], None).is_err());
        assert!(Graph::new(vec![0, 2, 2], vec![1, 0], None).is_err());
        assert!(Graph::from_edges(1, &[(0, 3, 1.0)]).is_err());
    }
}
