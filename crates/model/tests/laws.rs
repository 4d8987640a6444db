//! What holds for every model, over random graphs: empty ones, one vertex, self-loops only, a hub with all
//! edges, isolated vertices.
#![allow(clippy::unwrap_used)]

use kymo_model::time::Update;
use kymo_model::{Config, Exchanged, Frame, Graph, Params, Recipe, loss_by_rows, zoo};
use kymo_tensor::{Arena, Shape, Tape, Var};
use proptest::prelude::*;
use std::borrow::Cow;

type Edges = Vec<(u32, u32, f32)>;

const FEATURES: usize = 3;

/// Graphs on this many vertices, of all the odd kinds.
fn edges(vertices: u32) -> impl Strategy<Value = Edges> {
    let weight = prop_oneof![Just(1.0f32), 0.1f32..3.0];
    prop_oneof![
        1 => Just(Vec::new()),
        1 => prop::collection::vec((0..vertices, weight.clone()), 0..5)
            .prop_map(|list| list.into_iter().map(|(v, w)| (v, v, w)).collect()),
        1 => prop::collection::vec((0..vertices, weight.clone()), 0..12)
            .prop_map(|list| list.into_iter().map(|(v, w)| (v, 0, w)).collect()),
        3 => prop::collection::vec((0..vertices, 0..vertices, weight), 0..30),
    ]
}

/// A window of graphs and features on the same vertices.
fn windows() -> impl Strategy<Value = (usize, Vec<Edges>, Vec<f32>)> {
    (1usize..9, 1usize..4).prop_flat_map(|(vertices, steps)| {
        let features = prop::collection::vec(-1.0f32..1.0, steps * vertices * FEATURES);
        (Just(vertices), prop::collection::vec(edges(vertices as u32), steps), features)
    })
}

fn config(layers: usize, blocks: usize) -> Config {
    // One of each update or another, however few layers and blocks a test has.
    let update = [Update::Gru, Update::Mlp, Update::Average][(layers + 2 * blocks) % 3];
    Config { features: FEATURES, hidden: 4, layers, blocks, heads: 2, window: 4, update, ..Config::default() }
}

/// The outputs of a model, step after step.
fn outputs(
    recipe: &Recipe,
    config: &Config,
    vertices: usize,
    steps: &[Edges],
    features: &[f32],
) -> Vec<Vec<f32>> {
    let model = recipe.build(config).unwrap();
    let mut params = Params::new(model.slots(), 5).unwrap();
    // Biases begin as zeros, which would hide mistakes.
    params.values.iter_mut().flatten().enumerate().for_each(|(i, value)| *value += 0.01 * (i % 7) as f32);
    let graphs: Vec<Graph> = steps.iter().map(|edges| Graph::from_edges(vertices, edges).unwrap()).collect();
    let arena = Arena::new();
    let mut tape = Tape::new(&arena);
    let bound = params.bind(&mut tape).unwrap();
    let mut window = Vec::new();
    for (graph, features) in graphs.iter().zip(features.chunks(vertices * FEATURES)) {
        let features = tape.copied(Shape::new(vertices, FEATURES), features).unwrap();
        window.push(Frame::new(graph, features));
    }
    let outputs = model.forward(&mut tape, &bound, &window).unwrap();
    assert_eq!((outputs.len(), model.width()), (steps.len(), config.hidden));
    outputs.iter().map(|&output| tape.value(output).unwrap().to_vec()).collect()
}

