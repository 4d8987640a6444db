//! The sparse operations against plain loops, finite differences and themselves with other numbers of
//! threads.

#![allow(clippy::unwrap_used)]

mod cases;
mod increments;
mod spans;

use std::sync::{Arc, LazyLock};

use cases::{Case, cases};
use kymo_tensor::check::gradient;
use kymo_tensor::{Arena, Pattern, Resident, Result, Shape, Tape};
use proptest::prelude::*;
use rayon::ThreadPool;

static POOLS: LazyLock<Vec<ThreadPool>> = LazyLock::new(|| {
    let pool = |threads| rayon::ThreadPoolBuilder::new().num_threads(threads).build().ok();
    [1, 2, 5].into_iter().filter_map(pool).collect()
});

/// Numbers of which no two sums are close to each other, so that differences do not step over a kink.
fn grid(shape: Shape, which: usize) -> Vec<f32> {
    let value = |i: usize| ((i * (7 + which)) % 37) as f32 / 16.0 - 1.0 + which as f32 / 32.0;
    (0..shape.len()).map(value).collect()
}

/// Numbers between -1 and 1 without a pattern.
fn noise(shape: Shape, salt: u32) -> Vec<f32> {
    let mix = |i: u32| (i ^ salt.wrapping_mul(0x9E37_79B9)).wrapping_mul(0x85EB_CA6B);
    let value = |i: u32| (mix(mix(i) >> 7) >> 8) as f32 / (1 << 23) as f32 - 1.0;
    (0..shape.len() as u32).map(value).collect()
}

/// The value of a case and the gradients of its inputs.
fn run(case: &Case, pattern: &Arc<Pattern>, salt: u32) -> Result<Vec<Vec<f32>>> {
    let shapes = (case.inputs)(pattern);
    let inputs: Vec<Vec<f32>> = shapes.iter().zip(salt..).map(|(shape, salt)| noise(*shape, salt)).collect();
    let arena = Arena::new();
    let mut tape = Tape::new(&arena);
    let vars = shapes
        .iter()
        .zip(&inputs)
        .map(|(shape, input)| tape.parameter(*shape, input))
        .collect::<Result<Vec<_>>>()?;
    let output = (case.apply)(&mut tape, pattern, &vars)?;
    let gradients = tape.backward_with(output, &noise(tape.shape(output), 99))?;
    let mut found = vec![tape.value(output).unwrap().to_vec()];
    found.extend(vars.iter().map(|&var| gradients.read(var).unwrap().unwrap_or_default().to_vec()));
    Ok(found)
}

/// Whether all numbers are within `tolerance` of the exact ones, relative to the largest of them.
fn are_close(found: &[f32], exact: &[f64], tolerance: f64) -> bool {
    are_close_beside(1e-6, found, exact, tolerance)
}

/// The same, relative to `least` where all of them are smaller.
fn are_close_beside(least: f64, found: &[f32], exact: &[f64], tolerance: f64) -> bool {
    let largest = exact.iter().fold(least, |largest, value| largest.max(value.abs()));
    found.len() == exact.len()
        && found.iter().zip(exact).all(|(&found, exact)| {
            let difference = (f64::from(found) - exact).abs();
            difference <= tolerance * largest
        })
}

fn check(case: &Case, pattern: &Arc<Pattern>, salt: u32) {
    let inputs: Vec<Vec<f64>> = (case.inputs)(pattern)
        .iter()
        .zip(salt..)
        .map(|(shape, salt)| noise(*shape, salt).into_iter().map(f64::from).collect())
        .collect();
    assert_eq!(POOLS.len(), 3, "threads could not be started");
    let mut before: Option<Vec<Vec<u32>>> = None;
    for pool in POOLS.iter() {
        let found = match pool.install(|| run(case, pattern, salt)) {
            Ok(found) => found,
            Err(problem) => panic!("{}: {problem}", case.name),
        };
        // Where sums cancel, they are off by what rounds off in their terms, which are no larger than 1.
        let exact = (case.exact)(pattern, &inputs);
        assert!(are_close_beside(1.0, &found[0], &exact, 1e-5), "{}", case.name);
        let bits = found.iter().map(|numbers| numbers.iter().map(|number| number.to_bits()).collect());
        let bits: Vec<Vec<u32>> = bits.collect();
        if let Some(before) = &before {
            assert!(*before == bits, "{}: other bits with {pool:?}", case.name);
        }
        before = Some(bits);
    }
}

