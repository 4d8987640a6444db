//! Products that are made out of each other are those that are made from nothing: values and gradients, over
//! random matrices that change (entries that come, go and get other values, rows that empty and fill, hubs),
//! and over a thousand of them, in chains as short as models have them. Where rows that changed are summed
//! anew, they are so to the bit.

use std::sync::Arc;

use kymo_tensor::{Arena, Change, Changed, Costs, Pattern, Resident, Shape, Tape, Var};
use proptest::prelude::*;

/// A matrix: its pattern and its values.
type Matrix = (Arc<Pattern>, Arc<Resident>);

/// How values follow from the entries of a row.
#[derive(Clone, Copy, Debug)]
enum Values {
    Ones,
    Means,
    /// One of a few weights, which an entry keeps as long as it is there, over their sum.
    Weighted,
    /// The product of factors that follow from the degrees of both ends.
    Symmetric,
}

/// How products are made.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Whole,
    /// Out of each other, chains of eight.
    Increments,
    /// Rows that changed are summed anew.
    Refreshed,
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
                Values::Symmetric => 0.0,
            });
        }
        starts.push(places.len() as u64);
    }
    let pattern = Arc::new(Pattern::new(columns, starts, places).unwrap());
    let values = match kind {
        Values::Symmetric => {
            let degree = |column: usize| rows.get(column).map_or(column % 3, Vec::len);
            let factors = (0..columns).map(|column| 1.0 / (1.0 + degree(column) as f32).sqrt());
            Resident::products(pattern.clone(), factors.collect()).unwrap()
        }
        _ => values.into(),
    };
    (pattern, Arc::new(values))
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
fn run(matrices: &[Matrix], x: (Shape, &[f32]), way: Way) -> (Vec<Vec<f32>>, Vec<f32>) {
    let arena = Arena::new();
    let mut tape = Tape::new(&arena);
    let var = tape.parameter(x.0, x.1).unwrap();
    let mut products: Vec<Var> = Vec::new();
    let mut sums = Vec::new();
    for (number, new) in matrices.iter().enumerate() {
        let before = number.checked_sub(1).map(|before| (&matrices[before], products[before]));
        let of = |matrix: &'_ Matrix| (matrix.0.clone(), matrix.1.clone());
        let found = match (way, before) {
            (Way::Increments, Some((old, product))) if number % 8 > 0 => {
                let change = Change::always((&old.0, &old.1), (&new.0, &new.1)).unwrap().unwrap();
                Some(tape.increment(change, var, product).unwrap())
            }
            (Way::Refreshed, Some((old, product))) => {
                let changed = Changed::between((&old.0, &old.1), (&new.0, &new.1));
                changed.map(|changed| tape.refresh(of(new), changed, var, product).unwrap())
            }
            _ => None,
        };
        let (pattern, values) = of(new);
        let product = found.unwrap_or_else(|| tape.spmm_fixed(pattern, values, var).unwrap());
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
    let (expected, gradient) = run(&matrices, (shape, &x), Way::Whole);
    prop_assert_eq!(&run(&matrices, (shape, &x), Way::Refreshed), &(expected.clone(), gradient.clone()));
    let (found, gone) = run(&matrices, (shape, &x), Way::Increments);
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
        kind in prop_oneof![
            Just(Values::Ones),
            Just(Values::Means),
            Just(Values::Weighted),
            Just(Values::Symmetric)
        ],
        steps in prop::collection::vec(prop::collection::vec(any::<u32>(), 0..40), 1..12),
    ) {
        agree(rows.min(columns), columns, width, kind, &steps)?;
    }
}

#[test]
fn a_thousand_steps_do_not_drift() {
    for kind in [Values::Ones, Values::Means, Values::Weighted, Values::Symmetric] {
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
    // The degrees of the first and the last row changed: a new value where a row has them as columns.
    assert_eq!(entries(Values::Symmetric), 3 + 1 + 3 + 1);
    // Of rows that are summed anew there are those of which anything changed.
    let changed = |kind: Values| {
        let (old, new) = (matrix(&before, 6, kind), matrix(&now, 6, kind));
        Changed::between((&old.0, &old.1), (&new.0, &new.1)).map(|changed| changed.count())
    };
    // They have 5 + 3 + 1 of 13 entries: more than half.
    assert_eq!(changed(Values::Ones), None);
    let few = [now[0].clone(), before[1].clone(), before[2].clone(), row(&[3])];
    let (old, new) = (matrix(&before, 6, Values::Means), matrix(&few, 6, Values::Means));
    assert_eq!(Changed::between((&old.0, &old.1), (&new.0, &new.1)).unwrap().count(), 2);
}

/// Where most of a matrix is another, it is multiplied whole.
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
    let found = |now: &Matrix| Change::between((&old.0, &old.1), (&now.0, &now.1), Costs::default()).unwrap();
    assert_eq!(found(&same).map(|change| change.entries()), Some(0));
    assert!(found(&other).is_none());
    assert!(Changed::between((&old.0, &old.1), (&other.0, &other.1)).is_none());
    // What is worth it depends on what it costs.
    let cheap = Costs { entry: 0.4, row: 0.0 };
    assert!(Change::between((&old.0, &old.1), (&other.0, &other.1), cheap).unwrap().is_some());
    let dear = Costs { entry: 1.6, row: 30.0 };
    assert!(Change::between((&old.0, &old.1), (&same.0, &same.1), dear).unwrap().is_none());
    let fewer = matrix(&all(0)[..49], 50, Values::Means);
    assert!(Change::always((&old.0, &old.1), (&fewer.0, &fewer.1)).unwrap().is_none());
    assert!(Changed::between((&old.0, &old.1), (&fewer.0, &fewer.1)).is_none());
}

/// Of a large matrix some rows tell whether it is worth looking at all: what comes out is the same.
#[test]
fn large_matrices_are_judged_by_some_rows_first() {
    let rows = 9000;
    let all = |shift: u32, every: usize| -> Vec<Vec<(u32, f32)>> {
        let places = |row: usize| {
            let shift = if row.is_multiple_of(every) { shift } else { 0 };
            let first = (row as u32 * 7 + shift) % 8000;
            (first..first + 10).map(|place| (place, 1.0)).collect()
        };
        (0..rows).map(places).collect()
    };
    let old = matrix(&all(0, 1), rows, Values::Symmetric);
    for (every, is_worth_it) in [(1, false), (2, true), (50, true)] {
        let new = matrix(&all(4, every), rows, Values::Symmetric);
        let (was, is) = ((&old.0, &*old.1), (&new.0, &*new.1));
        let found = Change::between(was, is, Costs::default()).unwrap();
        let always = Change::always(was, is).unwrap().unwrap();
        assert_eq!(found.map(|change| change.entries()), is_worth_it.then(|| always.entries()), "{every}");
    }
}
