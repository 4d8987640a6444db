//! Pairs assigned to workers: each is scored where its source is.
//!
//! Every worker draws all pairs, which are the same for all, so each knows without asking which rows of
//! targets go where.

use std::collections::BTreeSet;

use kymo_graph::Vertex;
use kymo_plan::{Ownership, Route};

use super::Pairs;
use crate::halo::Cells;

/// What a worker has to do.
pub struct Dealt {
    /// Its pairs: sources by their row, targets by their row, or behind all rows where they come from
    /// elsewhere.
    pub pairs: Pairs,
    /// Which they are among all.
    #[cfg(test)]
    pub kept: Vec<usize>,
    /// How the targets come.
    pub route: Route,
}

/// Assigns pairs to the owners of their sources; `own` are the vertices here.
pub fn spread(cells: &Cells, place: &Ownership, own: &[Vertex], pairs: &Pairs) -> Dealt {
    let (rank, size) = (cells.group.rank(), cells.group.size());
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
    let [truth, facts] = pairs.told(&kept);
    let local = Pairs {
        sources: kept.iter().map(|&pair| row(pairs.sources[pair])).collect(),
        targets: kept.iter().map(|&pair| target_row(pairs.targets[pair])).collect(),
        truth,
        facts,
    };
    let sends = sends.into_iter().map(|rows| rows.into_iter().map(row).collect()).collect();
    Dealt {
        pairs: local,
        #[cfg(test)]
        kept,
        route: Route { rank, rows_in: own.len(), rows_out: wanted.len(), sends, receives },
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use kymo_plan::{Cut, Layout, ModelNeeds, Shares};
    use proptest::prelude::*;

    use super::*;

    /// Numbers that are known of each pair, where some are.
    const FACTS: usize = 3;
    use crate::workers::WorkerGroup;

    /// Owners of some vertices, and pairs of them, the same one perhaps several times.
    fn cases() -> impl Strategy<Value = (usize, Vec<u16>, Vec<(Vertex, Vertex)>)> {
        (1usize..6, 1usize..12).prop_flat_map(|(workers, vertices)| {
            let vertex = 0..vertices as Vertex;
            let owners = prop::collection::vec(0..workers as u16, vertices);
            (Just(workers), owners, prop::collection::vec((vertex.clone(), vertex), 0..40))
        })
    }

    proptest! {
        #[test]
        fn every_pair_is_scored_once_with_what_belongs_to_it(
            (workers, owners, raw) in cases(),
            with_facts in any::<bool>(),
        ) {
            let vertices = owners.len();
            let layout = Layout::by_vertex(workers, 1, owners.clone()).unwrap();
            let needs = ModelNeeds { out_edges: false, carries_state: true };
            let shares = Shares::new(Cut::Fixed(layout.into()), needs, workers, vertices);
            let (window, (sources, targets)) = (0..1, raw.iter().copied().unzip());
            let fact = |pair: usize, number: usize| (pair * FACTS + number) as f32;
            let all = (0..raw.len()).flat_map(|pair| (0..FACTS).map(move |number| fact(pair, number)));
            let facts = if with_facts { all.collect() } else { Vec::new() };
            let truth = (0..raw.len()).map(|pair| pair as f32).collect();
            let pairs = Pairs { sources, targets, truth, facts };
            let dealt: Vec<(Vec<Vertex>, Dealt)> = WorkerGroup::in_process(workers)
                .into_iter()
                .map(|group| {
                    let cells = Cells::new(group, shares.clone(), std::sync::Arc::new(crate::halo::Exact));
                    let place = cells.shares.rows(&window, 0);
                    let own = cells.own(&place).to_vec();
                    let dealt = spread(&cells, &place, &own, &pairs);
                    (own, dealt)
                })
                .collect();
            // The rows that come from elsewhere, as the routes of all bring them.
            let mut beyond: Vec<Vec<Option<Vertex>>> =
                dealt.iter().map(|(_, dealt)| vec![None; dealt.route.rows_out]).collect();
            for (own, from) in &dealt {
                prop_assert_eq!(from.route.rows_in, own.len());
                prop_assert!(from.route.sends[from.route.rank].is_empty(), "nothing is sent to oneself");
                for (_, to) in &dealt {
                    let sent = &from.route.sends[to.route.rank];
                    let received = &to.route.receives[from.route.rank];
                    prop_assert_eq!(sent.len(), received.len());
                    for (&row, &place) in sent.iter().zip(received) {
                        let vertex = own[row as usize];
                        let here = beyond[to.route.rank][place as usize].replace(vertex);
                        prop_assert!(here.is_none(), "two rows arrive at the same place");
                    }
                }
            }
            let mut scored = BTreeMap::new();
            for (rank, (own, dealt)) in dealt.iter().enumerate() {
                prop_assert!(beyond[rank].iter().all(Option::is_some), "a row never comes");
                let elsewhere = beyond[rank].iter().flatten();
                let rows: Vec<Vertex> = own.iter().chain(elsewhere).copied().collect();
                prop_assert_eq!(dealt.pairs.sources.len(), dealt.kept.len());
                prop_assert_eq!(dealt.pairs.targets.len(), dealt.kept.len());
                let expected = if with_facts { FACTS * dealt.kept.len() } else { 0 };
                prop_assert_eq!(dealt.pairs.facts.len(), expected);
                prop_assert!(dealt.kept.is_sorted(), "the order of pairs changes");
                for (place, &pair) in dealt.kept.iter().enumerate() {
                    prop_assert!(scored.insert(pair, rank).is_none(), "pair {} is scored twice", pair);
                    let (source, target) = (dealt.pairs.sources[place], dealt.pairs.targets[place]);
                    prop_assert!((source as usize) < own.len(), "a source is elsewhere");
                    prop_assert_eq!((rows[source as usize], rows[target as usize]), raw[pair]);
                    prop_assert_eq!(dealt.pairs.truth[place], pair as f32);
                    if with_facts {
                        let facts = &dealt.pairs.facts[place * FACTS..][..FACTS];
                        prop_assert!((0..FACTS).all(|number| facts[number] == fact(pair, number)));
                    }
                }
            }
            prop_assert!(scored.keys().copied().eq(0..raw.len()), "a pair is left out");
        }
    }
}
