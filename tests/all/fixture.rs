//! Running the command and making small inputs.

use kymo::run::Class;
use std::collections::BTreeMap;
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
        self.command(
            Command::new(env!("CARGO_BIN_EXE_kymo")).args(args.split_whitespace()).env_remove("COLUMNS"),
        )
    }

    /// Every file below a folder with its bytes.
    pub fn files(&self, folder: &str) -> BTreeMap<String, Vec<u8>> {
        let mut files = BTreeMap::new();
        for entry in std::fs::read_dir(self.path(folder)).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            if entry.path().is_dir() {
                let inner = self.files(&format!("{folder}/{name}"));
                files.extend(inner.into_iter().map(|(inner, bytes)| (format!("{name}/{inner}"), bytes)));
            } else {
                files.insert(name, std::fs::read(entry.path()).unwrap());
            }
        }
        files
    }

    /// Runs `kymo` and expects success.
    pub fn done(&self, args: &str) -> Answer {
        let answer = self.kymo(args);
        assert_eq!(answer.code, 0, "kymo {args}: {}", answer.err);
        answer
    }

    /// Runs a `kymo` that must fail through what it was given, and leave nothing behind; the one line it
    /// said.
    pub fn refused(&self, args: &str) -> String {
        let (class, error) = self.failed(args);
        let by_the_user = [Class::Settings, Class::Input, Class::Resource];
        assert!(by_the_user.contains(&class), "kymo {args}: {} {error}", class.name());
        error
    }

    /// Runs a `kymo` that must fail and leave nothing behind; who must act, and the one line it said.
    pub fn failed(&self, args: &str) -> (Class, String) {
        let before = self.names();
        let answer = self.kymo(args);
        let class = Class::ALL.into_iter().find(|class| i32::from(class.exit_code()) == answer.code);
        let class = class.unwrap_or_else(|| panic!("kymo {args}: exit {}: {}", answer.code, answer.err));
        assert_eq!(answer.out, "", "kymo {args}: {}", answer.err);
        let lines: Vec<&str> = answer.err.lines().collect();
        assert_eq!(lines.len(), 1, "kymo {args}: {}", answer.err);
        assert!(lines[0].starts_with("error: "), "{}", answer.err);
        assert_eq!(self.names(), before, "kymo {args} left something behind");
        (class, lines[0].trim_start_matches("error: ").to_owned())
    }

    /// Makes a store called `small`, with features, values and classes, that an epoch takes milliseconds on.
    pub fn make_small(&self) {
        self.done("generate power-law --vertices 60 --edges 200 --steps 20 --features 3 -o small");
    }

    /// A store called `weighted`, whose edges weigh what their ends have of it: whole numbers of both signs.
    pub fn make_weighted(&self) {
        let mut events = String::from("step,source,target,weight\n");
        for (step, place) in (0..20u64).flat_map(|step| (0..120u64).map(move |place| (step, place))) {
            // Any two of 60, but never one with itself.
            let source = (step * 7919 + place * 104_729) % 1009 % 60;
            let target = (source + 1 + (step * 31 + place * 6101) % 977 % 59) % 60;
            let weight = (source * 5 % 7) as i64 + (target * 3 % 8) as i64 - 6;
            events.push_str(&format!("{step},{source},{target},{weight}\n"));
        }
        self.file("weighted.csv", events);
        self.done("ingest weighted.csv --columns step,source,target,weight --weight last -o weighted");
    }

    /// The bytes of a file that a run left.
    pub fn of_run(&self, run: &str, file: &str) -> Vec<u8> {
        std::fs::read(self.path(run).join(file)).unwrap()
    }

    /// The bytes of the checkpoint of a run.
    pub fn checkpoint(&self, run: &str) -> Vec<u8> {
        self.of_run(run, "checkpoint.safetensors")
    }

    /// The lines of the log of a run.
    pub fn log(&self, run: &str) -> Vec<serde_json::Value> {
        kymo::trace::metrics::read(&self.path(run).join("metrics.jsonl")).unwrap()
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
