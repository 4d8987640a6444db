//! Some vertices with what they see of the snapshots are those vertices in the whole: embeddings and
//! gradients of every model that sees a certain number of edges far, over random graphs.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use kymo_model::graph::{Near, Normalisation, Sight};
use kymo_model::{Config, Exchanged, Frame, Graph, Model, Params, loss_by_rows, zoo};
use kymo_tensor::{Arena, Shape, Tape};
use proptest::prelude::*;

/// Columns of features: fewer than hidden ones, and more than twice as many, which are multiplied before
/// neighbours are added up.
const FEATURES: [usize; 2] = [3, 9];

const WINDOW: usize = 4;

#[derive(Debug)]
struct Steps {
    vertices: usize,
    edges: Vec<Vec<(u32, u32, f32)>>,
    features: Vec<f32>,
    width: usize,
    targets: Vec<u32>,
}

fn steps() -> impl Strategy<Value = Steps> {
    (2usize..24, 0..2usize).prop_flat_map(|(vertices, width)| {
        let (width, end) = (FEATURES[width], 0..vertices as u32);
        let weight = prop_oneof![Just(1.0f32), (1u8..30).prop_map(|tenths| 0.1 * f32::from(tenths))];
        let edge = (end.clone(), end.clone(), weight);
        let edges = prop::collection::vec(prop::collection::vec(edge, 0..30), WINDOW);
        let number = (-999i16..1000).prop_map(|thousandths| 0.001 * f32::from(thousandths));
        let features = prop::collection::vec(number, WINDOW * vertices * width);
        let targets = prop::collection::btree_set(end, 1..=vertices);
        (edges, features, targets, any::<bool>()).prop_map(move |(mut edges, features, targets, is_plain)| {
            let all = edges.iter_mut().flatten();
            all.filter(|_| is_plain).for_each(|edge| edge.2 = 1.0);
            Steps { vertices, edges, features, width, targets: targets.into_iter().collect() }
        })
    })
}

/// The graphs, prepared with what the model asks for.
fn graphs(model: &dyn Model, params: &Params, steps: &Steps) -> Vec<Graph> {
    let asked = {
        let graph = Graph::from_edges(2, &[(0, 1, 1.0)]).unwrap();
        let (arena, features) = (Arena::new(), vec![0.5; 2 * steps.width]);
        let mut tape = Tape::new(&arena);
        let params = params.bind(&mut tape).unwrap();
        let features = tape.constant(Shape::new(2, steps.width), &features).unwrap();
        let window: Vec<Frame<'_>> = (0..WINDOW).map(|_| Frame::new(&graph, features)).collect();
        model.forward(&mut tape, &params, &window).unwrap();
        graph.asked()
    };
    let graph = |edges: &Vec<_>| Graph::from_edges(steps.vertices, edges).unwrap().reduced(asked).unwrap();
    steps.edges.iter().map(graph).collect()
}

/// The embeddings of the targets at all steps, and the gradients of a sum of their squares.
fn run(model: &dyn Model, params: &Params, steps: &Steps, near: Option<&Near>) -> (Vec<f32>, Vec<Vec<f32>>) {
    let whole = graphs(model, params, steps);
    let graphs = match near {
        Some(near) => whole.iter().map(|graph| graph.near(near).unwrap()).collect(),
        None => whole,
    };
    let vertices = near.map_or((0..steps.vertices as u32).collect(), |near| near.vertices.to_vec());
    let row = |t: usize, vertex: u32| {
        let row = t * steps.vertices + vertex as usize;
        &steps.features[row * steps.width..][..steps.width]
    };
    let features: Vec<Vec<f32>> =
        (0..WINDOW).map(|t| vertices.iter().flat_map(|&vertex| row(t, vertex)).copied().collect()).collect();
    let arena = Arena::new();
    let mut tape = Tape::new(&arena);
    let bound = params.bind(&mut tape).unwrap();
    let shape = Shape::new(vertices.len(), steps.width);
    let mut window = Vec::new();
    for (graph, features) in graphs.iter().zip(&features) {
        window.push(Frame::new(graph, tape.constant(shape, features).unwrap()));
    }
    let mut exchanged = model.exchange(&mut tape, &bound, &window, &[]).unwrap();
    // Of the targets, the rows come first; in the whole they are picked out.
    let rows: Vec<u32> = match near {
        Some(near) => (0..near.targets as u32).collect(),
        None => steps.targets.clone(),
    };
    for step in &mut exchanged.steps {
        *step = tape.gather(*step, rows.clone().into()).unwrap();
    }
    let passed = model.rows(&mut tape, &bound, Exchanged::first(&exchanged)).unwrap();
    let embeddings = passed.steps.iter().flat_map(|&step| tape.value(step).unwrap().to_vec()).collect();
    let loss =
        loss_by_rows(&mut tape, model, &bound, &[Exchanged::first(&exchanged)], &[], |tape, _, passed, _| {
            let squares = passed[0].steps.iter().map(|&step| {
                let square = tape.multiply(step, step)?;
                tape.sum(square)
            });
            let squares = squares.collect::<kymo_tensor::Result<Vec<_>>>()?;
            tape.add_all(&squares)
        });
    let gradients = tape.backward(loss.unwrap()).unwrap();
    let of = |&var| gradients.read(var).unwrap().unwrap_or_default().into_owned();
    (embeddings, bound.vars().iter().map(of).collect())
}

