//! Which of two ways is faster on this machine: cost curves that are fitted to what both take (REAL, section
//! 4.1.1 and appendix B), of attention and of sums over neighbours.
//!
//! The two ways differ in rounding, so that nothing is fitted unless it is asked for. What comes out is
//! written into the settings of the run that asked (`parallel.break_even`, `parallel.change_costs`), which
//! goes on with it wherever it is resumed, and kept in the user's cache folder for the next run.

mod attention;
mod sums;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use kymo_graph::generate::{self, Params};
use kymo_graph::{Snapshot, StepEdges};
use kymo_tensor::Pattern;
use kymo_trace::write_whole;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

pub use attention::Curve;
pub use sums::SumCurve;

use super::profile::machine;
use crate::config::{Parallel, Settings, change_costs};
use crate::error::{Error, Result};
use crate::task::LeastSquares;
use crate::workers::WorkerGroup;

/// Vertices of the snapshots that are measured.
const VERTICES: usize = 10_000;
/// Their mean degrees.
const DEGREES: [usize; 2] = [6, 40];
/// Passes over each, of which the quickest counts.
const PASSES: usize = 3;

/// The rows of consecutive made-up snapshots, with a loop at every vertex where it is wanted.
fn snapshots(degree: usize, change: f64, steps: usize, loops: bool) -> Result<Vec<Arc<Pattern>>> {
    let kind = generate::find("power-law")?;
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
            if loops {
                row.push(vertex as u32);
            }
            row.sort_unstable();
            row.dedup();
            places.extend(row);
            starts.push(places.len() as u64);
        }
        all.push(Arc::new(Pattern::new(VERTICES, starts, places)?));
    }
    Ok(all)
}

/// Numbers between -1 and 1, as many as a matrix of the vertices has.
fn numbers(columns: usize) -> Vec<f32> {
    (0..VERTICES * columns).map(|at| (at * 7919 % 1009) as f32 / 504.5 - 1.0).collect()
}

/// Weights that fit seconds by inputs, each second counting as much as the others, and by how much they are
/// off on average; nothing where there are no samples.
fn fit(samples: &[(Vec<f64>, f64)]) -> Option<(Vec<f64>, f64)> {
    let mut squares = LeastSquares::new(samples.first()?.0.len());
    for (inputs, seconds) in samples {
        let inputs: Vec<f64> = inputs.iter().map(|input| input / seconds).collect();
        squares.add(&inputs, 1.0);
    }
    let weights = squares.solve();
    let of = |inputs: &[f64]| inputs.iter().zip(&weights).map(|(x, weight)| x * weight).sum::<f64>();
    let errors = samples.iter().map(|(inputs, seconds)| (of(inputs) / seconds - 1.0).abs());
    let error = errors.sum::<f64>() / samples.len() as f64;
    Some((weights, error))
}

/// Measures with this many threads.
fn with_threads<T: Send>(threads: usize, measure: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads.max(1)).build();
    let pool = pool.map_err(|error| Error::Bug(format!("no threads to measure with: {error}")))?;
    pool.install(measure)
}

/// What a curve depends on, apart from the snapshots.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Key {
    kymo: String,
    machine: String,
    /// What was measured.
    what: String,
    /// Columns, heads, and workers that share the machine.
    sizes: [usize; 3],
}

/// A file of the cache.
#[derive(Serialize, Deserialize)]
struct Kept<C> {
    key: Key,
    curve: C,
}

impl<C: Serialize + DeserializeOwned> Kept<C> {
    fn path(folder: &Path, key: &Key) -> PathBuf {
        let text = serde_json::to_vec(key).unwrap_or_default();
        folder.join(format!("curve-{:08x}.json", crc32fast::hash(&text)))
    }

    /// What is kept for a key. A file that cannot be used is made anew.
    fn read(folder: &Path, key: &Key) -> Option<C> {
        let kept: Kept<C> = serde_json::from_slice(&std::fs::read(Self::path(folder, key)).ok()?).ok()?;
        (kept.key == *key).then_some(kept.curve)
    }

    fn write(&self, folder: &Path) -> Result<()> {
        std::fs::create_dir_all(folder).map_err(Error::resource("cannot make", folder))?;
        Ok(write_whole(&Self::path(folder, &self.key), |file| {
            serde_json::to_writer_pretty(&mut *file, self)?;
            file.write_all(b"\n")
        })?)
    }
}

