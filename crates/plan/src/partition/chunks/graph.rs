//! Chunks and the bytes between them: the load `g(a)` and the traffic `h(a, b)` of DGC's Algorithm 1.
//!
//! Of a cell's row one copy goes to each chunk that reads it, however many of its cells do, as rows of
//! neighbours go to workers. Everything is made by sorting, so it is the same for any number of threads.

use kymo_graph::{Edge, Vertex};
use rayon::prelude::*;

use super::cells::Cells;
use super::propagation::{Labels, cap, propagate};
use crate::error::Result;
use crate::partition::Ask;

/// The number of a chunk.
pub type Chunk = u32;

/// Chunks found in a graph.
pub struct Chunks {
    /// Of each step that was looked at, the chunk of every vertex.
    pub by_step: Vec<Vec<Chunk>>,
    /// How many chunks there are.
    pub count: usize,
    /// Rounds of label propagation.
    pub rounds: usize,
    /// The most that the cells of a chunk load a worker with, where they are several.
    pub cap: u64,
}

impl Chunks {
    /// Finds the chunks of the cells that are asked about.
    pub fn find(ask: &Ask<'_>, cells: &Cells<'_>) -> Result<Chunks> {
        let loads = cells.loads()?;
        let cap = cap(&loads, ask.workers);
        let labels = propagate(cells, &loads, cap, ask.seed)?;
        Ok(Chunks::numbered(labels, &loads, cap))
    }

    /// Numbers chunks as they come, step after step; absent cells, which have no load, go with others.
    fn numbered(labels: Labels, loads: &[Vec<u32>], cap: u64) -> Chunks {
        let Labels { mut by_step, rounds } = labels;
        let cells = by_step.iter().map(Vec::len).sum();
        let (mut numbers, mut count) = (vec![Chunk::MAX; cells], 0);
        let mut all_present = true;
        for (labels, loads) in by_step.iter_mut().zip(loads) {
            for (label, &load) in labels.iter_mut().zip(loads) {
                if load == 0 {
                    (*label, all_present) = (ABSENT, false);
                    continue;
                }
                let number = &mut numbers[*label as usize];
                if *number == Chunk::MAX {
                    *number = count;
                    count += 1;
                }
                *label = *number;
            }
        }
        if !all_present {
            // Where no vertex is ever present, there is one chunk all the same.
            count = count.max(1);
            settle_absent(&mut by_step, count);
        }
        Chunks { by_step, count: count as usize, rounds, cap }
    }
}

/// What stands for the chunk of an absent cell until it has one: no chunk has this number, since there are
/// fewer cells.
const ABSENT: Chunk = Chunk::MAX;

/// Puts absent cells into chunks. They load nobody, but there is a row for them, which is not to move: they
/// go with the last present cell of their vertex, or with its first where there is none before. Vertices that
/// are never present are assigned in turns.
fn settle_absent(by_step: &mut [Vec<Chunk>], count: Chunk) {
    let follow = |chunks: &mut Vec<Chunk>, others: &[Chunk]| {
        let absent = chunks.iter_mut().zip(others).filter(|(chunk, _)| **chunk == ABSENT);
        absent.for_each(|(chunk, &other)| *chunk = other);
    };
    for place in 1..by_step.len() {
        let (before, rest) = by_step.split_at_mut(place);
        follow(&mut rest[0], &before[place - 1]);
    }
    for place in (1..by_step.len()).rev() {
        let (before, rest) = by_step.split_at_mut(place);
        follow(&mut before[place - 1], &rest[0]);
    }
    for chunks in by_step {
        let never = chunks.iter_mut().enumerate().filter(|(_, chunk)| **chunk == ABSENT);
        never.for_each(|(vertex, chunk)| *chunk = vertex as Chunk % count);
    }
}

/// What a chunk has of a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// The period.
    pub period: u32,
    /// Cells of vertices that are present.
    pub rows: u64,
    /// Edges that lead to them.
    pub edges: u64,
}

