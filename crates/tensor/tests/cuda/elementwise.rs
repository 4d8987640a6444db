//! Operations number by number, and sums of numbers.

use kymo_tensor::ops::Places;
use kymo_tensor::{Result, Tape, Var};

use crate::compare::{Input, device, numbers, same, wanted};

/// One number, one row, one column, odd and even widths, many rows, none.
pub const SHAPES: [(usize, usize); 8] =
    [(1, 1), (1, 9), (7, 1), (5, 3), (300, 64), (20_000, 5), (0, 3), (3, 0)];

type Build = fn(&mut Tape<'_>, &[Var]) -> Result<Var>;

const ACTIVATIONS: [(&str, Build); 5] = [
    ("relu", |tape, vars| tape.relu(vars[0])),
    ("leaky relu", |tape, vars| tape.leaky_relu(vars[0], 0.2)),
    ("elu", |tape, vars| tape.elu(vars[0])),
    ("sigmoid", |tape, vars| tape.sigmoid(vars[0])),
    ("tanh", |tape, vars| tape.tanh(vars[0])),
];

#[test]
fn activations() {
    for (name, build) in ACTIVATIONS {
        for (rows, columns) in SHAPES {
            let mut x = numbers(rows, columns, 1);
            x.1.iter_mut().for_each(|value| *value *= 4.0);
            same(&format!("{name}, {rows} x {columns}"), &wanted(vec![x]), build);
        }
        let extremes = (kymo_tensor::Shape::new(1, 4), vec![1e4, -1e4, 88.9, -1e-4]);
        same(&format!("{name} of extremes"), &wanted(vec![extremes]), build);
    }
}

const COMBINED: [(&str, Build); 9] = [
    ("add", |tape, vars| tape.add(vars[0], vars[1])),
    ("subtract", |tape, vars| tape.subtract(vars[0], vars[1])),
    ("multiply", |tape, vars| tape.multiply(vars[0], vars[1])),
    ("square", |tape, vars| tape.multiply(vars[0], vars[0])),
    ("twice", |tape, vars| tape.add(vars[0], vars[0])),
    ("scale", |tape, vars| tape.scale(vars[0], -0.7)),
    ("add all", |tape, vars| tape.add_all(&[vars[0], vars[1], vars[0], vars[1], vars[0]])),
    ("add row", |tape, vars| tape.add_row(vars[0], vars[2])),
    ("everything", |tape, vars| {
        let sum = tape.add(vars[0], vars[1])?;
        let product = tape.multiply(sum, vars[1])?;
        let row = tape.add_row(product, vars[2])?;
        let scaled = tape.scale(row, 0.3)?;
        tape.add_all(&[scaled, vars[0], vars[1], scaled])
    }),
];

#[test]
fn combinations() {
    for (name, build) in COMBINED {
        for (rows, columns) in SHAPES {
            let all = vec![numbers(rows, columns, 1), numbers(rows, columns, 2), numbers(1, columns, 3)];
            let mut inputs: Vec<Input> = wanted(all);
            same(&format!("{name}, {rows} x {columns}"), &inputs, build);
            inputs[0].1 = false;
            same(&format!("{name} of a constant, {rows} x {columns}"), &inputs, build);
        }
    }
}

#[test]
fn reductions() {
    let all: [(&str, Build); 6] = [
        ("sum", |tape, vars| tape.sum(vars[0])),
        ("sum over rows", |tape, vars| tape.sum_over_rows(vars[0])),
        ("mean", |tape, vars| tape.mean(vars[0])),
        ("mean over rows", |tape, vars| tape.mean_over_rows(vars[0])),
        ("sum and itself", |tape, vars| {
            let (sum, mean) = (tape.sum(vars[0])?, tape.sum(vars[0])?);
            tape.add(sum, mean)
        }),
        ("sums over rows, twice", |tape, vars| {
            let (sum, twice) = (tape.sum_over_rows(vars[0])?, tape.sum_over_rows(vars[0])?);
            tape.add(sum, twice)
        }),
    ];
    for (name, build) in all {
        for (rows, columns) in SHAPES.into_iter().chain([(100_000, 33)]) {
            if name.starts_with("mean") && rows * columns == 0 {
                continue;
            }
            let mut x = numbers(rows, columns, 1);
            // DeviceParams from zero, so that sums do not cancel and are compared to what they are.
            x.1.iter_mut().for_each(|value| *value += 0.5);
            same(&format!("{name}, {rows} x {columns}"), &wanted(vec![x]), build);
        }
    }
}

#[test]
fn dropouts() {
    for (rows, columns) in SHAPES {
        let x = wanted(vec![numbers(rows, columns, 1)]);
        let places: Vec<u32> =
            (0..rows as u32).map(|row| row.wrapping_mul(2_654_435_761) % 3_000_000_000).collect();
        for rate in [0.1, 0.5, 0.9] {
            same(&format!("dropout {rate}, {rows} x {columns}"), &x, |tape, vars| {
                tape.dropout(vars[0], rate, 7, Places::From(0))
            });
            same(&format!("dropout {rate} of later rows, {rows} x {columns}"), &x, |tape, vars| {
                tape.dropout(vars[0], rate, u64::MAX, Places::From(5_000_000_000))
            });
            same(&format!("dropout {rate} of some rows, {rows} x {columns}"), &x, |tape, vars| {
                tape.dropout(vars[0], rate, 1 << 63, Places::Rows(&places))
            });
        }
    }
}

#[test]
fn dropouts_drop_the_same_numbers() {
    let Some(device) = device(kymo_tensor::cuda::Precision::Single) else { return };
    let x = numbers(1000, 33, 1);
    let run = |arena: &kymo_tensor::Arena| {
        let mut tape = Tape::new(arena);
        let x = tape.constant(x.0, &x.1).unwrap();
        let y = tape.dropout(x, 0.3, 12_345, Places::From(3)).unwrap();
        tape.read(y).unwrap().into_owned()
    };
    assert!(run(&kymo_tensor::Arena::new()) == run(&kymo_tensor::Arena::on(device)));
}
