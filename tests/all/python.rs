//! Programs in Python read what Kymo wrote: the one in docs/store.md, and TensorBoard.

use crate::fixture::Bench;
use kymo::graph::Store;
use kymo::trace::tensorboard::EventFile;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A Python that can import these: the one that `ci/check` makes, or the system's.
fn python(imports: &str) -> Option<PathBuf> {
    let made = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/python/bin/python");
    [made, "python3".into()].into_iter().find(|python| {
        let try_it = Command::new(python).args(["-c", &format!("import {imports}")]).output();
        try_it.is_ok_and(|output| output.status.success())
    })
}

#[test]
fn python_reads_the_same_steps() {
    let Some(python) = python("numpy, safetensors.numpy") else {
        eprintln!("skipped: there is no Python with numpy and safetensors (ci/check makes one)");
        return;
    };
    let document =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/store.md")).unwrap();
    let program = document.split("```python\n").nth(1).unwrap().split("```").next().unwrap();
    let bench = Bench::new();
    let script = bench.file("read_store.py", program);
    bench.json("generate hot --vertices 300 --edges 900 --steps 12 --features 7 --segments 3 -o dense");
    bench.json(
        "generate uniform --vertices 50 --edges 90 --steps 9 --features 0 --undirected --edge-change \
         0.1 -o plain",
    );
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

/// Prints every scalar that TensorBoard finds in a file: tag, step, the bits of value and time.
const SCALARS: &str = r#"
import struct, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
found = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0}).Reload()
assert found.file_version == 2.0, found.file_version
for tag in found.Tags()["scalars"]:
    for event in found.Scalars(tag):
        print(tag, event.step, struct.pack("<f", event.value).hex(), struct.pack("<d", event.wall_time).hex())
"#;

#[test]
fn tensorboard_reads_the_same_scalars() {
    let Some(python) = python("tensorboard.backend.event_processing.event_accumulator") else {
        eprintln!("skipped: there is no Python with tensorboard (ci/check makes one)");
        return;
    };
    let bench = Bench::new();
    let script = bench.file("scalars.py", SCALARS);
    let mut events = EventFile::create(&bench.path("board"), "run", 1.7e9).unwrap();
    let mut expected = Vec::new();
    let long = "x".repeat(300);
    for tag in ["train/loss", "größe", &long] {
        let values =
            [0.0, -0.0, 0.1, f32::MAX, f32::MIN_POSITIVE, f32::INFINITY, f32::NEG_INFINITY, f32::NAN];
        for (i, value) in values.into_iter().enumerate() {
            let (step, wall_time) = (1i64 << (5 * i), 1.7e9 + 0.125 * i as f64);
            events.scalar(tag, step, value, wall_time).unwrap();
            let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
            expected.push(format!(
                "{tag} {step} {} {}",
                hex(&value.to_le_bytes()),
                hex(&wall_time.to_le_bytes())
            ));
        }
    }
    events.flush().unwrap();
    let read = |path: &Path| {
        let answer =
            bench.command(Command::new(&python).arg(&script).arg(path).env("PYTHONIOENCODING", "utf-8"));
        assert_eq!(answer.code, 0, "{}", answer.err);
        answer.out.lines().map(String::from).collect::<Vec<_>>()
    };
    assert_eq!(read(events.path()), expected);
    // A record that a kill cut short costs that record alone.
    let whole = std::fs::read(events.path()).unwrap();
    let cut = bench.file("events.out.tfevents.1.cut", &whole[..whole.len() - 7]);
    assert_eq!(read(&cut), expected[..expected.len() - 1]);
}

/// What a run logged is what TensorBoard shows, also when the run went on in a second file.
#[test]
fn tensorboard_reads_a_run() {
    let Some(python) = python("tensorboard.backend.event_processing.event_accumulator") else {
        eprintln!("skipped: there is no Python with tensorboard (ci/check makes one)");
        return;
    };
    let bench = Bench::new();
    let script = bench.file("scalars.py", SCALARS);
    bench.make_small();
    for (epochs, files) in [(3, 1), (5, 2)] {
        bench.done(&format!("train small --epochs {epochs} --resume -o run"));
        assert_eq!(bench.files("run/tensorboard").len(), files);
        let answer = bench.command(Command::new(&python).arg(&script).arg("run/tensorboard"));
        assert_eq!(answer.code, 0, "{}", answer.err);
        // Tag, step and value; the time is the reader's business.
        let found: BTreeSet<&str> = answer.out.lines().map(|line| line.rsplit_once(' ').unwrap().0).collect();
        let log = bench.log("run");
        assert_eq!(log.len(), epochs);
        for line in &log {
            let validation = line["validation"].as_object().unwrap().iter();
            let validation = validation.map(|(name, value)| (format!("{name}/validation"), value));
            let rate = ("learning_rate".to_owned(), &line["learning_rate"]);
            for (tag, value) in validation.chain([("loss/train".to_owned(), &line["loss"]), rate]) {
                let bits = (value.as_f64().unwrap() as f32).to_bits().swap_bytes();
                let expected = format!("{tag} {} {bits:08x}", line["epoch"]);
                assert!(found.contains(expected.as_str()), "{expected} is not in {found:#?}");
            }
        }
        let of_epochs = |line: &&&str| line.starts_with("mse/validation ");
        assert_eq!(found.iter().filter(of_epochs).count(), epochs, "{found:#?}");
    }
}