/// The settings with what is to be fitted of this machine where they ask for it: what an earlier run found,
/// or what is measured now. What the first process finds holds for all.
pub fn fitted(settings: Settings, endpoints: &[Arc<WorkerGroup>]) -> Result<Settings> {
    let parallel = &settings.parallel;
    let asks_for_attention = parallel.known_break_even()?.is_none();
    let asks_for_sums = parallel.known_change_costs()?.is_none();
    if !asks_for_attention && !asks_for_sums {
        return Ok(settings);
    }
    let find = || -> Result<[String; 2]> {
        let (model, workers) = (&settings.model, parallel.workers.max(1));
        let threads = (rayon::current_num_threads() / workers).max(1);
        let mut found = [parallel.break_even.clone(), parallel.change_costs.clone()];
        if asks_for_attention {
            let make = || Curve::of_machine(model.hidden, model.heads, threads);
            let curve = kept("attention", [model.hidden, model.heads, workers], threads, make)?;
            found[0] = curve.break_even().to_string();
        }
        if asks_for_sums {
            let make = || SumCurve::of_machine(model.hidden, threads);
            found[1] =
                change_costs::written(kept("sums", [model.hidden, 1, workers], threads, make)?.costs());
        }
        Ok(found)
    };
    let [break_even, change_costs] = match endpoints {
        [alone] if alone.size() > 1 => {
            let told = if alone.leads() { find()?.join(";").into_bytes() } else { Vec::new() };
            let heard = String::from_utf8(alone.broadcast(told)?).ok();
            let both = heard.as_deref().and_then(|heard| heard.split_once(';'));
            let (first, second) = both.ok_or_else(|| Error::peer(0, "said something that makes no sense"))?;
            [first.to_owned(), second.to_owned()]
        }
        // All workers are threads of this process.
        _ => find()?,
    };
    Ok(Settings { parallel: Parallel { break_even, change_costs, ..settings.parallel }, ..settings })
}

/// The curve of this machine that an earlier run kept, or one that is made now.
fn kept<C: Serialize + DeserializeOwned>(
    what: &str,
    sizes: [usize; 3],
    threads: usize,
    make: impl FnOnce() -> Result<C>,
) -> Result<C> {
    let (version, what) = (env!("CARGO_PKG_VERSION").into(), what.to_owned());
    let key = Key { kymo: version, machine: machine(threads), what, sizes };
    let folder = kymo_tensor::cache::folder();
    if let Some(curve) = folder.as_deref().and_then(|folder| Kept::read(folder, &key)) {
        return Ok(curve);
    }
    let kept = Kept { curve: make()?, key };
    // What cannot be kept is measured again by the next run.
    folder.iter().for_each(|folder| drop(kept.write(folder)));
    Ok(kept.curve)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CURVE: Curve = Curve { each: [3e-8, 5e-8], at_once: [1e-8, 2e-8, 1e-7], error: 0.0 };

    #[test]
    fn what_was_fitted_is_kept_under_its_key() {
        let folder = tempfile::tempdir().unwrap();
        let cache = folder.path().join("deep/kymo");
        let (kymo, machine, what) = ("1".into(), "an abacus".into(), "attention".into());
        let key = Key { kymo, machine, what, sizes: [64, 4, 1] };
        let read = |key: &Key| Kept::<Curve>::read(&cache, key);
        assert_eq!(read(&key), None);
        Kept { key: key.clone(), curve: CURVE }.write(&cache).unwrap();
        assert_eq!(read(&key), Some(CURVE));
        assert_eq!(read(&Key { what: "sums".into(), ..key.clone() }), None);
        let other = Key { sizes: [64, 4, 2], ..key.clone() };
        std::fs::copy(Kept::<Curve>::path(&cache, &key), Kept::<Curve>::path(&cache, &other)).unwrap();
        assert_eq!(read(&other), None);
        std::fs::write(Kept::<Curve>::path(&cache, &key), "{").unwrap();
        assert_eq!(read(&key), None);
    }

    #[test]
    fn numbers_are_left_alone() {
        let mut settings = Settings::default();
        settings.parallel.break_even = "0.2".into();
        assert_eq!(fitted(settings.clone(), &[]).unwrap(), settings);
        settings.parallel.change_costs = "2,0.5".into();
        assert_eq!(fitted(settings.clone(), &[]).unwrap(), settings);
        let soon = |parallel: Parallel| fitted(Settings { parallel, ..settings.clone() }, &[]);
        assert!(soon(Parallel { break_even: "soon".into(), ..settings.parallel.clone() }).is_err());
        assert!(soon(Parallel { change_costs: "soon".into(), ..settings.parallel.clone() }).is_err());
    }
}
