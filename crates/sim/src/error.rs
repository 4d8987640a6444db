//! What can go wrong in a simulation, sorted by who must act on it.

/// What every fallible function of this crate returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// One error: each variant names who has to do something about it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The schedule, or what was asked of it.
    #[error(transparent)]
    Plan(#[from] kymo_plan::Error),
    /// The request is wrong: whoever typed it must ask for something else.
    #[error("{setting}: {problem}")]
    Settings {
        /// The setting at fault.
        setting: String,
        /// What is wrong with it and what would do.
        problem: String,
    },
}

impl Error {
    /// A setting that cannot be followed.
    pub fn settings(setting: impl Into<String>, problem: impl Into<String>) -> Self {
        Error::Settings { setting: setting.into(), problem: problem.into() }
    }
}

/// A number that is not from 0 on, or not finite, is refused under this name.
pub(crate) fn from_zero(setting: &str, found: f64) -> Result<()> {
    if found.is_finite() && found >= 0.0 {
        return Ok(());
    }
    Err(Error::settings(setting, format!("found {found}, expected a number from 0")))
}

/// A number that is not above 0, or not finite, is refused under this name.
pub(crate) fn above_zero(setting: &str, found: f64) -> Result<()> {
    if found.is_finite() && found > 0.0 {
        return Ok(());
    }
    Err(Error::settings(setting, format!("found {found}, expected a number above 0")))
}
