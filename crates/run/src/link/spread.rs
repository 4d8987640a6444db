//! Pairs dealt out to workers: each is scored where its source is.
//!
//! Every worker draws all pairs, which are the same for all, so each knows without asking which rows of targets go where.

use std::collections::BTreeSet;

use kymo_graph::Vertex;
use kymo_plan::{Place, Route};

use super::decoder::{FACTS, Pairs};
use crate::cells::Cells;

/// What a worker has to do.
pub struct Dealt {
    /// Its pairs: sources by their row, targets by their row, or behind all rows where they come from elsewhere.
    pub pairs: Pairs,
    /// Which they are among all.
    pub kept: Vec<usize>,
    /// How the targets come.
    pub route: Route,
}

/// Deals out pairs by the owners of their sources at a place; `own` are the vertices here.
pub fn spread(cells: &Cells, place: &Place, own: &[Vertex], pairs: &Pairs) -> Dealt {
    let (rank, size) = (cells.team.rank(), cells.team.size());
    let owners = place.owners();
    let row = |vertex: Vertex| own.partition_point(|&other| other < vertex) as u32;
    let (mut sends, mut wanted) = (vec![BTreeSet::new(); size], BTreeSet::new());
    let mut kept = Vec::new();
    for (number, (&source, &target)) in pairs.sources.iter().zip(&pairs.targets).enumerate() {
        let (at, from) = (owners.of(source), owners.of(target));
        if at == rank {
            kept.push(number);
        }
        if at == rank && from != rank {
            // Ordered by owner, so that what a worker sends is in one piece.
            wanted.insert((from, target));
        }
        if at != rank && from == rank {
            sends[at].insert(target);
        }
    }
    let wanted: Vec<(usize, Vertex)> = wanted.into_iter().collect();
    let mut receives = vec![Vec::new(); size];
    for (place, &(from, _)) in (0..).zip(&wanted) {
        receives[from].push(place);
    }
    let target_row = |target: Vertex| match owners.of(target) {
        owner if owner == rank => row(target),
        owner => (own.len() + wanted.partition_point(|&other| other < (owner, target))) as u32,
    };
    let facts = match pairs.facts.is_empty() {
        true => Vec::new(),
        false => kept.iter().flat_map(|&pair| pairs.facts[pair * FACTS..][..FACTS].to_vec()).collect(),
    };
    let local = Pairs {
        sources: kept.iter().map(|&pair| row(pairs.sources[pair])).collect(),
        targets: kept.iter().map(|&pair| target_row(pairs.targets[pair])).collect(),
        facts,
    };
    let sends = sends.into_iter().map(|rows| rows.into_iter().map(row).collect()).collect();
    Dealt {
        pairs: local,
        kept,
        route: Route { rank, rows_in: own.len(), rows_out: wanted.len(), sends, receives },
    }
}
