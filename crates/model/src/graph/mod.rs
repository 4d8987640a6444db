//! A snapshot as a model sees it: in-neighbours, and the matrices that aggregation multiplies with.
//!
//! A graph with its edges makes each of those matrices when it is first asked for, and keeps it. What a model
//! asks for is the same for every snapshot, so once that is known ([`Graph::asked`]), snapshots are prepared:
//! they hold the matrices, and no longer the edges that these were made of.

mod part;
mod rows;
mod weighted;

pub use rows::Rows;
pub use weighted::{Normalisation, Weighted};

use std::sync::{Arc, OnceLock};

use kymo_tensor::pattern::Pattern;
use kymo_tensor::{Device, Error, Result};

use part::Part;
use rows::factors;

/// The edges of a snapshot in compressed rows by target: row `v` lists the in-neighbours of `v`.
///
/// A part of a snapshot has rows for some vertices only, and columns for those and for their neighbours
/// beyond. Its entries are in the order of the whole, so that sums over neighbours have the same bits.
pub struct Graph {
    vertices: usize,
    edges: usize,
    /// Nothing where the graph has been prepared.
    own: Option<OwnRows>,
    part: Option<Part>,
    normalised: [OnceLock<Weighted>; 3],
    with_loops: OnceLock<Arc<Pattern>>,
    plain: OnceLock<Arc<Pattern>>,
    mean: OnceLock<Weighted>,
    diffusion: OnceLock<[Weighted; 2]>,
    /// Which transposes were asked for when it was prepared.
    transposed: [bool; 3],
}

/// Rows of a graph's own.
struct OwnRows {
    starts: Vec<u64>,
    sources: Vec<u32>,
    weights: Option<Vec<f32>>,
}

impl OwnRows {
    fn rows(&self) -> Rows<'_> {
        Rows { starts: &self.starts, sources: &self.sources, weights: self.weights.as_deref() }
    }
}

/// What a model asks of a snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    normalised: [bool; 3],
    with_loops: bool,
    plain: bool,
    mean: bool,
    diffusion: bool,
    /// The transposes of the patterns with loops, without, and of the walk against the edges.
    transposed: [bool; 3],
}

impl Asked {
    /// Whether all of it can be made of the edges with a loop at every vertex.
    pub fn is_of_loops(&self) -> bool {
        let (loops, others) = (self.normalised, [self.plain, self.mean, self.diffusion]);
        (self.with_loops || loops.contains(&true)) && !others.contains(&true)
    }

    /// Bytes of a snapshot that was prepared so.
    pub fn bytes(&self, vertices: u64, edges: u64) -> u64 {
        let pattern = |is_made: bool, is_transposed: bool, entries: u64| {
            let starts = 8 * (vertices + 1);
            u64::from(is_made) * (starts + 4 * entries) + u64::from(is_transposed) * (starts + 8 * entries)
        };
        let (looped, transposed) = (edges + vertices, self.transposed);
        let loops = self.with_loops || self.normalised.contains(&true);
        let plain = self.plain || self.mean || self.diffusion;
        let normalised = self.normalised.iter().filter(|&&is_made| is_made).count() as u64;
        pattern(loops, transposed[0], looped)
            + pattern(plain, transposed[1], edges)
            + pattern(self.diffusion, transposed[2], edges)
            + u64::from(self.normalised[Normalisation::Both as usize]) * 4 * vertices
            + 4 * (normalised * looped + u64::from(self.mean) * edges + 2 * u64::from(self.diffusion) * edges)
    }
}

impl Graph {
    /// The graph whose row `v` is `starts[v]..starts[v + 1]` of `sources`, ascending, with these weights or
    /// all 1.
    pub fn new(starts: Vec<u64>, sources: Vec<u32>, weights: Option<Vec<f32>>) -> Result<Graph> {
        let own = OwnRows { starts, sources, weights };
        own.rows().check()?;
        Ok(Graph::of(own))
    }

