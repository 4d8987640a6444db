//! What attention costs over several snapshots, at each of them or at once: a cost curve that is fitted on
//! this machine (REAL, section 4.1.1 and appendix B).
//!
//! Both ways are measured on made-up snapshots of two densities and two rates of change, and two linear
//! models are fitted to the seconds: snapshot by snapshot, `a N + b E` for the vertices and edges of all;
//! at once, `c N + d E + e U`, where `U` counts each edge once. The paper's curve `T(N, d)` for one operation
//! has the degree in it because sparse rows cost more; here the vertices are a term of their own, and the
//! break-even between the two ways has the degree below the line.
//!
//! The two ways differ in rounding. So what is fitted is written into the settings of the run that asked for
//! it (`parallel.break_even`), and kept in the user's cache folder for the next one.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use kymo_graph::generate::{self, Params};
use kymo_graph::{Snapshot, StepEdges};
use kymo_tensor::{Arena, Pattern, Shape, Spans, Tape, Var};
use kymo_trace::write_whole;
use serde::{Deserialize, Serialize};

use super::profile::machine;
use crate::config::{BreakEven, Parallel, Settings};
use crate::error::{Error, Result};
use crate::task::LeastSquares;
use crate::workers::WorkerGroup;

/// Vertices of the snapshots that are measured.
const VERTICES: usize = 10_000;
/// Their mean degrees.
const DEGREES: [usize; 2] = [6, 40];
/// The parts of their edges that change from one to the next.
const CHANGES: [f64; 2] = [0.02, 0.5];
/// How many there are.
const STEPS: [usize; 2] = [3, 6];
/// Passes over each, of which the quickest counts.
const PASSES: usize = 3;

/// What was measured of some snapshots.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Vertices of all of them.
    pub vertices: f64,
    /// Edges of all of them.
    pub edges: f64,
    /// Edges, each counted once.
    pub once: f64,
    /// Seconds of each by itself, and of all at once.
    pub seconds: [f64; 2],
}

/// What was fitted to it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// Seconds of a vertex and of an edge, snapshot by snapshot.
    pub each: [f64; 2],
    /// Seconds of a vertex, of an edge, and of one of those that are counted once, of all at once.
    pub at_once: [f64; 3],
    /// How far off the seconds are on average, relative to those that were measured.
    pub error: f64,
}

impl Curve {
    /// Fits relative errors; nothing where edges that are counted once seem to cost nothing.
    pub fn fit(measured: &[Measured]) -> Option<Curve> {
        let fit = |which: usize, inputs: &dyn Fn(&Measured) -> Vec<f64>| {
            let mut squares = LeastSquares::new(inputs(measured.first()?).len());
            for one in measured {
                let inputs: Vec<f64> = inputs(one).iter().map(|input| input / one.seconds[which]).collect();
                squares.add(&inputs, 1.0);
            }
            let weights = squares.solve();
            let of =
                |one: &Measured| inputs(one).iter().zip(&weights).map(|(x, weight)| x * weight).sum::<f64>();
            let errors = measured.iter().map(|one| (of(one) / one.seconds[which] - 1.0).abs());
            let error = errors.sum::<f64>() / measured.len() as f64;
            Some((weights, error))
        };
        let (each, error_of_each) = fit(0, &|one| vec![one.vertices, one.edges])?;
        let (at_once, error_at_once) = fit(1, &|one| vec![one.vertices, one.edges, one.once])?;
        let (each, at_once) = (each.try_into().ok()?, <[f64; 3]>::try_from(at_once).ok()?);
        let error = (error_of_each + error_at_once) / 2.0;
        (at_once[2] > 0.0).then_some(Curve { each, at_once, error })
    }

    /// Seconds of each snapshot by itself, and of all at once.
    pub fn seconds(&self, vertices: f64, edges: f64, once: f64) -> [f64; 2] {
        let ([a, b], [c, d, e]) = (self.each, self.at_once);
        [a * vertices + b * edges, c * vertices + d * edges + e * once]
    }

    /// The share of the edges where both ways take the same time.
    pub fn break_even(&self) -> BreakEven {
        let ([a, b], [c, d, e]) = (self.each, self.at_once);
        let thousandths = |number: f64| (1e3 * number).round() / 1e3;
        BreakEven { share: thousandths((b - d) / e), by_degree: thousandths((a - c) / e) }
    }

    /// Measures this machine with this many threads, which takes some seconds.
    pub fn of_machine(columns: usize, heads: usize, threads: usize) -> Result<Curve> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.max(1)).build();
        let pool = pool.map_err(|error| Error::Bug(format!("no threads to measure with: {error}")))?;
        pool.install(|| {
            let mut measured = Vec::new();
            for degree in DEGREES {
                for change in CHANGES {
                    let all = snapshots(degree, change)?;
                    for steps in STEPS {
                        measured.push(measure(&all[..steps.min(all.len())], columns, heads)?);
                    }
                }
            }
            Curve::fit(&measured).ok_or_else(|| {
                let problem = "no costs can be fitted on this machine; say a share, such as 0.334";
                Error::settings("parallel.break_even", problem)
            })
        })
    }
}

