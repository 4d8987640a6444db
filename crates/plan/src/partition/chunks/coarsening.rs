//! Chunks merged in pairs, so that an assignment can begin with few large ones: single chunks that move one by
//! one never bring a community to the other side, since half of it there costs more than nothing.
//!
//! The lightest go first, and each joins the chunk that it has most bytes with, as in multilevel partitioning
//! (heavy edge matching, Karypis and Kumar 1998).

use super::assignment::Problem;
use super::graph::{Chunk, ChunkGraph};

/// Chunks a worker that are few enough.
const ENOUGH: usize = 8;
/// What merged chunks may weigh: a worker's share over this.
const PIECES: f64 = 4.0;

/// The graph of merged chunks, and what each became a part of; nothing where there are few already, or where
/// hardly any can be merged.
pub(super) fn coarser(problem: &Problem<'_>) -> Option<(ChunkGraph, Vec<Chunk>)> {
    let graph = problem.graph;
    if graph.count <= ENOUGH * problem.workers {
        return None;
    }
    let loads: Vec<f64> = (0..graph.count).map(|chunk| problem.load(chunk)).collect();
    let most = loads.iter().sum::<f64>() / (problem.workers as f64 * PIECES);
    let mut merged: Vec<Chunk> = vec![Chunk::MAX; graph.count];
    let mut count = 0;
    for chunk in problem.order().into_iter().rev() {
        if merged[chunk] != Chunk::MAX {
            continue;
        }
        // Links are in the order of the other chunk, one for each period.
        let free = |other: Chunk| {
            merged[other as usize] == Chunk::MAX && loads[chunk] + loads[other as usize] <= most
        };
        let by_other = graph.links.at(chunk).chunk_by(|a, b| a.other == b.other);
        let bytes = by_other
            .filter(|links| free(links[0].other))
            .map(|links| (links.iter().map(|link| link.bytes).sum::<u64>(), links[0].other));
        let best = bytes.max_by_key(|&(bytes, other)| (bytes, std::cmp::Reverse(other)));
        merged[chunk] = count;
        if let Some((_, other)) = best {
            merged[other as usize] = count;
        }
        count += 1;
    }
    if count as usize * 10 > graph.count * 9 {
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
    Some((ChunkGraph::new(count as usize, graph.periods, loads, pairs), merged))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::partition::Traffic;
    use crate::partition::chunks::graph::Load;

    #[test]
    fn the_heaviest_links_are_merged_and_nothing_is_lost() {
        // A ring of light and heavy links; of period 1 there is one link besides.
        let count = 32;
        let load = |chunk| (chunk, Load { period: 0, rows: 2, edges: 1 });
        let pair = |chunk: Chunk| (chunk, (chunk + 1) % count, 0, if chunk % 2 == 0 { 9 } else { 1 });
        let mut pairs: Vec<_> = (0..count).map(pair).collect();
        pairs.push((0, 5, 1, 1));
        let graph = ChunkGraph::new(count as usize, 2, (0..count).map(load).collect(), pairs);
        let traffic = Traffic::default();
        let (coarse, merged) = coarser(&Problem::new(&graph, 2, &traffic, &traffic, 1.0)).unwrap();
        assert_eq!(coarse.count, 16);
        assert!((0..16).all(|pair| merged[2 * pair] == merged[2 * pair + 1]), "{merged:?}");
        assert_eq!(coarse.cut(), 16 + 1);
        let rows = |graph: &ChunkGraph| -> u64 {
            (0..graph.count).flat_map(|chunk| graph.loads.at(chunk)).map(|load| load.rows).sum()
        };
        assert_eq!(rows(&coarse), rows(&graph));
        // Sixteen are few for two workers.
        assert!(coarser(&Problem::new(&coarse, 2, &traffic, &traffic, 1.0)).is_none());
    }
}