/// Bytes between a chunk and another in a period, either way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The other chunk.
    pub other: Chunk,
    /// The period.
    pub period: u32,
    /// The bytes.
    pub bytes: u64,
}

/// Lists, one for each chunk, in one array.
#[derive(Clone, Debug, PartialEq)]
pub struct Lists<T> {
    starts: Vec<usize>,
    entries: Vec<T>,
}

impl<T: Copy> Lists<T> {
    /// The lists of entries that come in the order of their owners.
    fn of(count: usize, entries: impl Iterator<Item = (Chunk, T)>) -> Lists<T> {
        let (mut starts, mut list) = (vec![0; count + 1], Vec::new());
        for (owner, entry) in entries {
            list.push(entry);
            starts[owner as usize + 1] = list.len();
        }
        for owner in 0..count {
            starts[owner + 1] = starts[owner + 1].max(starts[owner]);
        }
        Lists { starts, entries: list }
    }

    /// Lists of what is made of each entry.
    pub fn map<U: Copy>(&self, of: impl Fn(&T) -> U) -> Lists<U> {
        Lists { starts: self.starts.clone(), entries: self.entries.iter().map(of).collect() }
    }

    /// How many entries all lists have together.
    pub fn count(&self) -> usize {
        self.entries.len()
    }

    /// The list of a chunk.
    pub fn at(&self, chunk: usize) -> &[T] {
        &self.entries[self.starts[chunk]..self.starts[chunk + 1]]
    }
}

/// A graph whose vertices are chunks.
#[derive(Clone, Debug, PartialEq)]
pub struct ChunkGraph {
    /// How many chunks there are.
    pub count: usize,
    /// How many periods there are.
    pub periods: usize,
    /// The loads of each chunk, by period.
    pub loads: Lists<Load>,
    /// The links of each chunk, ascending by the other one and then by period; each is in the lists of both.
    pub links: Lists<Link>,
}

/// A pair of chunks, the lower first, in a period, and bytes between them.
type Pair = (Chunk, Chunk, u32, u64);

/// Pairs of steps that wait to be added up before they are.
const WAITING: usize = 1 << 22;

impl ChunkGraph {
    /// A graph of these loads, each with its chunk, and links, each with its two chunks, in any order.
    pub fn new(
        count: usize,
        periods: usize,
        mut loads: Vec<(Chunk, Load)>,
        mut pairs: Vec<Pair>,
    ) -> ChunkGraph {
        loads.sort_unstable_by_key(|&(chunk, load)| (chunk, load.period));
        loads.dedup_by(|new, old| {
            let same = (new.0, new.1.period) == (old.0, old.1.period);
            if same {
                (old.1.rows, old.1.edges) = (old.1.rows + new.1.rows, old.1.edges + new.1.edges);
            }
            same
        });
        pairs.iter_mut().for_each(|pair| *pair = (pair.0.min(pair.1), pair.0.max(pair.1), pair.2, pair.3));
        add_up(&mut pairs);
        let mut links: Vec<(Chunk, Link)> = Vec::with_capacity(2 * pairs.len());
        for (low, high, period, bytes) in pairs {
            links.push((low, Link { other: high, period, bytes }));
            links.push((high, Link { other: low, period, bytes }));
        }
        links.par_sort_unstable_by_key(|&(chunk, link)| (chunk, link.other, link.period));
        let (loads, links) = (Lists::of(count, loads.into_iter()), Lists::of(count, links.into_iter()));
        ChunkGraph { count, periods, loads, links }
    }