fn close(a: &[f32], b: &[f32]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() <= 1e-4 * (1.0 + a.abs()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn permuting_the_vertices_permutes_the_outputs(
        (vertices, steps, features) in windows(),
        seed in 0usize..100,
        (layers, blocks) in (1usize..4, 1usize..4),
    ) {
        // Vertex v becomes vertex place[v].
        let mut place: Vec<usize> = (0..vertices).collect();
        for i in 0..vertices {
            place.swap(i, (i * 7 + seed) % vertices);
        }
        let moved: Vec<Edges> = steps
            .iter()
            .map(|edges| {
                edges
                    .iter()
                    .map(|&(u, v, w)| (place[u as usize] as u32, place[v as usize] as u32, w))
                    .collect()
            })
            .collect();
        let permute = |rows: &[f32], width: usize| {
            let mut permuted = vec![0.0; rows.len()];
            for (v, row) in rows.chunks(width).enumerate() {
                permuted[place[v] * width..][..width].copy_from_slice(row);
            }
            permuted
        };
        let moved_features: Vec<f32> =
            features.chunks(vertices * FEATURES).flat_map(|step| permute(step, FEATURES)).collect();
        for recipe in zoo::ALL {
            let before = outputs(recipe, &config(layers, blocks), vertices, &steps, &features);
            let after = outputs(recipe, &config(layers, blocks), vertices, &moved, &moved_features);
            for (before, after) in before.iter().zip(&after) {
                prop_assert!(before.iter().all(|value| value.is_finite()), "{}", recipe.name);
                prop_assert!(close(&permute(before, 4), after), "{}", recipe.name);
            }
        }
    }

    #[test]
    fn later_snapshots_do_not_change_earlier_outputs(
        (vertices, steps, features) in windows(),
        blocks in 1usize..4,
    ) {
        for recipe in zoo::ALL {
            let whole = outputs(recipe, &config(1, blocks), vertices, &steps, &features);
            for length in 1..=steps.len() {
                let part = outputs(
                    recipe,
                    &config(1, blocks),
                    vertices,
                    &steps[..length],
                    &features[..length * vertices * FEATURES],
                );
                prop_assert_eq!(&part[..], &whole[..length], "{}", recipe.name);
            }
        }
    }

    /// Vertices that are not there have no edges: whatever their features, they change no other vertex.
    #[test]
    fn absent_vertices_change_nothing(
        (vertices, steps, features) in windows(),
        (extra, blocks) in (1usize..4, 1usize..4),
    ) {
        let all = vertices + extra;
        let mut padded = Vec::new();
        for step in features.chunks(vertices * FEATURES) {
            padded.extend_from_slice(step);
            padded.extend((0..extra * FEATURES).map(|i| i as f32 - 1.5));
        }
        // EvolveGCN-H listens to the vertices that score highest, with edges or without.
        for recipe in zoo::ALL.iter().filter(|recipe| recipe.name != "evolvegcn-h") {
            let before = outputs(recipe, &config(2, blocks), vertices, &steps, &features);
            let after = outputs(recipe, &config(2, blocks), all, &steps, &padded);
            for (before, after) in before.iter().zip(&after) {
                prop_assert!(close(before, &after[..vertices * 4]), "{}", recipe.name);
            }
        }
    }

    #[test]
    fn blocks_of_rows_are_the_whole((vertices, steps, features) in windows(), blocks in 1usize..4) {
        for recipe in zoo::ALL {
            let model = recipe.build(&config(2, blocks)).unwrap();
            let params = Params::new(model.slots(), 5).unwrap();
            let arena = Arena::new();
            let graphs: Vec<Graph> =
                steps.iter().map(|edges| Graph::from_edges(vertices, edges).unwrap()).collect();
            let run = |by_rows: bool| -> (f32, Vec<Vec<f32>>) {
                let mut tape = Tape::new(&arena);
                let bound = params.bind(&mut tape).unwrap();
                let mut window = Vec::new();
                for (graph, features) in graphs.iter().zip(features.chunks(vertices * FEATURES)) {
                    let features = tape.copied(Shape::new(vertices, FEATURES), features).unwrap();
                    window.push(Frame::new(graph, features));
                }
                let squares = |tape: &mut Tape<'_>, outputs: &[Var]| {
                    let mut all = Vec::new();
                    for &output in outputs {
                        let square = tape.multiply(output, output)?;
                        all.push(tape.sum(square)?);
                    }
                    tape.add_all(&all)
                };
                let loss = if by_rows {
                    let exchanged = model.exchange(&mut tape, &bound, &window, &[]).unwrap();
                    loss_by_rows(
                        &mut tape,
                        &*model,
                        &bound,
                        &[Exchanged::first(&exchanged)],
                        &[],
                        move |tape, _, outputs, _| squares(tape, &outputs[0].steps),
                    )
                } else {
                    let outputs = model.forward(&mut tape, &bound, &window).unwrap();
                    squares(&mut tape, &outputs)
                }
                .unwrap();
                let gradients = tape.backward(loss).unwrap();
                let of = |&var: &Var| gradients.read(var).unwrap().map(Cow::into_owned).unwrap_or_default();
                (tape.value(loss).unwrap()[0], bound.vars().iter().map(of).collect())
            };
            let ((whole, expected), (blocks, found)) = (run(false), run(true));
            prop_assert!((whole - blocks).abs() <= 1e-4 * (1.0 + whole.abs()), "{}", recipe.name);
            for (found, expected) in found.iter().zip(&expected) {
                prop_assert!(expected.is_empty() || close(expected, found), "{}", recipe.name);
            }
        }
    }
}

