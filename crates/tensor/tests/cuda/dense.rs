//! Dense operations.

use crate::compare::{numbers, same, wanted};

/// Rows, inner and output columns: wide, narrow, one row, odd.
const SIZES: [(usize, usize, usize); 7] =
    [(20_000, 64, 1), (999, 33, 4), (1, 1, 1), (3, 5, 2), (1000, 64, 192), (257, 33, 7), (20_000, 16, 64)];

#[test]
fn layers() {
    for (rows, inner, columns) in SIZES {
        let inputs =
            wanted(vec![numbers(rows, inner, 1), numbers(inner, columns, 2), numbers(1, columns, 3)]);
        same("matmul", &inputs[..2], |tape, vars| tape.matmul(vars[0], vars[1]));
        same("linear", &inputs, |tape, vars| tape.linear(vars[0], vars[1], vars[2]));
        same("linear relu", &inputs, |tape, vars| tape.linear_relu(vars[0], vars[1], vars[2]));
        let mut constant = inputs.clone();
        constant[0].1 = false;
        same("linear of a constant", &constant, |tape, vars| tape.linear(vars[0], vars[1], vars[2]));
        let beside =
            wanted(vec![numbers(rows, inner, 1), numbers(2 * inner, columns, 2), numbers(1, columns, 3)]);
        same("twice the same matrix", &beside, |tape, vars| {
            tape.linear_of(&[vars[0], vars[0]], vars[1], vars[2])
        });
    }
}