/// The rows of consecutive snapshots, with a loop at every vertex.
fn snapshots(degree: usize, change: f64) -> Result<Vec<Arc<Pattern>>> {
    let kind = generate::find("power-law")?;
    let steps = STEPS.into_iter().max().unwrap_or(1);
    let params = Params {
        vertices: VERTICES,
        edges: VERTICES * degree,
        steps,
        edge_change: change,
        features: 0,
        ..kind.defaults()
    };
    let (mut snapshot, mut all) = (Snapshot::default(), Vec::new());
    for step in generate::generate(kind, &params)? {
        snapshot = match step?.edges {
            StepEdges::Delta(delta) => {
                delta.apply(&snapshot).map_err(|found| Error::Bug(found.to_string()))?
            }
            StepEdges::All(whole) => whole,
        };
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
        all.push(Arc::new(Pattern::new(VERTICES, starts, places)?));
    }
    Ok(all)
}

/// Both ways, forward and backward; what a pattern finds out about its edges once is not counted.
fn measure(patterns: &[Arc<Pattern>], columns: usize, heads: usize) -> Result<Measured> {
    let number = |at: usize| (at * 7919 % 1009) as f32 / 504.5 - 1.0;
    let numbers = |columns: usize| (0..VERTICES * columns).map(number).collect::<Vec<f32>>();
    let (scores, rows) = (numbers(heads), numbers(columns));
    let spans = Arc::new(Spans::new(patterns)?);
    let (arena, mut seconds) = (Arena::new(), [f64::MAX; 2]);
    // The first pass makes what later ones use again.
    for pass in 0..=PASSES {
        for (at_once, least) in [false, true].into_iter().zip(&mut seconds) {
            let begun = Instant::now();
            let mut tape = Tape::new(&arena);
            let left = tape.parameter(Shape::new(VERTICES, heads), &scores)?;
            let right = tape.parameter(Shape::new(VERTICES, heads), &scores)?;
            let x = tape.parameter(Shape::new(VERTICES, columns), &rows)?;
            let together = match at_once {
                true => tape.graph_attention_of_spans(spans.clone(), [left, right, x], 0.2)?,
                false => None,
            };
            let of_each = |tape: &mut Tape<'_>| {
                let one = |pattern: &Arc<Pattern>| tape.graph_attention(pattern.clone(), left, right, x, 0.2);
                patterns.iter().map(one).collect::<kymo_tensor::Result<Vec<Var>>>()
            };
            let steps = match together {
                Some(steps) => steps,
                None => of_each(&mut tape)?,
            };
            let sums = steps.into_iter().map(|step| tape.sum(step));
            let sums = sums.collect::<kymo_tensor::Result<Vec<Var>>>()?;
            let sum = tape.add_all(&sums)?;
            tape.backward(sum)?;
            if pass > 0 {
                *least = least.min(begun.elapsed().as_secs_f64());
            }
        }
    }
    let edges: usize = patterns.iter().map(|pattern| pattern.entries()).sum();
    Ok(Measured {
        vertices: (VERTICES * patterns.len()) as f64,
        edges: edges as f64,
        once: spans.pattern().entries() as f64,
        seconds,
    })
}

/// What a curve depends on, apart from the snapshots.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Key {
    kymo: String,
    machine: String,
    /// Columns, heads, and workers that share the machine.
    sizes: [usize; 3],
}

/// A file of the cache.
#[derive(Serialize, Deserialize)]
struct Kept {
    key: Key,
    curve: Curve,
}

impl Kept {
    fn path(folder: &Path, key: &Key) -> PathBuf {
        let text = serde_json::to_vec(key).unwrap_or_default();
        folder.join(format!("curve-{:08x}.json", crc32fast::hash(&text)))
    }

    /// What is kept for a key. A file that cannot be used is made anew.
    fn read(folder: &Path, key: &Key) -> Option<Curve> {
        let kept: Kept = serde_json::from_slice(&std::fs::read(Kept::path(folder, key)).ok()?).ok()?;
        (kept.key == *key).then_some(kept.curve)
    }

    fn write(&self, folder: &Path) -> Result<()> {
        std::fs::create_dir_all(folder).map_err(Error::resource("cannot make", folder))?;
        Ok(write_whole(&Kept::path(folder, &self.key), |file| {
            serde_json::to_writer_pretty(&mut *file, self)?;
            file.write_all(b"\n")
        })?)
    }
}

