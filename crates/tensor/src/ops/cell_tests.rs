//! Checks of the fused cells: gradients, the same cells made of elementary operations, threads, extremes,
//! shapes.

use super::pieces::tests::{equal, numbers, run, same_for_any_thread_count};
use crate::check::gradient;
use crate::{Arena, Result, Shape, Tape, Var};

type Inputs = Vec<(Shape, Vec<f32>)>;
type Build = fn(&mut Tape<'_>, &[Var]) -> Result<Var>;

/// x, W, b, h, U, c and gates for a cell of `gates` gates whose state has `parts` parts.
fn inputs(rows: usize, features: usize, width: usize, gates: usize, parts: usize) -> Inputs {
    vec![
        numbers(rows, features, 1),
        numbers(features, gates * width, 2),
        numbers(1, gates * width, 3),
        numbers(rows, parts * width, 4),
        numbers(width, gates * width, 5),
        numbers(1, gates * width, 6),
        numbers(rows, gates * width, 7),
    ]
}

const SHAPES: [(usize, usize, usize); 5] = [(1, 1, 1), (1, 3, 2), (5, 1, 1), (3, 2, 5), (4, 3, 2)];

/// Every cell, with how many gates it has and of how many parts its state is, and the same cell made of
/// elementary operations.
fn cells() -> Vec<(&'static str, usize, usize, Build, Build)> {
    vec![
        ("gated", 3, 1, |t, v| t.gated_cell(v[6], Some(v[3]), v[4]), |t, v| gated(t, v[6], v[3], v[4])),
        (
            "gated with input",
            3,
            1,
            |t, v| t.gated_cell_with_input(v[0], v[1], v[2], Some(v[3]), v[4]),
            |t, v| {
                let gates = t.linear(v[0], v[1], v[2])?;
                t.gated_cell(gates, Some(v[3]), v[4])
            },
        ),
        (
            "gated without state",
            3,
            1,
            |t, v| t.gated_cell_with_input(v[0], v[1], v[2], None, v[4]),
            |t, v| {
                let (gates, zero) = (t.linear(v[0], v[1], v[2])?, t.filled(t.shape(v[3]), 0.0));
                gated(t, gates, zero, v[4])
            },
        ),
        ("gru", 3, 1, |t, v| t.gru_cell(v[6], Some(v[3]), v[4], v[5]), |t, v| gru(t, v[6], v[3], v[4], v[5])),
        (
            "gru with input",
            3,
            1,
            |t, v| t.gru_cell_with_input(v[0], v[1], v[2], Some(v[3]), v[4], v[5]),
            |t, v| {
                let gates = t.linear(v[0], v[1], v[2])?;
                t.gru_cell(gates, Some(v[3]), v[4], v[5])
            },
        ),
        (
            "gru without state",
            3,
            1,
            |t, v| t.gru_cell_with_input(v[0], v[1], v[2], None, v[4], v[5]),
            |t, v| {
                let (gates, zero) = (t.linear(v[0], v[1], v[2])?, t.filled(t.shape(v[3]), 0.0));
                gru(t, gates, zero, v[4], v[5])
            },
        ),
        ("lstm", 4, 2, |t, v| t.lstm_cell(v[0], v[1], v[2], Some(v[3]), v[4]), |t, v| lstm(t, v, v[3])),
        (
            "lstm of gates",
            4,
            2,
            |t, v| {
                let gates = t.linear(v[0], v[1], v[2])?;
                t.lstm_cell_of_gates(gates, Some(v[3]), v[4])
            },
            |t, v| t.lstm_cell(v[0], v[1], v[2], Some(v[3]), v[4]),
        ),
        (
            "lstm of gates without state",
            4,
            2,
            |t, v| t.lstm_cell_of_gates(v[6], None, v[4]),
            |t, v| {
                let zero = t.filled(t.shape(v[3]), 0.0);
                t.lstm_cell_of_gates(v[6], Some(zero), v[4])
            },
        ),
        (
            "lstm without state",
            4,
            2,
            |t, v| t.lstm_cell(v[0], v[1], v[2], None, v[4]),
            |t, v| {
                let zero = t.filled(t.shape(v[3]), 0.0);
                lstm(t, v, zero)
            },
        ),
    ]
}

fn gate(t: &mut Tape<'_>, x: Var, which: usize, width: usize) -> Result<Var> {
    t.slice_columns(x, which * width..(which + 1) * width)
}

/// `z * a + (1 - z) * b`.
fn mix(t: &mut Tape<'_>, z: Var, a: Var, b: Var) -> Result<Var> {
    let (za, zb) = (t.multiply(z, a)?, t.multiply(z, b)?);
    let rest = t.subtract(b, zb)?;
    t.add(za, rest)
}

fn gated(t: &mut Tape<'_>, gates: Var, h: Var, u: Var) -> Result<Var> {
    let width = t.shape(h).columns;
    let pre = |t: &mut Tape<'_>, which: usize, h: Var| {
        let (a, u) = (gate(t, gates, which, width)?, gate(t, u, which, width)?);
        let product = t.matmul(h, u)?;
        t.add(a, product)
    };
    let (z, r) = (pre(t, 0, h)?, pre(t, 1, h)?);
    let (z, r) = (t.sigmoid(z)?, t.sigmoid(r)?);
    let reset = t.multiply(r, h)?;
    let n = pre(t, 2, reset)?;
    let n = t.tanh(n)?;
    mix(t, z, h, n)
}

