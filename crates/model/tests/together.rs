//! Windows that are run together are the windows alone: losses and gradients of every model, with several
//! layers and blocks, block by block and whole, over random graphs. And what they have in common is computed
//! once.
#![allow(clippy::unwrap_used)]

use kymo_model::{
    Common, Config, Exchanged, Frame, Graph, Model, Params, Passed, Together, Update, loss_by_rows, zoo,
};
use kymo_tensor::{Arena, Result, Shape, Tape, Var};
use proptest::prelude::*;

/// Columns of features: fewer than hidden ones, and more than twice as many, which are multiplied before
/// neighbours are added up.
const FEATURES: [usize; 2] = [3, 9];

/// Steps of a window: one more than a convolution over time looks at, so that windows share what it makes.
const WINDOW: usize = 4;

/// The edges of consecutive steps, and the features of their vertices.
#[derive(Debug)]
struct Steps {
    vertices: usize,
    edges: Vec<Vec<(u32, u32, f32)>>,
    features: Vec<f32>,
    /// Columns of features.
    width: usize,
}

fn steps() -> impl Strategy<Value = Steps> {
    (1usize..9, WINDOW..WINDOW + 4, 0..2usize).prop_flat_map(|(vertices, steps, width)| {
        let width = FEATURES[width];
        let edge = (
            0..vertices as u32,
            0..vertices as u32,
            prop_oneof![Just(1.0f32), (1u8..30).prop_map(|tenths| 0.1 * f32::from(tenths))],
        );
        let edges = prop::collection::vec(prop::collection::vec(edge, 0..20), steps);
        // Of whole numbers: ranges of `f32` fail an assertion of proptest's own now and then.
        let number = (-999i16..1000).prop_map(|thousandths| 0.001 * f32::from(thousandths));
        let features = prop::collection::vec(number, steps * vertices * width);
        (edges, features).prop_map(move |(edges, features)| Steps { vertices, edges, features, width })
    })
}

/// The sum of squares at the last step of each window, each with a factor of its own.
fn loss(tape: &mut Tape<'_>, windows: &[(usize, &Passed)]) -> Result<Var> {
    let mut sums = Vec::new();
    for &(number, passed) in windows {
        let last = *passed.steps.last().unwrap();
        let square = tape.multiply(last, last)?;
        let sum = tape.sum(square)?;
        sums.push(tape.scale(sum, 1.0 + number as f32)?);
    }
    tape.add_all(&sums)
}

/// A loss, its gradients, and how many operations were on tapes.
type Found = (f32, Vec<Vec<f32>>, usize);

/// Losses within 1e-5 and gradients within 1e-4 of what they should be.
fn assert_close(model: &str, (loss, gradients, _): &Found, (expected, exact, _): &Found) {
    let is_close = |one: f32, other: f32, off: f32| (one - other).abs() <= off * (1.0 + other.abs());
    assert!(is_close(*loss, *expected, 1e-5), "{model}: a loss of {loss} instead of {expected}");
    for (&found, &exact) in gradients.iter().flatten().zip(exact.iter().flatten()) {
        assert!(is_close(found, exact, 1e-4), "{model}: {found} instead of {exact}");
    }
}

/// What snapshots have in common.
#[derive(Clone, Copy, PartialEq)]
enum Same {
    /// Nothing that a model is told.
    Nothing,
    /// All have the features of the first, each in a matrix of its own.
    Features,
    /// All have the features of the first in one matrix, and many edges.
    Matrix,
}

