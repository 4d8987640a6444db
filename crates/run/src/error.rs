//! What can go wrong in a run, sorted by who must act on it. The command turns each class into an exit code.

use std::path::{Path, PathBuf};

use kymo_plan::plan::readable;

/// What every fallible function of this crate returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// One error: each variant names who has to do something about it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The graph or its store.
    #[error(transparent)]
    Graph(#[from] kymo_graph::Error),
    /// The model, its settings, or the device it runs on.
    #[error(transparent)]
    Model(kymo_tensor::Error),
    /// The plan, or what was asked of it.
    #[error(transparent)]
    Plan(#[from] kymo_plan::Error),
    /// A file that the run leaves behind.
    #[error(transparent)]
    Trace(#[from] kymo_trace::Error),
    /// The request is wrong: it must be asked for otherwise.
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
    /// There is not enough memory for what was asked.
    #[error(
        "{what} takes about {}, {} of memory are available; {advice}",
        readable(*needed),
        readable(*available)
    )]
    Memory {
        /// What would take it.
        what: String,
        /// Bytes that it would take.
        needed: u64,
        /// Bytes that there are.
        available: u64,
        /// What would take less.
        advice: String,
    },
    /// Another worker has gone, or does not do its part: its own error says why.
    #[error("worker {rank} {what}; look for what worker {rank} said last")]
    Peer {
        /// The worker.
        rank: usize,
        /// What it did, and what it was needed for.
        what: String,
    },
    /// The user asked to stop; the run can go on.
    #[error("stopped; go on with: kymo train -o {path} --resume", path = .0.display())]
    Stopped(PathBuf),
    /// Training diverged: a loss, a gradient or a metric is NaN or infinite.
    #[error("{0}")]
    Diverged(String),
    /// The program is wrong.
    #[error("{0}; this is a bug")]
    Bug(String),
}

/// Who must act on an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// The user asked for something that cannot be: another option, setting or value is needed.
    Settings,
    /// Data is wrong: a file that was given, or one that a run left.
    Input,
    /// The machine lacks something: a file, permission, space, memory, a library, a GPU.
    Resource,
    /// Another worker has gone.
    Peer,
    /// Training diverged.
    Diverged,
    /// The program is wrong.
    Bug,
    /// The user asked to stop.
    Stopped,
}

impl Class {
    /// All of them, in the order of their exit codes.
    pub const ALL: [Class; 7] = [
        Class::Settings,
        Class::Input,
        Class::Resource,
        Class::Peer,
        Class::Diverged,
        Class::Bug,
        Class::Stopped,
    ];

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Class::Settings => "settings",
            Class::Input => "input",
            Class::Resource => "resource",
            Class::Peer => "peer",
            Class::Diverged => "diverged",
            Class::Bug => "bug",
            Class::Stopped => "stopped",
        }
    }

    /// What the command exits with. 2 is also what it exits with where its options cannot be read, 70 is the
    /// usual code for an internal error, and 130 that of an interruption; where another signal stopped the
    /// work, the command exits with the code of that signal.
    pub fn exit_code(self) -> u8 {
        match self {
            Class::Settings => 2,
            Class::Input => 3,
            Class::Resource => 4,
            Class::Peer => 5,
            Class::Diverged => 6,
            Class::Bug => 70,
            Class::Stopped => 130,
        }
    }
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

    /// A worker that did not do its part.
    pub fn peer(rank: usize, what: impl Into<String>) -> Self {
        Error::Peer { rank, what: what.into() }
    }

    /// Who must act.
    pub fn class(&self) -> Class {
        match self {
            Error::Graph(error) => of_graph(error),
            Error::Plan(kymo_plan::Error::Graph(error)) => of_graph(error),
            Error::Plan(kymo_plan::Error::Settings { .. } | kymo_plan::Error::Metis { .. }) => {
                Class::Settings
            }
            Error::Model(error) => of_model(error),
            Error::Trace(kymo_trace::Error::Resource { .. })
            | Error::Resource { .. }
            | Error::Memory { .. } => Class::Resource,
            Error::Trace(_) | Error::File { .. } => Class::Input,
            Error::Settings { .. } => Class::Settings,
            Error::Peer { .. } => Class::Peer,
            Error::Stopped(_) => Class::Stopped,
            Error::Diverged(_) => Class::Diverged,
            Error::Bug(_) => Class::Bug,
        }
    }
}

