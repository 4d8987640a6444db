//! Attention at several snapshots at once is attention at each: values and gradients, over random patterns
//! that change, with scores that are close to each other and far apart.

use std::sync::Arc;

use kymo_tensor::{Arena, Pattern, Shape, Spans, Tape, Var};
use proptest::prelude::*;

/// Scores and rows, and how far scores are from zero.
struct Given {
    values: [(Shape, Vec<f32>); 3],
    slope: f32,
}

fn given(vertices: usize, heads: usize, width: usize, far: f32) -> Given {
    let numbers = |columns: usize, seed: usize, far: f32| {
        let one = |i: usize| far * (((i * 7919 + seed * 104_729) % 1009) as f32 / 504.5 - 1.0);
        (Shape::new(vertices, columns), (0..vertices * columns).map(one).collect())
    };
    Given { values: [numbers(heads, 1, 2.0), numbers(heads, 2, far), numbers(width, 3, 1.0)], slope: 0.2 }
}

/// Which snapshots count, each with a factor of its own.
type Counts<'c> = &'c dyn Fn(usize) -> bool;

/// The sum of squares of all outputs that count, and everything: outputs, then gradients of the inputs.
fn run(patterns: &[Arc<Pattern>], given: &Given, counts: Counts<'_>, at_once: bool) -> Vec<Vec<f32>> {
    let arena = Arena::new();
    let mut tape = Tape::new(&arena);
    let vars: [Var; 3] =
        given.values.each_ref().map(|(shape, values)| tape.parameter(*shape, values).unwrap());
    let steps: Vec<Var> = match at_once {
        true => {
            let spans = Arc::new(Spans::new(patterns).unwrap());
            tape.graph_attention_of_spans(spans, vars, given.slope).unwrap().unwrap()
        }
        false => {
            let [left, right, x] = vars;
            let one = |pattern: &Arc<Pattern>| {
                tape.graph_attention(pattern.clone(), left, right, x, given.slope).unwrap()
            };
            patterns.iter().map(one).collect()
        }
    };
    let mut sums = Vec::new();
    for (number, &step) in steps.iter().enumerate().filter(|&(number, _)| counts(number)) {
        let square = tape.multiply(step, step).unwrap();
        let sum = tape.sum(square).unwrap();
        sums.push(tape.scale(sum, 1.0 + number as f32).unwrap());
    }
    let sum = tape.add_all(&sums).unwrap();
    let gradients = tape.backward(sum).unwrap();
    let outputs = steps.iter().map(|&step| tape.value(step).unwrap().to_vec());
    let made: Vec<Vec<f32>> = outputs.collect();
    let of = |var: &Var| gradients.read(*var).unwrap().unwrap().into_owned();
    made.into_iter().chain(vars.iter().map(of)).collect()
}

/// Relative to the largest number of all: the gradient of a score is a difference of products of rows, which
/// are as large.
fn assert_close(found: &[Vec<f32>], expected: &[Vec<f32>], tolerance: f32) {
    assert_eq!(found.len(), expected.len());
    let largest = expected.iter().flatten().fold(0.0f32, |largest, value| largest.max(value.abs()));
    for (number, (found, expected)) in found.iter().zip(expected).enumerate() {
        for (at, (a, b)) in found.iter().zip(expected).enumerate() {
            assert!((a - b).abs() <= tolerance * largest, "matrix {number}, number {at}: {a} instead of {b}");
        }
    }
}

/// A loop at every vertex, and edges of which each snapshot has some.
fn changing(vertices: u32, edges: &[(u32, u32, u8)], snapshots: usize) -> Vec<Arc<Pattern>> {
    let one = |snapshot: usize| {
        let there = edges.iter().filter(|&&(.., mask)| mask >> snapshot & 1 == 1);
        let mut places: Vec<(u32, u32)> = there.map(|&(u, v, _)| (v, u)).collect();
        places.extend((0..vertices).map(|v| (v, v)));
        places.sort_unstable();
        places.dedup();
        Arc::new(Pattern::from_edges(vertices as usize, vertices as usize, places).unwrap())
    };
    (0..snapshots).map(one).collect()
}

proptest! {
    #[test]
    fn at_once_and_one_by_one(
        edges in prop::collection::vec((0u32..12, 0u32..12, any::<u8>()), 0..80),
        snapshots in 1usize..8,
        (heads, width) in prop_oneof![Just((1, 3)), Just((2, 8)), Just((4, 64)), Just((3, 27))],
        far in prop_oneof![Just(0.5f32), Just(3.0), Just(19.0)],
        left_out in 0usize..8,
    ) {
        let (patterns, given) = (changing(12, &edges, snapshots), given(12, heads, width, far));
        let counts = |number: usize| snapshots == 1 || number != left_out;
        let [found, expected] = [true, false].map(|at_once| run(&patterns, &given, &counts, at_once));
        assert_close(&found, &expected, 2e-5);
    }
}

/// Rows and columns that are cut into segments, and a vertex without any entry in some snapshots.
#[test]
fn hubs_and_rows_without_entries() {
    let vertices = 5000u32;
    let one = |snapshot: u32| {
        let mut places: Vec<(u32, u32)> =
            (0..vertices).filter(|v| !(v + snapshot).is_multiple_of(9)).map(|v| (7, v)).collect();
        places.extend((0..vertices).filter(|v| !(v * 3 + snapshot).is_multiple_of(7)).map(|v| (v, 11)));
        places.extend((100..200).map(|v| (v, (v * 31 + snapshot) % vertices)));
        places.sort_unstable();
        places.dedup();
        Arc::new(Pattern::from_edges(vertices as usize, vertices as usize, places).unwrap())
    };
    let patterns: Vec<Arc<Pattern>> = (0..4).map(one).collect();
    let given = given(vertices as usize, 2, 16, 3.0);
    let [found, expected] = [true, false].map(|at_once| run(&patterns, &given, &|_| true, at_once));
    assert_close(&found, &expected, 1e-4);
    for threads in [1, 3] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        assert_eq!(pool.install(|| run(&patterns, &given, &|_| true, true)), found, "{threads} threads");
    }
}

#[test]
fn scores_too_far_apart_are_left_to_each_snapshot() {
    let spans = Arc::new(Spans::new(&changing(12, &[(0, 1, 255)], 2)).unwrap());
    let is_done = |score: f32, slope: f32| {
        let mut given = given(12, 1, 4, 1.0);
        given.values[1].1[3] = score;
        let arena = Arena::new();
        let mut tape = Tape::new(&arena);
        let vars = given.values.each_ref().map(|(shape, values)| tape.parameter(*shape, values).unwrap());
        tape.graph_attention_of_spans(spans.clone(), vars, slope).unwrap().is_some()
    };
    assert!(is_done(38.9, 0.2) && !is_done(41.1, 0.2) && !is_done(0.0, 1.5));
    // What is no number goes the way on which it is found out.
    assert!(!is_done(f32::INFINITY, 0.2));
}
