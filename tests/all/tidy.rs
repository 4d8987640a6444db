//! The invariants of ARCHITECTURE.md that a program can hold.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

pub fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every file of the project with one of these endings, wherever it is.
pub fn files(endings: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root().to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if path.is_dir() {
                if !["target", ".git", "corpus", "artifacts", "shared", "venv", "runs"]
                    .contains(&name.as_str())
                {
                    folders.push(path);
                }
            } else if endings.iter().any(|ending| name.ends_with(ending)) {
                found.push(path);
            }
        }
    }
    found.sort();
    assert!(!found.is_empty());
    found
}

pub fn name(path: &Path) -> String {
    path.strip_prefix(root()).unwrap().display().to_string()
}

/// The characters of a source file with comments, strings and character literals blanked; lines stay where
/// they are.
fn code(text: &str) -> Vec<char> {
    let text: Vec<char> = text.chars().collect();
    let starts = |at: usize, what: &str| what.chars().enumerate().all(|(i, c)| text.get(at + i) == Some(&c));
    let (mut code, mut at) = (text.clone(), 0);
    while at < text.len() {
        let begin = at;
        let in_word = |at: usize| at > 0 && (text[at - 1].is_alphanumeric() || text[at - 1] == '_');
        let bytes = in_word(at) && matches!(text[at - 1], 'b' | 'c') && !in_word(at - 1);
        let hashes = text[at + 1..].iter().take_while(|&&c| c == '#').count();
        if starts(at, "//") {
            at += text[at..].iter().take_while(|&&c| c != '\n').count();
        } else if starts(at, "/*") {
            let mut depth = 0;
            loop {
                depth += i32::from(starts(at, "/*")) - i32::from(starts(at, "*/"));
                at += if starts(at, "/*") || starts(at, "*/") { 2 } else { 1 };
                if depth == 0 || at >= text.len() {
                    break;
                }
            }
        } else if text[at] == 'r' && (bytes || !in_word(at)) && text.get(at + 1 + hashes) == Some(&'"') {
            let end = format!("\"{}", "#".repeat(hashes));
            at += hashes + 2;
            while at < text.len() && !starts(at, &end) {
                at += 1;
            }
            at += end.len();
        } else if text[at] == '"' {
            at += 1;
            while at < text.len() && text[at] != '"' {
                at += if text[at] == '\\' { 2 } else { 1 };
            }
            at += 1;
        } else if text[at] == '\'' && (starts(at + 1, "\\") || text.get(at + 2) == Some(&'\'')) {
            at += if starts(at + 1, "\\") { 3 } else { 2 };
            while at < text.len() && text[at] != '\'' {
                at += 1;
            }
            at += 1;
        } else {
            at += 1;
            continue;
        }
        at = at.min(text.len());
        code[begin..at].iter_mut().filter(|c| **c != '\n').for_each(|c| *c = ' ');
    }
    code
}

/// A source file without the items that are compiled for tests alone; lines stay where they are.
pub fn product(text: &str) -> String {
    let (code, attribute) = (code(text), "#[cfg(test)]".chars().collect::<Vec<_>>());
    let (mut kept, mut at): (Vec<char>, _) = (text.chars().collect(), 0);
    while at < code.len() {
        if !code[at..].starts_with(&attribute) {
            at += 1;
            continue;
        }
        let begin = at;
        at += attribute.len();
        // It ends with a semicolon, with the brace that closes its first block or, if it is a field, with a
        // comma.
        let (mut depth, mut angles) = (0, 0);
        while at < code.len() {
            match code[at] {
                '(' | '[' | '{' => depth += 1,
                ')' | ']' | '}' => depth -= 1,
                '<' if depth == 0 => angles += 1,
                '>' if depth == 0 && !matches!(code[at - 1], '-' | '=') => angles -= 1,
                _ => {}
            }
            // The brace of what the item is in: the last field needs no comma.
            if depth < 0 {
                break;
            }
            at += 1;
            if depth == 0 && (matches!(code[at - 1], ';' | '}') || angles == 0 && code[at - 1] == ',') {
                break;
            }
        }
        kept[begin..at].iter_mut().filter(|c| **c != '\n').for_each(|c| *c = ' ');
    }
    kept.into_iter().collect()
}

