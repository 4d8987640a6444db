//! Attention at consecutive snapshots at once, beside attention at each of them, by how much changes between
//! them: `cargo bench --bench attention`.
//!
//! 169,000 vertices, 1.8 M edges, 64 columns, 4 heads; forward and backward, with the transposes and what is
//! found out about the edges made anew every time, as for snapshots that pass through memory. Nothing here
//! decides a test; the usual `parallel.break_even` follows from it. The last columns are regrets, the part of
//! the quicker way's time that is lost, by that rule and by the curve that is fitted on this machine.

#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Instant;

use kymo::graph::generate::{self, Params};
use kymo::graph::{Snapshot, StepEdges};
use kymo::run::Settings;
use kymo::run::config::BreakEven;
use kymo::run::schedule::Curve;
use kymo::tensor::{Arena, Pattern, Shape, Spans, Tape, Var};

const VERTICES: usize = 169_000;
const EDGES: usize = 1_800_000;
const WIDTH: usize = 64;
const HEADS: usize = 4;

type Arrays = (Vec<u64>, Vec<u32>);

/// The rows of consecutive snapshots, with a loop at every vertex.
fn snapshots(change: f64, steps: usize) -> Vec<Arrays> {
    let kind = generate::find("power-law").unwrap();
    let params = Params {
        vertices: VERTICES,
        edges: EDGES,
        steps,
        edge_change: change,
        features: 0,
        ..kind.defaults()
    };
    let (mut snapshot, mut all) = (Snapshot::default(), Vec::new());
    for step in generate::generate(kind, &params).unwrap() {
        let StepEdges::Delta(delta) = step.unwrap().edges else { continue };
        snapshot = delta.apply(&snapshot).unwrap();
        let rows = snapshot.by_target(VERTICES);
        let (mut starts, mut places) = (vec![0], Vec::new());
        for (vertex, pair) in rows.starts.windows(2).enumerate() {
            let mut row = rows.columns[pair[0] as usize..pair[1] as usize].to_vec();
            row.push(vertex as u32);
            row.sort_unstable();
            row.dedup();
            places.extend(row);
            starts.push(places.len() as u64);
        }
        all.push((starts, places));
    }
    all
}

fn numbers(columns: usize, seed: usize) -> Vec<f32> {
    (0..VERTICES * columns).map(|i| ((i * 7919 + seed * 104_729) % 1009) as f32 / 504.5 - 1.0).collect()
}

/// Seconds of one pass forward and backward, the least of three, and the sum it comes to.
fn pass(all: &[Arrays], values: &[Vec<f32>; 3], at_once: bool) -> (f64, f32) {
    let (arena, mut least, mut found) = (Arena::new(), f64::MAX, 0.0);
    for _ in 0..4 {
        let pattern = |(starts, places): &Arrays| {
            Arc::new(Pattern::new(VERTICES, starts.clone(), places.clone()).unwrap())
        };
        let patterns: Vec<Arc<Pattern>> = all.iter().map(pattern).collect();
        let begun = Instant::now();
        let mut tape = Tape::new(&arena);
        let mut var = |which: usize, columns: usize| {
            tape.parameter(Shape::new(VERTICES, columns), &values[which]).unwrap()
        };
        let [left, right, x] = [var(0, HEADS), var(1, HEADS), var(2, WIDTH)];
        let steps: Vec<Var> = match at_once {
            true => {
                let spans = Arc::new(Spans::new(&patterns).unwrap());
                tape.graph_attention_of_spans(spans, [left, right, x], 0.2).unwrap().unwrap()
            }
            false => {
                let one = |pattern: &Arc<Pattern>| {
                    tape.graph_attention(pattern.clone(), left, right, x, 0.2).unwrap()
                };
                patterns.iter().map(one).collect()
            }
        };
        let sums: Vec<Var> = steps.iter().map(|&step| tape.sum(step).unwrap()).collect();
        let sum = tape.add_all(&sums).unwrap();
        tape.backward(sum).unwrap();
        least = least.min(begun.elapsed().as_secs_f64());
        found = tape.value(sum).unwrap()[0];
    }
    (least, found)
}

fn main() {
    let threads = rayon::current_num_threads();
    println!("{threads} threads");
    let begun = Instant::now();
    let curve = Curve::of_machine(WIDTH, HEADS, threads).unwrap();
    let (fixed, fitted) = (Settings::default().parallel.break_even.parse().unwrap(), curve.break_even());
    println!(
        "break-even {fixed}; fitted in {:.1} s: {fitted}, where seconds are {:.0} % off on average",
        begun.elapsed().as_secs_f64(),
        100.0 * curve.error
    );
    println!(
        "snapshots  change  edges once / of each  of each, ms  at once, ms  of each / at once  \
         taken    regret  fitted   regret"
    );
    let values = [numbers(HEADS, 1), numbers(HEADS, 2), numbers(WIDTH, 3)];
    for steps in [4, 8] {
        for change in [0.01, 0.05, 0.13, 0.2, 0.3, 0.6] {
            let all = snapshots(change, steps);
            let (each, expected) = pass(&all, &values, false);
            let (once, found) = pass(&all, &values, true);
            assert!((found - expected).abs() <= 1e-3 * expected.abs().max(1.0), "{found} and {expected}");
            let patterns = all.into_iter().map(|(starts, places)| Pattern::new(VERTICES, starts, places));
            let patterns: Vec<Arc<Pattern>> = patterns.map(|pattern| Arc::new(pattern.unwrap())).collect();
            let spans = Spans::new(&patterns).unwrap();
            let share = spans.pattern().entries() as f64 / spans.entries_of_all() as f64;
            // As training guesses it: half of what changes is new.
            let guess = (1.0 + (steps - 1) as f64 * change / 2.0) / steps as f64;
            let degree = 1.0 + EDGES as f64 / VERTICES as f64;
            let by = |even: BreakEven| match guess <= even.at(degree) {
                true => format!("at once  {:>5.0} %", 100.0 * (once / once.min(each) - 1.0)),
                false => format!("of each  {:>5.0} %", 100.0 * (each / once.min(each) - 1.0)),
            };
            println!(
                "{steps:>9}  {:>4.0} %  {share:>20.2}  {:>11.0}  {:>11.0}  {:>17.2}  {}  {}",
                100.0 * change,
                1e3 * each,
                1e3 * once,
                each / once,
                by(fixed),
                by(fitted)
            );
        }
    }
}