    /// The graph of these edges (source, target, weight) over this many vertices; of a repeated edge the last
    /// counts.
    pub fn from_edges(vertices: usize, edges: &[(u32, u32, f32)]) -> Result<Graph> {
        let mut sorted: Vec<(u32, u32, f32)> = edges.to_vec();
        sorted.sort_by_key(|&(source, target, _)| (target, source));
        sorted.reverse();
        sorted.dedup_by_key(|&mut (source, target, _)| (target, source));
        sorted.reverse();
        let mut starts = vec![0u64; vertices + 1];
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

    /// The graph of these rows, which have been checked.
    fn of(own: OwnRows) -> Graph {
        let (vertices, edges) = (own.rows().count(), own.sources.len());
        Graph { own: Some(own), ..Graph::empty(vertices, edges) }
    }

    /// A graph that has what is asked of it and nothing else, from rows that are in order. Values that follow
    /// from degrees, and transposes, are made where they are needed: see [`Graph::complete`] and
    /// [`Graph::bring`].
    pub fn prepared(rows: &Rows<'_>, asked: Asked) -> Result<Graph> {
        let graph = Graph { transposed: asked.transposed, ..Graph::empty(rows.count(), rows.sources.len()) };
        graph.prepare(rows, asked)?;
        Ok(graph)
    }

    /// The same graph with what is asked of it and nothing else.
    pub fn reduced(mut self, asked: Asked) -> Result<Graph> {
        if let Some(own) = self.own.take() {
            self.transposed = asked.transposed;
            self.prepare(&own.rows(), asked)?;
        }
        Ok(self)
    }

    /// The same from a pattern of the edges with a loop at every vertex, where nothing else is asked for (see
    /// [`Asked::is_of_loops`]) and no edge has a weight. `edges` are those without the loops that were added.
    pub fn looped(pattern: Pattern, edges: usize, asked: Asked) -> Graph {
        let graph = Graph { transposed: asked.transposed, ..Graph::empty(pattern.rows(), edges) };
        let pattern = graph.with_loops.get_or_init(|| Arc::new(pattern));
        for kind in Normalisation::ALL.into_iter().filter(|&kind| asked.normalised[kind as usize]) {
            graph.normalised[kind as usize].get_or_init(|| graph.scaled(kind, pattern.clone(), None));
        }
        graph
    }

    /// Makes what is asked for.
    fn prepare(&self, rows: &Rows<'_>, asked: Asked) -> Result<()> {
        for kind in Normalisation::ALL {
            if asked.normalised[kind as usize] {
                self.normalised_from(rows, kind)?;
            }
        }
        if asked.with_loops {
            self.with_loops_from(rows)?;
        }
        if asked.plain {
            self.plain_from(rows)?;
        }
        if asked.mean {
            self.mean_from(rows)?;
        }
        if asked.diffusion && self.part.is_none() {
            self.diffusion_from(rows)?;
        }
        Ok(())
    }

    /// The patterns whose transposes were asked for.
    fn turned(&self) -> impl Iterator<Item = &Arc<Pattern>> {
        self.patterns()
            .into_iter()
            .zip(self.transposed)
            .filter(|&(_, asked)| asked)
            .filter_map(|(found, _)| found)
    }

    /// Makes the values of matrices and the transposes in the memory of the host, before they are asked for
    /// there.
    pub fn complete(&self) {
        self.normalised.iter().filter_map(OnceLock::get).for_each(|matrix| matrix.values.complete());
        self.turned().for_each(|pattern| pattern.transpose());
    }

    /// Brings what has been made to a GPU, and makes the rest there, before it is asked for there.
    pub fn bring(&self, device: &Device) -> Result<()> {
        self.turned().try_for_each(|pattern| pattern.transpose_on(device))?;
        let walks = self.walks().or(self.diffusion.get());
        let matrices = self.normalised.iter().filter_map(OnceLock::get).chain(self.mean.get());
        for matrix in matrices.chain(walks.into_iter().flatten()) {
            let factors = matrix.factors.as_ref().map(|factors| &factors[..]);
            matrix.pattern.bring(device, Some(&matrix.values), factors)?;
        }
        self.patterns().into_iter().flatten().try_for_each(|pattern| pattern.bring(device, None, None))
    }

    /// What has been asked for so far.
    pub fn asked(&self) -> Asked {
        let transposed =
            |pattern: Option<&Arc<Pattern>>| pattern.is_some_and(|pattern| pattern.is_transposed());
        Asked {
            normalised: [0, 1, 2].map(|kind| self.normalised[kind].get().is_some()),
            with_loops: self.with_loops.get().is_some(),
            plain: self.plain.get().is_some(),
            mean: self.mean.get().is_some(),
            diffusion: self.diffusion.get().is_some() || self.walks().is_some(),
            transposed: self.patterns().map(transposed),
        }
    }

    /// The patterns that have been made: with loops, without, and of the walk against the edges.
    fn patterns(&self) -> [Option<&Arc<Pattern>>; 3] {
        let walks = self.walks().or(self.diffusion.get());
        [self.with_loops.get(), self.plain.get(), walks.map(|[_, against]| &against.pattern)]
    }

    /// A graph without edges of its own, of which nothing has been made yet.
    fn empty(vertices: usize, edges: usize) -> Graph {
        Graph {
            vertices,
            edges,
            own: None,
            part: None,
            normalised: Default::default(),
            with_loops: OnceLock::new(),
            plain: OnceLock::new(),
            mean: OnceLock::new(),
            diffusion: OnceLock::new(),
            transposed: [false; 3],
        }
    }

    /// The rows that matrices are made of.
    fn rows(&self) -> Result<Rows<'_>> {
        let problem = "a matrix was asked for that snapshots were not prepared with";
        self.own.as_ref().map(OwnRows::rows).ok_or_else(|| Error::settings("graph", problem))
    }

