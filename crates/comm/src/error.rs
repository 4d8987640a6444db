//! What can go wrong between workers, sorted by who must act on it.

/// What every fallible function of this crate returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// One error: each variant names who has to do something about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A worker has gone: its own error says why.
    #[error("worker {rank} {what}; look for what worker {rank} said last")]
    Peer {
        /// The worker that has gone.
        rank: usize,
        /// How it went and what it was needed for.
        what: String,
    },
    /// The program is wrong: it named a worker that is not there, or its workers do not agree on what to do.
    #[error("{0}")]
    Usage(String),
}

impl Error {
    /// A worker that has gone, how, and what it was needed for.
    pub fn peer(rank: usize, what: impl Into<String>) -> Self {
        Error::Peer { rank, what: what.into() }
    }

    /// A call that cannot be followed, and what would do.
    pub fn usage(problem: impl Into<String>) -> Self {
        Error::Usage(problem.into())
    }
}
