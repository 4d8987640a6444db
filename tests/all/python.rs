//! The program in docs/store.md reads what Kymo wrote.

use crate::fixture::Bench;
use kymo::graph::Store;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A Python with numpy and safetensors: the one that `ci/check` makes, or the system's.
fn python() -> Option<PathBuf> {
    let made = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/python/bin/python");
    [made, "python3".into()].into_iter().find(|python| {
        let try_it = Command::new(python).args(["-c", "import numpy, safetensors.numpy"]).output();
        try_it.is_ok_and(|output| output.status.success())
    })
}

#[test]
fn python_reads_the_same_steps() {
    let Some(python) = python() else {
        eprintln!("skipped: there is no Python with numpy and safetensors (ci/check makes one)");
        return;
    };
    let document =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/store.md")).unwrap();
    let program = document.split("```python\n").nth(1).unwrap().split("```").next().unwrap();
    let bench = Bench::new();
    let script = bench.file("read_store.py", program);
    bench.json("generate hot --vertices 300 --edges 900 --steps 12 --features 7 --segments 3 -o dense");
    bench.json("generate uniform --vertices 50 --edges 90 --steps 9 --features 0 --undirected --edge-change 0.1 -o plain");
    let rows: String =
        (0..4000).map(|i| format!("{},{},{},{}\n", i % 37, i * i % 41, i % 7, 1000 + i)).collect();
    bench.file("rated.csv", rows);
    bench.json("ingest rated.csv --steps 20 --edge-life 5 -o weighted");
    for store in ["dense", "plain", "weighted"] {
        let answer = bench.command(Command::new(&python).arg(&script).arg(store));
        assert_eq!((answer.code, answer.err.as_str()), (0, ""));
        let store = Store::open(&bench.path(store)).unwrap();
        let lines: Vec<&str> = answer.out.lines().collect();
        assert_eq!(lines.len(), store.steps());
        for (t, line) in lines.iter().enumerate() {
            let snapshot = store.snapshot(t).unwrap();
            let ends: u64 =
                snapshot.edges.iter().map(|e| u64::from(e.source()) + u64::from(e.target())).sum();
            let weights: f64 = (0..snapshot.len()).map(|i| f64::from(snapshot.weight(i))).sum();
            let fields: Vec<&str> = line.split(' ').collect();
            assert_eq!(fields[..3], [t.to_string(), snapshot.len().to_string(), ends.to_string()]);
            let close = |text: &str, expected: f64| {
                (text.parse::<f64>().unwrap() - expected).abs() <= 1e-3 * expected.abs().max(1.0)
            };
            assert!(close(fields[3], weights), "{line}: {weights}");
            match store.manifest().features.kind {
                kymo::graph::store::FeatureKind::Dense => {
                    let sum = store.features(t).unwrap().iter().map(|&x| f64::from(x)).sum();
                    assert!(close(fields[4], sum), "{line}: {sum}");
                }
                _ => assert_eq!(fields[4], "-"),
            }
        }
    }
}
