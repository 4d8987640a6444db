//! The data that a run without a store learns from: a small generated graph with a known limit for each task.

use std::path::Path;

use kymo_graph::generate::{self, Params};
use kymo_graph::{Progress, Store};

use crate::error::{Error, Result};

/// What is generated.
const KIND: &str = "power-law";

/// How it differs from the defaults of its kind: small enough that a laptop trains on it in seconds.
fn params(kind: &dyn generate::Generator) -> Params {
    Params { vertices: 2_000, edges: 20_000, steps: 40, features: 8, segments: 2, ..kind.defaults() }
}

/// Makes the data, unless it is there already.
pub fn make(path: &Path, progress: &Progress) -> Result<Store> {
    if path.join("manifest.json").exists() {
        return Ok(Store::open(path)?);
    }
    let kind = generate::find(KIND)?;
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(Error::resource("cannot make the folder", parent))?;
    }
    Ok(generate::write_within_run(kind, &params(kind), path, progress)?)
}
