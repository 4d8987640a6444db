//! The engine and the models against the arithmetic and the memory of the machine, measured in the same run:
//! `cargo bench --bench engine [NAME...]`.
//!
//! Names: `t-gcn`, `spmm`, `ops`, `models`, `scale`, `pairs`. Each line ends with the ratio to its bound;
//! nothing here decides a test.

#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use kymo::graph::generate::{self, Params as Kind};
use kymo::graph::{Snapshot, StepEdges};
use kymo::model::{Config, Exchanged, Frame, Graph, Model, Params, loss_by_rows, zoo};
use kymo::tensor::optim::{Adam, AdamSettings, Optimiser};
use kymo::tensor::pattern::Pattern;
use kymo::tensor::{Arena, Shape, Tape, Tiles, Var, View, ops};
use rayon::prelude::*;

const FEATURES: usize = 32;
const HIDDEN: usize = 64;
const WINDOW: usize = 4;

fn main() {
    let chosen: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let wanted = |name: &str| chosen.is_empty() || chosen.iter().any(|chosen| chosen == name);
    println!("{} threads", rayon::current_num_threads());
    let benches: [(&str, fn()); 6] = [
        ("t-gcn", t_gcn),
        ("spmm", spmm),
        ("ops", operations),
        ("models", models),
        ("scale", scale),
        ("pairs", pairs),
    ];
    for (name, bench) in benches {
        if wanted(name) {
            // On a thread of the pool, as training runs: a call from outside would wake it anew for every
            // operation.
            rayon::scope(|_| bench());
        }
    }
}

/// Milliseconds of `runs` runs: the median, after one to warm up.
fn median(runs: usize, mut run: impl FnMut()) -> f64 {
    run();
    let timed = |_| {
        let begun = Instant::now();
        run();
        begun.elapsed().as_secs_f64() * 1e3
    };
    let mut times: Vec<f64> = (0..runs).map(timed).collect();
    times.sort_by(f64::total_cmp);
    times[runs / 2]
}

/// What the `gemm` crate reaches on this machine in the shapes of the cells, all threads, in GFLOP/s: the
/// best of several.
fn peak() -> f64 {
    let (rows, inner, columns, times) = (256, HIDDEN, 3 * HIDDEN, 400);
    let run = || {
        let threads = rayon::current_num_threads();
        let begun = Instant::now();
        (0..threads).into_par_iter().for_each(|_| {
            let (x, w, mut y) =
                (vec![0.5; rows * inner], vec![0.1; inner * columns], vec![0.0; rows * columns]);
            for _ in 0..times {
                let x = View { shape: Shape::new(rows, inner), values: &x };
                ops::multiply(x, View { shape: Shape::new(inner, columns), values: &w }, &mut y);
                black_box(&mut y);
            }
        });
        2.0 * (rows * inner * columns * times * threads) as f64 / begun.elapsed().as_secs_f64() / 1e9
    };
    (0..8).map(|_| run()).fold(0.0, f64::max)
}

/// Seconds to copy an array with all threads.
fn copy(from: &[f32], to: &mut [f32]) -> f64 {
    let begun = Instant::now();
    to.par_chunks_mut(1 << 18).zip(from.par_chunks(1 << 18)).for_each(|(to, from)| to.copy_from_slice(from));
    begun.elapsed().as_secs_f64()
}

/// Bytes read and written per second by copying a large array with all threads: the best of several.
fn copy_bandwidth() -> f64 {
    let (from, mut to) = (numbers(32 << 20), vec![0.0; 32 << 20]);
    let times = (0..8).map(|_| copy(&from, &mut to));
    8.0 * from.len() as f64 / times.fold(f64::INFINITY, f64::min)
}

/// Snapshots of a generated graph as the models see them.
fn graphs(kind: &str, vertices: usize, edges: usize, steps: usize) -> Vec<Graph> {
    let kind = generate::find(kind).unwrap();
    let params = Kind { vertices, edges, steps, features: 0, ..kind.defaults() };
    let mut snapshot = Snapshot::default();
    let mut all = Vec::new();
    for step in generate::generate(kind, &params).unwrap() {
        let StepEdges::Delta(delta) = step.unwrap().edges else { continue };
        snapshot = delta.apply(&snapshot).unwrap();
        let rows = snapshot.by_target(vertices);
        all.push(Graph::new(rows.starts, rows.columns, rows.weights).unwrap());
    }
    all
}