/// After the first step of a training every buffer is one that was there before.
#[test]
fn nothing_is_allocated_after_the_first_step() {
    let vertices = 700;
    let edges: Edges = (0..3000u32).map(|i| (i * 7919 % 700, i * 104_729 % 700, 1.0)).collect();
    let graphs: Vec<Graph> =
        (0..3).map(|t| Graph::from_edges(vertices, &edges[t * 100..]).unwrap()).collect();
    let features: Vec<f32> = (0..vertices * FEATURES).map(|i| (i as f32).sin()).collect();
    for recipe in zoo::ALL {
        for (layers, blocks) in [(1, 1), (2, 1), (1, 2)] {
            let model = recipe.build(&config(layers, blocks)).unwrap();
            let params = Params::new(model.slots(), 5).unwrap();
            let arena = Arena::new();
            let step = || {
                let mut tape = Tape::new(&arena);
                let bound = params.bind(&mut tape).unwrap();
                let features = tape.constant(Shape::new(vertices, FEATURES), &features).unwrap();
                let window: Vec<Frame<'_>> = graphs.iter().map(|graph| Frame::new(graph, features)).collect();
                let exchanged = model.exchange(&mut tape, &bound, &window, &[]).unwrap();
                let exchanged = Exchanged::first(&exchanged);
                let loss =
                    loss_by_rows(&mut tape, &*model, &bound, &[exchanged], &[], |tape, _, outputs, _| {
                        let sums = outputs[0].steps.iter().map(|&output| tape.sum(output)).collect::<Result<
                            Vec<_>,
                            _,
                        >>(
                        )?;
                        tape.add_all(&sums)
                    })
                    .unwrap();
                tape.backward(loss).unwrap();
                arena.bytes()
            };
            // Which thread gets which block differs from step to step: each needs buffers of its own once.
            let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
            let first = pool.install(step);
            for _ in 0..3 {
                assert_eq!(pool.install(step), first, "{}, {layers} layers, {blocks} blocks", recipe.name);
            }
        }
    }
}

