//! Batches of some vertices: taking them out of their snapshots against copying as many bytes, measured in
//! turns in the same run: `cargo bench --bench batches`.
//!
//! Each line has the ratio of the two and the limit it is held to. Nothing here decides a test.

#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::hint::black_box;
use std::time::Instant;

use kymo::graph::generate;
use kymo::graph::{Progress, Vertex};
use kymo::model::graph::{Near, Sight};
use kymo::model::{Graph, Normalisation};
use kymo::plan::Drawn;
use rayon::prelude::*;

/// Snapshots of a window.
const WINDOW: usize = 4;

/// Times that everything is measured; the fastest counts, the one least disturbed by others.
const TIMES: usize = 15;

/// What a batch is allowed to take, in times of copying it.
const LIMIT: f64 = 3.0;

fn main() {
    let kind = generate::find("power-law").unwrap();
    let params = generate::Params {
        vertices: 169_000,
        edges: 1_800_000,
        steps: WINDOW,
        edge_change: 0.1,
        features: 0,
        ..kind.defaults()
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = generate::write(kind, &params, &path, true, &Progress::silent()).unwrap();
    let asked = {
        let seen = Graph::new(vec![0, 0], Vec::new(), None).unwrap();
        seen.normalised(Normalisation::Both).unwrap();
        seen.asked()
    };
    let graph = |t: usize| {
        let rows = store.snapshot(t).unwrap().by_target(store.vertices());
        Graph::new(rows.starts, rows.columns, None).unwrap().reduced(asked).unwrap()
    };
    let graphs: Vec<Graph> = (0..WINDOW).map(graph).collect();
    let graphs: Vec<&Graph> = graphs.iter().collect();
    println!(
        "batches of windows of {WINDOW} snapshots: {} vertices, {} edges, {} threads; the fastest of {TIMES}",
        params.vertices,
        params.edges,
        rayon::current_num_threads()
    );
    println!(
        "  drawn  edges far  columns   vertices seen       taking out   copying   ratio (limit {LIMIT})"
    );
    for parts in [100, 20, 5] {
        let drawn = Drawn { part: 0, parts, seed: 7 };
        let targets = drawn.of(params.vertices);
        for hops in [1, 2] {
            for columns in [0, 2, 128] {
                measure(&graphs, &targets, hops, columns, parts);
            }
        }
    }
    let vertices = params.vertices;
    let drawn = Drawn { part: 0, parts: 20, seed: 7 };
    let seconds = fastest(|| drop(black_box(drawn.division(vertices))));
    println!("the division of an epoch into 20 parts: {:.2} ms, drawn once", seconds * 1e3);
}

fn fastest(mut run: impl FnMut()) -> f64 {
    let timed = |_| {
        let begun = Instant::now();
        run();
        begun.elapsed().as_secs_f64()
    };
    (0..TIMES).map(timed).fold(f64::INFINITY, f64::min)
}

fn measure(graphs: &[&Graph], targets: &[Vertex], hops: usize, columns: usize, parts: usize) {
    let vertices = graphs[0].vertices();
    let features = vec![1.0f32; vertices * columns];
    let mut sight = Sight::default();
    let take_out = |sight: &mut Sight| {
        let near = Near::new(targets, hops, graphs, sight).unwrap();
        let sight = &*sight;
        let out: Vec<(Graph, Vec<f32>)> = graphs
            .par_iter()
            .map(|graph| {
                let mut rows: Vec<f32> = sight.pool().take(near.vertices.len() * columns);
                gather(&features, columns, &near.vertices, &mut rows);
                (graph.near(&near).unwrap(), rows)
            })
            .collect();
        (near, out)
    };
    let (near, first) = take_out(&mut sight);
    let seen = near.vertices.len();
    // What there is to be copied: beginnings of rows, columns, factors of both ends, and columns of features.
    let matrix = |graph: &Graph| graph.normalised(Normalisation::Both).unwrap();
    let matrices: Vec<_> = first.iter().map(|(graph, _)| matrix(graph)).collect();
    let arrays = |number: usize| {
        let (matrix, features) = (&matrices[number], &first[number].1);
        (matrix.pattern.starts(), matrix.pattern.places(), matrix.values.factors().unwrap(), &features[..])
    };
    let copy = |number: usize| {
        let (starts, places, factors, features) = arrays(number);
        (starts.to_vec(), places.to_vec(), factors.to_vec(), features.to_vec())
    };
    let mut copies: Vec<_> = (0..WINDOW).map(copy).collect();
    sight.keep(usize::MAX);
    let (mut taken, mut copied) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..TIMES {
        let begun = Instant::now();
        let (near, out) = black_box(take_out(&mut sight));
        taken = taken.min(begun.elapsed().as_secs_f64());
        drop(near);
        out.into_iter().for_each(|(_, rows)| sight.pool().give(rows));
        let begun = Instant::now();
        copies.par_iter_mut().enumerate().for_each(|(number, into)| {
            let (starts, places, factors, features) = arrays(number);
            into.0.copy_from_slice(starts);
            into.1.copy_from_slice(places);
            into.2.copy_from_slice(factors);
            into.3.copy_from_slice(features);
        });
        copied = copied.min(begun.elapsed().as_secs_f64());
        black_box(&copies);
    }
    println!(
        "  {:>4} %  {hops:>9} {columns:>8}  {seen:>8} ({:>3.0} %) {:>12.2} ms {:>6.2} ms {:>7.2}",
        100 / parts,
        100.0 * seen as f64 / vertices as f64,
        taken * 1e3,
        copied * 1e3,
        taken / copied
    );
}

fn gather(features: &[f32], columns: usize, vertices: &[Vertex], into: &mut [f32]) {
    if columns == 0 {
        return;
    }
    into.par_chunks_mut(columns * 1024).zip(vertices.par_chunks(1024)).for_each(|(into, vertices)| {
        for (row, &vertex) in into.chunks_exact_mut(columns).zip(vertices) {
            row.copy_from_slice(&features[vertex as usize * columns..][..columns]);
        }
    });
}
