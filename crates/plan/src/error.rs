//! What can go wrong while planning, sorted by who must act on it.

/// What every fallible function of this crate returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// One error: each variant names who has to do something about it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The graph or its store.
    #[error(transparent)]
    Graph(#[from] kymo_graph::Error),
    /// The request is wrong: it must be asked for otherwise.
    #[error("{setting}: {problem}")]
    Settings {
        /// The setting at fault.
        setting: String,
        /// What is wrong with it and what would do.
        problem: String,
    },
    /// The METIS library gave up: another partitioner may do.
    #[error(
        "METIS cannot cut {vertices} vertices and {links} links into {workers} parts: {answer}; use 'hash' \
         or 'block' instead"
    )]
    Metis {
        /// Vertices it was given.
        vertices: usize,
        /// Linked pairs it was given.
        links: usize,
        /// Parts it was asked for.
        workers: usize,
        /// What it answered.
        answer: String,
    },
}

impl Error {
    /// A setting that cannot be followed.
    pub fn settings(setting: impl Into<String>, problem: impl Into<String>) -> Self {
        Error::Settings { setting: setting.into(), problem: problem.into() }
    }
}
