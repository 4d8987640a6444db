//! Recurrent cells, with and without a state, from gates and from an input.

use kymo_tensor::cuda::Precision;

use crate::compare::{Input, numbers, same, same_within, wanted};

/// Rows, input and state columns.
const SIZES: [(usize, usize, usize); 6] =
    [(1, 1, 1), (3, 5, 2), (1000, 128, 64), (130, 64, 64), (17_001, 48, 32), (257, 33, 7)];

/// Which of the inputs want gradients: all, or all but the first.
fn variants(inputs: Vec<Input>) -> [Vec<Input>; 2] {
    let mut constant = inputs.clone();
    constant[0].1 = false;
    [inputs, constant]
}

#[test]
fn long_short_term_memory() {
    for (rows, inner, width) in SIZES {
        let all = wanted(vec![
            numbers(rows, inner, 1),
            numbers(inner, 4 * width, 2),
            numbers(1, 4 * width, 3),
            numbers(rows, 2 * width, 4),
            numbers(width, 4 * width, 5),
        ]);
        for inputs in variants(all) {
            same("lstm", &inputs, |tape, v| tape.lstm_cell(v[0], v[1], v[2], Some(v[3]), v[4]));
            same("lstm without a state", &inputs[..3], |tape, v| {
                tape.lstm_cell(v[0], v[1], v[2], None, v[1])
            });
            same("two steps of lstm", &inputs, |tape, v| {
                let once = tape.lstm_cell(v[0], v[1], v[2], Some(v[3]), v[4])?;
                tape.lstm_cell(v[0], v[1], v[2], Some(once), v[4])
            });
            same("two windows of lstm that share gates", &inputs, |tape, v| {
                let gates = tape.linear(v[0], v[1], v[2])?;
                let once = tape.lstm_cell_of_gates(gates, None, v[4])?;
                let twice = tape.lstm_cell_of_gates(gates, Some(once), v[4])?;
                let other = tape.lstm_cell_of_gates(gates, Some(v[3]), v[4])?;
                tape.add(twice, other)
            });
        }
    }
}

#[test]
fn gated_recurrent_unit() {
    for (rows, inner, width) in SIZES {
        let all = wanted(vec![
            numbers(rows, inner, 1),
            numbers(inner, 3 * width, 2),
            numbers(1, 3 * width, 3),
            numbers(rows, width, 4),
            numbers(width, 3 * width, 5),
            numbers(1, 3 * width, 6),
            numbers(rows, 3 * width, 7),
        ]);
        for inputs in variants(all) {
            same("gru", &inputs[..6], |tape, v| {
                tape.gru_cell_with_input(v[0], v[1], v[2], Some(v[3]), v[4], v[5])
            });
            same("two steps of gru", &inputs[..6], |tape, v| {
                let once = tape.gru_cell_with_input(v[0], v[1], v[2], None, v[4], v[5])?;
                tape.gru_cell_with_input(v[0], v[1], v[2], Some(once), v[4], v[5])
            });
            same("gru of gates", &inputs[3..], |tape, v| tape.gru_cell(v[3], Some(v[0]), v[1], v[2]));
        }
    }
}

#[test]
fn gated_cell() {
    for (rows, inner, width) in SIZES {
        let all = wanted(vec![
            numbers(rows, inner, 1),
            numbers(inner, 3 * width, 2),
            numbers(1, 3 * width, 3),
            numbers(rows, width, 4),
            numbers(width, 3 * width, 5),
            numbers(rows, 3 * width, 7),
        ]);
        for inputs in variants(all) {
            same("gated", &inputs[..5], |tape, v| {
                tape.gated_cell_with_input(v[0], v[1], v[2], Some(v[3]), v[4])
            });
            same("two steps of gated", &inputs[..5], |tape, v| {
                let once = tape.gated_cell_with_input(v[0], v[1], v[2], None, v[4])?;
                tape.gated_cell_with_input(v[0], v[1], v[2], Some(once), v[4])
            });
            same("gated of gates", &inputs[3..], |tape, v| tape.gated_cell(v[2], Some(v[0]), v[1]));
            same("gated of gates alone", &inputs[5..], |tape, v| tape.gated_cell(v[0], None, v[0]));
        }
    }
}

/// With factors rounded to TF32, cells take their products inside where the widths allow it: one tile,
/// several, and a last one that is not full; wide, narrow, and widths that do not.
#[test]
fn rounded_cells() {
    for (rows, inner, width) in [
        (64, 64, 64),
        (20_011, 128, 64),
        (17_001, 64, 64),
        (70, 32, 32),
        (20_000, 16, 16),
        (300, 24, 16),
        (65, 40, 64),
        (50, 20, 64),
    ] {
        let of = |gates: usize, state: usize| {
            wanted(vec![
                numbers(rows, inner, 1),
                numbers(inner, gates * width, 2),
                numbers(1, gates * width, 3),
                numbers(rows, state * width, 4),
                numbers(width, gates * width, 5),
                numbers(1, gates * width, 6),
            ])
        };
        // A row of products is a sum of up to 192 of them, each off by a thousandth at most, most of which
        // cancel out.
        let (precision, tolerances) = (Precision::Tf32, [1e-2, 2e-2]);
        for inputs in variants(of(4, 2)) {
            same_within(precision, tolerances, "rounded lstm", &inputs[..5], |tape, v| {
                let once = tape.lstm_cell(v[0], v[1], v[2], None, v[4])?;
                let twice = tape.lstm_cell(v[0], v[1], v[2], Some(v[3]), v[4])?;
                let thrice = tape.lstm_cell(v[0], v[1], v[2], Some(once), v[4])?;
                tape.concatenate_columns(&[twice, thrice])
            });
        }
        for inputs in variants(of(3, 1)) {
            same_within(precision, tolerances, "rounded gru", &inputs, |tape, v| {
                let once = tape.gru_cell_with_input(v[0], v[1], v[2], None, v[4], v[5])?;
                let twice = tape.gru_cell_with_input(v[0], v[1], v[2], Some(v[3]), v[4], v[5])?;
                let thrice = tape.gru_cell_with_input(v[0], v[1], v[2], Some(once), v[4], v[5])?;
                tape.concatenate_columns(&[twice, thrice])
            });
            same_within(precision, tolerances, "rounded gated", &inputs[..5], |tape, v| {
                let once = tape.gated_cell_with_input(v[0], v[1], v[2], None, v[4])?;
                let twice = tape.gated_cell_with_input(v[0], v[1], v[2], Some(v[3]), v[4])?;
                let thrice = tape.gated_cell_with_input(v[0], v[1], v[2], Some(once), v[4])?;
                tape.concatenate_columns(&[twice, thrice])
            });
        }
    }
}