fn assert_close(found: &[f32], expected: &[f32], tolerance: f32, what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let largest = expected.iter().fold(1.0f32, |largest, value| largest.max(value.abs()));
    for (found, expected) in found.iter().zip(expected) {
        assert!((found - expected).abs() <= tolerance * largest, "{what}: {found} and {expected}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn what_targets_see_is_enough_for_them(
        steps in steps(),
        (layers, blocks) in prop_oneof![Just((1, 1)), Just((2, 1)), Just((1, 2)), Just((2, 3))],
        normalisation in prop_oneof![Just(Normalisation::Both), Just(Normalisation::Right)],
    ) {
        for recipe in zoo::ALL {
            let config = Config {
                features: steps.width, hidden: 4, layers, blocks, heads: 2, window: 4, normalisation,
                ..Config::default()
            };
            let model = recipe.build(&config).unwrap();
            let Some(hops) = model.hops() else { continue };
            let mut params = Params::new(model.slots(), 5).unwrap();
            params.values.iter_mut().flatten().enumerate().for_each(|(i, v)| *v += 0.01 * (i % 7) as f32);
            let whole = graphs(&*model, &params, &steps);
            let all: Vec<&Graph> = whole.iter().collect();
            let near = Near::new(&steps.targets, hops, &all, &mut Sight::default()).unwrap();
            let (found, gradients) = run(&*model, &params, &steps, Some(&near));
            let (expected, exact) = run(&*model, &params, &steps, None);
            assert_close(&found, &expected, 1e-5, recipe.name);
            for (found, exact) in gradients.iter().zip(&exact) {
                assert_close(found, exact, 1e-4, recipe.name);
            }
        }
    }

    /// The vertices from which a target can be reached along that many edges of any step, each once.
    #[test]
    fn what_is_seen_is_what_can_be_reached(steps in steps(), hops in 0usize..4) {
        let graphs: Vec<Graph> =
            steps.edges.iter().map(|edges| Graph::from_edges(steps.vertices, edges).unwrap()).collect();
        graphs.iter().for_each(|graph| drop(graph.plain().unwrap()));
        let all: Vec<&Graph> = graphs.iter().collect();
        let near = Near::new(&steps.targets, hops, &all, &mut Sight::default()).unwrap();
        let mut seen: BTreeSet<u32> = steps.targets.iter().copied().collect();
        for _ in 0..hops {
            let ends = steps.edges.iter().flatten().filter(|edge| seen.contains(&edge.1));
            let sources: Vec<u32> = ends.map(|edge| edge.0).collect();
            seen.extend(sources);
        }
        prop_assert_eq!(&near.vertices[..steps.targets.len()], &steps.targets[..]);
        let mut found = near.vertices.to_vec();
        found.sort_unstable();
        prop_assert_eq!(found, seen.into_iter().collect::<Vec<_>>());
    }
}

/// Whatever the number of threads, the same rows; and once arrays are kept, none is made anew.
#[test]
fn batches_are_the_same_on_any_threads_and_take_turns_in_their_arrays() {
    let vertices = 9000u32;
    let edges = |step: u32| -> Vec<(u32, u32, f32)> {
        let edge =
            |k: u32| ((k * 7919 + step * 13) % vertices, (k * k + k * 31) % vertices, 0.5 + (k % 5) as f32);
        (0..40_000).map(edge).collect()
    };
    let graph = |step: u32| Graph::from_edges(vertices as usize, &edges(step)).unwrap();
    let graphs: Vec<Graph> = (0..3).map(graph).collect();
    for graph in &graphs {
        graph.normalised(Normalisation::Right).unwrap();
        graph.mean().unwrap();
    }
    let graphs: Vec<&Graph> = graphs.iter().collect();
    let targets: Vec<u32> = (0..vertices).filter(|vertex| vertex % 23 == 3).collect();
    let mut found = Vec::new();
    for threads in [1, 2, 5] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let mut sight = Sight::default();
        let mut fresh = Vec::new();
        for _ in 0..4 {
            let seen = pool.install(|| {
                let near = Near::new(&targets, 2, &graphs, &mut sight).unwrap();
                let parts: Vec<Graph> = graphs.iter().map(|graph| graph.near(&near).unwrap()).collect();
                let listed = |part: &Graph| {
                    let (right, mean) =
                        (part.normalised(Normalisation::Right).unwrap(), part.mean().unwrap());
                    let of = |matrix: &kymo_model::graph::Weighted| {
                        let pattern = &matrix.pattern;
                        (pattern.starts().to_vec(), pattern.places().to_vec(), matrix.values.to_vec())
                    };
                    (of(&right), of(&mean))
                };
                let all: Vec<_> = parts.iter().map(listed).collect();
                let bytes = near.bytes() + parts.iter().map(|part| part.bytes() as usize).sum::<usize>();
                sight.keep(2 * bytes);
                (near.vertices.to_vec(), all)
            });
            fresh.push(sight.pool().fresh());
            found.push(seen);
        }
        assert!(fresh[0] > 0 && fresh[2] == fresh[1] && fresh[3] == fresh[1], "{fresh:?}");
        assert!(sight.bytes() > 4 * vertices as usize);
    }
    assert!(found.windows(2).all(|pair| pair[0] == pair[1]));
    let (seen, graphs) = &found[0];
    assert!(seen.len() < vertices as usize && seen[..targets.len()] == targets[..]);
    assert!(graphs.iter().all(|((starts, _, _), _)| starts.len() == seen.len() + 1));
}