fn numbers(length: usize) -> Vec<f32> {
    (0..length as u32).map(|i| ((i.wrapping_mul(2654435761) >> 8) % 2000) as f32 / 1000.0 - 1.0).collect()
}

/// One model on one graph, ready to be trained: mean squared error of a linear head after every step of the
/// window.
struct Training {
    model: Box<dyn Model>,
    params: Params,
    optimiser: Adam,
    head: Vec<f32>,
    graphs: Vec<Graph>,
    features: Vec<f32>,
    targets: Vec<f32>,
    arena: Arena,
}

impl Training {
    fn new(name: &str, layers: usize, graphs: Vec<Graph>) -> Training {
        let config = Config {
            features: FEATURES,
            hidden: HIDDEN,
            layers,
            heads: 4,
            window: WINDOW,
            ..Config::default()
        };
        let model = zoo::find(name).unwrap().build(&config).unwrap();
        let vertices = graphs[0].vertices();
        Training {
            params: Params::new(model.slots(), 1).unwrap(),
            model,
            optimiser: Adam::new(AdamSettings::default()),
            head: numbers(HIDDEN),
            features: numbers(vertices * FEATURES),
            targets: numbers(vertices),
            graphs,
            arena: Arena::new(),
        }
    }

    /// Forward, backward and Adam; the loss.
    fn step(&mut self) -> f32 {
        let vertices = self.graphs[0].vertices();
        let (loss, gradients) = {
            let mut tape = Tape::new(&self.arena);
            let bound = self.params.bind(&mut tape).unwrap();
            let features = tape.constant(Shape::new(vertices, FEATURES), &self.features).unwrap();
            let head = tape.parameter(Shape::new(HIDDEN, 1), &self.head).unwrap();
            let window: Vec<Frame<'_>> =
                self.graphs.iter().map(|graph| Frame::new(graph, features)).collect();
            let scale = 1.0 / (vertices * WINDOW) as f32;
            let targets = &self.targets;
            let exchanged = self.model.exchange(&mut tape, &bound, &window, &[]).unwrap();
            let loss = loss_by_rows(
                &mut tape,
                &*self.model,
                &bound,
                &[Exchanged::first(&exchanged)],
                &[head],
                move |tape, rows, outputs, extra| {
                    let target = tape.copied(Shape::new(rows.len(), 1), &targets[rows])?;
                    let mut losses = Vec::with_capacity(outputs[0].steps.len());
                    for &output in &outputs[0].steps {
                        let prediction = tape.matmul(output, extra[0])?;
                        losses.push(tape.mse(prediction, target, None, scale)?);
                    }
                    tape.add_all(&losses)
                },
            )
            .unwrap();
            let mut gradients = tape.backward(loss).unwrap();
            (
                tape.value(loss).unwrap()[0],
                bound.vars().iter().map(|&var| gradients.take(var).unwrap_or_default()).collect::<Vec<_>>(),
            )
        };
        let slices: Vec<&[f32]> = gradients.iter().map(|gradient| gradient.host().unwrap()).collect();
        self.optimiser.step(&mut self.params.values, &slices, 1e-3).unwrap();
        gradients.into_iter().for_each(|gradient| gradient.give(&self.arena));
        loss
    }
}

/// The most memory this process has held, in MB.
fn peak_memory() -> f64 {
    let facts = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = facts
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse::<f64>().ok());
    line.unwrap_or(f64::NAN) / 1000.0
}

/// T-GCN on 50,000 vertices and 500,000 edges a snapshot against the time its dense products alone must take.
fn t_gcn() {
    let before = peak_memory();
    let mut training = Training::new("t-gcn", 1, graphs("power-law", 50_000, 500_000, WINDOW));
    let first = training.step();
    let held = training.arena.bytes();
    let time = median(9, || {
        black_box(training.step());
    });
    let (last, grown) = (training.step(), training.arena.bytes() - held);
    let memory = peak_memory();
    let peak = peak();
    let (f, h) = (FEATURES as f64, HIDDEN as f64);
    // Forward and weight gradient of the input at every step; forward, weight gradient and state gradient of
    // the state at every step but the first, which has none.
    let steps = WINDOW as f64;
    let products = 2.0 * steps * (2.0 * f * 3.0 * h) + 2.0 * (steps - 1.0) * (3.0 * h * 3.0 * h);
    let floor = products * 50_000.0 / peak / 1e6;
    println!("t-gcn, 50,000 vertices, 500,000 edges, window 4, 32 -> 64, forward + backward + Adam");
    println!(
        "    {time:.1} ms a step; loss {first:.4} -> {last:.4}; the arena grew \
         by {grown} bytes after the first step"
    );
    println!("    arithmetic floor: {floor:.1} ms at the {peak:.0} GFLOP/s of the gemm crate");
    println!("    ratio {:.2} (limit 1.4)", time / floor);
    println!("    peak memory of the process {memory:.0} MB (limit 350; {before:.0} before)");
}

