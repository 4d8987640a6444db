//! Every model on a GPU against the same model on the host: outputs within 1e-5 and gradients within 1e-4 of
//! their largest, and the same bits when it is done again. Without a GPU the test says that it was skipped.

#![allow(clippy::unwrap_used, clippy::print_stderr)]

use kymo_model::{Budget, Config, Exchanged, Frame, Graph, Params, Reuse, ReuseSlots, loss_by_rows, zoo};
use kymo_tensor::cuda::{self, Device, Options};
use kymo_tensor::{Arena, Resident, Shape, Tape};

const VERTICES: usize = 700;
const STEPS: usize = 3;

fn random(place: u64) -> u64 {
    let z = (place + 3).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB) >> 20
}

/// Skewed snapshots, each with a hub that has almost all vertices as neighbours and with vertices that have
/// none.
fn graphs() -> Vec<Graph> {
    let graph = |step: u64| {
        let below = VERTICES as u64;
        let edge = |i: u64| {
            let target = random(i + 7919 * step) % below * (random(i + 31) % below) / below;
            ((random(2 * i + 7919 * step) % below) as u32, target as u32, 0.5 + (i % 7) as f32)
        };
        let hub = (0..VERTICES as u32 - 20).map(|source| (source, 600, 1.0));
        let mut edges: Vec<(u32, u32, f32)> = (0..4000).map(edge).chain(hub).collect();
        edges.sort_by_key(|&(source, target, _)| (target, source));
        edges.dedup_by_key(|&mut (source, target, _)| (target, source));
        Graph::from_edges(VERTICES, &edges).unwrap()
    };
    (0..STEPS as u64).map(graph).collect()
}

fn numbers(count: usize, salt: u64) -> Vec<f32> {
    (0..count as u64).map(|i| (random(i + 104_729 * salt) % 2000) as f32 / 1000.0 - 1.0).collect()
}

/// The loss, the outputs of the last step and the gradients of all parameters.
fn run(
    arena: &Arena,
    graphs: &[Graph],
    slots: Option<&[ReuseSlots]>,
    name: &str,
    config: &Config,
) -> Vec<Vec<f32>> {
    let model = zoo::find(name).unwrap().build(config).unwrap();
    let params = Params::new(model.slots(), 5).unwrap();
    let features: Vec<Resident> =
        (0..STEPS).map(|t| numbers(VERTICES * config.features, t as u64).into()).collect();
    let targets = numbers(VERTICES * config.hidden, 99);
    let mut tape = Tape::new(arena);
    let bound = params.bind(&mut tape).unwrap();
    let mut window = Vec::new();
    for (t, (graph, features)) in graphs.iter().zip(&features).enumerate() {
        let features = tape.held(Shape::new(VERTICES, config.features), features).unwrap();
        window.push(Frame {
            reuse: slots.map(|slots| Reuse { slots: &slots[t], parameters: None }),
            ..Frame::new(graph, features)
        });
    }
    let outputs = model.forward(&mut tape, &bound, &window).unwrap();
    let mut found = vec![tape.read(*outputs.last().unwrap()).unwrap().into_owned()];
    let exchanged = model.exchange(&mut tape, &bound, &window, &[]).unwrap();
    let loss = loss_by_rows(
        &mut tape,
        &*model,
        &bound,
        &[Exchanged::first(&exchanged)],
        &[],
        |tape, rows, outputs, _| {
            let columns = tape.shape(outputs[0].steps[0]).columns;
            let mut losses = Vec::new();
            for &output in &outputs[0].steps {
                let target = &targets[rows.start * columns..rows.end * columns];
                let target = tape.copied(Shape::new(rows.len(), columns), target)?;
                losses.push(tape.mse(output, target, None, 1e-3)?);
            }
            tape.add_all(&losses)
        },
    )
    .unwrap();
    found.push(tape.read(loss).unwrap().into_owned());
    let gradients = tape.backward(loss).unwrap();
    for &var in bound.vars() {
        found.push(gradients.read(var).unwrap().map(|values| values.into_owned()).unwrap_or_default());
    }
    found
}

#[test]
fn every_model_comes_to_the_same_on_a_gpu() {
    let device = match Device::open(Options::default()) {
        Ok(device) => device,
        Err(missing) => {
            assert_eq!(cuda::count(), 0, "{missing}");
            eprintln!("skipped: {missing}");
            return;
        }
    };
    let arena = Arena::on(device);
    let graphs = graphs();
    for recipe in zoo::ALL {
        let cases =
            [(1, 1, 20, 16, 2), (2, 1, 128, 64, 4), (2, 1, 3, 12, 1), (1, 2, 20, 16, 2), (2, 3, 3, 12, 1)];
        for (layers, blocks, features, hidden, heads) in cases {
            let config =
                Config { features, hidden, layers, blocks, heads, window: STEPS, ..Config::default() };
            let sizes = format!("{layers} layers, {blocks} blocks, {features} and {hidden} columns");
            let what = format!("{} with {sizes}", recipe.name);
            let host = run(&Arena::new(), &graphs, None, recipe.name, &config);
            let found = run(&arena, &graphs, None, recipe.name, &config);
            for (number, (expected, found)) in host.iter().zip(&found).enumerate() {
                let tolerance = if number < 2 { 1e-5 } else { 1e-4 };
                // A cell of the host takes the tangent of a small number from a sigmoid near a half: off by
                // a few units in the last place of one, which shows where blocks have made all values small.
                let beside = if blocks > 1 { 3e-7 } else { 0.0 };
                assert_eq!(found.len(), expected.len(), "{what}: {number}");
                let largest = expected.iter().fold(0.0f32, |most, value| most.max(value.abs())).max(1e-3);
                let worst = found.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0f32, f32::max);
                assert!(
                    worst <= tolerance * largest + beside,
                    "{what}: {number} is off by {worst}, its largest is {largest}"
                );
                assert!(found.iter().all(|value| value.is_finite()), "{what}: {number}");
            }
            // Again, with the first layer's aggregated input kept: computed the first time, found the second.
            let kept: Vec<ReuseSlots> =
                graphs.iter().map(|_| ReuseSlots::new(Budget::new(usize::MAX))).collect();
            for _ in 0..2 {
                assert!(
                    run(&arena, &graphs, Some(&kept), recipe.name, &config) == found,
                    "{what}: other bits"
                );
            }
        }
    }
}
