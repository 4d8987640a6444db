//! What can go wrong in this crate, sorted by who must act on it.

use crate::op::Shape;

/// What every fallible function of this crate returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// One error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The model is wrong: shapes that do not go together.
    #[error("{op}: {problem}")]
    Shape {
        /// The operation.
        op: &'static str,
        /// What was found and what was expected.
        problem: String,
    },
    /// The settings are wrong.
    #[error("{setting}: {problem}")]
    Settings {
        /// The setting.
        setting: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// A GPU lacks something: a library, memory, a kernel that runs.
    #[error("on the GPU: {0}")]
    Device(String),
    /// Another worker has gone, or does not do its part.
    #[error("worker {rank} {what}; look for what worker {rank} said last")]
    Peer {
        /// The worker.
        rank: usize,
        /// What it did, and what it was needed for.
        what: String,
    },
    /// Numbers are not in the memory that an operation works in: the program is wrong.
    #[error("{op}: the numbers are {found}, expected {expected}; this is a bug")]
    Place {
        /// What needed them.
        op: &'static str,
        /// Where they are.
        found: &'static str,
        /// Where they should be.
        expected: &'static str,
    },
    /// The program is wrong in another way.
    #[error("{0}; this is a bug")]
    Bug(String),
}

impl Error {
    /// The shapes given to an operation do not go together.
    pub fn shape(op: &'static str, problem: impl Into<String>) -> Self {
        Error::Shape { op, problem: problem.into() }
    }

    /// The setting cannot be followed.
    pub fn settings(setting: &'static str, problem: impl Into<String>) -> Self {
        Error::Settings { setting, problem: problem.into() }
    }
}

/// Fails unless an input has the shape that the others ask for.
pub fn expect_shape(op: &'static str, input: &str, found: Shape, expected: Shape) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(Error::shape(op, format!("{input} is {found}, expected {expected}")))
}

/// Fails unless the input of this number has the shape that the others ask for.
pub fn expect_input(op: &'static str, index: usize, found: Shape, expected: Shape) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    expect_shape(op, &format!("input {index}"), found, expected)
}

/// Fails unless an operation was given as many inputs as it takes.
pub fn expect_inputs<const N: usize>(op: &'static str, inputs: &[Shape]) -> Result<[Shape; N]> {
    let wrong = || Error::shape(op, format!("{} inputs were given, expected {N}", inputs.len()));
    inputs.try_into().map_err(|_| wrong())
}
