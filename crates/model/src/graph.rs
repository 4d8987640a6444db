//! A snapshot as a model sees it: in-neighbours, and the matrices that aggregation multiplies with.
//!
//! Each of those matrices is made when it is first asked for and kept, because a snapshot is used by many
//! windows.

use std::sync::{Arc, OnceLock};

use kymo_tensor::pattern::Pattern;
use kymo_tensor::{Error, Resident, Result, Tape, Var};

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
    pub values: Arc<Resident>,
}

impl Weighted {
    /// The product with `x`.
    pub fn times(self, tape: &mut Tape<'_>, x: Var) -> Result<Var> {
        tape.spmm_fixed(self.pattern, self.values, x)
    }

    /// The rows of some vertices, with columns renamed.
    fn rows(&self, own: &[u32], columns: &[u32], count: usize) -> Result<Weighted> {
        let (mut starts, mut places, mut values) = (vec![0], Vec::new(), Vec::new());
        for &vertex in own {
            let row = self.pattern.starts()[vertex as usize] as usize
                ..self.pattern.starts()[vertex as usize + 1] as usize;
            places.extend(self.pattern.places()[row.clone()].iter().map(|&place| columns[place as usize]));
            values.extend_from_slice(&self.values[row]);
            starts.push(places.len() as u64);
        }
        Ok(Weighted {
            pattern: Arc::new(Pattern::new(count, starts, places)?),
            values: Arc::new(values.into()),
        })
    }

    /// The entries in the first `count` columns, and those in the others, which are then counted from zero.
    pub fn split(&self, count: usize) -> Result<[Weighted; 2]> {
        let half = |inside: bool| {
            let (mut starts, mut places, mut values) = (vec![0], Vec::new(), Vec::new());
            for row in self.pattern.starts().windows(2) {
                for index in row[0] as usize..row[1] as usize {
                    let place = self.pattern.places()[index] as usize;
                    if (place < count) == inside {
                        places.push(if inside { place } else { place - count } as u32);
                        values.push(self.values[index]);
                    }
                }
                starts.push(places.len() as u64);
            }
            let columns = if inside { count } else { self.pattern.columns() - count };
            Ok(Weighted {
                pattern: Arc::new(Pattern::new(columns, starts, places)?),
                values: Arc::new(values.into()),
            })
        };
        Ok([half(true)?, half(false)?])
    }
}

/// The edges of a snapshot in compressed rows by target: row `v` lists the in-neighbours of `v`.
///
/// A part of a snapshot has rows for some vertices only, and columns for those and for their neighbours
/// beyond. Its entries are in the order of the whole, so that sums over neighbours have the same bits.
pub struct Graph {
    starts: Vec<usize>,
    sources: Vec<u32>,
    weights: Option<Vec<f32>>,
    part: Option<Part>,
    normalised: [OnceLock<Weighted>; 3],
    with_loops: OnceLock<Arc<Pattern>>,
    plain: OnceLock<Arc<Pattern>>,
    mean: OnceLock<Weighted>,
    diffusion: OnceLock<[Weighted; 2]>,
}

/// What a part of a snapshot has to know of the rest.
struct Part {
    /// The vertex of each column: those of the rows, then those beyond.
    vertices: Vec<u32>,
    /// Of each column, the weight that comes in, a loop included.
    degrees: Vec<f32>,
    /// The rows of both walks, where they are wanted.
    walks: Option<[Weighted; 2]>,
}

