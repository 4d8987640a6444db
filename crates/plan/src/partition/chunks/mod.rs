//! Space-time chunks: DGC (section 4). Label propagation over cells groups those between which most bytes
//! move, and chunks go to workers by what they take to compute and by the bytes between them.
//!
//! The paper assigns chunks by Algorithm 1, which is `chunks-greedy` here. `chunks` begins with that and goes
//! on as long as the slowest worker gets faster. And it looks further: vertices that change owner in the
//! course of time cost another exchange at every step, and rows are then computed step by step, so the chunks
//! are also merged into whole vertices, for all of a model or its time encoder alone, and into steps. All of
//! these are compared with simpler layouts by the seconds that each is expected to take. The simplest of
//! those that are nearly the fastest is taken, which the note tells.

mod assignment;
mod cells;
mod coarsening;
mod graph;
mod improvement;
mod price;
mod propagation;
mod state;
mod sums;

use std::sync::Arc;

use kymo_graph::{Step, Vertex};

use super::{Ask, Effort, Partition, Partitioner, metis, sequence, snapshot, snapshot_sequence};
use crate::error::{Error, Result};
use crate::layout::{Layout, Worker};

pub use assignment::{Pace, Problem, greedy};
pub use cells::Cells;
pub use graph::{Chunk, ChunkGraph, Chunks, Link, Lists, Load};
pub use improvement::improved;
pub use price::expected_seconds;

/// Links that METIS is given for comparison: a few seconds. A number of its own, not what there is memory
/// for: every process makes the same choice by itself.
const METIS_LINKS: u64 = 4_000_000;
/// Edges of all steps beyond which links are not even counted for METIS.
const METIS_EDGES: u64 = 100_000_000;

/// A layout is as good as the fastest one that is expected to take no more than this many times its seconds:
/// expectations are not more exact than that.
const NEARLY: f64 = 1.01;

/// Chunks, or whatever of simpler kinds is expected to be faster.
pub(super) struct ByChunks;

/// Chunks by Algorithm 1.
pub(super) struct ByAlgorithm;

impl Partitioner for ByChunks {
    fn name(&self) -> &'static str {
        "chunks"
    }

    fn about(&self) -> &'static str {
        "chunks of cells that exchange most, or a simpler layout where one is expected to be faster"
    }

    fn weighs_traffic(&self) -> bool {
        true
    }

    fn partition(&self, ask: &Ask<'_>) -> Result<Partition> {
        let cells = Cells::new(ask)?;
        if ask.workers == 1 {
            return alone(ask);
        }
        let (chunks, graph) = found(ask, &cells)?;
        let owners = improved(&problem(ask, &cells, &graph));
        let by_chunk = by_cell(ask, &cells, &chunks, &owners)?;
        let by_vertex = by_vertex(ask, &cells, &chunks, &owners)?;
        let both = Partition { time: Some(by_vertex.clone()), ..Partition::from(by_chunk.clone()) };
        let by_metis = by_metis(ask, &cells)?;
        let left_out = if by_metis.is_none() { "; METIS would have had too many links" } else { "" };
        // The simpler, the earlier: vertices that stay, then those that move between the two phases, and then
        // those that move within them.
        let candidates = [
            Some(("vertices of chunks", by_vertex.into())),
            Some(("sequence", sequence::Sequences.partition(ask)?)),
            by_metis.map(|partition| ("metis", partition)),
            Some(("snapshot-sequence", snapshot_sequence::SnapshotsThenSequences.partition(ask)?)),
            Some(("chunks for structure and their vertices for time", both)),
            Some(("snapshot", snapshot::Snapshots.partition(ask)?)),
            Some(("steps of chunks", by_step(ask, &cells, &chunks, &owners)?.into())),
            Some(("chunks", by_chunk.into())),
        ];
        let mut priced: Vec<(f64, &str, Partition)> = Vec::with_capacity(candidates.len());
        for (what, partition) in candidates.into_iter().flatten() {
            priced.push((expected_seconds(ask, &partition)?, what, partition));
        }
        let fastest = priced.iter().map(|&(seconds, ..)| seconds).fold(f64::INFINITY, f64::min);
        let taken = priced.iter().position(|&(seconds, ..)| seconds <= NEARLY * fastest).unwrap_or(0);
        let taken = priced.remove(taken);
        priced.sort_by(|a, b| a.0.total_cmp(&b.0));
        let windows = cells.steps.len().div_ceil(cells.window) as f64;
        let tell =
            |(seconds, what, _): &(f64, &str, Partition)| format!("{what} {:.3} ms", seconds / windows * 1e3);
        let others: Vec<String> = priced.iter().map(tell).collect();
        let note = format!(
            "{} chunks were found in {} rounds; taken is the simplest layout within 1 % of the fastest, by \
             what a window is expected to take: {} (others: {}{left_out})",
            chunks.count,
            chunks.rounds,
            tell(&taken),
            others.join(", ")
        );
        Ok(Partition { note: Some(note), ..taken.2 })
    }
}