fn of_graph(error: &kymo_graph::Error) -> Class {
    match error {
        kymo_graph::Error::Input { .. } => Class::Input,
        kymo_graph::Error::Settings { .. } => Class::Settings,
        kymo_graph::Error::Resource { .. } => Class::Resource,
        kymo_graph::Error::Interrupted => Class::Stopped,
    }
}

fn of_model(error: &kymo_tensor::Error) -> Class {
    match error {
        kymo_tensor::Error::Settings { .. } => Class::Settings,
        kymo_tensor::Error::Device(_) => Class::Resource,
        kymo_tensor::Error::Peer { .. } => Class::Peer,
        kymo_tensor::Error::Shape { .. } | kymo_tensor::Error::Place { .. } | kymo_tensor::Error::Bug(_) => {
            Class::Bug
        }
    }
}

impl From<kymo_tensor::Error> for Error {
    /// Operations that exchange rows fail inside the engine; what they say of a peer keeps its rank.
    fn from(error: kymo_tensor::Error) -> Self {
        match error {
            kymo_tensor::Error::Peer { rank, what } => Error::Peer { rank, what },
            kymo_tensor::Error::Bug(what) => Error::Bug(what),
            other => Error::Model(other),
        }
    }
}

impl From<kymo_files::Error> for Error {
    fn from(kymo_files::Error { action, path, source }: kymo_files::Error) -> Self {
        Error::Resource { action, path, source }
    }
}

impl From<kymo_comm::Error> for Error {
    fn from(error: kymo_comm::Error) -> Self {
        match error {
            kymo_comm::Error::Peer { rank, what } => Error::Peer { rank, what },
            kymo_comm::Error::Usage(what) => Error::Bug(what),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_has_a_code_of_its_own() {
        let codes: std::collections::BTreeSet<u8> =
            Class::ALL.iter().map(|class| class.exit_code()).collect();
        assert_eq!(codes.len(), Class::ALL.len());
        // 0 is success, 1 is what shells and panics use.
        assert!(codes.iter().all(|&code| code > 1));
    }

    #[test]
    fn errors_keep_their_class_on_the_way_up() {
        let peer = kymo_comm::Error::peer(3, "has gone");
        let text = peer.to_string();
        let inside = kymo_tensor::Error::Peer { rank: 3, what: "has gone".into() };
        for error in [Error::from(peer), Error::from(inside)] {
            assert_eq!((error.class(), error.to_string()), (Class::Peer, text.clone()));
            assert!(matches!(error, Error::Peer { rank: 3, .. }));
        }
        let cases = [
            (Error::from(kymo_comm::Error::usage("there is no worker 9")), Class::Bug),
            (Error::from(kymo_tensor::Error::shape("linear", "2 x 3")), Class::Bug),
            (Error::from(kymo_tensor::Error::Device("no driver".into())), Class::Resource),
            (Error::from(kymo_tensor::Error::settings("model.heads", "found 0")), Class::Settings),
            (Error::from(kymo_graph::Error::Interrupted), Class::Stopped),
            (Error::from(kymo_plan::Error::settings("strategy", "unknown")), Class::Settings),
            (Error::from(kymo_plan::Error::Graph(kymo_graph::Error::Interrupted)), Class::Stopped),
            (Error::file(Path::new("x"), "damaged"), Class::Input),
            (Error::resource("cannot read", Path::new("x"))(std::io::Error::other("no")), Class::Resource),
            (Error::Diverged("the loss became NaN".into()), Class::Diverged),
        ];
        for (error, class) in cases {
            assert_eq!(error.class(), class, "{error}");
        }
    }
}
