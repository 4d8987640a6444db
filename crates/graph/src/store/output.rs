//! Where a store may be written, and what may be deleted for it: nothing but a store.

use std::path::Path;

use kymo_files::place::{MANIFEST, enclosing, is_run, is_store, parent, resolve};

use crate::error::{Error, Result, listed};

/// Fails where something stands at `path` that may not be replaced.
pub fn check_free(path: &Path, replace: bool) -> Result<()> {
    if path.symlink_metadata().is_err() {
        return Ok(());
    }
    if !is_store(path) {
        return Err(Error::store(
            path,
            "exists and is not a store; choose another name or remove it yourself",
        ));
    }
    if !replace {
        return Err(exists(path));
    }
    let foreign = foreign(path)?;
    if foreign.is_empty() {
        return Ok(());
    }
    let problem = format!(
        "holds more than a store, which would be lost ({}); move that away or choose another name",
        listed(&foreign)
    );
    Err(Error::store(path, problem))
}

/// A store is in the way.
pub fn exists(path: &Path) -> Error {
    Error::store(path, "exists already; choose another name or pass --overwrite")
}

/// Fails where a store at `path` would lie in another store or in a run: it would be lost with them.
pub fn check_outside(path: &Path) -> Result<()> {
    let within = |is: fn(&Path) -> bool| {
        let found = resolve(path).and_then(|path| enclosing(parent(&path), is));
        found.map_err(Error::resource("cannot write", path))
    };
    let problem = if let Some(store) = within(is_store)? {
        format!("lies in the store {}; choose a place outside it", store.display())
    } else if let Some(run) = within(is_run)? {
        format!("lies in the folder of the run {}; choose a place outside it", run.display())
    } else {
        return Ok(());
    };
    Err(Error::store(path, problem))
}

/// Whether a folder is a store and nothing else.
pub fn is_ours(folder: &Path) -> bool {
    is_store(folder) && foreign(folder).is_ok_and(|foreign| foreign.is_empty())
}

/// What in the folder of a store is not the store's.
fn foreign(folder: &Path) -> Result<Vec<String>> {
    let failed = || Error::resource("cannot read", folder);
    let mut foreign = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed())? {
        let entry = entry.map_err(failed())?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !is_own(&name) || !entry.file_type().map_err(failed())?.is_file() {
            foreign.push(name);
        }
    }
    foreign.sort();
    Ok(foreign)
}

/// Whether a store has files of this name; a writer that was killed leaves some that no manifest lists.
fn is_own(name: &str) -> bool {
    let name = name.strip_suffix(".partial").unwrap_or(name);
    let numbered = |kind: &str| {
        let number = name.strip_prefix(kind).and_then(|rest| rest.strip_suffix(".safetensors"));
        number.is_some_and(|number| !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit()))
    };
    [MANIFEST, "fixed.safetensors"].contains(&name) || numbered("vertices-") || numbered("steps-")
}