/// Sparse times dense against copying memory, counting every gathered row, and all threads against one. They
/// take turns, and the best of the rounds are compared: what else runs on the machine can only slow a round
/// down. Two single-threaded products side by side show how much of a second core the machine gives.
fn spmm() {
    let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let other = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let (from, mut to) = (numbers(32 << 20), vec![0.0; 32 << 20]);
    println!("sparse times dense; copying counts what is read and what is written");
    for (kind, vertices, edges) in [
        ("uniform", 50_000, 500_000),
        ("power-law", 50_000, 500_000),
        ("uniform", 500_000, 5_000_000),
        ("power-law", 500_000, 5_000_000),
    ] {
        let graph = graphs(kind, vertices, edges, 1).remove(0);
        let matrix = graph.normalised(Default::default()).unwrap();
        let pattern: Arc<Pattern> = matrix.pattern;
        for width in [32, 64, 128] {
            let arena = Arena::new();
            let x = arena.copied(&numbers(vertices * width));
            // Short products are repeated within a round: waking a thread is not what is measured.
            let repeats = (100_000_000 / (pattern.entries() * width)).max(1);
            let product = || {
                let begun = Instant::now();
                for _ in 0..repeats {
                    let mut tape = Tape::new(&arena);
                    let x = tape.constant(Shape::new(vertices, width), &x).unwrap();
                    black_box(tape.spmm_fixed(pattern.clone(), matrix.values.clone(), x).unwrap());
                }
                begun.elapsed().as_secs_f64() / repeats as f64
            };
            let mut rounds: [Vec<f64>; 4] = Default::default();
            for _ in 0..21 {
                rounds[0].push(product());
                rounds[1].push(one.install(product));
                rounds[2].push(copy(&from, &mut to));
                let (first, second) = rayon::join(|| one.install(product), || other.install(product));
                rounds[3].push((first + second) / 4.0);
            }
            let [all, single, copying, apart] =
                rounds.map(|times| times.into_iter().fold(f64::INFINITY, f64::min));
            let bytes = (pattern.entries() * (width * 4 + 8) + vertices * width * 4) as f64;
            let bandwidth = 8.0 * from.len() as f64 / copying;
            println!(
                "    {kind:9} {:>9} entries, {width:3} columns: {:7.2} ms, {:.2} of copying at {:.1} GB/s \
                 (limit 0.7); {:.2} times one thread (limit 1.8; two products side by side: {:.2})",
                pattern.entries(),
                all * 1e3,
                bytes / all / bandwidth,
                bandwidth / 1e9,
                single / all,
                single / apart,
            );
        }
    }
}

