//! The laws of routes and halos, over random layouts and graphs: what workers tell each other fits together.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use kymo_graph::{Edge, Snapshot};
use kymo_plan::{HaloRows, Layout, Owners, Route, Worker};
use proptest::prelude::*;

const VERTICES: usize = 12;

/// Some workers may own nothing, and one may own all.
fn owners(workers: usize) -> impl Strategy<Value = Vec<Worker>> {
    (prop::collection::vec(0..workers as Worker, VERTICES), any::<bool>(), 0..workers as Worker).prop_map(
        |(each, one, worker)| {
            if one && worker.is_multiple_of(2) { vec![worker; VERTICES] } else { each }
        },
    )
}

fn snapshots() -> impl Strategy<Value = Snapshot<'static>> {
    let edge = (0..VERTICES as u32, 0..VERTICES as u32).prop_map(|(u, v)| Edge::new(u, v));
    prop_oneof![1 => Just(0), 6 => Just(40usize)]
        .prop_flat_map(move |most| prop::collection::vec(edge.clone(), 0..=most))
        .prop_map(Snapshot::from_edges)
}

/// The same owners, said shortly where one worker owns all.
fn short(owners: &[Worker]) -> Owners<'_> {
    if owners.iter().all(|&owner| owner == owners[0]) {
        Owners::One(owners[0] as usize)
    } else {
        Owners::Each(owners)
    }
}

/// Moves rows along the routes of all ranks, as the workers would.
fn moved(routes: &[Route], rows: &[Vec<u32>]) -> Vec<Vec<Option<u32>>> {
    let mut out: Vec<Vec<Option<u32>>> = routes.iter().map(|route| vec![None; route.rows_out]).collect();
    for from in routes {
        assert_eq!(rows[from.rank].len(), from.rows_in);
        for to in routes {
            let (sent, received) = (&from.sends[to.rank], &to.receives[from.rank]);
            assert_eq!(sent.len(), received.len(), "from {} to {}", from.rank, to.rank);
            let distinct: BTreeSet<&u32> = sent.iter().collect();
            assert_eq!(distinct.len(), sent.len(), "a row is sent twice to the same worker");
            for (&source, &target) in sent.iter().zip(received) {
                let place = &mut out[to.rank][target as usize];
                assert!(place.is_none(), "two rows arrive at the same place");
                *place = Some(rows[from.rank][source as usize]);
            }
        }
    }
    out
}

fn filled(lists: &[Vec<u32>]) -> Vec<Vec<Option<u32>>> {
    lists.iter().map(|list| list.iter().copied().map(Some).collect()).collect()
}

fn lists(workers: usize, owners: &[Worker]) -> Vec<Vec<u32>> {
    (0..workers).map(|worker| Owners::Each(owners).own(worker, VERTICES)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn routes_move_every_vertex_to_its_new_owner(
        (workers, from, to) in (1usize..=5)
            .prop_flat_map(|workers| (Just(workers), owners(workers), owners(workers)))
    ) {
        let routes: Vec<Route> = (0..workers)
            .map(|rank| Route::between(short(&from), short(&to), VERTICES, workers, rank))
            .collect();
        let (before, after) = (lists(workers, &from), lists(workers, &to));
        prop_assert_eq!(moved(&routes, &before), filled(&after));
        let back: Vec<Route> = routes.iter().map(Route::reversed).collect();
        prop_assert_eq!(moved(&back, &after), filled(&before));
        for (rank, route) in routes.iter().enumerate() {
            prop_assert_eq!(&back[rank].reversed(), route);
            prop_assert_eq!(&back[rank], &Route::between(short(&to), short(&from), VERTICES, workers, rank));
            prop_assert_eq!(route.is_identity(), before[rank] == after[rank]);
            let leaving = before[rank].iter().filter(|&&v| to[v as usize] as usize != rank).count();
            let coming = after[rank].iter().filter(|&&v| from[v as usize] as usize != rank).count();
            prop_assert_eq!((route.rows_sent(), route.rows_received()), (leaving, coming));
        }
    }

    #[test]
    fn halos_hold_what_is_needed_and_nothing_else(
        (workers, owners) in (1usize..=5).prop_flat_map(|workers| (Just(workers), owners(workers))),
        snapshot in snapshots(),
        both in any::<bool>(),
    ) {
        let halos: Vec<HaloRows> = (0..workers)
            .map(|rank| HaloRows::of(&snapshot, short(&owners), VERTICES, workers, rank, both))
            .collect();
        let layout = Layout::by_vertex(workers, 1, owners.clone()).unwrap();
        for (rank, halo) in halos.iter().enumerate() {
            prop_assert_eq!(&HaloRows::at(&snapshot, &layout, 0, rank, both), halo);
            let owner = |vertex: u32| owners[vertex as usize] as usize;
            let mut needed = BTreeSet::new();
            for edge in snapshot.edges.iter() {
                if owner(edge.target()) == rank && owner(edge.source()) != rank {
                    needed.insert((owner(edge.source()), edge.source()));
                }
                if both && owner(edge.source()) == rank && owner(edge.target()) != rank {
                    needed.insert((owner(edge.target()), edge.target()));
                }
            }
            let needed: Vec<u32> = needed.into_iter().map(|(_, vertex)| vertex).collect();
            prop_assert_eq!(&halo.beyond, &needed);
            prop_assert_eq!(&*halo.own, &lists(workers, &owners)[rank]);
            prop_assert!(halo.route.sends[rank].is_empty() && halo.route.receives[rank].is_empty());
            prop_assert_eq!(halo.route.rows_received(), halo.beyond.len());
        }
        let routes: Vec<Route> = halos.iter().map(|halo| halo.route.clone()).collect();
        let beyond: Vec<Vec<u32>> = halos.into_iter().map(|halo| halo.beyond).collect();
        prop_assert_eq!(moved(&routes, &lists(workers, &owners)), filled(&beyond));
    }
}
