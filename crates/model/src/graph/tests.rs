//! Snapshots as models see them: matrices, what is prepared, parts.

use proptest::prelude::*;

use super::*;

fn graph() -> Graph {
    Graph::from_edges(4, &[(0, 1, 2.0), (2, 1, 1.0), (1, 1, 3.0), (1, 0, 4.0)]).unwrap()
}

#[test]
fn loops_are_added_where_there_are_none() {
    let (starts, columns, weights) = graph().rows().unwrap().looped(None, &Pool::default());
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
        graph.rows().unwrap().looped(None, &Pool::default()).2.unwrap()
    );
    assert_eq!(graph.mean().unwrap().values[..], [1.0, 1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0]);
}

proptest! {
    /// Weights of both signs may add up to nothing, or to less: no entry is infinite or NaN for it.
    #[test]
    fn weights_of_both_signs_have_finite_entries(
        edges in prop::collection::btree_map((0u32..5, 0u32..5), -3i8..4, 0..20),
    ) {
        let edges: Vec<(u32, u32, f32)> =
            edges.into_iter().map(|((source, target), weight)| (source, target, f32::from(weight))).collect();
        let graph = Graph::from_edges(5, &edges).unwrap();
        let mut all = Normalisation::ALL.map(|kind| graph.normalised(kind).unwrap()).to_vec();
        all.extend(graph.diffusion().unwrap());
        for matrix in all {
            prop_assert!(matrix.values.iter().all(|value| value.is_finite()), "{:?}", &matrix.values[..]);
        }
    }
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
    // Arrays of one graph are those of the next.
    let pool = Pool::new();
    pool.keep_up_to(1 << 20);
    for graph in [weighted, ones] {
        let rows = graph.rows().unwrap();
        let again = || Graph::new(rows.starts.into(), rows.sources.into(), rows.weights.map(<[f32]>::to_vec));
        for ask in asks {
            let lazy = again().unwrap();
            let expected = ask(&lazy);
            let asked = lazy.asked();
            let both =
                [Graph::prepared(&rows, asked, &pool).unwrap(), again().unwrap().reduced(asked).unwrap()];
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
        let graph = Graph::looped(pattern, 4, asked).unwrap();
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

type List = Vec<(u32, u32, f32)>;

/// The part of some vertices, of the edges that it has to have and of no others.
fn part(vertices: usize, edges: &List, own: &[u32], has_weights: bool) -> Graph {
    let (mut inward, mut outward) = (vec![0; vertices], vec![0; vertices]);
    for &(source, target, _) in edges {
        inward[target as usize] += 1;
        outward[source as usize] += 1;
    }
    let is_own = |vertex: u32| own.contains(&vertex);
    let is_at = |edge: &&(u32, u32, f32)| is_own(edge.0) || is_own(edge.1) || edge.0 == edge.1;
    let mut beyond: Vec<u32> = edges.iter().filter(is_at).flat_map(|edge| [edge.0, edge.1]).collect();
    beyond.retain(|&vertex| !is_own(vertex));
    beyond.sort_unstable_by_key(|&vertex| (vertex % 2, vertex));
    beyond.dedup();
    let edges = edges.iter().filter(|edge| has_weights || is_at(edge)).copied();
    let part = PartEdges { edges, has_weights, degrees: (&inward, &outward) };
    Graph::part(own, &beyond, true, part).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Every matrix of a part has the rows of the whole, bit for bit, with the columns' other names.
    #[test]
    fn parts_have_the_rows_of_the_whole(
        found in prop::collection::btree_map((0u32..9, 0u32..9), 1u32..5, 0..50),
        own in prop::collection::btree_set(0u32..9, 1..9),
        has_weights in any::<bool>(),
    ) {
        let weight = |number: u32| if has_weights { 0.1 * number as f32 } else { 1.0 };
        let mut edges: List = found.iter().map(|(&(s, t), &number)| (s, t, weight(number))).collect();
        edges.sort_by_key(|&(source, target, _)| (target, source));
        let own: Vec<u32> = own.into_iter().collect();
        let mut starts = vec![0u64; 10];
        edges.iter().for_each(|edge| starts[edge.1 as usize + 1] += 1);
        (0..9).for_each(|row| starts[row + 1] += starts[row]);
        let (sources, weights) = edges.iter().map(|&(source, _, weight)| (source, weight)).unzip();
        let whole = Graph::new(starts, sources, has_weights.then_some(weights)).unwrap();
        let part = part(9, &edges, &own, has_weights);
        let names = part.order().unwrap();
        let rows = |matrix: &Weighted, row: usize, name: &dyn Fn(u32) -> u32| -> Vec<(u32, u32)> {
            let starts = matrix.pattern.starts();
            let range = starts[row] as usize..starts[row + 1] as usize;
            range.map(|at| (name(matrix.pattern.places()[at]), matrix.values[at].to_bits())).collect()
        };
        let matrices = |graph: &Graph| {
            let mut all = Normalisation::ALL.map(|kind| graph.normalised(kind).unwrap()).to_vec();
            all.push(graph.mean().unwrap());
            all.extend(graph.diffusion().unwrap());
            all
        };
        for (one, two) in matrices(&whole).iter().zip(&matrices(&part)) {
            for (row, &vertex) in own.iter().enumerate() {
                let expected = rows(one, vertex as usize, &|place| place);
                prop_assert_eq!(expected, rows(two, row, &|place| names[place as usize]));
            }
        }
    }
}

#[test]
fn a_part_may_be_reduced_to_what_is_asked_for() {
    let edges = vec![(1, 0, 4.0), (0, 1, 2.0), (1, 1, 3.0), (2, 1, 1.0)];
    let part = || part(4, &edges, &[0, 1], true);
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
    let edges = [(2, 0, 1.0)].into_iter();
    let lacking = |own: &[u32], beyond: &[u32]| {
        let degrees: (&[u32], &[u32]) = (&[1, 0, 0], &[0, 0, 1]);
        Graph::part(own, beyond, true, PartEdges { edges: edges.clone(), has_weights: false, degrees })
    };
    assert!(lacking(&[0], &[2]).is_ok() && lacking(&[2], &[0]).is_ok());
    assert!(lacking(&[0], &[]).is_err() && lacking(&[2], &[1]).is_err() && lacking(&[0, 3], &[2]).is_err());
    assert!(Graph::new(vec![0, 1], vec![5], None).is_err());
    assert!(Graph::new(vec![0, 2], vec![0], None).is_err());
    assert!(Graph::new(vec![0, 2, 2], vec![1, 0], None).is_err());
    assert!(Graph::from_edges(1, &[(0, 3, 1.0)]).is_err());
}