impl Graph {
    /// The graph whose row `v` is `starts[v]..starts[v + 1]` of `sources`, ascending, with these weights or
    /// all 1.
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
        Ok(Graph { weights, ..Graph::empty(starts, sources) })
    }

    /// The graph of these edges (source, target, weight) over this many vertices; of a repeated edge the last
    /// counts.
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
        let (mut starts, mut sources) = (vec![0], Vec::new());
        let mut weights = self.weights.as_ref().map(|_| Vec::new());
        for &vertex in own {
            let row = self.starts[vertex as usize]..self.starts[vertex as usize + 1];
            sources.extend(self.sources[row.clone()].iter().map(|&source| columns[source as usize]));
            if let (Some(weights), Some(all)) = (&mut weights, &self.weights) {
                weights.extend_from_slice(&all[row]);
            }
            starts.push(sources.len());
        }
        if sources.contains(&u32::MAX) {
            return Err(Error::settings("graph", "a part lacks a neighbour of its vertices"));
        }
        let degree = |&vertex: &u32| {
            let mut sum = 0.0;
            self.row_with_loop(vertex as usize, |_, weight| sum += weight);
            sum
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
        Ok(Graph { part, weights, ..Graph::empty(starts, sources) })
    }

    /// A graph without weights of which nothing has been made yet.
    fn empty(starts: Vec<usize>, sources: Vec<u32>) -> Graph {
        Graph {
            starts,
            sources,
            weights: None,
            part: None,
            normalised: Default::default(),
            with_loops: OnceLock::new(),
            plain: OnceLock::new(),
            mean: OnceLock::new(),
            diffusion: OnceLock::new(),
        }
    }

    /// How many vertices have a row.
    pub fn vertices(&self) -> usize {
        self.starts.len() - 1
    }

    /// How many vertices have a column: those with a row, and their neighbours beyond.
    pub fn columns(&self) -> usize {
        self.part.as_ref().map_or(self.vertices(), |part| part.vertices.len())
    }

    /// The vertex of a column.
    fn vertex(&self, column: u32) -> u32 {
        self.part.as_ref().map_or(column, |part| part.vertices[column as usize])
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
        let own = vertex as u32;
        let mut pending = true;
        for index in self.starts[vertex]..self.starts[vertex + 1] {
            let source = self.sources[index];
            if pending && self.vertex(own) <= self.vertex(source) {
                pending = false;
                if own != source {
                    each(own, 1.0);
                }
            }
            each(source, self.weight(index));
        }
        if pending {
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
            Ok(Arc::new(Pattern::new(self.columns(), wide(&starts), columns)?))
        })
    }

    /// Where the edges are.
    pub fn plain(&self) -> Result<Arc<Pattern>> {
        kept(&self.plain, || {
            Ok(Arc::new(Pattern::new(self.columns(), wide(&self.starts), self.sources.clone())?))
        })
    }

    /// The matrix of graph convolution: a loop of weight 1 at every vertex that has none, then the
    /// normalisation. Degrees are weighted and count what comes in; an edge at a vertex of degree 0 has
    /// weight 0.
    pub fn normalised(&self, kind: Normalisation) -> Result<Weighted> {
        kept(&self.normalised[kind as usize], || {
            let (starts, columns, mut values) = self.looped();
            let sum = |row: &[usize]| values[row[0]..row[1]].iter().sum::<f32>();
            let degrees: Vec<f32> = match &self.part {
                Some(part) => part.degrees.clone(),
                None => starts.windows(2).map(sum).collect(),
            };
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
            Ok(Weighted { pattern: self.with_loops()?, values: Arc::new(values.into()) })
        })
    }

    /// The matrix of the mean over in-neighbours, whatever their weights.
    pub fn mean(&self) -> Result<Weighted> {
        kept(&self.mean, || {
            let share = |row: &[usize]| {
                let count = row[1] - row[0];
                std::iter::repeat_n(1.0 / count as f32, count)
            };
            let values: Vec<f32> = self.starts.windows(2).flat_map(share).collect();
            Ok(Weighted { pattern: self.plain()?, values: Arc::new(values.into()) })
        })
    }

    /// The two random walks of diffusion convolution (DCRNN, equation 2): along the edges, each vertex
    /// handing out its weight in shares, and against them.
    pub fn diffusion(&self) -> Result<[Weighted; 2]> {
        if let Some(part) = &self.part {
            let problem = "a part was made without its walks";
            return part.walks.clone().ok_or_else(|| Error::settings("graph", problem));
        }
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
            let along: Vec<f32> =
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
                Weighted { pattern: self.plain()?, values: Arc::new(along.into()) },
                Weighted { pattern: back, values: Arc::new(against.into()) },
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
        assert_eq!(graph.normalised(Normalisation::None).unwrap().values[..], graph.looped().2);
        assert_eq!(graph.mean().unwrap().values[..], [1.0, 1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0]);
    }

    #[test]
    fn walks_hand_out_shares() {
        let [along, against] = graph().diffusion().unwrap();
        assert_eq!(along.values[..], [4.0 / 7.0, 1.0, 3.0 / 7.0, 1.0]);
        assert_eq!(against.values[..], [2.0 / 6.0, 1.0, 3.0 / 6.0, 1.0 / 6.0]);
    }

    #[test]
    fn impossible_graphs_are_refused() {
        assert!(Graph::new(vec![0, 1], vec![5], None).is_err());
        assert!(Graph::new(vec![0, 2], vec![0], None).is_err());
        assert!(Graph::new(vec![0, 2, 2], vec![1, 0], None).is_err());
        assert!(Graph::from_edges(1, &[(0, 3, 1.0)]).is_err());
    }
}