    /// How many vertices have a row.
    pub fn vertices(&self) -> usize {
        self.vertices
    }

    /// How many vertices have a column: those with a row, and their neighbours beyond.
    pub fn columns(&self) -> usize {
        self.part.as_ref().map_or(self.vertices, |part| part.vertices.len())
    }

    /// How many edges there are.
    pub fn edges(&self) -> usize {
        self.edges
    }

    /// The vertices that columns stand for, where these are not the vertices themselves.
    fn order(&self) -> Option<&[u32]> {
        self.part.as_ref().map(|part| &part.vertices[..])
    }

    /// Where the edges are, with a loop at every vertex.
    pub fn with_loops(&self) -> Result<Arc<Pattern>> {
        match self.with_loops.get() {
            Some(pattern) => Ok(pattern.clone()),
            None => self.with_loops_from(&self.rows()?),
        }
    }

    fn with_loops_from(&self, rows: &Rows<'_>) -> Result<Arc<Pattern>> {
        kept(&self.with_loops, || {
            let (starts, columns, _) = rows.looped(self.order());
            Ok(Arc::new(Pattern::new(self.columns(), starts, columns)?))
        })
    }

    /// Where the edges are.
    pub fn plain(&self) -> Result<Arc<Pattern>> {
        match self.plain.get() {
            Some(pattern) => Ok(pattern.clone()),
            None => self.plain_from(&self.rows()?),
        }
    }

    fn plain_from(&self, rows: &Rows<'_>) -> Result<Arc<Pattern>> {
        kept(&self.plain, || {
            Ok(Arc::new(Pattern::new(self.columns(), rows.starts.to_vec(), rows.sources.to_vec())?))
        })
    }

    /// The matrix of graph convolution: a loop of weight 1 at every vertex that has none, then the
    /// normalisation. Degrees are weighted and count what comes in; an edge at a vertex of degree 0 has
    /// weight 0.
    pub fn normalised(&self, kind: Normalisation) -> Result<Weighted> {
        match self.normalised[kind as usize].get() {
            Some(matrix) => Ok(matrix.clone()),
            None => self.normalised_from(&self.rows()?, kind),
        }
    }

    fn normalised_from(&self, rows: &Rows<'_>, kind: Normalisation) -> Result<Weighted> {
        kept(&self.normalised[kind as usize], || {
            // Without weights, the places are all that there is to know.
            let (pattern, weights) = match self.with_loops.get().filter(|_| rows.weights.is_none()) {
                Some(pattern) => (pattern.clone(), None),
                None => {
                    let (starts, columns, weights) = rows.looped(self.order());
                    let make = || Ok(Arc::new(Pattern::new(self.columns(), starts, columns)?));
                    (kept(&self.with_loops, make)?, weights)
                }
            };
            Ok(self.scaled(kind, pattern, weights.as_deref()))
        })
    }

    /// The matrix with these places and weights, scaled by the degrees of both ends.
    fn scaled(&self, kind: Normalisation, pattern: Arc<Pattern>, weights: Option<&[f32]>) -> Weighted {
        let rows = Rows { starts: pattern.starts(), sources: pattern.places(), weights };
        let factors = match &self.part {
            Some(part) => factors(kind, &part.degrees),
            None => factors(kind, &rows.degrees()),
        };
        if kind == Normalisation::Both && weights.is_none() && self.part.is_none() {
            return Weighted::product(pattern, factors);
        }
        let values = Arc::new(rows.values(kind, &factors).into());
        Weighted { pattern, values, factors: None }
    }

    /// The matrix of the mean over in-neighbours, whatever their weights.
    pub fn mean(&self) -> Result<Weighted> {
        match self.mean.get() {
            Some(matrix) => Ok(matrix.clone()),
            None => self.mean_from(&self.rows()?),
        }
    }