/// A model that sees no certain number of edges far says so, and every other one how many.
#[test]
fn models_say_how_far_they_see() {
    let hops = |name: &str, layers: usize, blocks: usize| {
        let config = Config { features: 3, hidden: 4, layers, blocks, walks: 2, ..Config::default() };
        zoo::find(name).unwrap().build(&config).unwrap().hops()
    };
    let far: Vec<&str> =
        zoo::ALL.iter().map(|recipe| recipe.name).filter(|name| hops(name, 1, 1).is_none()).collect();
    assert_eq!(far, ["evolvegcn-h", "gc-lstm", "dcrnn"]);
    for name in ["t-gcn", "gcn-gru", "gat-lstm", "dysat", "graphsage-linear", "evolvegcn-o", "mpnn-lstm"] {
        assert_eq!((hops(name, 1, 1), hops(name, 2, 1)), (Some(1), Some(2)), "{name}");
        assert_eq!(hops(name, 2, 3), Some(6), "{name}");
    }
}

#[test]
fn targets_that_do_not_go_together_are_refused() {
    let graph = |vertices: usize| Graph::from_edges(vertices, &[(0, 1, 1.0)]).unwrap();
    let problem = |targets: &[u32], graphs: &[&Graph]| {
        Near::new(targets, 1, graphs, &mut Sight::default())
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default()
    };
    assert!(problem(&[1, 1], &[&graph(3)]).contains("twice"));
    assert!(problem(&[3], &[&graph(3)]).contains("does not exist"));
    assert!(problem(&[1], &[&graph(3), &graph(2)]).contains("the same vertices"));
    let walks = graph(3);
    walks.diffusion().unwrap();
    let near = Near::new(&[1], 1, &[&walks], &mut Sight::default()).unwrap();
    assert!(walks.near(&near).err().unwrap().to_string().contains("walks"));
}