#[test]
fn only_items_for_tests_are_left_out_of_the_product() {
    let text = r##"
        mod a; // "not closed
        #[cfg(test)]
        #[path = "x;y}.rs"]
        mod fixture;
        fn b<'a>(c: &'a str) -> char { '{' }
        #[cfg(test)]
        mod tests { fn d() { "}".len(); '}'; r#"}"#; br#"}""#; b"}\""; '\''; } /* } /* */ } */ }
        struct E { #[cfg(test)] f: [u8; 3], g: u8, #[cfg(test)] n: u8 }
        const H: &str = "#[cfg(test)]";
        #[cfg(test)]
        pub(super) fn i<A, B>(j: [u8; 2]) -> Result<A, B> { k(|l| { l }) }
        fn m() {}
    "##;
    let found = product(text);
    assert_eq!(found.lines().count(), text.lines().count());
    for name in ["mod a", "fn b", "'{'", "struct E", "g: u8", "const H", "\"#[cfg(test)]\"", "fn m"] {
        assert!(found.contains(name), "{name} is missing in {found}");
    }
    for name in ["fixture", "x;y", "tests", "fn d", "f: [", "n: u8", "fn i", "k("] {
        assert!(!found.contains(name), "{name} is in {found}");
    }
}

fn is_product(path: &Path) -> bool {
    let name = name(path);
    !["tests/", "benches/", "bench/", "fuzz/", "examples/"].iter().any(|folder| name.contains(folder))
        && !name.ends_with("tests.rs")
        && !name.ends_with("fixture.rs")
}

#[test]
fn crates_know_only_what_they_may() {
    let allowed: BTreeMap<&str, &[&str]> = [
        ("files", &[][..]),
        ("graph", &["files"]),
        ("tensor", &[]),
        ("comm", &[]),
        ("trace", &["files"]),
        ("model", &["tensor"]),
        ("plan", &["graph"]),
        ("run", &["files", "graph", "tensor", "comm", "trace", "model", "plan"]),
        ("sim", &["plan", "trace"]),
        ("report", &["plan", "trace"]),
    ]
    .into();
    for entry in std::fs::read_dir(root().join("crates")).unwrap() {
        let folder = entry.unwrap().path();
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let manifest = read(&folder.join("Cargo.toml"));
        let known = allowed
            .get(name.as_str())
            .unwrap_or_else(|| panic!("the crate {name} is not in ARCHITECTURE.md"));
        for line in manifest.lines().filter(|line| line.starts_with("kymo-")) {
            let other = line.trim_start_matches("kymo-").split(['.', ' ', '=']).next().unwrap();
            assert!(known.contains(&other), "{name} may not know {other}");
        }
        assert!(!folder.join("build.rs").exists(), "{name} has a build.rs");
        assert!(
            manifest.contains("[lints]\nworkspace = true"),
            "{name} does not follow the lints of the workspace"
        );
    }
}

#[test]
fn every_source_file_says_what_it_is() {
    for path in files(&[".rs"]) {
        assert!(read(&path).starts_with("//! "), "{} does not open with //!", name(&path));
    }
}

#[test]
fn source_files_stay_readable() {
    for path in files(&[".rs"]).iter().filter(|path| is_product(path)) {
        let lines = read(path).lines().count();
        assert!(lines <= 500, "{} has {lines} lines: is there a second thing inside?", name(path));
        let stem = path.file_stem().unwrap().to_string_lossy().into_owned();
        assert!(
            !["utils", "util", "common", "manager", "helpers", "misc"].contains(&stem.as_str()),
            "{}",
            name(path)
        );
    }
}

#[test]
fn nothing_panics_or_is_left_open_outside_tests() {
    let refused =
        [".unwrap()", ".expect(", "todo!(", "unimplemented!(", "panic!(", "dbg!(", "FIXME", "#[ignore"];
    for path in files(&[".rs"]).iter().filter(|path| is_product(path)) {
        for (number, line) in product(&read(path)).lines().enumerate() {
            let code = line.trim_start();
            if let Some(what) = refused.iter().find(|what| !code.starts_with("//") && code.contains(**what)) {
                panic!("{}:{}: {what}", name(path), number + 1);
            }
        }
    }
}

#[test]
fn there_is_no_global_state() {
    for path in files(&[".rs"]).iter().filter(|path| is_product(path)) {
        for (number, line) in product(&read(path)).lines().enumerate() {
            let code = line.trim_start();
            let refused = ["static mut ", "thread_local!", "lazy_static!", "LazyLock", "std::env::set_var"];
            // METIS draws from the random numbers of the C library: its state is that of the process,
            // whatever we do.
            let lock =
                name(path) == "crates/plan/src/partition/multilevel.rs" && code.contains("ALONE: Mutex<()>");
            // The allocator of a program is one.
            let allocator =
                name(path) == "src/allocator.rs" && code.starts_with("static ALLOCATOR: Allocator");
            let state =
                !lock && !allocator && (code.starts_with("static ") || code.starts_with("pub static "));
            assert!(
                !state && !refused.iter().any(|what| code.contains(what)),
                "{}:{}",
                name(path),
                number + 1
            );
        }
    }
}

/// `unsafe` stands where a foreign thing is let in, and nowhere else.
#[test]
fn unsafe_code_is_behind_one_door() {
    let doors = [
        "crates/comm/src/mpi/calls.rs",
        "crates/comm/src/mpi/library.rs",
        "crates/comm/src/mpi/parcel.rs",
        // Memory that other processes write to.
        "crates/comm/src/remote/board.rs",
        "crates/graph/src/store/arrays.rs",
        "crates/tensor/src/cuda/enabled.rs",
        "crates/tensor/src/ops/product.rs",
        "crates/tensor/src/simd.rs",
        "src/allocator.rs",
    ];
    for path in files(&[".rs"]).iter().filter(|path| is_product(path)) {
        let code: String = code(&read(path)).into_iter().collect();
        let mut words = code.split(|c: char| !c.is_alphanumeric() && c != '_');
        if words.any(|word| word == "unsafe") {
            assert!(doors.contains(&name(path).as_str()), "{} has unsafe code", name(path));
        }
    }
}

#[test]
fn features_name_things_to_install() {
    // The command is no thing to install, but its crates are: a program that uses the library alone
    // builds none of them.
    let allowed = ["mpi", "cuda", "nccl", "ilp", "cli", "default"];
    for path in files(&["Cargo.toml"]) {
        let text = read(&path);
        let Some(section) = text.split("\n[features]\n").nth(1) else { continue };
        for line in
            section.lines().take_while(|line| !line.starts_with('[')).filter(|line| line.contains('='))
        {
            let feature = line.split('=').next().unwrap().trim();
            assert!(
                allowed.contains(&feature),
                "{}: the feature {feature} names nothing to install",
                name(&path)
            );
        }
    }
}

/// The project speaks of the project alone.
#[test]
fn no_file_speaks_of_the_place_it_was_written_at() {
    for path in files(&[".rs", ".md", ".toml", ".py", ".sh", "check", "run"]) {
        let text = read(&path);
        for word in [
            ["/wo", "rk/"].concat(),
            ["/far", "m/"].concat(),
            ["bash_", "jobs"].concat(),
            ["/ro", "ot/"].concat(),
        ] {
            assert!(!text.contains(&word), "{} has {word}", name(&path));
        }
    }
}

#[test]
fn the_documents_are_there_and_their_links_lead_somewhere() {
    for document in
        ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"]
    {
        assert!(root().join(document).is_file(), "{document}");
    }
    for path in files(&[".md"]) {
        let text = read(&path);
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let target = link.split('#').next().unwrap();
            if !target.is_empty() && !target.contains("://") {
                assert!(
                    path.parent().unwrap().join(target).exists(),
                    "{}: the link {link} leads nowhere",
                    name(&path)
                );
            }
        }
    }
}

/// Lines fit into a window beside another, except where they cannot be broken.
#[test]
fn lines_are_no_wider_than_110_columns() {
    let mut wide = Vec::new();
    let endings = [".rs", ".md", ".py", ".toml", ".sh", ".cu"];
    for path in files(&[""]) {
        let name = name(&path);
        if !name.starts_with("ci/") && !endings.iter().any(|ending| name.ends_with(ending)) {
            continue;
        }
        let (document, result) = (name.ends_with(".md"), name.starts_with("bench/results/"));
        let mut printed = false;
        for (number, line) in read(&path).lines().enumerate() {
            printed ^= document && line.starts_with("```");
            // Rows of tables, what programs printed, and addresses.
            let whole = document && line.trim_start().starts_with('|') || result && printed;
            let allowed = whole || line.contains("://") || line.starts_with("#!");
            if line.chars().count() > 110 && !allowed {
                wide.push(format!("{name}:{}", number + 1));
            }
        }
    }
    assert!(wide.is_empty(), "{} lines are too wide:\n{}", wide.len(), wide.join("\n"));
}

/// What the registries hold is what the documents list.
#[test]
fn the_documents_know_every_registry_entry() {
    let documents = files(&[".md"]);
    let documents = documents.iter().filter(|path| {
        let name = name(path);
        name == "README.md" || name.starts_with("docs/")
    });
    let text: String = documents.map(|path| read(path)).collect();
    let formats = kymo::graph::load::ALL.iter().map(|format| format.name());
    let kinds = kymo::graph::generate::ALL.iter().map(|kind| kind.name());
    let models = kymo::model::zoo::ALL.iter().map(|recipe| recipe.name);
    let tasks = kymo::run::task::ALL.iter().map(|task| task.name());
    let metrics = kymo::model::metric::ALL.iter().map(|metric| metric.name());
    let strategies = kymo::plan::strategy::ALL.iter().map(|strategy| strategy.name);
    let partitioners = kymo::plan::partition::ALL.iter().map(|partitioner| partitioner.name());
    let schedulers = kymo::plan::schedule::ALL.iter().map(|scheduler| scheduler.name());
    let shared = strategies.chain(partitioners).chain(schedulers);
    for entry in formats.chain(kinds).chain(models).chain(tasks).chain(metrics).chain(shared) {
        assert!(text.contains(&format!("`{entry}`")), "neither README.md nor docs/ names {entry}");
    }
}

/// Every reader is fuzzed by a target of its own name.
#[test]
fn every_format_has_a_fuzz_target() {
    let manifest = read(&root().join("fuzz/Cargo.toml"));
    for format in kymo::graph::load::ALL {
        assert!(manifest.contains(&format!("name = \"{}\"", format.name())), "{}", format.name());
    }
}

/// Words that stop a native reader; the usual ones say more.
#[test]
fn the_words_are_those_of_the_field() {
    let instead = [
        ("so ma", "ny ", "name the number"),
        ("who", "ever", "name who it is"),
        ("forth and ", "back", "forward and backward"),
        ("cluster of ", "paper", "a simulated cluster"),
        ("dealt ", "out", "assigned"),
        ("deals ", "out", "assigns"),
        ("went ", "astray", "diverged"),
    ];
    for path in files(&[".rs", ".md", ".py", ".toml", ".cu"]) {
        let text = read(&path).to_lowercase();
        for (word, rest, usual) in instead {
            let word = [word, rest].concat();
            assert!(!text.contains(&word), "{} says '{word}': {usual}", name(&path));
        }
    }
}

/// Exit codes are those of the document.
#[test]
fn every_class_of_errors_is_documented_with_its_code() {
    let text = read(&root().join("docs/errors.md"));
    for class in kymo::run::Class::ALL {
        let row = format!("| {} | `{}` |", class.exit_code(), class.name());
        assert!(text.contains(&row), "docs/errors.md has no row {row}");
    }
}
