//! The data layer against a peer or a bound measured in the same run: `cargo bench --bench data [NAME...]`.
//!
//! Names: `ingest`, `diffmap`, `stored`, `prepare`, `memory` (writes about 1.3 GB of rows into the temporary
//! folder).
//! Each line ends with the ratio to its bound and the limit it is held to. Nothing here decides a test.

#![allow(clippy::print_stdout, clippy::unwrap_used)]

use std::fmt::Write as _;
use std::hint::black_box;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use kymo::graph::generate::{self, Params};
use kymo::graph::store::{Cursor, EdgeChange, SharedRows};
use kymo::graph::{Csr, Diffmap, Edge, Progress, Snapshot, StepEdges, Store};
use kymo::model::{Graph, Normalisation};
use kymo::tensor::{Pattern, Pool};

const KYMO: &str = env!("CARGO_BIN_EXE_kymo");

fn main() {
    let chosen: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let wanted = |name: &str| chosen.is_empty() || chosen.iter().any(|chosen| chosen == name);
    let benches: [(&str, fn()); 5] = [
        ("ingest", ingest),
        ("diffmap", diffmap),
        ("stored", stored),
        ("prepare", prepare),
        ("memory", memory),
    ];
    for (name, bench) in benches {
        if wanted(name) {
            bench();
        }
    }
}

/// Seconds of the fastest of `times` runs: the one least disturbed by others.
fn fastest(times: usize, mut run: impl FnMut()) -> f64 {
    let timed = |_| {
        let begun = Instant::now();
        run();
        begun.elapsed().as_secs_f64()
    };
    (0..times).map(timed).fold(f64::INFINITY, f64::min)
}

fn report(what: &str, measured: &str, bound: &str, ratio: f64, limit: f64) {
    println!("{what}\n    {measured}\n    {bound}\n    ratio {ratio:.2} (limit {limit})");
}

fn data(file: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data").join(file);
    if !path.exists() {
        println!("{file} is not here: skipped");
    }
    path.exists().then_some(path)
}

fn kymo(args: &[&str]) -> serde_json::Value {
    let output = Command::new(KYMO).args(args).arg("--json").stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success());
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A real set of 1.4 million rows against decompressing it and counting its lines.
fn ingest() {
    let Some(file) = data("sfhh-copresence/tij_pres_SFHH.txt.gz") else { return };
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("store");
    let (file, store) = (file.to_str().unwrap(), store.to_str().unwrap());
    let (mut ours, mut theirs) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..7 {
        ours = ours.min(fastest(1, || drop(kymo(&["ingest", file, "-o", store, "--overwrite"]))));
        let pipeline = format!("gzip -dc '{file}' | wc -l");
        theirs =
            theirs.min(fastest(1, || drop(Command::new("sh").args(["-c", &pipeline]).output().unwrap())));
    }
    let bound = format!("gzip -dc FILE | wc -l: {theirs:.3} s");
    report(
        "ingest of sfhh-copresence (1,417,485 rows)",
        &format!("kymo ingest: {ours:.3} s"),
        &bound,
        ours / theirs,
        3.0,
    );
}

/// Difference maps of 100 arxiv-like snapshots against one merge over both sorted edge lists that only
/// counts.
fn diffmap() {
    let kind = generate::find("arxiv-like").unwrap();
    let params = Params { features: 0, ..kind.defaults() };
    let mut snapshots: Vec<Snapshot<'static>> = Vec::new();
    for step in generate::generate(kind, &params).unwrap() {
        let StepEdges::Delta(delta) = step.unwrap().edges else { continue };
        snapshots.push(delta.apply(snapshots.last().unwrap_or(&Snapshot::default())).unwrap());
    }
    let pairs = || snapshots.windows(2).map(|pair| (&pair[0], &pair[1]));
    let (mut maps, mut merges, mut reads) = (f64::INFINITY, f64::INFINITY, f64::INFINITY);
    let mut changed = 0;
    for _ in 0..3 {
        changed = 0;
        maps = maps.min(fastest(1, || {
            for (a, b) in pairs() {
                changed += black_box(Diffmap::between(a, b, params.vertices)).delta.len();
            }
        }));
        merges = merges.min(fastest(1, || {
            for (a, b) in pairs() {
                black_box(merge(&a.edges, &b.edges));
            }
        }));
        reads = reads.min(fastest(1, || {
            for (a, b) in pairs() {
                black_box(
                    a.edges.iter().chain(b.edges.iter()).fold(0u64, |sum, edge| sum.wrapping_add(edge.key())),
                );
            }
        }));
    }
    let edges: usize = snapshots.iter().map(|snapshot| snapshot.len()).sum::<usize>() / snapshots.len();
    let change = changed as f64 / (snapshots.len() - 1) as f64 / edges as f64;
    let what = format!(
        "difference maps of {} snapshots ({} vertices, {edges} edges, {:.1} % changed; REAL reports 7.69 s)",
        snapshots.len(),
        params.vertices,
        100.0 * change
    );
    let bound = format!(
        "one merge over both sorted lists: {merges:.3} s; adding up every edge of both: {reads:.3} s"
    );
    report(&what, &format!("all maps: {maps:.3} s"), &bound, maps / merges, 2.0);
}

