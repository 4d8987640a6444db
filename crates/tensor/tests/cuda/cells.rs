//! Recurrent cells, with and without a state, from gates and from an input.

use crate::compare::{Input, numbers, same, wanted};

/// Rows, input and state columns.
const SIZES: [(usize, usize, usize); 5] =
    [(1, 1, 1), (3, 5, 2), (1000, 128, 64), (130, 64, 64), (257, 33, 7)];

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
