//! What can go wrong when a run is recorded or its records are read.

use std::path::{Path, PathBuf};

/// What every fallible function of this crate returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// One error: each variant calls for another remedy.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file of a run is wrong: damaged, or not what it is taken for.
    #[error("{path}: {problem}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What was found and what was expected.
        problem: String,
    },
    /// A line of a file is wrong.
    #[error("{path}, line {line}: {problem}", path = path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// What was found and what was expected.
        problem: String,
    },
    /// The machine said no: permission, space, a missing file.
    #[error("{action} {path}: {source}", path = path.display())]
    Resource {
        /// What was being done, as in "cannot read".
        action: &'static str,
        /// The file or folder concerned.
        path: PathBuf,
        /// What the operating system answered.
        source: std::io::Error,
    },
}

impl From<kymo_files::Error> for Error {
    fn from(kymo_files::Error { action, path, source }: kymo_files::Error) -> Self {
        Error::Resource { action, path, source }
    }
}

impl Error {
    /// A file that is not what it should be.
    pub fn file(path: &Path, problem: impl Into<String>) -> Self {
        Error::File { path: path.to_path_buf(), problem: problem.into() }
    }

    /// A line, counted from 1, that is not what it should be.
    pub fn line(path: &Path, line: usize, problem: impl Into<String>) -> Self {
        Error::Line { path: path.to_path_buf(), line, problem: problem.into() }
    }

    /// What the operating system answered when `action` was tried on `path`.
    pub fn resource<'a>(action: &'static str, path: &'a Path) -> impl FnOnce(std::io::Error) -> Self + 'a {
        move |source| Error::Resource { action, path: path.to_path_buf(), source }
    }
}
