//! Losses, with weights and without.

use kymo_tensor::{Arena, Result, Shape, Tape, Var};

use crate::compare::{Input, device, numbers, same};
use crate::elementwise::SHAPES;

type Loss = fn(&mut Tape<'_>, Var, Var, Option<Var>, f32) -> Result<Var>;

const LOSSES: [(&str, Loss); 3] = [
    ("squared error", |tape, x, target, weights, scale| tape.mse(x, target, weights, scale)),
    ("absolute error", |tape, x, target, weights, scale| tape.mae(x, target, weights, scale)),
    ("binary cross entropy", |tape, x, target, weights, scale| {
        tape.binary_cross_entropy(x, target, weights, scale)
    }),
];

/// Weights of rows, every third of them zero.
fn weights(rows: usize) -> (Shape, Vec<f32>) {
    let (shape, mut values) = numbers(rows, 1, 3);
    values
        .iter_mut()
        .enumerate()
        .for_each(|(row, value)| *value = if row % 3 == 0 { 0.0 } else { value.abs() });
    (shape, values)
}

#[test]
fn number_by_number() {
    for (name, loss) in LOSSES {
        for (rows, columns) in SHAPES.into_iter().chain([(100_000, 7)]) {
            let mut x = numbers(rows, columns, 1);
            x.1.iter_mut().for_each(|value| *value *= 5.0);
            let mut target = numbers(rows, columns, 2);
            target.1.iter_mut().for_each(|value| *value = value.abs());
            let inputs: Vec<Input> = vec![(x, true), (target, false), (weights(rows), false)];
            let name = format!("{name}, {rows} x {columns}");
            let scale = 1.0 / (rows * columns).max(1) as f32;
            same(&name, &inputs, |tape, vars| loss(tape, vars[0], vars[1], None, scale));
            same(&format!("{name}, weighted"), &inputs, |tape, vars| {
                loss(tape, vars[0], vars[1], Some(vars[2]), scale)
            });
            same(&format!("{name}, twice and scaled"), &inputs, |tape, vars| {
                let one = loss(tape, vars[0], vars[1], None, scale)?;
                let other = loss(tape, vars[0], vars[1], Some(vars[2]), 0.3 * scale)?;
                let sum = tape.add(one, other)?;
                tape.scale(sum, 0.7)
            });
        }
        let extremes = (Shape::new(2, 2), vec![1e4, -1e4, 0.0, 1e-9]);
        let inputs: Vec<Input> = vec![(extremes, true), (numbers(2, 2, 1), false)];
        same(&format!("{name} of extremes"), &inputs, |tape, vars| loss(tape, vars[0], vars[1], None, 1.0));
    }
}

#[test]
fn rows_without_weight_may_hold_anything() {
    for (name, loss) in LOSSES {
        let column = |values: [f32; 3]| (Shape::new(3, 1), values.to_vec());
        let inputs: Vec<Input> = vec![
            (column([f32::NAN, 1.0, 2.0]), true),
            (column([0.0, f32::NAN, 1.0]), false),
            (column([0.0, 0.0, 0.5]), false),
        ];
        same(name, &inputs, |tape, vars| loss(tape, vars[0], vars[1], Some(vars[2]), 1.0));
    }
    let logits = (Shape::new(3, 2), vec![f32::NAN, 1.0, f32::NAN, 1.0, 0.5, 2.0]);
    let column = |values: [f32; 3]| ((Shape::new(3, 1), values.to_vec()), false);
    let inputs: Vec<Input> = vec![(logits, true), column([-1.0, 1.0, 1.0]), column([1.0, 0.0, 0.5])];
    same("cross entropy", &inputs, |tape, vars| {
        tape.cross_entropy(vars[0], vars[1], None, Some(vars[2]), 1.0)
    });
}

#[test]
fn cross_entropy() {
    for (rows, columns) in [(1, 1), (1, 9), (7, 2), (300, 33), (50, 100), (20_000, 5), (0, 3)] {
        let mut x = numbers(rows, columns, 1);
        x.1.iter_mut().for_each(|value| *value *= 5.0);
        let class = |row: usize| (row * 7919 % (columns + 1)) as f32 - 1.0;
        let classes = (Shape::new(rows, 1), (0..rows).map(class).collect());
        let mut by_class = numbers(1, columns, 4);
        by_class.1.iter_mut().for_each(|value| *value = value.abs());
        let inputs: Vec<Input> = vec![(x, true), (classes, false), (by_class, false), (weights(rows), false)];
        let scale = 1.0 / rows.max(1) as f32;
        for (has_class_weights, has_weights) in [(false, false), (true, false), (false, true), (true, true)] {
            let name =
                format!("cross entropy, {rows} x {columns}, weights {has_class_weights} {has_weights}");
            same(&name, &inputs, |tape, vars| {
                let by_class = has_class_weights.then_some(vars[2]);
                let loss =
                    tape.cross_entropy(vars[0], vars[1], by_class, has_weights.then_some(vars[3]), scale)?;
                tape.scale(loss, 1.5)
            });
        }
        same("cross entropy of one class, twice", &inputs, |tape, vars| {
            let first = tape.filled(Shape::new(rows, 1), 0.0);
            let one = tape.cross_entropy(vars[0], first, None, None, scale)?;
            let other = tape.cross_entropy(vars[0], vars[1], None, None, scale)?;
            tape.add(one, other)
        });
    }
    let extremes = (Shape::new(2, 3), vec![1e4, -1e4, 0.0, 1e-9, -1e4, 1e4]);
    let classes = (Shape::new(2, 1), vec![1.0, 1.0]);
    same("extremes", &[(extremes, true), (classes, false)], |tape, vars| {
        tape.cross_entropy(vars[0], vars[1], None, None, 0.3)
    });
}

#[test]
fn wrong_classes_are_refused() {
    let Some(device) = device(kymo_tensor::cuda::Precision::Single) else { return };
    let arena = Arena::on(device);
    for class in [3.0, 0.5, -2.0, f32::NAN] {
        let (x, classes) = (numbers(2, 3, 1), [0.0, class]);
        let mut tape = Tape::new(&arena);
        let x = tape.constant(x.0, &x.1).unwrap();
        let given = tape.constant(Shape::new(2, 1), &classes).unwrap();
        let filled = tape.filled(Shape::new(2, 1), class);
        for classes in [given, filled] {
            let error = tape.cross_entropy(x, classes, None, None, 1.0).unwrap_err().to_string();
            assert!(error.contains("expected -1 or a whole number below 3"), "{error}");
        }
        // What a kernel made is not looked at, and shows in the loss.
        let made = tape.scale(given, 1.0).unwrap();
        let loss = tape.cross_entropy(x, made, None, None, 1.0).unwrap();
        assert!(tape.read(loss).unwrap()[0].is_nan());
    }
}