/// Every operation, forward and backward with all gradients, against the larger of its arithmetic over the
/// product peak and its bytes over the copy bandwidth. Bytes are those that must be moved if nothing stays in
/// a cache: inputs and outputs once forward; inputs, upstream and gradients (read and written) once backward.
fn operations() {
    let (peak, bandwidth) = (peak() * 1e9, copy_bandwidth());
    println!("operations on 50,000 rows of 64 (sparse ones: 550,000 entries), forward and backward");
    let (rows, width) = (50_000, 64);
    let graph = graphs("power-law", rows, 500_000, 1).remove(0);
    let pattern = graph.with_loops().unwrap();
    let entries = pattern.entries();
    let own = |rows: usize, columns: usize| (Shape::new(rows, columns), numbers(rows * columns));
    let show = |name: &str, inputs: Vec<(Shape, Vec<f32>)>, flops: f64, gathered: usize, build: Build| {
        let (arena, ones) = (Arena::new(), vec![1.0; 4 * entries.max(rows * width)]);
        let mut moved = 0;
        let time = median(5, || {
            let mut tape = Tape::new(&arena);
            let vars: Vec<Var> =
                inputs.iter().map(|(shape, values)| tape.parameter(*shape, values).unwrap()).collect();
            let output = build(&mut tape, &vars, &pattern);
            let length = tape.value(output).unwrap().len();
            black_box(tape.backward_with(output, &ones[..length]).unwrap());
            moved =
                inputs.iter().map(|(shape, _)| 4 * shape.len()).sum::<usize>() + 2 * length + 2 * gathered;
        });
        let floor = (flops / peak).max(4.0 * moved as f64 / bandwidth) * 1e3;
        let bound = if flops / peak * 1e3 >= floor { "arithmetic" } else { "memory" };
        println!("    {name:22} {time:7.2} ms, {:.2} of the floor by {bound}", floor / time);
    };
    let product = |inner: usize, columns: usize| 3.0 * 2.0 * (rows * inner * columns) as f64;
    let x = || own(rows, width);
    let scores = || own(entries, 4);
    show("linear", vec![x(), own(width, width), own(1, width)], product(width, width), 0, |t, v, _| {
        t.linear(v[0], v[1], v[2]).unwrap()
    });
    let gates = product(width, 3 * width);
    let cell = || vec![own(rows, 3 * width), x(), own(width, 3 * width)];
    show("gated cell", cell(), gates, 0, |t, v, _| t.gated_cell(v[0], Some(v[1]), v[2]).unwrap());
    let mut inputs = cell();
    inputs.push(own(1, 3 * width));
    show("gru cell", inputs, gates, 0, |t, v, _| t.gru_cell(v[0], Some(v[1]), v[2], v[3]).unwrap());
    let inputs =
        vec![x(), own(width, 4 * width), own(1, 4 * width), own(rows, 2 * width), own(width, 4 * width)];
    show("lstm cell", inputs, 2.0 * product(width, 4 * width), 0, |t, v, _| {
        t.lstm_cell(v[0], v[1], v[2], Some(v[3]), v[4]).unwrap()
    });
    let window: Vec<_> = (0..3 * WINDOW).map(|_| x()).collect();
    show("attention over time", window, 0.0, 0, |t, v, _| {
        t.attention(&v[..WINDOW], &v[WINDOW..2 * WINDOW], &v[2 * WINDOW..], 4, true).unwrap()
    });
    let rows_of_entries = entries * width;
    show("spmm, weights learnt", vec![own(entries, 1), x()], 0.0, 3 * rows_of_entries / 2, |t, v, p| {
        t.spmm(p.clone(), Some(v[0]), v[1]).unwrap()
    });
    show("spmm, 4 heads", vec![scores(), x()], 0.0, 3 * rows_of_entries / 2, |t, v, p| {
        t.spmm_heads(p.clone(), v[0], v[1]).unwrap()
    });
    show("sddmm", vec![x(), x()], 0.0, 3 * rows_of_entries / 2, |t, v, p| {
        t.sddmm(p.clone(), v[0], v[1], 1).unwrap()
    });
    show("edge scores, 4 heads", vec![own(rows, 4), own(rows, 4)], 0.0, 2 * entries * 4, |t, v, p| {
        t.edge_scores(p.clone(), v[0], v[1], 0.2).unwrap()
    });
    show("edge softmax, 4 heads", vec![scores()], 0.0, 0, |t, v, p| t.edge_softmax(p.clone(), v[0]).unwrap());
    show("row maximum", vec![x()], 0.0, rows_of_entries, |t, v, p| t.row_max(p.clone(), v[0]).unwrap());
    show("gather", vec![x()], 0.0, 0, |t, v, p| {
        t.gather(v[0], Arc::new(p.places()[..50_000].to_vec())).unwrap()
    });
    show("scatter", vec![x()], 0.0, 0, |t, v, p| {
        t.scatter(v[0], Arc::new(p.places()[..50_000].to_vec()), 50_000).unwrap()
    });
    show("relu", vec![x()], 0.0, 0, |t, v, _| t.relu(v[0]).unwrap());
    show("tanh", vec![x()], 0.0, 0, |t, v, _| t.tanh(v[0]).unwrap());
    show("multiply", vec![x(), x()], 0.0, 0, |t, v, _| t.multiply(v[0], v[1]).unwrap());
    show("concatenate columns", vec![x(), x()], 0.0, 0, |t, v, _| t.concatenate_columns(v).unwrap());
    show("dropout", vec![x()], 0.0, 0, |t, v, _| t.dropout(v[0], 0.5, 1, ops::Places::From(0)).unwrap());
    show("sum", vec![x()], 0.0, 0, |t, v, _| t.sum(v[0]).unwrap());
    show("squared error", vec![x()], 0.0, 0, |t, v, _| {
        let target = t.filled(t.shape(v[0]), 0.5);
        t.mse(v[0], target, None, 1.0).unwrap()
    });
    show("binary cross entropy", vec![x()], 0.0, 0, |t, v, _| {
        let target = t.filled(t.shape(v[0]), 0.5);
        t.binary_cross_entropy(v[0], target, None, 1.0).unwrap()
    });
}