fn check_gradient(case: &Case, pattern: &Arc<Pattern>) {
    let inputs: Vec<(Shape, Vec<f32>)> = (case.inputs)(pattern)
        .into_iter()
        .enumerate()
        .map(|(which, shape)| (shape, grid(shape, which)))
        .collect();
    if let Err(problem) = gradient(&inputs, 1e-2, |tape, vars| (case.apply)(tape, pattern, vars)) {
        panic!("{}: {problem}", case.name);
    }
}

/// Patterns of all kinds: without rows, one vertex, loops only, hubs, rows without entries, more columns than
/// rows.
fn patterns(most: usize) -> impl Strategy<Value = Arc<Pattern>> {
    let edges = (1..=most, 1..=most).prop_flat_map(move |(rows, columns)| {
        let edge = (0..rows as u32, 0..columns as u32);
        (Just((rows, columns)), prop::collection::vec(edge, 0..3 * most))
    });
    let most = most as u32;
    let square = |count: u32| (count as usize, count as usize);
    let edges = prop_oneof![
        4 => edges,
        1 => Just(((0, 0), vec![])),
        1 => Just(((3, 0), vec![])),
        1 => (0u32..2).prop_map(|loops| ((1, 1), vec![(0, 0); loops as usize])),
        1 => (1..=most).prop_map(move |count| (square(count), (0..count).map(|v| (v, v)).collect())),
        1 => (1..=most).prop_map(move |count| (square(count), (0..count).map(|v| (count / 2, v)).collect())),
        1 => (1..=most).prop_map(move |count| (square(count), (0..count).map(|v| (v, count / 2)).collect())),
    ];
    edges.prop_filter_map("a pattern", |((rows, columns), edges)| {
        Pattern::from_edges(rows, columns, edges).ok().map(Arc::new)
    })
}

/// One row and three columns with enough entries to be cut, among short ones.
fn long() -> Result<Arc<Pattern>> {
    let hub = (0..9000u32).map(|i| (2, i * i % 3));
    let others = (0..4000u32).map(|i| (i % 40, 3 + i % 30));
    Pattern::from_edges(41, 34, hub.chain(others)).map(Arc::new)
}