    /// The graph of the chunks of these cells.
    pub fn of(cells: &Cells<'_>, chunks: &Chunks) -> Result<ChunkGraph> {
        let (mut loads, mut pairs, mut most) = (Vec::new(), Vec::new(), WAITING);
        let places: Vec<usize> = (0..cells.steps.len()).collect();
        // A few steps at a time, for what they come to is large before it is added up.
        for group in places.chunks(16) {
            let step = |&place: &usize| cells.with_edges(place, |edges| at(cells, chunks, place, edges));
            let steps: Vec<_> = group.par_iter().map(step).collect::<Result<_>>()?;
            for (some, between) in steps {
                loads.extend(some);
                pairs.extend(between);
            }
            if pairs.len() > most {
                add_up(&mut pairs);
                most = WAITING.max(2 * pairs.len());
            }
        }
        Ok(ChunkGraph::new(chunks.count, cells.periods(), loads, pairs))
    }

    /// The bytes between two chunks over all periods: `h(a, b)`.
    pub fn between(&self, a: Chunk, b: Chunk) -> u64 {
        self.links.at(a as usize).iter().filter(|link| link.other == b).map(|link| link.bytes).sum()
    }

    /// The bytes between all chunks.
    pub fn cut(&self) -> u64 {
        self.links.entries.iter().map(|link| link.bytes).sum::<u64>() / 2
    }
}

/// Adds up the bytes of equal pairs in equal periods.
fn add_up(pairs: &mut Vec<Pair>) {
    pairs.par_sort_unstable_by_key(|&(low, high, period, _)| (low, high, period));
    pairs.dedup_by(|new, old| {
        let same = (new.0, new.1, new.2) == (old.0, old.1, old.2);
        if same {
            old.3 += new.3;
        }
        same
    });
}

/// What a step adds to the loads of chunks and to the bytes between them, added up.
fn at(cells: &Cells<'_>, chunks: &Chunks, place: usize, edges: &[Edge]) -> (Vec<(Chunk, Load)>, Vec<Pair>) {
    let (here, period) = (&chunks.by_step[place], cells.period(place) as u32);
    let of = |vertex: Vertex| here[vertex as usize];
    let mut edges_of: Vec<u32> = vec![0; here.len()];
    // Rows that leave their chunk, and the chunk that each goes to.
    let mut rows: Vec<(Vertex, Chunk)> = Vec::new();
    for edge in edges {
        edges_of[edge.target() as usize] += 1;
        let (source, target) = (of(edge.source()), of(edge.target()));
        if source != target {
            rows.push((edge.source(), target));
            if cells.traffic.needs.out_edges {
                rows.push((edge.target(), source));
            }
        }
    }
    let cell = |(vertex, edges): (Vertex, u32)| (of(vertex), edges, cells.has(place, vertex));
    let is_any = |&(_, edges, is_present): &(Chunk, u32, bool)| is_present || edges > 0;
    let mut by_chunk: Vec<(Chunk, u32, bool)> = (0..).zip(edges_of).map(cell).filter(is_any).collect();
    by_chunk.sort_unstable();
    let load = |some: &[(Chunk, u32, bool)]| {
        let edges = some.iter().map(|&(_, edges, _)| u64::from(edges)).sum();
        let rows = some.iter().filter(|(.., is_present)| *is_present).count() as u64;
        (some[0].0, Load { period, rows, edges })
    };
    let loads = by_chunk.chunk_by(|a, b| a.0 == b.0).map(load).collect();
    rows.sort_unstable();
    rows.dedup();
    let pair = |from: Chunk, to: Chunk, bytes: u64| (from.min(to), from.max(to), period, bytes);
    let spatial = rows.into_iter().map(|(vertex, to)| pair(of(vertex), to, cells.traffic.spatial));
    let mut pairs: Vec<Pair> = spatial.collect();
    if let Some(next) = chunks.by_step.get(place + 1) {
        let temporal = cells.traffic.temporal(cells.window);
        let moves = here.iter().zip(next).filter(|(from, to)| from != to);
        pairs.extend(moves.map(|(&from, &to)| pair(from, to, temporal)));
    }
    add_up(&mut pairs);
    (loads, pairs)
}