/// The plain sequential pass: walk both sorted lists and count where they differ.
fn merge(a: &[Edge], b: &[Edge]) -> usize {
    let (mut i, mut j, mut differ) = (0, 0, 0);
    while i < a.len() && j < b.len() {
        if a[i] == b[j] {
            i += 1;
            j += 1;
        } else if a[i] < b[j] {
            differ += 1;
            i += 1;
        } else {
            differ += 1;
            j += 1;
        }
    }
    differ + a.len() - i + b.len() - j
}

/// The stored structure of 733 daily snapshots against all of them in full, eight bytes an edge in both.
fn stored() {
    let Some(file) = data("as-733/deltas.tsv.gz") else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    kymo(&["ingest", file.to_str().unwrap(), "-o", path.to_str().unwrap()]);
    let store = Store::open(&path).unwrap();
    let (full, stored) = (store.manifest().edges * 8, store.bytes());
    let measured = format!("all files of the store: {stored} bytes");
    report(
        "AS-733, 733 snapshots",
        &measured,
        &format!("full snapshots: {full} bytes"),
        stored as f64 / full as f64,
        0.15,
    );
}

/// The rows of a step out of a store, against copying the same arrays. The share is that of the edges that
/// come, and as many go; a step is reached from the one before or from anywhere, and where it is stored whole
/// it is reached from nothing.
fn prepare() {
    println!("rows of a step by a cursor, one thread; 169,000 vertices, 1.8 M edges, 12 steps, no weights");
    println!("  change  to the next step  copying it  ratio   a whole step  to any step  snapshot and rows");
    println!("          with the matrix of graph convolution: to the next step, copying its arrays, ratio");
    let asked = {
        let seen = Graph::new(vec![0, 0], Vec::new(), None).unwrap();
        seen.normalised(Normalisation::Both).unwrap();
        seen.asked()
    };
    let (features, factors) = (vec![1.0f32; 128 * 169_000], vec![1.0f32; 169_000]);
    let folder = tempfile::tempdir().unwrap();
    for percent in [1.0, 5.0, 13.0, 50.0] {
        let kind = generate::find("power-law").unwrap();
        let params = Params {
            vertices: 169_000,
            edges: 1_800_000,
            steps: 12,
            edge_change: 2.0 * percent / 100.0,
            features: 0,
            ..kind.defaults()
        };
        let path = folder.path().join("store");
        let store = Arc::new(generate::write(kind, &params, &path, true, &Progress::silent()).unwrap());
        let is_whole = |t| matches!(store.edge_change(t).unwrap(), EdgeChange::Whole(_));
        let all: Vec<usize> = (0..params.steps).collect();
        let (wholes, changes): (Vec<usize>, Vec<usize>) = all[1..].iter().partition(|&&t| is_whole(t));
        let mut cursor = Cursor::new(store.clone());
        let mut copy = store.snapshot(0).unwrap().by_target(store.vertices());
        let mut with_loops = Cursor::with_loops(store.clone());
        let edges = copy.columns.len() as f64;
        // One after the other over the same steps, and the fastest of each: others use the machine too.
        let mut next = vec![f64::INFINITY; params.steps];
        let [mut copying, mut any, mut rebuilt] = [next.clone(), next.clone(), next.clone()];
        let [mut prepared, mut copying_prepared, mut copying_all] =
            [next.clone(), next.clone(), next.clone()];
        for _ in 0..7 {
            for &t in &all {
                next[t] = next[t].min(fastest(1, || drop(black_box(cursor.go_to(t).map(|_| ())))));
                let rows = cursor.go_to(t).unwrap();
                copying[t] = copying[t].min(fastest(1, || copy_into(rows, black_box(&mut copy))));
            }
            for &t in &all {
                let mut graph = None;
                prepared[t] = prepared[t].min(fastest(1, || {
                    let rows = with_loops.go_to(t).unwrap();
                    let (starts, columns) = (rows.starts.clone(), rows.columns.clone());
                    let pattern =
                        Pattern::shared(store.vertices(), starts, columns, &Pool::default()).unwrap();
                    let made = Graph::looped(pattern, store.edges(t).unwrap(), asked).unwrap();
                    made.complete();
                    graph = Some(made);
                }));
                let matrix = graph.unwrap().normalised(Normalisation::Both).unwrap();
                // Values are products of a factor for each vertex, and are not kept.
                let arrays = (matrix.pattern.starts(), matrix.pattern.places(), &factors[..]);
                copying_prepared[t] = copying_prepared[t].min(fastest(1, || {
                    drop(black_box((arrays.0.to_vec(), arrays.1.to_vec(), arrays.2.to_vec())));
                }));
                copying_all[t] = copying_all[t].min(fastest(1, || {
                    drop(black_box((arrays.0.to_vec(), arrays.1.to_vec(), arrays.2.to_vec())));
                    drop(black_box(features.to_vec()));
                }));
            }
            for t in all.iter().map(|i| (i * 7 + 3) % params.steps) {
                any[t] = any[t].min(fastest(1, || drop(black_box(cursor.go_to(t).map(|_| ())))));
                rebuilt[t] = rebuilt[t].min(fastest(1, || {
                    drop(black_box(store.snapshot(t).unwrap().by_target(store.vertices())));
                }));
            }
        }
        let mean = |times: &[f64], steps: &[usize]| {
            steps.iter().map(|&t| times[t]).sum::<f64>() / steps.len() as f64
        };
        let time = |seconds: f64| {
            let rate = edges / seconds / 1e6;
            if rate.is_nan() { "none".into() } else { format!("{:.1} ms {rate:.0} M/s", seconds * 1e3) }
        };
        let (steps, whole) = (mean(&next, &changes), time(mean(&next, &wholes)));
        let (bound, any, rebuilt) = (mean(&copying, &all), mean(&any, &all), mean(&rebuilt, &all));
        println!(
            "{percent:>6} %  {:>16} {:>8.2} ms {:>6.2}  {whole:>13} {:>15} {:>17.1} ms",
            time(steps),
            bound * 1e3,
            steps / bound,
            time(any),
            rebuilt * 1e3
        );
        let steps = if changes.is_empty() { &wholes } else { &changes };
        let (made, copied) = (mean(&prepared, steps), mean(&copying_prepared, steps));
        let all = mean(&copying_all, steps);
        println!("          {:>16} {:>8.2} ms {:>6.2}", time(made), copied * 1e3, made / copied);
        println!("          with 128 columns of features {:>12.2} ms {:>6.2}", all * 1e3, made / all);
        if percent == 50.0 {
            first_use(&store);
        }
    }
}