/// Applies an operation to parameters.
type Build = for<'t> fn(&mut Tape<'t>, &[Var], &Arc<Pattern>) -> Var;

/// Every model of the zoo, one and two layers, on the same graph.
fn models() {
    println!("a training step of every model, 50,000 vertices, 500,000 edges, window 4, 32 -> 64");
    for recipe in zoo::ALL {
        let mut times = Vec::new();
        let mut memory = Vec::new();
        for layers in [1, 2] {
            let mut training =
                Training::new(recipe.name, layers, graphs("power-law", 50_000, 500_000, WINDOW));
            times.push(median(3, || {
                black_box(training.step());
            }));
            memory.push(training.arena.bytes() as f64 / 1e6);
        }
        println!(
            "    {:17} one layer {:7.1} ms, {:5.0} MB of buffers; two layers {:7.1} ms, {:5.0} MB",
            recipe.name, times[0], memory[0], times[1], memory[1]
        );
    }
}

/// Time per edge from a hundred thousand to ten million edges a snapshot, and how often the memory that must
/// be moved could be copied in that time: every gathered row and its index and value, the sums written and
/// read again, the targets.
fn scale() {
    let bandwidth = copy_bandwidth();
    println!(
        "t-gcn as the graph grows, ten edges a vertex; copying moves {:.1} GB/s, read and written",
        bandwidth / 1e9
    );
    let mut first = None;
    for edges in [100_000, 300_000, 1_000_000, 3_000_000, 10_000_000] {
        let mut training = Training::new("t-gcn", 1, graphs("uniform", edges / 10, edges, WINDOW));
        let time = median(if edges > 2_000_000 { 3 } else { 5 }, || {
            black_box(training.step());
        });
        let each = time * 1e6 / (edges * WINDOW) as f64;
        let base = *first.get_or_insert(each);
        let vertices = edges / 10;
        let entries = edges + vertices;
        let moved = entries * (4 * FEATURES + 8) + 2 * vertices * 4 * FEATURES + 4 * vertices;
        let floor = (WINDOW * moved) as f64 / bandwidth * 1e3;
        println!(
            "    {edges:>10} edges: {time:8.1} ms, {each:.1} ns an edge and step, ratio to the smallest \
             {:.2}, {:.1} times the memory floor",
            each / base,
            time / floor
        );
    }
}

/// All pairs of vertices, as metrics that rank them have them scored.
fn pairs() {
    let (vertices, peak) = (6_000, peak());
    println!(
        "all pairs of {vertices} vertices; a product has one instruction for a column, these have three, two \
         of them by the same units"
    );
    for width in [32, 64, 100, 128] {
        let (ends, weights) = (numbers(2 * vertices * width), numbers(width));
        let sources: Vec<usize> = (0..vertices).collect();
        let scored = median(5, || {
            let targets = Tiles::new(&ends[width..], 2 * width, width);
            sources.par_chunks(16).for_each_init(
                || vec![0.0; 16 * vertices],
                |out, some| {
                    let lefts = some.iter().map(|source| &ends[2 * source * width..][..width]);
                    targets.weigh(lefts, &weights, out);
                    black_box(out);
                },
            );
        });
        let product = 2.0 * (vertices * vertices * width) as f64 / peak / 1e6;
        println!(
            "    {width:3} columns: {scored:6.1} ms, {:.2} times a product at {peak:.0} GFLOP/s (bound 2)",
            scored / product
        );
    }
}
