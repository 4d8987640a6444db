//! What can go wrong in a run, sorted by who must act on it.

use std::path::{Path, PathBuf};

/// What every fallible function of this crate returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// One error: each variant names who has to do something about it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The graph or its store.
    #[error(transparent)]
    Graph(#[from] kymo_graph::Error),
    /// The model or its settings.
    #[error(transparent)]
    Model(#[from] kymo_tensor::Error),
    /// The plan, or what was asked of it.
    #[error(transparent)]
    Plan(#[from] kymo_plan::Error),
    /// A file that the run leaves behind.
    #[error(transparent)]
    Trace(#[from] kymo_trace::Error),
    /// The request is wrong: whoever typed it must ask for something else.
    #[error("{setting}: {problem}")]
    Settings {
        /// The setting at fault.
        setting: String,
        /// What is wrong with it and what would do.
        problem: String,
    },
    /// A file of a run is wrong: damaged, or not what it is taken for.
    #[error("{path}: {problem}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
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
    /// The user asked to stop; the run can go on.
    #[error("stopped; go on with: kymo train -o {path} --resume", path = .0.display())]
    Stopped(PathBuf),
    /// Training went where no number is.
    #[error("{0}")]
    Diverged(String),
}

impl Error {
    /// A setting that cannot be followed.
    pub fn settings(setting: impl Into<String>, problem: impl Into<String>) -> Self {
        Error::Settings { setting: setting.into(), problem: problem.into() }
    }

    /// A file that is not what it should be.
    pub fn file(path: &Path, problem: impl Into<String>) -> Self {
        Error::File { path: path.to_path_buf(), problem: problem.into() }
    }

    /// What the operating system answered when `action` was tried on `path`.
    pub fn resource<'a>(action: &'static str, path: &'a Path) -> impl FnOnce(std::io::Error) -> Self + 'a {
        move |source| Error::Resource { action, path: path.to_path_buf(), source }
    }
}
