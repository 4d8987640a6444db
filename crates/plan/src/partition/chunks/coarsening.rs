//! Chunks merged with others, so that assigning begins with few large ones: chunks that move one by one never
//! bring a community to the other side, since half of it there costs more than nothing.
//!
//! The lightest go first, and each joins the chunk that it has most bytes with for what that weighs, so that
//! large ones do not draw everything to them (multilevel partitioning, Karypis and Kumar 1998).

use super::assignment::Problem;
use super::graph::{Chunk, ChunkGraph, Link};

/// Chunks a worker that are few enough.
const ENOUGH: usize = 8;
/// What merged chunks may weigh: a worker's share over this.
const PIECES: f64 = 4.0;
/// What merged chunks may weigh beside a chunk of this level on average.
const GROWTH: f64 = 6.0;

/// The graph of merged chunks, and what each became a part of; nothing where there are few already, or where
/// hardly any can be merged.
pub(super) fn coarser(problem: &Problem<'_>) -> Option<(ChunkGraph, Vec<Chunk>)> {
    let graph = problem.graph;
    if graph.count <= ENOUGH * problem.workers {
        return None;
    }
    let loads: Vec<f64> = (0..graph.count).map(|chunk| problem.load(chunk)).collect();
    let total = loads.iter().sum::<f64>();
    // Not at once, so that there are levels between.
    let most = (total / (problem.workers as f64 * PIECES)).min(total / graph.count as f64 * GROWTH);
    let mut merged: Vec<Chunk> = vec![Chunk::MAX; graph.count];
    let mut wholes: Vec<f64> = Vec::new();
    for chunk in problem.order().into_iter().rev() {
        if merged[chunk] != Chunk::MAX {
            continue;
        }
        let size = |other: Chunk| {
            let whole = wholes.get(merged[other as usize] as usize);
            whole.copied().unwrap_or(loads[other as usize])
        };
        // Links are in the order of the other chunk, one for each period.
        let by_other = graph.links.at(chunk).chunk_by(|a, b| a.other == b.other);
        let fitting = by_other.filter(|links| loads[chunk] + size(links[0].other) <= most);
        let score = |links: &[Link]| {
            let bytes = links.iter().map(|link| link.bytes).sum::<u64>() as f64;
            (bytes / size(links[0].other).max(f64::MIN_POSITIVE), links[0].other)
        };
        let best = fitting.map(score).max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
        let Some((_, other)) = best else {
            merged[chunk] = wholes.len() as Chunk;
            wholes.push(loads[chunk]);
            continue;
        };
        let whole = &mut merged[other as usize];
        if *whole == Chunk::MAX {
            *whole = wholes.len() as Chunk;
            wholes.push(loads[other as usize]);
        }
        let whole = *whole;
        merged[chunk] = whole;
        wholes[whole as usize] += loads[chunk];
    }
    let count = wholes.len();
    if count * 10 > graph.count * 9 {
        return None;
    }
    let (mut loads, mut pairs) = (Vec::new(), Vec::new());
    for (chunk, &whole) in merged.iter().enumerate() {
        loads.extend(graph.loads.at(chunk).iter().map(|&load| (whole, load)));
        for link in graph.links.at(chunk).iter().filter(|link| chunk < link.other as usize) {
            let other = merged[link.other as usize];
            if other != whole {
                pairs.push((whole, other, link.period, link.bytes));
            }
        }
    }
    Some((ChunkGraph::new(count, graph.periods, loads, pairs), merged))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::partition::Traffic;
    use crate::partition::chunks::graph::Load;

    #[test]
    fn the_heaviest_links_are_merged_and_nothing_is_lost() {
        // A ring of pairs, with light links between them; of period 1 there is one link besides.
        let count = 32;
        let load = |chunk| (chunk, Load { period: 0, rows: 2, edges: 1 });
        let pair =
            |chunk: Chunk| (chunk, (chunk + 1) % count, 0, if chunk.is_multiple_of(2) { 9 } else { 1 });
        let mut pairs: Vec<_> = (0..count).map(pair).collect();
        pairs.push((0, 5, 1, 1));
        let graph = ChunkGraph::new(count as usize, 2, (0..count).map(load).collect(), pairs);
        let traffic = Traffic::default();
        let (coarse, merged) = coarser(&Problem::new(&graph, 2, &traffic, &traffic, 1.0)).unwrap();
        assert!((0..16).all(|pair| merged[2 * pair] == merged[2 * pair + 1]), "{merged:?}");
        // An eighth of everything at most, a quarter of what a worker gets.
        assert!((8..=16).contains(&coarse.count), "{}", coarse.count);
        let apart = |&(a, b, _, _): &(Chunk, Chunk, u32, u64)| merged[a as usize] != merged[b as usize];
        let pairs = (0..count).map(pair).chain([(0, 5, 1, 1)]).filter(apart);
        assert_eq!(coarse.cut(), pairs.map(|(_, _, _, bytes)| bytes).sum::<u64>());
        let rows = |graph: &ChunkGraph| -> u64 {
            (0..graph.count).flat_map(|chunk| graph.loads.at(chunk)).map(|load| load.rows).sum()
        };
        assert_eq!(rows(&coarse), rows(&graph));
        // As many are few for four workers.
        assert!(coarser(&Problem::new(&coarse, 4, &traffic, &traffic, 1.0)).is_none());
    }
}
