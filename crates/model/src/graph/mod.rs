//! A snapshot as a model sees it: in-neighbours, and the matrices that aggregation multiplies with.
//!
//! A graph with its edges makes each of those matrices when it is first asked for, and keeps it. What a model
//! asks for is the same for every snapshot, so once that is known ([`Graph::asked`]), snapshots are prepared:
//! they hold the matrices, and no longer the edges that these were made of.

mod asked;
mod near;
mod part;
mod rows;
mod weighted;

pub use asked::Asked;
pub use near::{Near, Sight};
pub use part::PartEdges;
pub use rows::Rows;
pub use weighted::{Normalisation, Weighted};

use std::sync::{Arc, OnceLock};

use kymo_tensor::pattern::Pattern;
use kymo_tensor::{Device, Error, Pool, Resident, Result};

use part::Part;
use rows::factors;
use weighted::share;

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
    /// Where its arrays come from, and go back to.
    pool: Pool,
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

    /// A graph that has what is asked of it and nothing else, from rows that are in order. Transposes are
    /// made where they are needed: see [`Graph::complete`] and [`Graph::bring`]. Its arrays are those of a
    /// pool.
    pub fn prepared(rows: &Rows<'_>, asked: Asked, pool: &Pool) -> Result<Graph> {
        let empty = Graph::empty(rows.count(), rows.sources.len());
        let graph = Graph { transposed: asked.transposed, pool: pool.clone(), ..empty };
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
    pub fn looped(pattern: Pattern, edges: usize, asked: Asked) -> Result<Graph> {
        let (transposed, pool) = (asked.transposed, pattern.pool().clone());
        let graph = Graph { transposed, pool, ..Graph::empty(pattern.rows(), edges) };
        let pattern = graph.with_loops.get_or_init(|| Arc::new(pattern));
        for kind in Normalisation::ALL.into_iter().filter(|&kind| asked.normalised[kind as usize]) {
            kept(&graph.normalised[kind as usize], || graph.scaled(kind, pattern.clone(), None))?;
        }
        Ok(graph)
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

    /// Makes the transposes in the memory of the host, before they are asked for there.
    pub fn complete(&self) {
        self.turned().for_each(|pattern| pattern.transpose());
    }

    /// Brings what has been made to a GPU, and makes the rest there, before it is asked for there.
    pub fn bring(&self, device: &Device) -> Result<()> {
        self.turned().try_for_each(|pattern| pattern.transpose_on(device))?;
        let walks = self.walks().or(self.diffusion.get());
        let matrices = self.normalised.iter().filter_map(OnceLock::get).chain(self.mean.get());
        for matrix in matrices.chain(walks.into_iter().flatten()) {
            matrix.pattern.bring(device, Some(&matrix.values))?;
        }
        self.patterns().into_iter().flatten().try_for_each(|pattern| pattern.bring(device, None))
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

    /// Bytes of what has been made.
    pub fn bytes(&self) -> u64 {
        let has_values = |matrix: &Weighted| !matrix.values.are_products();
        let weighted = self.normalised[Normalisation::Both as usize].get().is_some_and(has_values);
        self.asked().bytes(self.columns() as u64, self.edges as u64, weighted)
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
            pool: Pool::default(),
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

    /// A pattern of arrays of the pool.
    fn pattern(&self, starts: Vec<u64>, columns: Vec<u32>) -> Result<Arc<Pattern>> {
        let (starts, columns) = (Arc::new(starts), Arc::new(columns));
        Ok(Arc::new(Pattern::shared(self.columns(), starts, columns, &self.pool)?))
    }

    /// Values in an array of the pool.
    fn resident(&self, values: Vec<f32>) -> Arc<Resident> {
        Arc::new(Resident::reusable(values, &self.pool))
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
            let (starts, columns, weights) = rows.looped(self.order(), &self.pool);
            weights.into_iter().for_each(|weights| self.pool.give(weights));
            self.pattern(starts, columns)
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
        kept(&self.plain, || self.pattern(self.pool.copied(rows.starts), self.pool.copied(rows.sources)))
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
                    let (starts, columns, weights) = rows.looped(self.order(), &self.pool);
                    (kept(&self.with_loops, || self.pattern(starts, columns))?, weights)
                }
            };
            let matrix = self.scaled(kind, pattern, weights.as_deref());
            weights.into_iter().for_each(|weights| self.pool.give(weights));
            matrix
        })
    }

    /// The matrix with these places and weights, scaled by the degrees of both ends.
    fn scaled(
        &self,
        kind: Normalisation,
        pattern: Arc<Pattern>,
        weights: Option<&[f32]>,
    ) -> Result<Weighted> {
        let rows = Rows { starts: pattern.starts(), sources: pattern.places(), weights };
        let degrees = match &self.part {
            Some(part) => self.pool.copied(&part.degrees),
            None => rows.degrees(&self.pool),
        };
        let factors = factors(kind, degrees);
        if kind == Normalisation::Both && weights.is_none() {
            let values = Arc::new(Resident::products(pattern.clone(), factors)?);
            return Ok(Weighted { pattern, values });
        }
        let values = rows.values(kind, &factors, &self.pool);
        self.pool.give(factors);
        Ok(Weighted { pattern, values: self.resident(values) })
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
            let mut values: Vec<f32> = self.pool.empty(rows.sources.len());
            values.extend(rows.starts.windows(2).flat_map(share));
            Ok(Weighted { pattern: self.plain_from(rows)?, values: self.resident(values) })
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
            let pool = &self.pool;
            let (mut outward, mut inward): (Vec<f32>, Vec<f32>) =
                (pool.zeros(vertices), pool.zeros(vertices));
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
            let mut along: Vec<f32> = pool.empty(edges);
            along.extend(each().map(|(index, source, _)| share(rows.weight(index), outward[source])));
            let mut starts: Vec<u64> = pool.zeros(vertices + 1);
            each().for_each(|(_, source, _)| starts[source + 1] += 1);
            for vertex in 0..vertices {
                starts[vertex + 1] += starts[vertex];
            }
            let mut next = pool.copied(&starts);
            let (mut columns, mut against): (Vec<u32>, Vec<f32>) = (pool.take(edges), pool.take(edges));
            for (index, source, target) in each() {
                let at = next[source] as usize;
                columns[at] = target as u32;
                against[at] = share(rows.weight(index), inward[target]);
                next[source] += 1;
            }
            pool.give(next);
            pool.give(outward);
            pool.give(inward);
            let back = self.pattern(starts, columns)?;
            Ok([
                Weighted { pattern: self.plain_from(rows)?, values: self.resident(along) },
                Weighted { pattern: back, values: self.resident(against) },
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
mod tests;
