//! Products that are made out of each other are those that are made from nothing: values and gradients, over
//! random matrices that change (entries that come, go and get other values, rows that empty and fill, hubs),
//! and over a thousand of them, in chains as short as models have them.

use std::sync::Arc;

use kymo_tensor::{Arena, Change, Pattern, Resident, Shape, Tape, Var};
use proptest::prelude::*;

/// A matrix: its pattern and its values.
type Matrix = (Arc<Pattern>, Resident);

/// How values follow from the entries of a row.
#[derive(Clone, Copy, Debug)]
enum Values {
    Ones,
    Means,
    /// One of a few weights, which an entry keeps as long as it is there, over their sum.
    Weighted,
}

fn matrix(rows: &[Vec<(u32, f32)>], columns: usize, kind: Values) -> Matrix {
    let (mut starts, mut places, mut values) = (vec![0], Vec::new(), Vec::new());
    for row in rows {
        let sum: f32 = row.iter().map(|entry| entry.1).sum();
        for &(place, weight) in row {
            places.push(place);
            values.push(match kind {
                Values::Ones => 1.0,
                Values::Means => 1.0 / row.len() as f32,
                Values::Weighted => weight / sum,
            });
        }
        starts.push(places.len() as u64);
    }
    (Arc::new(Pattern::new(columns, starts, places).unwrap()), values.into())
}

/// Changes some entries: those that are there go or get another weight, others come.
fn change(rows: &mut [Vec<(u32, f32)>], columns: usize, seeds: &[u32]) {
    for &seed in seeds {
        let (row, place) = (seed as usize % rows.len(), seed / 64 % columns as u32);
        let row = &mut rows[row];
        match row.binary_search_by_key(&place, |entry| entry.0) {
            Ok(at) if seed % 5 == 0 => row[at].1 = 1.0 + (seed % 3) as f32,
            Ok(at) => drop(row.remove(at)),
            Err(_) if seed % 31 == 0 => row.clear(),
            Err(at) => row.insert(at, (place, 1.0 + (seed % 4) as f32)),
        }
    }
}

/// All products, and the gradient of `x` where each is weighed by numbers of its own.
fn run(matrices: &[Matrix], x: (Shape, &[f32]), chain: usize, always: bool) -> (Vec<Vec<f32>>, Vec<f32>) {
    let arena = Arena::new();
    let mut tape = Tape::new(&arena);
    let var = tape.parameter(x.0, x.1).unwrap();
    let mut products: Vec<Var> = Vec::new();
    let mut sums = Vec::new();
    for (number, (pattern, values)) in matrices.iter().enumerate() {
        let found = match (number.checked_sub(1), number % chain) {
            (None, _) | (_, 0) => None,
            (Some(before), _) => {
                let (old, new) = (&matrices[before], (pattern, values));
                let make = if always { Change::always } else { Change::between };
                make((&old.0, &old.1), new).unwrap()
            }
        };
        let product = match (found, products.last()) {
            (Some(change), Some(&before)) => tape.increment(change, var, before).unwrap(),
            _ => tape.spmm_fixed(pattern.clone(), Arc::new(values.to_vec().into()), var).unwrap(),
        };
        products.push(product);
        let bent = tape.tanh(product).unwrap();
        let sum = tape.sum(bent).unwrap();
        sums.push(tape.scale(sum, 1.0 + (number % 7) as f32).unwrap());
    }
    let sum = tape.add_all(&sums).unwrap();
    let gradients = tape.backward(sum).unwrap();
    let gradient = gradients.read(var).unwrap().unwrap().into_owned();
    (products.iter().map(|&product| tape.value(product).unwrap().to_vec()).collect(), gradient)
}

fn close(found: &[f32], expected: &[f32], most: f32) -> Result<(), TestCaseError> {
    let largest = expected.iter().fold(1.0f32, |largest, value| largest.max(value.abs()));
    for (found, expected) in found.iter().zip(expected) {
        prop_assert!((found - expected).abs() <= most * largest, "{found} and {expected} of {largest}");
    }
    prop_assert_eq!(found.len(), expected.len());
    Ok(())
}