fn gru(t: &mut Tape<'_>, gates: Var, h: Var, u: Var, c: Var) -> Result<Var> {
    let width = t.shape(h).columns;
    let hidden = t.linear(h, u, c)?;
    let both = t.add(gates, hidden)?;
    let (r, z) = (gate(t, both, 0, width)?, gate(t, both, 1, width)?);
    let (r, z) = (t.sigmoid(r)?, t.sigmoid(z)?);
    let (a, hidden) = (gate(t, gates, 2, width)?, gate(t, hidden, 2, width)?);
    let reset = t.multiply(r, hidden)?;
    let n = t.add(a, reset)?;
    let n = t.tanh(n)?;
    mix(t, z, h, n)
}

fn lstm(t: &mut Tape<'_>, v: &[Var], state: Var) -> Result<Var> {
    let width = t.shape(state).columns / 2;
    let (h, c) = (t.lstm_output(state)?, gate(t, state, 1, width)?);
    let (from_input, from_state) = (t.linear(v[0], v[1], v[2])?, t.matmul(h, v[4])?);
    let all = t.add(from_input, from_state)?;
    let [i, f, g, o] =
        [gate(t, all, 0, width)?, gate(t, all, 1, width)?, gate(t, all, 2, width)?, gate(t, all, 3, width)?];
    let (i, f, g, o) = (t.sigmoid(i)?, t.sigmoid(f)?, t.tanh(g)?, t.sigmoid(o)?);
    let (kept, new) = (t.multiply(f, c)?, t.multiply(i, g)?);
    let c = t.add(kept, new)?;
    let tangent = t.tanh(c)?;
    let h = t.multiply(o, tangent)?;
    t.concatenate_columns(&[h, c])
}

#[test]
fn gradients_are_those_of_differences() {
    for (name, gates, parts, fused, _) in cells() {
        for (rows, features, width) in SHAPES {
            let inputs = inputs(rows, features, width, gates, parts);
            gradient(&inputs, 1e-2, fused).unwrap_or_else(|error| panic!("{name}: {error}"));
        }
    }
}

#[test]
fn fused_cells_are_those_made_of_elementary_operations() {
    for (_, gates, parts, fused, elementary) in cells() {
        for (rows, features, width) in SHAPES.into_iter().chain([(300, 5, 17)]) {
            let mut inputs = inputs(rows, features, width, gates, parts);
            // A state weight that is not used has no gradient, which stands for zeros.
            let zeros =
                |values: Vec<f32>, length: usize| if values.is_empty() { vec![0.0; length] } else { values };
            inputs[4].1.iter_mut().for_each(|value| *value *= 0.5);
            let lengths: Vec<usize> = inputs.iter().map(|(_, values)| values.len()).collect();
            let [found, expected] = [fused, elementary].map(|build| run(&inputs, &build));
            super::pieces::tests::assert_close(
                &found[0],
                expected[0].iter().map(|&value| f64::from(value)),
                "value",
            );
            for (index, (found, expected)) in found.into_iter().zip(expected).skip(1).enumerate() {
                let expected = zeros(expected, lengths[index]).into_iter().map(f64::from);
                super::pieces::tests::assert_close(&zeros(found, lengths[index]), expected, "gradient");
            }
        }
    }
}

