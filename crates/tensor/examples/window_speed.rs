//! How fast one training step of T-GCN is, from aggregated features on, against the arithmetic alone.
//!
//! The product `A X` of each snapshot is taken as given. A step is: four gated cells, a linear head and a squared error at
//! each, the gradients of all, and Adam.
#![allow(clippy::print_stdout)]

use std::time::Instant;

use kymo_tensor::optim::{Adam, AdamSettings, Optimiser};
use kymo_tensor::{Arena, Result, Shape, Tape, Var, View, ops};
use rayon::prelude::*;

const ROWS: usize = 50_000;
const WINDOW: usize = 4;
const FEATURES: usize = 32;
const WIDTH: usize = 64;

fn main() -> Result<()> {
    let peak = (0..3).map(|_| peak(256, 64, 192)).fold(0.0, f64::max);
    println!("threads                {:>10}", rayon::current_num_threads());
    println!("peak, 256 x 64 x 192   {peak:>10.1} GFLOP/s");
    let features: Vec<Vec<f32>> = (0..WINDOW).map(|step| numbers(ROWS * FEATURES, step, 1.0)).collect();
    let targets: Vec<Vec<f32>> = (0..WINDOW).map(|step| numbers(ROWS, 10 + step, 1.0)).collect();
    let mut parameters = vec![
        numbers(FEATURES * 3 * WIDTH, 20, 0.1),
        numbers(3 * WIDTH, 21, 0.1),
        numbers(WIDTH * 3 * WIDTH, 22, 0.1),
        numbers(WIDTH, 23, 0.1),
        numbers(1, 24, 0.1),
    ];
    let arena = Arena::new();
    let mut adam = Adam::new(AdamSettings::default());
    let mut losses = Vec::new();
    losses.push(step(&arena, &features, &targets, &mut parameters, &mut adam)?);
    let after_first = arena.bytes();
    let mut times = Vec::new();
    for _ in 0..7 {
        let start = Instant::now();
        losses.push(step(&arena, &features, &targets, &mut parameters, &mut adam)?);
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    let (input, state) = (2 * FEATURES * 3 * WIDTH, 2 * WIDTH * 3 * WIDTH);
    let flops = |states: usize| (ROWS * (WINDOW * 2 * input + states * 3 * state)) as f64;
    println!("losses                 {:>10.6} to {:.6}", losses[0], losses[losses.len() - 1]);
    println!("step, median of 7      {:>10.1} ms (from {:.1} to {:.1})", times[3], times[0], times[6]);
    for (states, what) in [(WINDOW, "all states"), (WINDOW - 1, "as done: no first state")] {
        let floor = flops(states) / (peak * 1e6);
        println!("arithmetic             {floor:>10.1} ms, ratio {:.2} ({what})", times[3] / floor);
    }
    println!(
        "arena                  {:>10.1} MB, {} bytes more after the first step",
        after_first as f64 / 1e6,
        arena.bytes() - after_first
    );
    println!("peak memory            {:>10} kB", peak_memory().unwrap_or_default());
    Ok(())
}

/// One training step; the loss before it.
fn step(
    arena: &Arena,
    features: &[Vec<f32>],
    targets: &[Vec<f32>],
    parameters: &mut [Vec<f32>],
    adam: &mut Adam,
) -> Result<f32> {
    let mut tape = Tape::new(arena);
    let mut by_row = Vec::new();
    for values in features {
        by_row.push(tape.constant(Shape::new(ROWS, FEATURES), values)?);
    }
    for values in targets {
        by_row.push(tape.constant(Shape::new(ROWS, 1), values)?);
    }
    let shapes = [(FEATURES, 3 * WIDTH), (1, 3 * WIDTH), (WIDTH, 3 * WIDTH), (WIDTH, 1), (1, 1)];
    let mut shared: Vec<Var> = Vec::new();
    for ((rows, columns), values) in shapes.into_iter().zip(parameters.iter()) {
        shared.push(tape.parameter(Shape::new(rows, columns), values)?);
    }
    let scale = 1.0 / (ROWS * WINDOW) as f32;
    let loss = tape.sum_by_rows(ROWS, &by_row, &shared, move |tape, _, by_row, shared| {
        let (features, targets) = by_row.split_at(WINDOW);
        let (mut state, mut losses) = (None, Vec::with_capacity(WINDOW));
        for (&x, &target) in features.iter().zip(targets) {
            let next = tape.gated_cell_with_input(x, shared[0], shared[1], state, shared[2])?;
            let prediction = tape.linear(next, shared[3], shared[4])?;
            losses.push(tape.mse(prediction, target, None, scale)?);
            state = Some(next);
        }
        tape.add_all(&losses)
    })?;
    let value = tape.value(loss)[0];
    let mut gradients = tape.backward(loss)?;
    let taken: Vec<Vec<f32>> = shared.iter().map(|&var| gradients.take(var).unwrap_or_default()).collect();
    drop(gradients);
    drop(tape);
    adam.step(parameters, &taken, 1e-3)?;
    taken.into_iter().for_each(|gradient| arena.give(gradient));
    Ok(value)
}

/// GFLOP a second of products of this shape, on all threads, each with matrices of its own.
fn peak(rows: usize, inner: usize, columns: usize) -> f64 {
    let threads = rayon::current_num_threads();
    let repeats = 4_000;
    let mut all: Vec<[Vec<f32>; 3]> = (0..threads)
        .map(|at| {
            [
                numbers(rows * inner, at, 1.0),
                numbers(inner * columns, at, 1.0),
                numbers(rows * columns, at, 1.0),
            ]
        })
        .collect();
    let start = Instant::now();
    all.par_iter_mut().for_each(|[x, w, y]| {
        let (x, w) = (
            View { shape: Shape::new(rows, inner), values: x },
            View { shape: Shape::new(inner, columns), values: w },
        );
        (0..repeats).for_each(|_| ops::multiply(x, w, y));
    });
    (2 * rows * inner * columns * threads * repeats) as f64 / start.elapsed().as_secs_f64() / 1e9
}

/// Fixed numbers of a given size.
fn numbers(length: usize, salt: usize, size: f32) -> Vec<f32> {
    let value = |i: usize| ((i + salt * 7919).wrapping_mul(2_654_435_761) >> 8) % 2000;
    (0..length).map(|i| (value(i) as f32 / 1000.0 - 1.0) * size).collect()
}

/// The most memory that the process ever had, in kilobytes.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next()?.parse().ok())
}