/// Where nobody reads the outputs before the last, the last and all gradients have the bits they would have,
/// and an encoder without a state leaves the others out.
#[test]
fn outputs_that_nobody_reads_change_nothing() {
    let vertices = 60;
    let edges: Edges = (0..400u32).map(|i| (i * 7919 % 60, i * i % 60, 1.0)).collect();
    let graphs: Vec<Graph> = (0..4).map(|t| Graph::from_edges(vertices, &edges[t * 50..]).unwrap()).collect();
    let features: Vec<f32> = (0..vertices * FEATURES).map(|i| (i as f32 * 0.7).sin()).collect();
    for recipe in zoo::ALL {
        let model = recipe.build(&config(1, 1)).unwrap();
        let params = Params::new(model.slots(), 5).unwrap();
        let run = |only_last: bool| -> (usize, Vec<Vec<u32>>) {
            let arena = Arena::new();
            let mut tape = Tape::new(&arena);
            let bound = params.bind(&mut tape).unwrap();
            let features = tape.constant(Shape::new(vertices, FEATURES), &features).unwrap();
            let window: Vec<Frame<'_>> = graphs.iter().map(|graph| Frame::new(graph, features)).collect();
            let exchanged = model.exchange(&mut tape, &bound, &window, &[]).unwrap();
            let exchanged = Exchanged { only_last, ..Exchanged::first(&exchanged) };
            let alone = model.rows(&mut tape, &bound, exchanged).unwrap().steps.len();
            let loss = loss_by_rows(&mut tape, &*model, &bound, &[exchanged], &[], |tape, _, outputs, _| {
                let last = *outputs[0].steps.last().unwrap();
                let square = tape.multiply(last, last)?;
                tape.sum(square)
            })
            .unwrap();
            let gradients = tape.backward(loss).unwrap();
            let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect();
            let of = |&var: &Var| bits(&gradients.read(var).unwrap().unwrap_or_default());
            let all = std::iter::once(bits(tape.value(loss).unwrap())).chain(bound.vars().iter().map(of));
            (alone, all.collect())
        };
        let ((every, expected), (some, found)) = (run(false), run(true));
        assert_eq!(every, graphs.len(), "{}", recipe.name);
        assert_eq!(found, expected, "{}", recipe.name);
        let left_out = ["linear", "convolution"].contains(&recipe.parts[1]);
        assert_eq!(some, if left_out { 1 } else { every }, "{}", recipe.name);
    }
}

/// The same bits for any number of threads, values and gradients.
#[test]
fn threads_do_not_change_a_bit() {
    let vertices = 1500;
    let edges: Edges =
        (0..9000u32).map(|i| (i * 7919 % 1500, i * i % 1500 * (i % 5) / 4, 0.5 + (i % 3) as f32)).collect();
    let graphs: Vec<Graph> =
        (0..3).map(|t| Graph::from_edges(vertices, &edges[t * 500..]).unwrap()).collect();
    let features: Vec<f32> = (0..vertices * FEATURES).map(|i| (i as f32 * 0.7).sin()).collect();
    for (recipe, blocks) in zoo::ALL.iter().flat_map(|recipe| [(recipe, 1), (recipe, 2)]) {
        let model = recipe.build(&config(3 - blocks, blocks)).unwrap();
        let params = Params::new(model.slots(), 5).unwrap();
        let run = |threads: usize| -> Vec<Vec<u32>> {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| {
                let arena = Arena::new();
                let mut tape = Tape::new(&arena);
                let bound = params.bind(&mut tape).unwrap();
                let features = tape.constant(Shape::new(vertices, FEATURES), &features).unwrap();
                let window: Vec<Frame<'_>> = graphs.iter().map(|graph| Frame::new(graph, features)).collect();
                let exchanged = model.exchange(&mut tape, &bound, &window, &[]).unwrap();
                let exchanged = Exchanged::first(&exchanged);
                let loss =
                    loss_by_rows(&mut tape, &*model, &bound, &[exchanged], &[], |tape, _, outputs, _| {
                        let mut sums = Vec::new();
                        for &output in &outputs[0].steps {
                            let square = tape.multiply(output, output)?;
                            sums.push(tape.sum(square)?);
                        }
                        tape.add_all(&sums)
                    })
                    .unwrap();
                let gradients = tape.backward(loss).unwrap();
                let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect();
                let of = |&var: &Var| bits(&gradients.read(var).unwrap().unwrap_or_default());
                std::iter::once(bits(tape.value(loss).unwrap())).chain(bound.vars().iter().map(of)).collect()
            })
        };
        let one = run(1);
        assert!(run(2) == one && run(5) == one, "{}", recipe.name);
    }
}

