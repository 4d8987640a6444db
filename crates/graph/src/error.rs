//! Everything that can go wrong in this crate, sorted by who must act on it.

use std::fmt;
use std::path::{Path, PathBuf};

/// What every fallible function of this crate returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// One error: each variant names who has to do something about it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The data is wrong: the file must be corrected.
    #[error("{place}: {problem}")]
    Input {
        /// Where it was found.
        place: Place,
        /// What was found and what was expected.
        problem: String,
    },
    /// The request is wrong: the settings must be changed.
    #[error("{setting}: {problem}")]
    Settings {
        /// The option or parameter at fault.
        setting: String,
        /// What is wrong with it and what would do.
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
    /// The user asked to stop.
    #[error("stopped; nothing was written")]
    Interrupted,
}

/// A place in an input: a file, and as far as known a line and a column.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The file, or `standard input`.
    pub file: String,
    /// The line, counted from 1.
    pub line: Option<u64>,
    /// The column: its name, or its number counted from 1.
    pub column: Option<String>,
}

impl Place {
    /// A whole file.
    pub fn file(file: impl Into<String>) -> Self {
        Self { file: file.into(), line: None, column: None }
    }

    /// A line of a file.
    pub fn line(file: impl Into<String>, line: u64) -> Self {
        Self { file: file.into(), line: Some(line), column: None }
    }

    /// The same place, narrowed to a column.
    pub fn column(mut self, column: impl fmt::Display) -> Self {
        self.column = Some(column.to_string());
        self
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ", line {line}")?;
        }
        if let Some(column) = &self.column {
            write!(f, ", column {column}")?;
        }
        Ok(())
    }
}

impl From<kymo_files::Error> for Error {
    fn from(kymo_files::Error { action, path, source }: kymo_files::Error) -> Self {
        Self::Resource { action, path, source }
    }
}

impl Error {
    /// The data at `place` is wrong.
    pub fn input(place: Place, problem: impl Into<String>) -> Self {
        Self::Input { place, problem: problem.into() }
    }

    /// The store at `path` cannot be used as it is.
    pub fn store(path: &Path, problem: impl Into<String>) -> Self {
        Self::input(Place::file(path.display().to_string()), problem)
    }

    /// The setting cannot be followed.
    pub fn settings(setting: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Settings { setting: setting.into(), problem: problem.into() }
    }

    /// Turns an answer of the operating system into an error that says what was being done to which path.
    pub fn resource<'a>(action: &'static str, path: &'a Path) -> impl FnOnce(std::io::Error) -> Self + 'a {
        move |source| Self::Resource { action, path: path.to_path_buf(), source }
    }
}

/// Text from an input, cut to a length that fits a message.
pub(crate) fn shortened(text: &str) -> String {
    match text.char_indices().nth(60) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text.into(),
    }
}

/// Names from an input, as many as fit a message.
pub fn listed<S: AsRef<str>>(names: impl IntoIterator<Item = S>) -> String {
    let mut names = names.into_iter();
    let shown: Vec<String> = names.by_ref().take(12).map(|name| shortened(name.as_ref())).collect();
    match names.count() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
