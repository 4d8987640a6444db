//! Running the command and making small inputs.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A folder for one test, which disappears with it.
pub struct Bench {
    folder: tempfile::TempDir,
}

/// What the command answered.
pub struct Answer {
    /// The exit code.
    pub code: i32,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Bench {
    /// A new folder.
    pub fn new() -> Self {
        Bench { folder: tempfile::tempdir().unwrap() }
    }

    /// A path in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A file in the folder with this content.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    /// What lies in the folder.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(self.folder.path())
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// Runs `kymo` in the folder; arguments are separated by blanks.
    pub fn kymo(&self, args: &str) -> Answer {
        self.command(Command::new(env!("CARGO_BIN_EXE_kymo")).args(args.split_whitespace()))
    }

    /// Runs `kymo`, expects success, and reads the JSON it prints.
    pub fn json(&self, args: &str) -> serde_json::Value {
        let answer = self.kymo(&format!("{args} --json"));
        assert_eq!((answer.code, answer.err.as_str()), (0, ""), "kymo {args}");
        serde_json::from_str(&answer.out).unwrap()
    }

    /// Runs a command in the folder.
    pub fn command(&self, command: &mut Command) -> Answer {
        let Output { status, stdout, stderr } = command.current_dir(self.folder.path()).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Answer { code: status.code().unwrap_or(-1), out: text(stdout), err: text(stderr) }
    }
}

/// A file of the real data sets, or `None` with a message where they are not at hand.
pub fn data(file: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data").join(file);
    if !path.exists() {
        eprintln!("skipped: {file} is not here (the real data sets are not part of the project)");
    }
    path.exists().then_some(path)
}