impl Partitioner for ByAlgorithm {
    fn name(&self) -> &'static str {
        "chunks-greedy"
    }

    fn about(&self) -> &'static str {
        "chunks of cells that exchange most, assigned by Algorithm 1 of DGC"
    }

    fn weighs_traffic(&self) -> bool {
        true
    }

    fn partition(&self, ask: &Ask<'_>) -> Result<Partition> {
        let cells = Cells::new(ask)?;
        if ask.workers == 1 {
            return alone(ask);
        }
        let (chunks, graph) = found(ask, &cells)?;
        let owners = greedy(&problem(ask, &cells, &graph));
        let note = format!("{} chunks were found in {} rounds", chunks.count, chunks.rounds);
        let structure = by_cell(ask, &cells, &chunks, &owners)?;
        Ok(Partition { structure, time: None, note: Some(note) })
    }
}

/// Everything at one worker.
fn alone(ask: &Ask<'_>) -> Result<Partition> {
    Ok(Layout::by_vertex(1, ask.store.steps(), vec![0; ask.store.vertices()])?.into())
}

/// The chunks of the cells, and what is between them.
fn found(ask: &Ask<'_>, cells: &Cells<'_>) -> Result<(Chunks, ChunkGraph)> {
    let chunks = Chunks::find(ask, cells)?;
    let graph = ChunkGraph::of(cells, &chunks)?;
    Ok((chunks, graph))
}

fn problem<'a>(ask: &'a Ask<'_>, cells: &Cells<'_>, graph: &'a ChunkGraph) -> Problem<'a> {
    let windows = cells.steps.len() as f64 / (cells.window * cells.periods()) as f64;
    Problem::new(graph, ask.workers, &ask.traffic, &ask.traffic, windows.max(1.0))
}

/// METIS, where it is affordable.
fn by_metis(ask: &Ask<'_>, cells: &Cells<'_>) -> Result<Option<Partition>> {
    let mut edges = 0;
    for &step in &cells.steps {
        edges += ask.store.edges(step)? as u64;
    }
    if edges > METIS_EDGES {
        return Ok(None);
    }
    // A plan that is to be there soon may say less. What runs goes by this number alone.
    let most = if ask.effort.looked.is_some() { ask.effort.metis_links } else { METIS_LINKS };
    let effort = Effort { metis_links: most.min(METIS_LINKS), ..ask.effort };
    match metis::Metis.partition(&Ask { effort, ..ask.clone() }) {
        // With a note it is not METIS's.
        Ok(partition) => Ok(Some(partition).filter(|partition| partition.note.is_none())),
        Err(Error::Metis { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The place in the list of steps that are looked at which a step is taken to be like.
fn places<'a>(ask: &Ask<'_>, cells: &'a Cells<'_>) -> impl Iterator<Item = usize> + 'a {
    let all: std::ops::Range<Step> = 0..ask.store.steps();
    all.map(|step| cells.steps.partition_point(|&looked| looked <= step).saturating_sub(1))
}

/// Every cell at the owner of its chunk.
fn by_cell(ask: &Ask<'_>, cells: &Cells<'_>, chunks: &Chunks, owners: &[Worker]) -> Result<Layout> {
    let step = |chunks: &Vec<Chunk>| -> Arc<Vec<Worker>> {
        Arc::new(chunks.iter().map(|&chunk| owners[chunk as usize]).collect())
    };
    let steps: Vec<Arc<Vec<Worker>>> = chunks.by_step.iter().map(step).collect();
    Layout::by_shared_cell(ask.workers, places(ask, cells).map(|place| Arc::clone(&steps[place])))
}

/// Every vertex at the worker that has most of its load over all steps; of equal ones, the lowest.
fn by_vertex(ask: &Ask<'_>, cells: &Cells<'_>, chunks: &Chunks, owners: &[Worker]) -> Result<Layout> {
    let loads = cells.loads()?;
    let mut sums: Vec<(Worker, u64)> = Vec::new();
    let owner = |vertex: Vertex| {
        sums.clear();
        for (chunks, loads) in chunks.by_step.iter().zip(&loads) {
            let owner = owners[chunks[vertex as usize] as usize];
            let load = u64::from(loads[vertex as usize]);
            match sums.iter_mut().find(|(worker, _)| *worker == owner) {
                Some((_, sum)) => *sum += load,
                None => sums.push((owner, load)),
            }
        }
        sums.iter().max_by_key(|&&(worker, sum)| (sum, std::cmp::Reverse(worker))).map_or(0, |most| most.0)
    };
    let owners = (0..cells.vertices() as Vertex).map(owner).collect();
    Layout::by_vertex(ask.workers, ask.store.steps(), owners)
}

/// Every step at the worker that has most of its load; of equal ones, the lowest.
fn by_step(ask: &Ask<'_>, cells: &Cells<'_>, chunks: &Chunks, owners: &[Worker]) -> Result<Layout> {
    let loads = cells.loads()?;
    let owner = |(chunks, loads): (&Vec<Chunk>, &Vec<u32>)| {
        let mut sums = vec![0u64; ask.workers];
        for (&chunk, &load) in chunks.iter().zip(loads) {
            sums[owners[chunk as usize] as usize] += u64::from(load);
        }
        let most = (0..sums.len()).max_by_key(|&worker| (sums[worker], std::cmp::Reverse(worker)));
        most.unwrap_or(0) as Worker
    };
    let steps: Vec<Worker> = chunks.by_step.iter().zip(&loads).map(owner).collect();
    let owners = places(ask, cells).map(|place| steps[place]).collect();
    Layout::by_step(ask.workers, ask.store.vertices(), owners)
}
