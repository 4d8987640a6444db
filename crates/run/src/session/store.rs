//! Where the store of a run is.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use kymo_files::place::is_store;

use crate::config::{self, Settings};
use crate::error::{Error, Result};

/// The setting that says where the store is.
pub(super) const STORE: &str = "data.store";

/// Fails where the store of a run is gone.
pub(super) fn check_store(settings: &Settings, run: &Path) -> Result<()> {
    let store = Path::new(&settings.data.store);
    if settings.data.store.is_empty() || is_store(store) {
        return Ok(());
    }
    let problem = format!(
        "{}: the store of the run in {run} is not there, nor where it was as seen from the run; say where it \
         is now (kymo evaluate {run} STORE, kymo predict {run} STORE, kymo train STORE -o {run} --resume)",
        store.display(),
        run = run.display()
    );
    Err(Error::settings(STORE, problem))
}

/// The same data under a path that holds from everywhere.
pub fn absolute(mut data: config::Data) -> Result<config::Data> {
    if !data.store.is_empty() {
        let path = PathBuf::from(&data.store);
        let whole = std::fs::canonicalize(&path).map_err(|error| match error.kind() {
            // It may come from a file of settings: the name of the setting leads there.
            ErrorKind::NotFound => {
                let advice = "there is no such store; make one with `kymo ingest` or `kymo generate`";
                Error::settings("data.store", format!("{}: {advice}", path.display()))
            }
            _ => Error::resource("cannot read", &path)(error),
        })?;
        data.store = whole.to_string_lossy().into_owned();
    }
    Ok(data)
}
