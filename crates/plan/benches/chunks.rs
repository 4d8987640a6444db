//! Chunks of DGC: `cargo bench -p kymo-plan --bench chunks [-- EDGES [STEPS]]`.
//!
//! First, seconds of a round of label propagation over those of one pass over the edges of all steps that
//! looks at both ends of each in a list (what counting a cut takes), in the same run. Then, for a few graphs,
//! the seconds that a window is expected to take with chunks and with simpler layouts, over those of the
//! fastest. Nothing here decides a test.

#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::path::Path;
use std::time::Instant;

use kymo_graph::generate::{self, Params};
use kymo_graph::random::Random;
use kymo_graph::store::{Plan, Writer};
use kymo_graph::{Edge, Ids, Progress, Snapshot, StepData, StepEdges, Store};
use kymo_plan::Ask;
use kymo_plan::partition::chunks::{Cells, ChunkGraph, Chunks, Problem, expected_seconds, greedy, improved};
use kymo_plan::partition::find;
use rayon::prelude::*;

/// Layouts that are compared.
const NAMES: [&str; 6] = ["chunks", "chunks-greedy", "snapshot", "sequence", "snapshot-sequence", "metis"];

fn main() {
    let mut numbers = std::env::args().skip(1).filter_map(|arg| arg.parse::<usize>().ok());
    let (edges, steps) = (numbers.next().unwrap_or(200_000), numbers.next().unwrap_or(16));
    let folder = tempfile::tempdir().unwrap();
    let generated = |kind: &str| {
        let vertices = edges / 10;
        let params = Params { vertices, edges, steps, features: 0, ..Params::GENERIC };
        let path = folder.path().join(kind);
        generate::write(generate::find(kind).unwrap(), &params, &path, false, &Progress::default()).unwrap()
    };
    let graphs = [
        ("uniform", generated("uniform")),
        ("power-law", generated("power-law")),
        ("lasting", communities(&folder.path().join("lasting"), edges, steps, usize::MAX)),
        ("drifting", communities(&folder.path().join("drifting"), edges, steps, 4)),
    ];
    println!(
        "{:10} | {:>9} | {:>8} {:>8} {:>6} {:>6} {:>7} | {:>8} {:>8} {:>8} {:>8}",
        "graph",
        "cells",
        "pass s",
        "round s",
        "ratio",
        "rounds",
        "chunks",
        "graph s",
        "assign s",
        "printed",
        "improved"
    );
    for (name, store) in &graphs {
        speed(name, store);
    }
    println!(
        "\n{:10} {:>6} {:>7} |{}",
        "graph",
        "window",
        "workers",
        NAMES.map(|name| format!(" {name:>17}")).concat()
    );
    for (name, store) in &graphs {
        for (window, workers) in [(steps, 4), (4, 4), (steps, 16)] {
            quality(name, store, window, workers);
        }
    }
}

fn ask(store: &Store, window: usize, workers: usize) -> Ask<'_> {
    Ask { window, ..Ask::all_of(store, workers, 7) }
}

/// The time of label propagation and of what comes after it.
fn speed(name: &str, store: &Store) {
    let ask = ask(store, store.steps(), 4);
    let cells = Cells::new(&ask).unwrap();
    let owners: Vec<u32> = (0..store.vertices() as u64).map(|v| Random::new(1).word(v) as u32 % 4).collect();
    let cut = |step: usize| {
        let snapshot = store.snapshot(step).unwrap();
        let between = |edge: &&Edge| owners[edge.source() as usize] != owners[edge.target() as usize];
        snapshot.edges.iter().filter(between).count()
    };
    let pass = || {
        let begin = Instant::now();
        let cut: usize = (0..store.steps()).into_par_iter().map(cut).sum();
        assert!(cut > 0);
        begin.elapsed().as_secs_f64()
    };
    // The fastest of a few is the one least disturbed by others.
    let pass = (0..5).map(|_| pass()).fold(f64::INFINITY, f64::min);
    let begin = Instant::now();
    let chunks = Chunks::find(&ask, &cells).unwrap();
    let round = begin.elapsed().as_secs_f64() / chunks.rounds as f64;
    let begin = Instant::now();
    let graph = ChunkGraph::of(&cells, &chunks).unwrap();
    let made = begin.elapsed().as_secs_f64();
    let problem = Problem::new(&graph, 4, &ask.traffic, &ask.traffic, 1.0);
    let printed = problem.seconds_of(&greedy(&problem));
    let begin = Instant::now();
    let found = problem.seconds_of(&improved(&problem));
    println!(
        "{name:10} | {:>9} | {pass:>8.4} {round:>8.4} {:>6.2} {:>6} {:>7} | {made:>8.3} {:>8.3} \
         {printed:>8.4} {found:>8.4}",
        cells.count(),
        round / pass,
        chunks.rounds,
        chunks.count,
        begin.elapsed().as_secs_f64(),
    );
}

/// The seconds that layouts are expected to take, over those of the fastest.
fn quality(name: &str, store: &Store, window: usize, workers: usize) {
    let ask = ask(store, window, workers);
    let made = NAMES.map(|name| find(name).unwrap().partition(&ask).unwrap());
    let seconds: Vec<f64> = made.iter().map(|made| expected_seconds(&ask, made).unwrap()).collect();
    let least = seconds.iter().copied().fold(f64::INFINITY, f64::min);
    let told: String = seconds.iter().map(|seconds| format!(" {:>17.3}", seconds / least)).collect();
    println!("{name:10} {window:>6} {workers:>7} |{told}");
    println!("{:27}{}", "", made[0].note.as_deref().unwrap_or_default());
}

/// Communities of about a hundred vertices with scattered numbers, nearly all of whose edges stay within;
/// every few steps they are made anew, so that what belongs together in time is no vertex for good.
fn communities(path: &Path, edges: usize, steps: usize, lasting: usize) -> Store {
    let vertices = (edges / 10).max(200);
    let count = vertices / 100;
    let mut writer = Writer::create(path, false).unwrap();
    writer.plan(Plan { directed: true, ..Plan::default() });
    writer.add_vertices(&Ids::Number((0..vertices as u64).collect())).unwrap();
    for step in 0..steps {
        let of = Random::new(11).stream((step / lasting) as u64);
        let mut members = vec![Vec::new(); count];
        let homes: Vec<usize> = (0..vertices as u64).map(|vertex| of.below(count, vertex)).collect();
        (0..vertices).for_each(|vertex| members[homes[vertex]].push(vertex as u32));
        let random = Random::new(12).stream(step as u64);
        let edge = |number: usize| {
            let draw = |bound: usize, at: u64| random.below(bound, 3 * number as u64 + at);
            let target = draw(vertices, 0);
            let home = &members[homes[target]];
            let source =
                if number.is_multiple_of(20) { draw(vertices, 1) as u32 } else { home[draw(home.len(), 2)] };
            Edge::new(source, target as u32)
        };
        let edges = StepEdges::All(Snapshot::from_edges((0..edges).map(edge).collect()));
        writer.push(StepData { edges, ..StepData::default() }).unwrap();
    }
    writer.finish().unwrap()
}
