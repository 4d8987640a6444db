//! Products of consecutive snapshots made out of each other, beside each made from nothing, by how much
//! changes between them: `cargo bench --bench increments`.
//!
//! Eight snapshots of 1.8 M edges, 64 columns that a gradient flows into, forward and backward, with
//! transposes and what changes found anew every time, as for snapshots that pass through memory. Values are
//! means over in-neighbours, or products of factors of both ends (`both`, the usual normalisation of graph
//! convolution). `rows` sums the rows anew of which an entry changed, with the bits of `whole`. Nothing here
//! decides a test; the costs in `crates/tensor/src/change.rs` follow from it. `chosen` is what is taken by
//! these, `fitted` by a curve that is fitted to this machine first (`parallel.change_costs`), each with its
//! regret: the part of the quicker way's time that is lost by it.

#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Instant;

use kymo::graph::generate::{self, Params};
use kymo::graph::{Snapshot, StepEdges};
use kymo::run::schedule::SumCurve;
use kymo::tensor::{Arena, Change, Changed, Costs, Pattern, Resident, Shape, Tape, Var};

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

/// A matrix of the usual normalisation, with as many edges out as in.
fn symmetric(vertices: usize, (starts, places): &Arrays) -> (Arc<Pattern>, Arc<Resident>) {
    let factors = starts.windows(2).map(|pair| 1.0 / ((pair[1] - pair[0]) as f32 + 1.0).sqrt()).collect();
    let pattern = Arc::new(Pattern::new(vertices, starts.clone(), places.clone()).unwrap());
    let values = Resident::products(pattern.clone(), factors).unwrap();
    (pattern, Arc::new(values))
}

/// How a matrix is made of the rows of a snapshot.
type Make = fn(usize, &Arrays) -> (Arc<Pattern>, Arc<Resident>);

/// How products are made.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Whole,
    Increments,
    /// Rows that changed are summed anew.
    Rows,
    /// As the costs say.
    Chosen(Costs),
}

/// Seconds of one pass forward and backward, the least of three; what it comes to; increments taken.
fn pass(make: Make, vertices: usize, all: &[Arrays], x: &[f32], way: Way) -> (f64, f32, usize) {
    let (arena, mut least, mut found, mut taken) = (Arena::new(), f64::MAX, 0.0, 0);
    for _ in 0..3 {
        let matrices: Vec<_> = all.iter().map(|arrays| make(vertices, arrays)).collect();
        let begun = Instant::now();
        let mut tape = Tape::new(&arena);
        let x = tape.parameter(Shape::new(vertices, WIDTH), x).unwrap();
        let mut products: Vec<Var> = Vec::new();
        taken = 0;
        for (number, (pattern, values)) in matrices.iter().enumerate() {
            let before = number.checked_sub(1).map(|before| (&matrices[before], products[before]));
            let new = (pattern, &**values);
            let product = before.filter(|_| way != Way::Whole).and_then(|((old, was), product)| {
                let old = (old, &**was);
                match way {
                    Way::Rows => {
                        let (changed, now) = (Changed::between(old, new)?, (pattern.clone(), values.clone()));
                        Some(tape.refresh(now, changed, x, product).unwrap())
                    }
                    Way::Chosen(costs) => {
                        let change = Change::between(old, new, costs).unwrap()?;
                        Some(tape.increment(change, x, product).unwrap())
                    }
                    _ => {
                        let change = Change::always(old, new).unwrap()?;
                        Some(tape.increment(change, x, product).unwrap())
                    }
                }
            });
            taken += usize::from(product.is_some());
            let product =
                product.unwrap_or_else(|| tape.spmm_fixed(pattern.clone(), values.clone(), x).unwrap());
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
    let threads = rayon::current_num_threads();
    let begun = Instant::now();
    let fitted = SumCurve::of_machine(WIDTH, threads).unwrap();
    println!(
        "{threads} threads; fitted in {:.1} s: an entry costs {}, a row {}, seconds off by {:.0} %",
        begun.elapsed().as_secs_f64(),
        fitted.costs().entry,
        fitted.costs().row,
        100.0 * fitted.error
    );
    println!(
        "values  degree  change  whole, ms  increments  ratio    rows  ratio  chosen  taken  regret  \
         fitted  taken  regret"
    );
    let kinds: [(&str, Make); 2] = [("means", mean), ("both", symmetric)];
    for (name, make) in kinds {
        for vertices in [180_000, 18_000] {
            let x: Vec<f32> =
                (0..vertices * WIDTH).map(|i| ((i * 7919) % 1009) as f32 / 504.5 - 1.0).collect();
            for change in [0.0005, 0.002, 0.01, 0.05, 0.13, 0.3] {
                let all = snapshots(vertices, change);
                let run = |way: Way| pass(make, vertices, &all, &x, way);
                let (whole, expected, _) = run(Way::Whole);
                let (increments, found, _) = run(Way::Increments);
                assert!((found - expected).abs() <= 1e-3 * expected.abs().max(100.0), "{found}, {expected}");
                let (rows, found, _) = run(Way::Rows);
                assert!(found == expected, "{found}, {expected}");
                let best = whole.min(increments);
                print!(
                    "{name:<6}  {:>6}  {:>4.2} %  {:>9.0}  {:>10.0}  {:>5.2}  {:>6.0}  {:>5.2}",
                    EDGES / vertices,
                    100.0 * change,
                    1e3 * whole,
                    1e3 * increments,
                    whole / increments,
                    1e3 * rows,
                    whole / rows,
                );
                for costs in [Costs::default(), fitted.costs()] {
                    let (chosen, _, taken) = run(Way::Chosen(costs));
                    let regret = 100.0 * (chosen / best - 1.0).max(0.0);
                    print!("  {:>6.0}    {taken}/{}  {regret:>4.0} %", 1e3 * chosen, STEPS - 1);
                }
                println!();
            }
        }
    }
}