/// Whether a gradient flows into the features decides the order of the products of a layer; the result is the
/// same.
#[test]
fn the_order_of_products_does_not_matter() {
    let (vertices, columns) = (9, 9);
    let edges: Edges = (0..40u32).map(|i| (i * 7 % 9, i * i % 9, 0.5 + (i % 4) as f32)).collect();
    let graphs: Vec<Graph> = (0..3).map(|t| Graph::from_edges(vertices, &edges[t * 6..]).unwrap()).collect();
    let features: Vec<f32> = (0..vertices * columns).map(|i| (i as f32 * 1.3).sin()).collect();
    for recipe in zoo::ALL {
        // Nine columns against two and five: one order for constants, the other for what needs a gradient.
        for (hidden, layers, blocks) in [(2, 2, 1), (5, 2, 1), (2, 1, 2), (5, 1, 2)] {
            let config = Config { features: columns, hidden, layers, blocks, window: 4, ..Config::default() };
            let model = recipe.build(&config).unwrap();
            let params = Params::new(model.slots(), 5).unwrap();
            let run = |constant: bool| -> Vec<Vec<f32>> {
                let arena = Arena::new();
                let mut tape = Tape::new(&arena);
                let bound = params.bind(&mut tape).unwrap();
                let shape = Shape::new(vertices, columns);
                let features = match constant {
                    true => tape.constant(shape, &features).unwrap(),
                    false => tape.parameter(shape, &features).unwrap(),
                };
                let window: Vec<Frame<'_>> = graphs.iter().map(|graph| Frame::new(graph, features)).collect();
                let outputs = model.forward(&mut tape, &bound, &window).unwrap();
                let all = tape.concatenate_columns(&outputs).unwrap();
                let gradients = tape.backward_with(all, tape.value(all).unwrap()).unwrap();
                let of = |&var: &Var| gradients.read(var).unwrap().unwrap_or_default().to_vec();
                std::iter::once(tape.value(all).unwrap().to_vec())
                    .chain(bound.vars().iter().map(of))
                    .collect()
            };
            for (one, other) in run(true).iter().zip(&run(false)) {
                assert!(close(one, other), "{}, {hidden} columns", recipe.name);
            }
        }
    }
    assert!(
        kymo_model::structure::aggregates_first(9, 5, false)
            && !kymo_model::structure::aggregates_first(9, 5, true)
    );
}