fn agree(
    rows: usize,
    columns: usize,
    width: usize,
    kind: Values,
    steps: &[Vec<u32>],
) -> Result<(), TestCaseError> {
    // The first row has them all to begin with: a hub.
    let mut all: Vec<Vec<(u32, f32)>> = vec![Vec::new(); rows];
    all[0] = (0..columns as u32).map(|place| (place, 1.0 + (place % 3) as f32)).collect();
    let next = |seeds: &Vec<u32>| {
        change(&mut all, columns, seeds);
        matrix(&all, columns, kind)
    };
    let matrices: Vec<Matrix> = steps.iter().map(next).collect();
    let shape = Shape::new(columns, width);
    let x: Vec<f32> = (0..shape.len()).map(|i| ((i * 7919) % 1009) as f32 / 504.5 - 1.0).collect();
    let (expected, gradient) = run(&matrices, (shape, &x), 1, true);
    let (found, gone) = run(&matrices, (shape, &x), 8, true);
    for (found, expected) in found.iter().zip(&expected) {
        close(found, expected, 1e-5)?;
    }
    close(&gone, &gradient, 1e-4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn increments_are_products(
        rows in 1usize..40,
        columns in 1usize..40,
        width in 1usize..20,
        kind in prop_oneof![Just(Values::Ones), Just(Values::Means), Just(Values::Weighted)],
        steps in prop::collection::vec(prop::collection::vec(any::<u32>(), 0..40), 1..12),
    ) {
        agree(rows, columns, width, kind, &steps)?;
    }
}

#[test]
fn a_thousand_steps_do_not_drift() {
    for kind in [Values::Ones, Values::Means, Values::Weighted] {
        let seed = |step: u32, k: u32| (step * 40 + k).wrapping_mul(2_654_435_761).rotate_left(9);
        let steps: Vec<Vec<u32>> = (0..1000).map(|step| (0..40).map(|k| seed(step, k)).collect()).collect();
        agree(60, 60, 4, kind, &steps).unwrap();
    }
}

/// What is the same is not added again, what is a mean is scaled, and what is nearly another row is summed
/// anew.
#[test]
fn changes_are_small_where_little_changes() {
    let row = |places: &[u32]| places.iter().map(|&place| (place, 1.0)).collect::<Vec<_>>();
    let before = [row(&[0, 1, 2, 3, 4, 5]), row(&[0, 2, 4, 5]), row(&[1, 2, 3]), row(&[])];
    let now = [row(&[0, 1, 2, 3, 5]), row(&[0, 2, 4, 5]), row(&[0, 4, 5]), row(&[3])];
    let entries = |kind: Values| {
        let (old, new) = (matrix(&before, 6, kind), matrix(&now, 6, kind));
        Change::always((&old.0, &old.1), (&new.0, &new.1)).unwrap().unwrap().entries()
    };
    // One that went, none, a row of three that is another, and one that came.
    assert_eq!((entries(Values::Ones), entries(Values::Means)), (1 + 3 + 1, 1 + 3 + 1));
}

/// Where most of a matrix is another, or its values are products of factors, it is multiplied whole.
#[test]
fn what_changes_too_much_is_left_whole() {
    let all = |first: u32| -> Vec<Vec<(u32, f32)>> {
        (0..50).map(|_| (first..first + 20).map(|place| (place, 1.0)).collect()).collect()
    };
    let (old, same, other) = (
        matrix(&all(0), 50, Values::Means),
        matrix(&all(0), 50, Values::Means),
        matrix(&all(15), 50, Values::Means),
    );
    let found = |now: &Matrix| Change::between((&old.0, &old.1), (&now.0, &now.1)).unwrap();
    assert_eq!(found(&same).map(|change| change.entries()), Some(0));
    assert!(found(&other).is_none());
    let products = Resident::products(old.0.clone(), vec![1.0; 50]).unwrap();
    assert!(Change::always((&old.0, &products), (&same.0, &same.1)).unwrap().is_none());
    let fewer = matrix(&all(0)[..49], 50, Values::Means);
    assert!(Change::always((&old.0, &old.1), (&fewer.0, &fewer.1)).unwrap().is_none());
}
