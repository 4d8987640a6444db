//! The invariants of ARCHITECTURE.md that a program can hold.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Every file of the project with one of these endings, wherever it is.
fn files(endings: &[&str]) -> Vec<PathBuf> {
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

fn name(path: &Path) -> String {
    path.strip_prefix(root()).unwrap().display().to_string()
}

/// The part of a source file that is not its tests.
fn product(text: &str) -> &str {
    text.split("#[cfg(test)]").next().unwrap_or(text)
}

fn is_product(path: &Path) -> bool {
    let name = name(path);
    !["tests/", "benches/", "fuzz/", "examples/"].iter().any(|folder| name.contains(folder))
        && !name.ends_with("tests.rs")
}

#[test]
fn crates_know_only_what_they_may() {
    let allowed: BTreeMap<&str, &[&str]> = [
        ("graph", &[][..]),
        ("tensor", &[]),
        ("comm", &[]),
        ("trace", &[]),
        ("model", &["tensor"]),
        ("plan", &["graph"]),
        ("run", &["graph", "tensor", "comm", "trace", "model", "plan"]),
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
            // METIS draws from the random numbers of the C library: its state is that of the process, whatever we do.
            let lock =
                name(path) == "crates/plan/src/partition/multilevel.rs" && code.contains("ALONE: Mutex<()>");
            let state = !lock && (code.starts_with("static ") || code.starts_with("pub static "));
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
        "crates/graph/src/store/arrays.rs",
        "crates/tensor/src/cuda/enabled.rs",
        "crates/tensor/src/ops/product.rs",
        "crates/tensor/src/simd.rs",
    ];
    for path in files(&[".rs"]).iter().filter(|path| is_product(path)) {
        if read(path).lines().any(|line| line.contains("unsafe {")) {
            assert!(doors.contains(&name(path).as_str()), "{} has unsafe code", name(path));
        }
    }
}

#[test]
fn features_name_things_to_install() {
    let allowed = ["mpi", "cuda", "nccl", "ilp", "default"];
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

/// What the registries hold is what the documents list.
#[test]
fn the_documents_know_every_registry_entry() {
    let text = read(&root().join("README.md"));
    let formats = kymo::graph::load::ALL.iter().map(|format| format.name());
    let kinds = kymo::graph::generate::ALL.iter().map(|kind| kind.name());
    let models = kymo::model::zoo::ALL.iter().map(|recipe| recipe.name);
    let tasks = kymo::run::task::ALL.iter().map(|task| task.name());
    let metrics = kymo::model::metric::ALL.iter().map(|metric| metric.name());
    let strategies = kymo::plan::strategy::ALL.iter().map(|strategy| strategy.name);
    let partitioners = kymo::plan::partition::ALL.iter().map(|partitioner| partitioner.name());
    let shared = strategies.chain(partitioners);
    for entry in formats.chain(kinds).chain(models).chain(tasks).chain(metrics).chain(shared) {
        assert!(text.contains(&format!("`{entry}`")), "README.md does not name {entry}");
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
