//! Cost models of this machine, one file each, kept from run to run in the user's cache folder.
//!
//! What a model costs depends on the processor, on the threads of a worker and how many workers share the
//! machine, on the model and its sizes, and on the version of this program: all that is the key, and another
//! key is another file. What is in the cache saves time and decides nothing else, so a file that cannot be
//! read is made anew, with a word about it, and nothing fails because of it.

use std::io::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};

use kymo_graph::Step;
use kymo_trace::write_whole;
use serde::{Deserialize, Serialize};

use super::cost_model::CostModel;
use super::profile::machine;
use crate::error::{Error, Result};
use crate::step::RunContext;

/// A model that is further off than this is fitted anew.
pub const STALE: f64 = 0.2;

/// What costs depend on, apart from the data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Key {
    /// The version of this program.
    pub kymo: String,
    /// The processor, and the threads of a worker.
    pub machine: String,
    /// Cores that the system gives this process.
    pub cores: usize,
    /// Workers that share them.
    pub workers: usize,
    /// The task and the model.
    pub names: [String; 2],
    /// Columns of the features and of hidden states, blocks, layers, heads, and steps of a window.
    pub sizes: [usize; 6],
}

impl Key {
    /// That of the settings here; `threads` is how many a worker has.
    pub fn new(context: &RunContext, threads: usize) -> Key {
        let settings = &context.settings;
        let model = &settings.model;
        Key {
            kymo: env!("CARGO_PKG_VERSION").into(),
            machine: machine(threads),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            workers: settings.parallel.workers,
            names: [settings.task.name.clone(), model.name.clone()],
            sizes: [
                context.inputs.width(),
                model.hidden,
                model.blocks,
                model.layers,
                model.heads,
                context.window,
            ],
        }
    }
}

/// A file of the cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CachedCosts {
    /// What it is for.
    pub key: Key,
    /// What snapshots cost.
    pub model: CostModel,
    /// Seconds that closed an iteration.
    pub closing: f64,
}

impl CachedCosts {
    /// Seconds of windows.
    pub fn windows(&self, context: &RunContext, windows: &[Range<Step>]) -> Result<Vec<f64>> {
        let (edges, vertices) = (context.edges()?, context.store.vertices());
        let seconds = |window: &Range<Step>| {
            self.model.seconds(window.len(), vertices, edges[window.clone()].iter().sum())
        };
        Ok(windows.iter().map(seconds).collect())
    }
}

fn path(folder: &Path, key: &Key) -> PathBuf {
    let text = serde_json::to_vec(key).unwrap_or_default();
    folder.join(format!("costs-{:08x}.json", crc32fast::hash(&text)))
}

/// What is kept for a key, or nothing; the text is a warning where a file cannot be used.
pub fn read(folder: &Path, key: &Key) -> (Option<CachedCosts>, Option<String>) {
    let path = path(folder, key);
    let bytes = match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return (None, None),
        Err(error) => return (None, Some(format!("cannot read {}: {error}", path.display()))),
    };
    let usable = |kept: &CachedCosts| {
        let CostModel { vertex, edge, snapshot, .. } = kept.model;
        [vertex, edge, snapshot, kept.closing].iter().all(|seconds| seconds.is_finite() && *seconds >= 0.0)
    };
    match serde_json::from_slice::<CachedCosts>(&bytes) {
        // Two keys may share a name: then the one that came last has it.
        Ok(kept) if kept.key != *key => (None, None),
        Ok(kept) if usable(&kept) => (Some(kept), None),
        _ => (None, Some(format!("{} holds no costs; it will be made anew", path.display()))),
    }
}

/// Keeps what was fitted; the text is a warning where that is not possible.
pub fn write(folder: &Path, kept: &CachedCosts) -> Option<String> {
    let write = || -> Result<()> {
        std::fs::create_dir_all(folder).map_err(Error::resource("cannot make", folder))?;
        Ok(write_whole(&path(folder, &kept.key), |file| {
            serde_json::to_writer_pretty(&mut *file, kept)?;
            file.write_all(b"\n")
        })?)
    };
    write().err().map(|error| format!("costs are not kept: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept() -> CachedCosts {
        let key = Key {
            kymo: "1".into(),
            machine: "one thread of an abacus".into(),
            cores: 2,
            workers: 2,
            names: ["task".into(), "model".into()],
            sizes: [1, 2, 3, 4, 5, 6],
        };
        let model = CostModel { vertex: 1e-6, edge: 1e-7, snapshot: 1e-3, error: 0.05, held_out: 4 };
        CachedCosts { key, model, closing: 1e-4 }
    }

    #[test]
    fn what_was_kept_is_found_by_its_key_alone() {
        let folder = tempfile::tempdir().unwrap();
        let cache = folder.path().join("deep/kymo");
        let kept = kept();
        assert_eq!(read(&cache, &kept.key), (None, None));
        assert_eq!(write(&cache, &kept), None);
        assert_eq!(read(&cache, &kept.key), (Some(kept.clone()), None));
        let other = Key { workers: 3, ..kept.key.clone() };
        assert_eq!(read(&cache, &other), (None, None));
        // A file under the name of another key, and files that hold something else.
        std::fs::copy(path(&cache, &kept.key), path(&cache, &other)).unwrap();
        assert_eq!(read(&cache, &other), (None, None));
        let negative = serde_json::to_string(&CachedCosts { closing: -1.0, ..kept.clone() }).unwrap();
        for damaged in ["", "{", "[1, 2]", &negative] {
            std::fs::write(path(&cache, &kept.key), damaged).unwrap();
            let (found, warning) = read(&cache, &kept.key);
            assert!(found.is_none() && warning.unwrap().contains("made anew"));
        }
        assert_eq!(write(&cache, &kept), None);
        assert_eq!(read(&cache, &kept.key).0, Some(kept.clone()));
        // Where a folder cannot be made, that is said and no more.
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert!(write(&file, &kept).unwrap().contains("not kept"));
    }
}