/// The sum of all losses and its gradients, with as many windows on a tape as `at_once` says; how many
/// operations all tapes had.
fn run(
    model: &dyn Model,
    params: &Params,
    steps: &Steps,
    at_once: usize,
    by_rows: bool,
    same: Same,
) -> Found {
    let arena = Arena::new();
    let graph = |edges: &Vec<_>| Graph::from_edges(steps.vertices, edges).unwrap();
    let graphs: Vec<Graph> = steps.edges.iter().map(graph).collect();
    let starts: Vec<usize> = (0..=graphs.len() - WINDOW).collect();
    let mut sum = 0.0;
    let mut gradients: Vec<Vec<f32>> = params.values.iter().map(|values| vec![0.0; values.len()]).collect();
    let mut operations = 0;
    for group in starts.chunks(at_once) {
        let snapshots = Together::new(group.len() > 1, Update::default());
        let together = (group.len() > 1).then_some(&snapshots);
        let mut tape = Tape::new(&arena);
        if same == Same::Matrix {
            tape.expect_alike();
        }
        if same == Same::Features && at_once > 1 {
            tape.expect_repeats();
        }
        let bound = params.bind(&mut tape).unwrap();
        let (first, end) = (group[0], group[group.len() - 1] + WINDOW);
        let mut frames: Vec<Frame<'_>> = Vec::new();
        let shape = Shape::new(steps.vertices, steps.width);
        let rows = steps.features.chunks(shape.len());
        for (t, (graph, features)) in graphs.iter().zip(rows).enumerate().take(end).skip(first) {
            let features = match (same, frames.last()) {
                (Same::Matrix, Some(frame)) => frame.features,
                (Same::Nothing, _) => tape.copied(shape, features).unwrap(),
                _ => tape.copied(shape, &steps.features[..shape.len()]).unwrap(),
            };
            let common = Some(Common { together: &snapshots, snapshot: t });
            frames.push(Frame { common, ..Frame::new(graph, features) });
        }
        model.ahead(&mut tape, &bound, &frames).unwrap();
        let exchange = |&start: &usize| {
            let window = &frames[start - first..start - first + WINDOW];
            model.exchange(&mut tape, &bound, window, &[]).unwrap()
        };
        let all: Vec<Passed> = group.iter().map(exchange).collect();
        let windows: Vec<Exchanged<'_>> =
            all.iter().map(|passed| Exchanged { together, ..Exchanged::first(passed) }).collect();
        let found = match by_rows {
            true => loss_by_rows(&mut tape, model, &bound, &windows, &[], move |tape, _, passed, _| {
                loss(tape, &group.iter().copied().zip(passed).collect::<Vec<_>>())
            }),
            false => {
                let rows = |&window: &Exchanged<'_>| model.rows(&mut tape, &bound, window).unwrap();
                let passed: Vec<Passed> = windows.iter().map(rows).collect();
                loss(&mut tape, &group.iter().copied().zip(&passed).collect::<Vec<_>>())
            }
        };
        let found = found.unwrap();
        let made = tape.backward(found).unwrap();
        for (sum, &var) in gradients.iter_mut().zip(bound.vars()) {
            let gradient = made.read(var).unwrap().unwrap_or_default();
            sum.iter_mut().zip(gradient.iter()).for_each(|(sum, value)| *sum += value);
        }
        sum += tape.value(found).unwrap()[0];
        operations += tape.len();
    }
    (sum, gradients, operations)
}

fn model(recipe: &zoo::Recipe, features: usize, layers: usize, blocks: usize) -> (Box<dyn Model>, Params) {
    let config = Config { features, hidden: 4, layers, blocks, heads: 2, window: 4, ..Config::default() };
    let model = recipe.build(&config).unwrap();
    let mut params = Params::new(model.slots(), 5).unwrap();
    // Biases begin as zeros, which would hide mistakes.
    params.values.iter_mut().flatten().enumerate().for_each(|(i, value)| *value += 0.01 * (i % 7) as f32);
    (model, params)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn windows_together_are_the_windows_alone(
        steps in steps(),
        (layers, blocks) in prop_oneof![Just((1, 1)), Just((2, 1)), Just((1, 2)), Just((2, 3))],
        by_rows: bool,
    ) {
        for recipe in zoo::ALL {
            let (model, params) = model(recipe, steps.width, layers, blocks);
            let expected = run(&*model, &params, &steps, 1, by_rows, Same::Nothing);
            for at_once in [2, 4] {
                let found = run(&*model, &params, &steps, at_once, by_rows, Same::Nothing);
                assert_close(recipe.name, &found, &expected);
            }
        }
    }

    /// What is made of several snapshots at once is what is made of each.
    #[test]
    fn snapshots_with_the_same_features_are_snapshots(
        steps in steps(),
        (layers, blocks) in prop_oneof![Just((1, 1)), Just((2, 1)), Just((1, 2))],
        by_rows: bool,
    ) {
        for recipe in zoo::ALL {
            let (model, params) = model(recipe, steps.width, layers, blocks);
            let expected = run(&*model, &params, &steps, 1, by_rows, Same::Features);
            for at_once in [1, 3] {
                let found = run(&*model, &params, &steps, at_once, by_rows, Same::Matrix);
                assert_close(recipe.name, &found, &expected);
            }
        }
    }
}

/// With the rows phase on the tape itself, what is shared is not there twice: of four windows of four steps,
/// seven steps are left of sixteen.
#[test]
fn what_windows_have_in_common_is_computed_once() {
    let edges: Vec<(u32, u32, f32)> = (0..40).map(|i| (i * 7 % 9, i * 5 % 9, 1.0)).collect();
    let edges = (0..7).map(|t| edges[t..].to_vec()).collect();
    let features = (0..7 * 9 * FEATURES[0]).map(|i| (i as f32).sin()).collect();
    let steps = Steps { vertices: 9, edges, features, width: FEATURES[0] };
    for recipe in zoo::ALL {
        for (layers, blocks) in [(1, 1), (2, 1), (1, 2)] {
            let (model, params) = model(recipe, steps.width, layers, blocks);
            let [alone, together] =
                [1, 4].map(|at_once| run(&*model, &params, &steps, at_once, false, Same::Nothing).2);
            // Each tape has parameters and features of its own, which are not counted.
            let own = 3 * params.values.len() + 16 - 7;
            assert!(together + own < alone, "{}: {together} of {alone}", recipe.name);
        }
    }
}