/// Opening a store and using every part of it once, against the checksums alone.
fn first_use(store: &Store) {
    let files = store.manifest().parts.iter().map(|part| store.path().join(&part.file.name));
    let files: Vec<Vec<u8>> = files.map(|file| std::fs::read(file).unwrap()).collect();
    let checksums = fastest(5, || {
        files.iter().for_each(|file| {
            black_box(crc32fast::hash(file));
        })
    });
    let open = fastest(5, || {
        let store = Store::open(store.path()).unwrap();
        for t in 0..store.steps() {
            black_box(store.edge_change(t).unwrap());
        }
    });
    let bytes: usize = files.iter().map(Vec::len).sum();
    let (open, checksums) = (open * 1e3, checksums * 1e3);
    println!(
        "first use of {:.0} MB: {open:.1} ms; checksums of as many bytes in memory: {checksums:.1} ms",
        bytes as f64 / 1e6
    );
}

fn copy_into(rows: &SharedRows, copy: &mut Csr) {
    copy.starts.clone_from(&rows.starts);
    copy.columns.clone_from(&rows.columns);
    copy.weights.clone_from(&rows.weights);
}

/// Fifty million events within 1 GiB against five million, by the time of an event.
fn memory() {
    let folder = tempfile::tempdir().unwrap();
    let mut times = Vec::new();
    for (name, rows, limit) in [("5 M", 5_000_000u64, "1GiB"), ("50 M", 50_000_000, "1GiB")] {
        let (input, store) = (folder.path().join("events.txt"), folder.path().join("store"));
        write_events(&input, rows);
        let begun = Instant::now();
        let args = [
            "ingest",
            input.to_str().unwrap(),
            "-o",
            store.to_str().unwrap(),
            "--memory",
            limit,
            "--overwrite",
        ];
        let summary = kymo(&args);
        let seconds = begun.elapsed().as_secs_f64();
        let peak = summary["peak_memory"].as_f64().unwrap_or(f64::NAN) / (1u64 << 30) as f64;
        println!(
            "{name} events, every eighth out of order, --memory {limit}: {seconds:.1} s, peak {peak:.2} GiB"
        );
        if rows > 5_000_000 {
            println!("    ratio {peak:.2} GiB resident (limit 1.3)");
        }
        times.push(seconds / rows as f64 * 1e9);
    }
    let (small, large) = (times[0], times[1]);
    report(
        "time of an event",
        &format!("50 M: {large:.0} ns"),
        &format!("5 M: {small:.0} ns"),
        large / small,
        2.0,
    );
}

fn write_events(path: &Path, rows: u64) {
    let mut file = std::io::BufWriter::with_capacity(1 << 20, std::fs::File::create(path).unwrap());
    let (mut state, mut line) = (88172645463325252u64, String::new());
    for row in 0..rows {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        // A million vertices, a few of them busy; every eighth row comes late.
        let (u, v) = (state % 1_000_000, (state >> 32) % 1000 * ((state >> 52) % 1000));
        let late = if row % 8 == 0 { (state >> 20) % 100_000 } else { 0 };
        line.clear();
        writeln!(line, "{u} {v} {}", (1_000_000_000 + row).saturating_sub(late)).unwrap();
        file.write_all(line.as_bytes()).unwrap();
    }
    file.flush().unwrap();
}
