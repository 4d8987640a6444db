//! What can go wrong with an output: the operating system, or another process, says no.

use std::io;
use std::path::{Path, PathBuf};

/// What every fallible function of this crate returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What was tried, and why it cannot be.
#[derive(Debug, thiserror::Error)]
#[error("{action} {path}: {source}", path = path.display())]
pub struct Error {
    /// What was being done, as in "cannot write".
    pub action: &'static str,
    /// The file or folder concerned.
    pub path: PathBuf,
    /// What the operating system answered, or who has the file.
    pub source: io::Error,
}

impl Error {
    /// What the operating system answered when `action` was tried on `path`.
    pub fn on<'a>(action: &'static str, path: &'a Path) -> impl Fn(io::Error) -> Self + 'a {
        move |source| Error { action, path: path.to_path_buf(), source }
    }
}