/// A sequence worked through in pieces, each beginning with what the one before left behind, gives the bits
/// of the whole.
#[test]
fn pieces_handed_over_are_the_whole() {
    let (vertices, steps) = (8usize, 7usize);
    let edges: Edges = (0..60u32).map(|i| (i * 5 % 8, i * i % 8, 0.5 + (i % 4) as f32)).collect();
    let features: Vec<f32> = (0..steps * vertices * FEATURES).map(|i| (i as f32 * 0.7).sin()).collect();
    let graphs: Vec<Graph> =
        (0..steps).map(|t| Graph::from_edges(vertices, &edges[t * 7..t * 7 + 15]).unwrap()).collect();
    let mut carrying = Vec::new();
    for recipe in zoo::ALL {
        for (layers, blocks) in [(1, 1), (2, 1), (1, 2), (2, 3)] {
            let config = Config { window: 3, ..config(layers, blocks) };
            let model = recipe.build(&config).unwrap();
            let Some(memory) = model.memory() else { continue };
            let mut params = Params::new(model.slots(), 5).unwrap();
            params.values.iter_mut().flatten().enumerate().for_each(|(i, v)| *v += 0.01 * (i % 7) as f32);
            let run = |pieces: &[usize]| -> Vec<Vec<f32>> {
                let (mut outputs, mut at) = (Vec::new(), 0);
                let mut kept: Option<[Vec<Vec<f32>>; 2]> = None;
                for &length in pieces {
                    let arena = Arena::new();
                    let mut tape = Tape::new(&arena);
                    let bound = params.bind(&mut tape).unwrap();
                    let mut window = Vec::new();
                    for t in at..at + length {
                        let size = vertices * FEATURES;
                        let values = &features[t * size..(t + 1) * size];
                        let features = tape.constant(Shape::new(vertices, FEATURES), values).unwrap();
                        window.push(Frame::new(&graphs[t], features));
                    }
                    let (mut exchange, mut rows) = (Vec::new(), Vec::new());
                    if let Some([first, second]) = &kept {
                        for (extent, values) in memory.exchange.iter().zip(first) {
                            exchange.push(tape.copied(extent.shape(vertices), values).unwrap());
                        }
                        for (&columns, values) in memory.rows.iter().zip(second) {
                            rows.push(tape.copied(Shape::new(vertices, columns), values).unwrap());
                        }
                    }
                    let exchanged = model.exchange(&mut tape, &bound, &window, &exchange).unwrap();
                    let passed = model.rows(&mut tape, &bound, Exchanged::after(&exchanged, &rows)).unwrap();
                    let values =
                        |vars: &[Var]| vars.iter().map(|&var| tape.value(var).unwrap().to_vec()).collect();
                    outputs.extend::<Vec<Vec<f32>>>(values(&passed.steps));
                    let sizes = |vars: &[Var]| vars.iter().map(|&var| tape.shape(var)).collect::<Vec<_>>();
                    let expected = memory.exchange.iter().map(|extent| extent.shape(vertices));
                    assert_eq!(sizes(&exchanged.after), expected.collect::<Vec<_>>());
                    let expected = memory.rows.iter().map(|&columns| Shape::new(vertices, columns));
                    assert_eq!(sizes(&passed.after), expected.collect::<Vec<_>>());
                    kept = Some([values(&exchanged.after), values(&passed.after)]);
                    at += length;
                }
                outputs
            };
            let whole = run(&[7]);
            assert_eq!(whole, run(&[3, 1, 1, 2]), "{}", recipe.name);
            assert_eq!(whole, run(&[1; 7]), "{}", recipe.name);
            carrying.push(recipe.name);
        }
    }
    assert_eq!(carrying.len(), 4 * (zoo::ALL.len() - 2), "all but attention over time carry on");
}

/// One block is the model without any, by the same names; layers that are blocks by themselves may be counted
/// as either.
#[test]
fn blocks_of_layers_that_are_blocks_are_more_layers() {
    let names = |config: &Config| {
        let slots = zoo::find("t-gcn").unwrap().build(config).unwrap().slots();
        slots.into_iter().map(|slot| slot.name).collect::<Vec<_>>()
    };
    assert_eq!(names(&config(1, 1)), ["gate.input", "gate.bias", "gate.state"]);
    assert_eq!(names(&config(1, 2))[2..4], ["blocks.0.gate.state", "blocks.1.gate.input"]);
    let edges: Edges = (0..30u32).map(|i| (i * 5 % 8, i * i % 8, 0.5 + (i % 4) as f32)).collect();
    let steps: Vec<Edges> = (0..3).map(|t| edges[t * 7..t * 7 + 15].to_vec()).collect();
    let features: Vec<f32> = (0..3 * 8 * FEATURES).map(|i| (i as f32 * 0.7).sin()).collect();
    // Both have as many parameters in the same order, so they begin with the same numbers.
    for name in ["gcn", "evolvegcn-o", "evolvegcn-h", "gc-lstm", "dcrnn", "roland"] {
        let recipe = zoo::find(name).unwrap();
        let [layers, blocks] = [config(2, 1), config(1, 2)]
            .map(|config| Config { update: Update::Mlp, ..config })
            .map(|config| outputs(recipe, &config, 8, &steps, &features));
        assert_eq!(layers, blocks, "{name}");
    }
    for blocks in [0, 4] {
        let refused = zoo::find("t-gcn").unwrap().build(&config(1, blocks)).err().unwrap().to_string();
        assert_eq!(refused, format!("blocks: found {blocks}, expected 1 to 3"));
    }
}