/// The settings with the break-even of this machine where they ask for it: that of an earlier run, or one
/// that is measured now. What the first process finds holds for all.
pub fn fitted(settings: Settings, endpoints: &[Arc<WorkerGroup>]) -> Result<Settings> {
    if settings.parallel.known_break_even()?.is_some() {
        return Ok(settings);
    }
    let find = || -> Result<String> { Ok(curve(&settings)?.break_even().to_string()) };
    let found = match endpoints {
        [alone] if alone.size() > 1 => {
            let told = if alone.leads() { find()?.into_bytes() } else { Vec::new() };
            String::from_utf8(alone.broadcast(told)?)
                .map_err(|_| Error::peer(0, "said something that makes no sense"))?
        }
        // All workers are threads of this process.
        _ => find()?,
    };
    Ok(Settings { parallel: Parallel { break_even: found, ..settings.parallel }, ..settings })
}

/// The curve of this machine for what a model is made of.
fn curve(settings: &Settings) -> Result<Curve> {
    let (model, workers) = (&settings.model, settings.parallel.workers.max(1));
    let threads = (rayon::current_num_threads() / workers).max(1);
    let (version, sizes) = (env!("CARGO_PKG_VERSION").into(), [model.hidden, model.heads, workers]);
    let key = Key { kymo: version, machine: machine(threads), sizes };
    let folder = kymo_tensor::cache::folder();
    if let Some(curve) = folder.as_deref().and_then(|folder| Kept::read(folder, &key)) {
        return Ok(curve);
    }
    let kept = Kept { curve: Curve::of_machine(model.hidden, model.heads, threads)?, key };
    // What cannot be kept is measured again by the next run.
    folder.iter().for_each(|folder| drop(kept.write(folder)));
    Ok(kept.curve)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CURVE: Curve = Curve { each: [3e-8, 5e-8], at_once: [1e-8, 2e-8, 1e-7], error: 0.0 };

    fn measured(curve: &Curve) -> Vec<Measured> {
        let one = |(vertices, degree, share): (f64, f64, f64)| {
            let (edges, once) = (vertices * degree, vertices * degree * share);
            Measured { vertices, edges, once, seconds: curve.seconds(vertices, edges, once) }
        };
        [(3e4, 6.0, 0.34), (6e4, 6.0, 0.7), (3e4, 40.0, 0.6), (6e4, 40.0, 0.18)].map(one).to_vec()
    }

    #[test]
    fn costs_come_back_and_both_ways_take_as_long_where_they_break_even() {
        let curve = Curve::fit(&measured(&CURVE)).unwrap();
        assert!(curve.error < 1e-3, "{curve:?}");
        let even = curve.break_even();
        assert!((even.share - 0.3).abs() < 0.005 && (even.by_degree - 0.2).abs() < 0.02, "{even}");
        for degree in [5.0, 50.0] {
            let [each, at_once] = CURVE.seconds(1e4, 1e4 * degree, 1e4 * degree * even.at(degree));
            assert!((each / at_once - 1.0).abs() < 0.02, "{each} {at_once}");
        }
        assert_eq!(Curve::fit(&[]), None);
        // Where edges that are counted once cost nothing, no share of them breaks even.
        let free = Curve { at_once: [1e-8, 2e-8, -1e-8], ..CURVE };
        assert_eq!(Curve::fit(&measured(&free)), None);
    }

    /// What both ways compute, and how much of it is counted.
    #[test]
    fn snapshots_are_measured_both_ways() {
        let all = snapshots(6, 0.5).unwrap();
        assert_eq!(all.len(), 6);
        let one = measure(&all[..3], 8, 2).unwrap();
        assert_eq!((one.vertices, one.edges), (3e4, all[..3].iter().map(|p| p.entries() as f64).sum()));
        // A half of the edges of each of two steps is new, beside those of the first.
        let share = one.once / one.edges;
        assert!((0.4..0.67).contains(&share), "{share}");
        assert!(one.seconds.iter().all(|seconds| (1e-6..60.0).contains(seconds)));
    }

    #[test]
    fn what_was_fitted_is_kept_under_its_key() {
        let folder = tempfile::tempdir().unwrap();
        let cache = folder.path().join("deep/kymo");
        let key = Key { kymo: "1".into(), machine: "an abacus".into(), sizes: [64, 4, 1] };
        assert_eq!(Kept::read(&cache, &key), None);
        Kept { key: key.clone(), curve: CURVE }.write(&cache).unwrap();
        assert_eq!(Kept::read(&cache, &key), Some(CURVE));
        let other = Key { sizes: [64, 4, 2], ..key.clone() };
        std::fs::copy(Kept::path(&cache, &key), Kept::path(&cache, &other)).unwrap();
        assert_eq!(Kept::read(&cache, &other), None);
        std::fs::write(Kept::path(&cache, &key), "{").unwrap();
        assert_eq!(Kept::read(&cache, &key), None);
    }

    #[test]
    fn numbers_are_left_alone() {
        let mut settings = Settings::default();
        settings.parallel.break_even = "0.2".into();
        assert_eq!(fitted(settings.clone(), &[]).unwrap(), settings);
        settings.parallel.break_even = "soon".into();
        assert!(fitted(settings, &[]).is_err());
    }
}