/// `A x` and the gradient of `x`, in bits.
fn fixed(pattern: &Arc<Pattern>, values: Resident, width: usize) -> [Vec<u32>; 2] {
    let (shape, arena) = (Shape::new(pattern.columns(), width), Arena::new());
    let x = noise(shape, 5);
    let mut tape = Tape::new(&arena);
    let x = tape.parameter(shape, &x).unwrap();
    let output = tape.spmm_fixed(pattern.clone(), Arc::new(values), x).unwrap();
    let gradients = tape.backward_with(output, &noise(tape.shape(output), 6)).unwrap();
    let gradient = gradients.read(x).unwrap().unwrap();
    let found = [tape.value(output).unwrap(), &gradient[..]];
    found.map(|numbers| numbers.iter().map(|number| number.to_bits()).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Values that are multiplied as they are needed have the bits of values in memory, both ways.
    #[test]
    fn products_of_factors_are_values(pattern in patterns(40), width in 1usize..40) {
        let factors = noise(Shape::new(pattern.rows(), 1), 3);
        match Resident::products(pattern.clone(), factors) {
            Err(_) => prop_assert!(pattern.rows() != pattern.columns()),
            Ok(products) => {
                let given = Resident::products(pattern.clone(), noise(Shape::new(pattern.rows(), 1), 3));
                let given = Resident::from(given.unwrap().to_vec());
                prop_assert!(products.are_products() && !given.are_products());
                prop_assert_eq!(fixed(&pattern, products, width), fixed(&pattern, given, width));
            }
        }
    }

    #[test]
    fn values_are_those_of_plain_loops_for_any_number_of_threads(
        pattern in patterns(60),
        (width, heads) in prop::sample::select(vec![(1, 1), (6, 2), (32, 4), (64, 1), (131, 1), (192, 8)]),
        salt in 0u32..1000,
    ) {
        cases(width, heads).iter().for_each(|case| check(case, &pattern, salt));
    }

    #[test]
    fn gradients_are_those_of_differences(
        pattern in patterns(9),
        heads in prop::sample::select(vec![1, 2, 4]),
    ) {
        cases(4, heads).iter().for_each(|case| check_gradient(case, &pattern));
    }
}

#[test]
fn long_lines_are_put_together_from_their_segments() {
    let pattern = long().unwrap();
    for (width, heads) in [(1, 1), (6, 2), (64, 1), (192, 8)] {
        cases(width, heads).iter().for_each(|case| check(case, &pattern, 7));
    }
    // The others have an input for each of thousands of entries: their gradients are checked by the next
    // test.
    let names = ["spmm of ones", "spmm of fixed values", "sddmm", "graph attention", "row max", "gather"];
    for case in cases(1, 1).iter().filter(|case| names.contains(&case.name)) {
        check_gradient(case, &pattern);
    }
}

#[test]
fn gradients_of_the_values_of_long_lines() {
    let (pattern, heads) = (long().unwrap(), 2);
    let upstream = |shape| noise(shape, 99).into_iter().map(f64::from).collect::<Vec<_>>();
    let all = cases(6, heads);
    let find = |name| all.iter().find(|case| case.name == name).unwrap();

    let entries = Shape::new(pattern.entries(), heads);
    let found = run(find("edge softmax"), &pattern, 5).unwrap();
    let (shares, upstream_shares) = (&found[0], upstream(entries));
    let mut exact = vec![0.0; entries.len()];
    for pair in pattern.starts().windows(2) {
        for head in 0..heads {
            let places = || (pair[0] as usize..pair[1] as usize).map(|entry| entry * heads + head);
            let mean: f64 = places().map(|at| f64::from(shares[at]) * upstream_shares[at]).sum();
            places().for_each(|at| exact[at] = f64::from(shares[at]) * (upstream_shares[at] - mean));
        }
        // Row by row: the shares of a long one are small beside those of others.
        let row = pair[0] as usize * heads..pair[1] as usize * heads;
        assert!(are_close(&found[1][row.clone()], &exact[row], 1e-5));
    }

    // The gradient of the values of a sparse product is a product for each entry, and the other way round.
    let found = run(find("spmm with heads"), &pattern, 5).unwrap();
    let x = noise(Shape::new(pattern.columns(), 6), 5).into_iter().map(f64::from).collect();
    let exact = (find("sddmm").exact)(&pattern, &[upstream(Shape::new(pattern.rows(), 6)), x]);
    assert!(are_close(&found[2], &exact, 1e-5));
    let found = run(find("scatter"), &pattern, 5).unwrap();
    let exact = (find("gather").exact)(&pattern, &[upstream(Shape::new(pattern.columns(), 6))]);
    assert!(are_close(&found[1], &exact, 1e-5));
}

/// Fused attention gives the values and gradients of its parts. All numbers are compared together: the
/// gradient of a score is nothing but rounding where its row has no other.
fn check_fused(pattern: &Arc<Pattern>, [width, heads]: [usize; 2], salt: u32) {
    let by_parts = |tape: &mut Tape<'_>, pattern: &Arc<Pattern>, vars: &[kymo_tensor::Var]| {
        let scores = tape.edge_scores(pattern.clone(), vars[0], vars[1], 0.25)?;
        let shares = tape.edge_softmax(pattern.clone(), scores)?;
        tape.spmm_heads(pattern.clone(), shares, vars[2])
    };
    for fused in cases(width, heads).into_iter().filter(|case| case.name == "graph attention") {
        let found = run(&fused, pattern, salt);
        let expected = run(&Case { apply: Box::new(by_parts), ..fused }, pattern, salt);
        let (Ok(found), Ok(expected)) = (found, expected) else { panic!("attention has failed") };
        let expected: Vec<f64> = expected.concat().into_iter().map(f64::from).collect();
        assert!(are_close(&found.concat(), &expected, 1e-5), "{width} columns, {heads} heads");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn fused_attention_is_what_its_parts_come_to(
        pattern in patterns(60),
        (width, heads) in prop::sample::select(vec![
            (1, 1), (6, 2), (64, 4), (64, 1), (64, 8), (64, 2), (96, 3), (192, 8),
        ]),
        salt in 0u32..1000,
    ) {
        check_fused(&pattern, [width, heads], salt);
    }
}

#[test]
fn fused_attention_of_long_lines_is_what_its_parts_come_to() {
    for (width, heads) in [(1, 1), (6, 2), (64, 4), (20, 5)] {
        check_fused(&long().unwrap(), [width, heads], 3);
    }
}

#[test]
fn large_scores_and_equal_maxima() {
    let pattern = Arc::new(Pattern::from_edges(1, 3, [(0, 0), (0, 1), (0, 2)]).unwrap());
    let arena = Arena::new();
    let mut tape = Tape::new(&arena);
    let scores = tape.constant(Shape::new(3, 1), &[1e4, 1e4, -1e4]).unwrap();
    let shares = tape.edge_softmax(pattern.clone(), scores).unwrap();
    assert!(tape.value(shares).unwrap().iter().zip([0.5, 0.5, 0.0]).all(|(a, b)| (a - b).abs() < 1e-6));
    let x = tape.parameter(Shape::new(3, 1), &[1.0, 2.0, 2.0]).unwrap();
    let largest = tape.row_max(pattern, x).unwrap();
    assert_eq!(*tape.backward(largest).unwrap().read(x).unwrap().unwrap(), [0.0, 1.0, 0.0]);
}

#[test]
fn wrong_shapes_are_refused() {
    let pattern = Arc::new(Pattern::from_edges(4, 5, [(0, 1), (3, 2), (3, 4)]).unwrap());
    let arena = Arena::new();
    let mut tape = Tape::new(&arena);
    for case in cases(4, 2) {
        let shapes = (case.inputs)(&pattern);
        for wrong in 0..shapes.len() {
            let mut vars: Vec<_> = shapes.iter().map(|&shape| tape.filled(shape, 1.0)).collect();
            let Shape { rows, columns } = shapes[wrong];
            // More rows to choose from are no problem for a choice of rows.
            vars[wrong] = tape.filled(Shape::new(rows - 1, columns), 1.0);
            assert!((case.apply)(&mut tape, &pattern, &vars).is_err(), "{}", case.name);
        }
    }
    let mut problem =
        |apply: &dyn Fn(&mut Tape<'_>) -> Result<kymo_tensor::Var>| apply(&mut tape).unwrap_err().to_string();
    let heads = problem(&|tape| {
        let (x, values) = (tape.filled(Shape::new(5, 4), 1.0), tape.filled(Shape::new(3, 3), 1.0));
        tape.spmm_heads(pattern.clone(), values, x)
    });
    assert_eq!(heads, "spmm: rows of 4 numbers cannot be divided among 3 heads");
    let values = problem(&|tape| {
        let x = tape.filled(Shape::new(5, 4), 1.0);
        tape.spmm_fixed(pattern.clone(), Arc::new(vec![1.0; 2].into()), x)
    });
    assert_eq!(values, "spmm: the matrix of values is 2 x 1, expected 3 x 1");
    let slope = problem(&|tape| {
        let (left, right) = (tape.filled(Shape::new(4, 1), 1.0), tape.filled(Shape::new(5, 1), 1.0));
        tape.edge_scores(pattern.clone(), left, right, -0.1)
    });
    assert_eq!(slope, "slope: -0.1 is not a number from zero up");
    let index = problem(&|tape| {
        let x = tape.filled(Shape::new(2, 4), 1.0);
        tape.scatter(x, Arc::new(vec![0, 7]), 7)
    });
    assert_eq!(index, "scatter: row 7 was asked for, there are 7");
}