#[test]
fn a_window_of_cells_is_that_of_elementary_ones() {
    let window = |t: &mut Tape<'_>, v: &[Var], cell: &dyn Fn(&mut Tape<'_>, Var) -> Result<Var>| {
        let mut state = v[3];
        for _ in 0..3 {
            state = cell(t, state)?;
        }
        Ok(state)
    };
    equal(
        &inputs(20, 3, 4, 3, 1),
        |t, v| window(t, v, &|t, h| t.gated_cell_with_input(v[0], v[1], v[2], Some(h), v[4])),
        |t, v| {
            let gates = t.linear(v[0], v[1], v[2])?;
            window(t, v, &|t, h| gated(t, gates, h, v[4]))
        },
    );
    equal(
        &inputs(20, 3, 4, 4, 2),
        |t, v| window(t, v, &|t, state| t.lstm_cell(v[0], v[1], v[2], Some(state), v[4])),
        |t, v| window(t, v, &|t, state| lstm(t, v, state)),
    );
}

/// A window of cells with a head and a loss, for some rows.
fn window(t: &mut Tape<'_>, x: Var, shared: &[Var]) -> Result<Var> {
    let (mut state, mut losses) = (None, Vec::new());
    for _ in 0..3 {
        let next = t.gated_cell_with_input(x, shared[0], shared[1], state, shared[2])?;
        let prediction = t.matmul(next, shared[3])?;
        let target = t.filled(t.shape(prediction), 0.5);
        losses.push(t.mse(prediction, target, None, 1e-3)?);
        state = Some(next);
    }
    t.add_all(&losses)
}

#[test]
fn a_window_by_rows_is_that_of_the_whole_and_takes_no_new_memory_after_the_first_step() {
    let all = inputs(3001, 3, 4, 3, 1);
    let inputs = [&all[0..3], &all[4..5], &[numbers(4, 1, 9)]].concat();
    let by_rows = |t: &mut Tape<'_>, v: &[Var]| {
        t.sum_by_rows(3001, &v[..1], &v[1..], |t, _, by_row, shared| window(t, by_row[0], shared))
    };
    equal(&inputs, by_rows, |t, v| window(t, v[0], &v[1..]));
    same_for_any_thread_count(&inputs, by_rows);
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let arena = Arena::new();
    let step = || {
        let mut t = Tape::new(&arena);
        let vars: Vec<Var> =
            inputs.iter().map(|(shape, values)| t.parameter(*shape, values).unwrap()).collect();
        let sum = by_rows(&mut t, &vars).unwrap();
        t.backward(sum).unwrap();
        arena.bytes()
    };
    let first = pool.install(step);
    assert!((0..3).all(|_| pool.install(step) == first));
}

#[test]
fn any_thread_count_gives_the_same() {
    for (_, gates, parts, fused, _) in cells() {
        same_for_any_thread_count(&inputs(5003, 3, 4, gates, parts), fused);
    }
}

#[test]
fn extremes_are_finite() {
    for (name, gates, parts, fused, _) in cells() {
        let mut inputs = inputs(6, 3, 4, gates, parts);
        for (index, values) in [(0, 1), (2, 0), (5, 0), (6, 1)] {
            let sign = if values == 0 { 1e4 } else { -1e4 };
            inputs[index].1.iter_mut().for_each(|value| *value *= sign);
        }
        let all = run(&inputs, &fused);
        assert!(all.iter().flatten().all(|value| value.is_finite()), "{name}");
    }
}

#[test]
fn wrong_shapes_and_empty_ones() {
    let arena = Arena::new();
    let mut t = Tape::new(&arena);
    let mut filled = |rows, columns| t.filled(Shape::new(rows, columns), 0.5);
    let (x, w, b, h, u) = (filled(4, 2), filled(2, 9), filled(1, 9), filled(4, 3), filled(3, 9));
    let (wrong, none) = (filled(4, 4), filled(0, 9));
    let error = |result: Result<Var>| result.unwrap_err().to_string();
    assert_eq!(
        error(t.gated_cell_with_input(x, w, b, Some(wrong), u)),
        "gated cell: the state is 4 x 4, expected 4 x 3"
    );
    assert_eq!(
        error(t.gated_cell(wrong, None, u)),
        "gated cell: the gates have 4 columns, expected a multiple of 3"
    );
    assert_eq!(
        error(t.gru_cell_with_input(x, w, b, Some(h), wrong, b)),
        "gru cell: the state weight is 4 x 4, expected 3 x 9"
    );
    assert_eq!(
        error(t.gru_cell_with_input(x, b, b, None, u, b)),
        "gru cell: the input weight is 1 x 9, expected 2 x 9"
    );
    assert_eq!(
        error(t.lstm_cell(x, w, b, None, u)),
        "lstm cell: the gates have 9 columns, expected a multiple of 4"
    );
    assert!(t.lstm_output(h).is_err());
    let state = t.gated_cell(none, None, u).unwrap();
    assert_eq!(t.shape(state), Shape::new(0, 3));
}