    fn mean_from(&self, rows: &Rows<'_>) -> Result<Weighted> {
        kept(&self.mean, || {
            let share = |row: &[u64]| {
                let count = (row[1] - row[0]) as usize;
                std::iter::repeat_n(1.0 / count as f32, count)
            };
            let values: Vec<f32> = rows.starts.windows(2).flat_map(share).collect();
            Ok(Weighted { pattern: self.plain_from(rows)?, values: Arc::new(values.into()), factors: None })
        })
    }

    /// The walks of a part.
    fn walks(&self) -> Option<&[Weighted; 2]> {
        self.part.as_ref().and_then(|part| part.walks.as_ref())
    }

    /// The two random walks of diffusion convolution (DCRNN, equation 2): along the edges, each vertex
    /// handing out its weight in shares, and against them.
    pub fn diffusion(&self) -> Result<[Weighted; 2]> {
        if self.part.is_some() {
            let problem = "a part was made without its walks";
            return self.walks().cloned().ok_or_else(|| Error::settings("graph", problem));
        }
        match self.diffusion.get() {
            Some(walks) => Ok(walks.clone()),
            None => self.diffusion_from(&self.rows()?),
        }
    }

    fn diffusion_from(&self, rows: &Rows<'_>) -> Result<[Weighted; 2]> {
        kept(&self.diffusion, || {
            let (vertices, edges) = (rows.count(), rows.sources.len());
            let (mut outward, mut inward) = (vec![0.0f32; vertices], vec![0.0f32; vertices]);
            let each = || {
                rows.starts.windows(2).enumerate().flat_map(|(target, row)| {
                    (row[0] as usize..row[1] as usize)
                        .map(move |index| (index, rows.sources[index] as usize, target))
                })
            };
            for (index, source, target) in each() {
                outward[source] += rows.weight(index);
                inward[target] += rows.weight(index);
            }
            let share = |weight: f32, degree: f32| if degree == 0.0 { 0.0 } else { weight / degree };
            let along: Vec<f32> =
                each().map(|(index, source, _)| share(rows.weight(index), outward[source])).collect();
            let mut starts = vec![0u64; vertices + 1];
            each().for_each(|(_, source, _)| starts[source + 1] += 1);
            for vertex in 0..vertices {
                starts[vertex + 1] += starts[vertex];
            }
            let (mut next, mut columns, mut against) = (starts.clone(), vec![0; edges], vec![0.0; edges]);
            for (index, source, target) in each() {
                let at = next[source] as usize;
                columns[at] = target as u32;
                against[at] = share(rows.weight(index), inward[target]);
                next[source] += 1;
            }
            let back = Arc::new(Pattern::new(vertices, starts, columns)?);
            Ok([
                Weighted { pattern: self.plain_from(rows)?, values: Arc::new(along.into()), factors: None },
                Weighted { pattern: back, values: Arc::new(against.into()), factors: None },
            ])
        })
    }
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
        let (starts, columns, weights) = graph().rows().unwrap().looped(None);
        assert_eq!(starts, [0, 2, 5, 6, 7]);
        assert_eq!(columns, [0, 1, 0, 1, 2, 2, 3]);
        assert_eq!(weights.unwrap(), [1.0, 4.0, 2.0, 3.0, 1.0, 1.0, 1.0]);
    }

    #[test]
    fn normalisations_scale_by_degrees() {
        let graph = graph();
        let right = graph.normalised(Normalisation::Right).unwrap();
        assert_eq!(right.values[..5], [0.2, 0.8, 2.0 / 6.0, 0.5, 1.0 / 6.0]);
        let both = graph.normalised(Normalisation::Both).unwrap();
        assert!((both.values[1] - 4.0 / (5.0f32 * 6.0).sqrt()).abs() < 1e-6);
        assert_eq!(
            graph.normalised(Normalisation::None).unwrap().values[..],
            graph.rows().unwrap().looped(None).2.unwrap()
        );
        assert_eq!(graph.mean().unwrap().values[..], [1.0, 1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0]);
    }

    #[test]
    fn walks_hand_out_shares() {
        let [along, against] = graph().diffusion().unwrap();
        assert_eq!(along.values[..], [4.0 / 7.0, 1.0, 3.0 / 7.0, 1.0]);
        assert_eq!(against.values[..], [2.0 / 6.0, 1.0, 3.0 / 6.0, 1.0 / 6.0]);
    }

    /// What was asked of one snapshot is there in another that was prepared with it, bit for bit, and
    /// nothing else is.
    #[test]
    fn prepared_graphs_have_what_was_asked_for() {
        let weighted = graph();
        let ones = Graph::new(vec![0, 1, 3, 3, 3], vec![1, 0, 2], None).unwrap();
        let asks: [fn(&Graph) -> Vec<Weighted>; 6] = [
            |graph| Normalisation::ALL.map(|kind| graph.normalised(kind).unwrap()).to_vec(),
            |graph| vec![graph.normalised(Normalisation::Right).unwrap()],
            |graph| vec![graph.mean().unwrap()],
            |graph| graph.diffusion().unwrap().to_vec(),
            |graph| {
                let matrix = graph.normalised(Normalisation::Both).unwrap();
                matrix.pattern.transpose();
                vec![matrix]
            },
            |graph| {
                let walks = graph.diffusion().unwrap();
                walks.iter().for_each(|walk| walk.pattern.transpose());
                walks.to_vec()
            },
        ];
        for graph in [weighted, ones] {
            let rows = graph.rows().unwrap();
            let again =
                || Graph::new(rows.starts.into(), rows.sources.into(), rows.weights.map(<[f32]>::to_vec));
            for ask in asks {
                let lazy = again().unwrap();
                let expected = ask(&lazy);
                let asked = lazy.asked();
                let both = [Graph::prepared(&rows, asked).unwrap(), again().unwrap().reduced(asked).unwrap()];
                for prepared in both {
                    prepared.complete();
                    assert_eq!(prepared.asked(), asked);
                    assert_eq!((prepared.vertices(), prepared.edges()), (graph.vertices(), graph.edges()));
                    for (found, expected) in ask(&prepared).iter().zip(&expected) {
                        assert_eq!(found.values[..], expected.values[..]);
                        assert_eq!(found.pattern.starts(), expected.pattern.starts());
                        assert_eq!(found.pattern.places(), expected.pattern.places());
                    }
                    assert_eq!(prepared.asked(), asked, "nothing had to be made");
                    let missing = [prepared.with_loops().is_err(), prepared.plain().is_err()];
                    assert_eq!(missing, [!asked.with_loops, !asked.plain]);
                }
            }
        }
    }

    /// A graph made of the pattern with loops is the one made of the edges.
    #[test]
    fn loops_that_are_there_need_not_be_added() {
        let edges = || Graph::new(vec![0, 1, 4, 4, 4], vec![1, 0, 1, 2], None).unwrap();
        for asks in [vec![Normalisation::Both], Normalisation::ALL.to_vec()] {
            let lazy = edges();
            let expected: Vec<_> = asks.iter().map(|&kind| lazy.normalised(kind).unwrap()).collect();
            lazy.with_loops().unwrap().transpose();
            let asked = lazy.asked();
            assert!(asked.is_of_loops() && !edges().asked().is_of_loops());
            let pattern = Pattern::new(4, vec![0, 2, 5, 6, 7], vec![0, 1, 0, 1, 2, 2, 3]).unwrap();
            let graph = Graph::looped(pattern, 4, asked);
            graph.complete();
            assert_eq!((graph.vertices(), graph.edges(), graph.asked()), (4, 4, asked));
            for (&kind, expected) in asks.iter().zip(&expected) {
                let found = graph.normalised(kind).unwrap();
                assert_eq!(found.values[..], expected.values[..]);
                assert_eq!(found.pattern.places(), expected.pattern.places());
            }
        }
        let lazy = edges();
        lazy.with_loops().unwrap();
        lazy.mean().unwrap();
        assert!(!lazy.asked().is_of_loops());
    }

    #[test]
    fn a_part_may_be_reduced_to_what_is_asked_for() {
        let part = || graph().part(&[0, 1], &[2], true).unwrap();
        let asked = {
            let part = part();
            part.normalised(Normalisation::Both).unwrap();
            part.diffusion().unwrap();
            part.asked()
        };
        let reduced = part().reduced(asked).unwrap();
        let values = |graph: &Graph| graph.normalised(Normalisation::Both).unwrap().values.to_vec();
        assert_eq!(values(&reduced), values(&part()));
        assert!(reduced.diffusion().is_ok() && reduced.plain().is_err());
    }

    #[test]
    fn impossible_graphs_are_refused() {
        assert!(Graph::new(vec![0, 1], vec![5], None).is_err());
        assert!(Graph::new(vec![0, 2], vec![0], None).is_err());
        assert!(Graph::new(vec![0, 2, 2], vec![1, 0], None).is_err());
        assert!(Graph::from_edges(1, &[(0, 3, 1.0)]).is_err());
    }
}
