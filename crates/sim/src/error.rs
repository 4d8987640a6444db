//! What can go wrong in a simulation.

/// What every fallible function of this crate returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// One error: each variant calls for another remedy.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The schedule, or what was asked of it.
    #[error(transparent)]
    Plan(#[from] kymo_plan::Error),
    /// A setting of the simulation is wrong and must be changed.
    #[error("{setting}: {problem}")]
    Settings {
        /// The setting at fault.
        setting: String,
        /// What is wrong with it and what was expected.
        problem: String,
    },
}

impl Error {
    /// A setting that is wrong.
    pub fn settings(setting: impl Into<String>, problem: impl Into<String>) -> Self {
        Error::Settings { setting: setting.into(), problem: problem.into() }
    }
}

/// Refuses a number that is negative or not finite, under the name of its setting.
pub(crate) fn from_zero(setting: &str, found: f64) -> Result<()> {
    if found.is_finite() && found >= 0.0 {
        return Ok(());
    }
    Err(Error::settings(setting, format!("found {found}, expected a number from 0")))
}

/// Refuses a number that is not above 0 or not finite, under the name of its setting.
pub(crate) fn above_zero(setting: &str, found: f64) -> Result<()> {
    if found.is_finite() && found > 0.0 {
        return Ok(());
    }
    Err(Error::settings(setting, format!("found {found}, expected a number above 0")))
}
