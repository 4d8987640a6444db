//! Rows and columns of matrices: side by side, below each other, some of them, at given places, and the
//! highest.

use std::sync::Arc;

use kymo_tensor::{Arena, Resident, Tape};

use crate::compare::{device, numbers, same, wanted};
use crate::elementwise::SHAPES;

#[test]
fn columns() {
    for (rows, columns) in SHAPES {
        let mut inputs =
            wanted(vec![numbers(rows, columns, 1), numbers(rows, 2 * columns + 1, 2), numbers(rows, 1, 3)]);
        inputs[2].1 = false;
        let name = |what: &str| format!("{what}, {rows} x {columns}");
        same(&name("concatenate columns"), &inputs, |tape, vars| {
            tape.concatenate_columns(&[vars[0], vars[1], vars[2], vars[0]])
        });
        for range in [0..columns, 0..2 * columns, columns / 2..columns + 1, 1..1] {
            same(&name("slice columns"), &inputs, |tape, vars| tape.slice_columns(vars[1], range.clone()));
        }
        same(&name("two slices of columns"), &inputs, |tape, vars| {
            let (one, other) =
                (tape.slice_columns(vars[1], 0..columns)?, tape.slice_columns(vars[1], 1..columns + 1)?);
            tape.multiply(one, other)
        });
    }
}

#[test]
fn held_columns() {
    for (rows, columns) in SHAPES {
        let held: Vec<Arc<Resident>> =
            (0..columns as u64).map(|salt| Arc::new(numbers(rows, 1, salt).1.into())).collect();
        let inputs = wanted(vec![numbers(columns, 2, 7)]);
        // Twice, so that they are found where they were brought.
        for time in ["first", "second"] {
            same(&format!("held columns, {rows} x {columns}, {time}"), &inputs, |tape, vars| {
                let x = tape.held_columns(&held, 0..rows)?;
                tape.matmul(x, vars[0])
            });
        }
    }
}

#[test]
fn rows() {
    for (rows, columns) in SHAPES {
        let mut inputs = wanted(vec![
            numbers(rows, columns, 1),
            numbers(2 * rows + 1, columns, 2),
            numbers(1, columns, 3),
        ]);
        inputs[2].1 = false;
        let name = |what: &str| format!("{what}, {rows} x {columns}");
        same(&name("concatenate rows"), &inputs, |tape, vars| {
            tape.concatenate_rows(&[vars[0], vars[1], vars[2], vars[0]])
        });
        for range in [0..rows, 0..2 * rows, rows / 2..rows + 1, 1..1] {
            same(&name("slice rows"), &inputs, |tape, vars| tape.slice_rows(vars[1], range.clone()));
        }
        same(&name("two slices of rows"), &inputs, |tape, vars| {
            let (one, other) = (tape.slice_rows(vars[1], 0..rows)?, tape.slice_rows(vars[1], 1..rows + 1)?);
            tape.multiply(one, other)
        });
    }
}

/// Places below `rows`: half of them the same one, some never, or none at all.
fn places(rows: usize) -> [Arc<Vec<u32>>; 3] {
    let some = (0..3 * rows as u32 / 2 + 2).map(|i| i.wrapping_mul(2_654_435_761) % rows.max(1) as u32);
    let mostly = (0..1500u32).map(|i| if i % 2 == 0 { rows as u32 / 2 } else { i % rows.max(1) as u32 });
    [some.collect(), mostly.collect(), vec![]].map(Arc::new)
}

#[test]
fn gathered_and_scattered() {
    for (rows, columns) in [(1, 1), (7, 3), (100, 16), (300, 64), (20_000, 5), (9, 0)] {
        for indices in places(rows) {
            let name = |what: &str| format!("{what} {} of {rows} x {columns}", indices.len());
            let x = wanted(vec![numbers(rows, columns, 1), numbers(indices.len(), columns, 2)]);
            same(&name("gather"), &x, |tape, vars| tape.gather(vars[0], indices.clone()));
            same(&name("gather twice"), &x, |tape, vars| {
                let (one, other) = (tape.gather(vars[0], indices.clone())?, vars[1]);
                let all = tape.gather(vars[0], indices.clone())?;
                tape.add_all(&[one, other, all])
            });
            same(&name("scatter"), &x, |tape, vars| tape.scatter(vars[1], indices.clone(), rows));
            same(&name("scatter twice"), &x, |tape, vars| {
                let one = tape.scatter(vars[1], indices.clone(), rows)?;
                let other = tape.scatter(vars[1], indices.clone(), rows)?;
                tape.add_all(&[one, other, vars[0]])
            });
        }
    }
    let none = wanted(vec![numbers(0, 3, 1)]);
    same("gather from nothing", &none, |tape, vars| tape.gather(vars[0], Arc::new(vec![])));
}

#[test]
fn summaries() {
    for (rows, columns, count) in
        [(1, 1, 1), (5, 3, 2), (5, 3, 9), (0, 3, 2), (4, 3, 0), (300, 33, 64), (20_000, 16, 100)]
    {
        let mut inputs = wanted(vec![numbers(rows, columns, 1), numbers(columns, 1, 2)]);
        let name = format!("summary, {count} of {rows} x {columns}");
        same(&name, &inputs, |tape, vars| tape.summary(vars[0], vars[1], count));
        same(&format!("{name}, twice"), &inputs, |tape, vars| {
            let one = tape.summary(vars[0], vars[1], count)?;
            let other = tape.summary(vars[0], vars[1], count)?;
            tape.multiply(one, other)
        });
        inputs[0].1 = false;
        same(&format!("{name} of a constant"), &inputs, |tape, vars| tape.summary(vars[0], vars[1], count));
    }
    let zeros = (kymo_tensor::Shape::new(3, 1), vec![0.0; 3]);
    let inputs = wanted(vec![numbers(9, 3, 1), zeros]);
    same("a vector of zeros", &inputs, |tape, vars| tape.summary(vars[0], vars[1], 4));
}

#[test]
fn the_highest_are_the_same_where_scores_are_nearly_equal() {
    let Some(device) = device(kymo_tensor::cuda::Precision::Single) else { return };
    // A few values only, so that many scores are equal, and others differ by their rounding.
    let coarse = |rows, columns, salt| {
        let (shape, mut values) = numbers(rows, columns, salt);
        values.iter_mut().for_each(|value| *value = (*value * 1.5).round() * 0.1);
        (shape, values)
    };
    let (x, score) = (coarse(20_000, 5, 1), numbers(5, 1, 2));
    let run = |arena: &Arena| {
        let mut tape = Tape::new(arena);
        let (x, score) = (tape.constant(x.0, &x.1).unwrap(), tape.constant(score.0, &score.1).unwrap());
        let made = tape.scale(x, 1.0).unwrap();
        [x, made].map(|x| [1, 77, 5000, 30_000].map(|count| tape.highest(x, score, count).unwrap()))
    };
    assert!(run(&Arena::new()) == run(&Arena::on(device)));
}
