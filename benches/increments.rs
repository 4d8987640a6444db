//! Products of consecutive snapshots made out of each other, beside each made from nothing, by how much
//! changes between them: `cargo bench --bench increments`.
//!
//! Eight snapshots of 1.8 M edges, 64 columns that a gradient flows into, forward and backward, with
//! transposes and what changes found anew every time, as for snapshots that pass through memory. Values are
//! means over in-neighbours. Nothing here decides a test; the costs in `crates/tensor/src/change.rs` follow
//! from it. The last two columns are what they take, and the regret: the part of the quicker way's time that
//! is lost by it.

#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Instant;

use kymo::graph::generate::{self, Params};
use kymo::graph::{Snapshot, StepEdges};
use kymo::tensor::{Arena, Change, Pattern, Resident, Shape, Tape, Var};

const EDGES: usize = 1_800_000;
const WIDTH: usize = 64;
const STEPS: usize = 8;

/// The rows of a snapshot, and where they begin.
type Arrays = (Vec<u64>, Vec<u32>);

fn snapshots(vertices: usize, change: f64) -> Vec<Arrays> {
    let kind = generate::find("power-law").unwrap();
    let params =
        Params { vertices, edges: EDGES, steps: STEPS, edge_change: change, features: 0, ..kind.defaults() };
    let (mut snapshot, mut all) = (Snapshot::default(), Vec::new());
    for step in generate::generate(kind, &params).unwrap() {
        let StepEdges::Delta(delta) = step.unwrap().edges else { continue };
        snapshot = delta.apply(&snapshot).unwrap();
        let rows = snapshot.by_target(vertices);
        all.push((rows.starts.to_vec(), rows.columns.to_vec()));
    }
    all
}

/// A matrix that takes means.
fn mean(vertices: usize, (starts, places): &Arrays) -> (Arc<Pattern>, Arc<Resident>) {
    let mut values = vec![0.0; places.len()];
    for pair in starts.windows(2) {
        values[pair[0] as usize..pair[1] as usize].fill(1.0 / (pair[1] - pair[0]) as f32);
    }
    let pattern = Pattern::new(vertices, starts.clone(), places.clone()).unwrap();
    (Arc::new(pattern), Arc::new(values.into()))
}

/// How products are made.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Whole,
    Increments,
    /// As the costs say.
    Chosen,
}

/// Seconds of one pass forward and backward, the least of three; what it comes to; increments taken.
fn pass(vertices: usize, all: &[Arrays], x: &[f32], way: Way) -> (f64, f32, usize) {
    let (arena, mut least, mut found, mut taken) = (Arena::new(), f64::MAX, 0.0, 0);
    for _ in 0..4 {
        let matrices: Vec<_> = all.iter().map(|arrays| mean(vertices, arrays)).collect();
        let begun = Instant::now();
        let mut tape = Tape::new(&arena);
        let x = tape.parameter(Shape::new(vertices, WIDTH), x).unwrap();
        let mut products: Vec<Var> = Vec::new();
        taken = 0;
        for (number, (pattern, values)) in matrices.iter().enumerate() {
            let change = match (way, number.checked_sub(1).map(|before| &matrices[before])) {
                (Way::Whole, _) | (_, None) => None,
                (Way::Increments, Some((old, was))) => Change::always((old, was), (pattern, values)).unwrap(),
                (Way::Chosen, Some((old, was))) => Change::between((old, was), (pattern, values)).unwrap(),
            };
            let product = match (change, products.last()) {
                (Some(change), Some(&before)) => {
                    taken += 1;
                    tape.increment(change, x, before).unwrap()
                }
                _ => tape.spmm_fixed(pattern.clone(), values.clone(), x).unwrap(),
            };
            products.push(product);
        }
        let sums: Vec<Var> = products.iter().map(|&product| tape.sum(product).unwrap()).collect();
        let sum = tape.add_all(&sums).unwrap();
        tape.backward(sum).unwrap();
        least = least.min(begun.elapsed().as_secs_f64());
        found = tape.value(sum).unwrap()[0];
    }
    (least, found, taken)
}

fn main() {
    println!("{} threads", rayon::current_num_threads());
    println!("degree  change  whole, ms  increments, ms  ratio  chosen, ms  taken  regret");
    for vertices in [180_000, 18_000] {
        let x: Vec<f32> = (0..vertices * WIDTH).map(|i| ((i * 7919) % 1009) as f32 / 504.5 - 1.0).collect();
        for change in [0.002, 0.01, 0.05, 0.13, 0.2, 0.3, 0.5] {
            let all = snapshots(vertices, change);
            let (whole, expected, _) = pass(vertices, &all, &x, Way::Whole);
            let (out_of_each_other, found, _) = pass(vertices, &all, &x, Way::Increments);
            assert!((found - expected).abs() <= 1e-3 * expected.abs().max(100.0), "{found} and {expected}");
            let (chosen, _, taken) = pass(vertices, &all, &x, Way::Chosen);
            let best = whole.min(out_of_each_other);
            println!(
                "{:>6}  {:>4.1} %  {:>9.0}  {:>14.0}  {:>5.2}  {:>10.0}  {taken:>3}/{}  {:>4.0} %",
                EDGES / vertices,
                100.0 * change,
                1e3 * whole,
                1e3 * out_of_each_other,
                whole / out_of_each_other,
                1e3 * chosen,
                STEPS - 1,
                100.0 * (chosen / best - 1.0).max(0.0),
            );
        }
    }
}
