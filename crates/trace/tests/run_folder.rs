//! The folder of a run as a whole: one of before there were versions, what is written into one, damaged
//! files, and the document that describes them.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

use std::path::{Path, PathBuf};
use std::process::Command;

use kymo_trace::metrics::Log;
use kymo_trace::schema::folder::{METRICS, PLAN, PROFILE, SCHEDULE, SETTINGS, SUMMARY, TRACES, trace_name};
use kymo_trace::schema::{PlanRecord, PlannedEpoch, PlannedWorker, RunFolder};
use serde_json::Value;

/// A run of two workers under BLAD, as Kymo wrote it on a small generated graph before files had versions; of
/// the spans only the first are kept, the others count as left out.
fn before_versions() -> RunFolder {
    RunFolder::open(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/version-0")).unwrap()
}

fn plan() -> PlanRecord {
    PlanRecord {
        version: PlanRecord::VERSION,
        strategy: "blad".into(),
        workers: vec![PlannedWorker::default(); 2],
        windows: 10,
        iterations: 3,
        seconds: 0.02,
        bound: None,
        edge_cut: 0,
        epoch: PlannedEpoch::default(),
    }
}

/// A folder with every file, written as the current version.
fn written() -> (tempfile::TempDir, RunFolder) {
    let (old, place) = (before_versions(), tempfile::tempdir().unwrap());
    let run = RunFolder::open(place.path()).unwrap();
    run.write_summary(&old.summary().unwrap().unwrap()).unwrap();
    run.write_profile(&old.profile().unwrap().unwrap()).unwrap();
    run.write_schedule(&old.schedule().unwrap().unwrap()).unwrap();
    run.write_plan(&plan()).unwrap();
    let mut log = Log::create(&run.file(METRICS)).unwrap();
    old.epochs().unwrap().iter().for_each(|epoch| log.append(epoch).unwrap());
    old.traces().unwrap().iter().for_each(|trace| drop(trace.write(run.path()).unwrap()));
    std::fs::copy(old.file(SETTINGS), run.file(SETTINGS)).unwrap();
    (place, run)
}

#[test]
fn a_folder_from_before_there_were_versions_is_read_whole() {
    let run = before_versions();
    let settings = run.settings().unwrap().unwrap();
    assert_eq!(settings.get("parallel", "workers").unwrap().as_integer(), Some(2));
    assert_eq!(settings.get("model", "name").unwrap().as_str(), Some("graphsage-linear"));
    let epochs = run.epochs().unwrap();
    assert_eq!(epochs.len(), 8);
    assert_eq!((epochs[7].epoch, epochs[7].version, epochs[7].memory), (8, 0, 44_539_904));
    let summary = run.summary().unwrap().unwrap();
    assert_eq!((summary.version, summary.best_epoch, summary.parameters), (0, 8, 6241));
    assert_eq!(summary.test.baselines["mean"]["mae"], 1.3480798130168647);
    assert_eq!(summary.seconds[0], ("training".to_owned(), 0.211294036));
    let workers = summary.workers.unwrap();
    assert_eq!((workers.workers[1].traffic().gradients, workers.planned), (799_360, 149_880));
    let profile = run.profile().unwrap().unwrap();
    assert_eq!((profile.seconds.len(), profile.stages.len(), profile.explained.len()), (10, 6, 6));
    let schedule = run.schedule().unwrap().unwrap();
    assert_eq!((schedule.by.as_str(), schedule.note, schedule.iterations.len()), ("blad", None, 3));
    assert_eq!(run.plan().unwrap(), None);
    let traces = run.traces().unwrap();
    assert_eq!(traces.iter().map(|trace| (trace.worker, trace.origin)).collect::<Vec<_>>(), [(0, 0), (1, 0)]);
    assert_eq!(traces[0].spans.len(), 6);
}

#[test]
fn what_is_written_comes_back_with_the_current_version() {
    let ((_place, run), old) = (written(), before_versions());
    for name in [SUMMARY, PROFILE, SCHEDULE, PLAN] {
        let value: Value = serde_json::from_slice(&std::fs::read(run.file(name)).unwrap()).unwrap();
        assert_eq!(value["version"], 1, "{name}");
    }
    let mut summary = run.summary().unwrap().unwrap();
    assert_eq!(std::mem::take(&mut summary.version), 1);
    assert_eq!(Some(summary), old.summary().unwrap());
    let mut profile = run.profile().unwrap().unwrap();
    assert_eq!(std::mem::take(&mut profile.version), 1);
    assert_eq!(Some(profile), old.profile().unwrap());
    let mut schedule = run.schedule().unwrap().unwrap();
    assert_eq!(std::mem::take(&mut schedule.version), 1);
    assert_eq!(Some(schedule), old.schedule().unwrap());
    assert_eq!(run.plan().unwrap(), Some(plan()));
    assert!(run.epochs().unwrap().iter().all(|epoch| epoch.version == 1));
    assert_eq!(run.traces().unwrap(), old.traces().unwrap());
    assert_eq!(run.settings().unwrap(), old.settings().unwrap());
}

#[test]
fn what_is_not_there_is_nothing_and_no_folder_is_an_error() {
    let place = tempfile::tempdir().unwrap();
    let run = RunFolder::open(place.path()).unwrap();
    assert_eq!(run.settings().unwrap(), None);
    assert_eq!((run.epochs().unwrap(), run.traces().unwrap()), (Vec::new(), Vec::new()));
    assert_eq!((run.summary().unwrap(), run.profile().unwrap()), (None, None));
    assert_eq!((run.schedule().unwrap(), run.plan().unwrap()), (None, None));
    let none = RunFolder::open(place.path().join("none")).unwrap_err().to_string();
    assert!(none.starts_with("cannot open the run's folder ") && none.contains("none"), "{none}");
    std::fs::write(run.file("file"), "").unwrap();
    let file = RunFolder::open(run.file("file")).unwrap_err().to_string();
    assert!(file.contains("file: is not a folder; expected the folder of a run"), "{file}");
}

#[test]
fn damage_and_later_versions_are_named_with_their_place() {
    let (_place, run) = written();
    let metrics = std::fs::read_to_string(run.file(METRICS)).unwrap();
    let trace: PathBuf = [TRACES, &trace_name(1)].iter().collect();
    let trace = trace.to_str().unwrap();
    let answer = |name: &str, text: &str| {
        let good = std::fs::read(run.file(name)).unwrap();
        std::fs::write(run.file(name), text).unwrap();
        let answers = [
            run.settings().err(),
            run.epochs().err(),
            run.summary().err(),
            run.profile().err(),
            run.schedule().err(),
            run.plan().err(),
            run.traces().err(),
        ];
        std::fs::write(run.file(name), good).unwrap();
        let errors: Vec<String> = answers.into_iter().flatten().map(|error| error.to_string()).collect();
        assert_eq!(errors.len(), 1, "only the damaged file is in the way: {errors:?}");
        errors[0].clone()
    };
    let later = r#"{"version": 2}"#;
    for (name, text, expected) in [
        (SETTINGS, "[train]\nepochs", "settings.toml, line 2: is not part of the settings of a run: "),
        (
            METRICS,
            &metrics.replacen("\"epoch\":3", "\"epoch\":-3", 1),
            "metrics.jsonl, line 3: is not the record",
        ),
        (
            METRICS,
            &format!("{metrics}{later}\n"),
            "metrics.jsonl, line 9: is the record of an epoch of version 2",
        ),
        (
            SUMMARY,
            "{\n\"version\": 1, \"model\": 3}",
            "summary.json: is not the summary of a run: invalid type",
        ),
        (SUMMARY, later, "summary.json: is the summary of a run of version 2, and this Kymo knows up to 1"),
        (PROFILE, "", "profile.json: is not a profile: EOF while parsing"),
        (PROFILE, later, "profile.json: is a profile of version 2, and this Kymo knows up to 1; update Kymo"),
        (SCHEDULE, "{}", "schedule.json: is not a schedule: missing field `strategy`"),
        (SCHEDULE, later, "schedule.json: is a schedule of version 2"),
        (PLAN, "[", "plan.json: is not a plan: "),
        (PLAN, later, "plan.json: is a plan of version 2"),
        (trace, "{}\n", "worker-1.jsonl, line 1: is not the head of a timeline: missing field"),
        (trace, later, "worker-1.jsonl, line 1: is the head of a timeline of version 2"),
    ] {
        let error = answer(name, text);
        assert!(error.contains(expected), "{error}");
    }
    // A line that was cut short by a kill is no damage.
    std::fs::write(run.file(METRICS), format!("{metrics}{{\"epoch\":")).unwrap();
    assert_eq!(run.epochs().unwrap().len(), 8);
}

fn document() -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/run-folder.md")).unwrap()
}

/// The part of the document about a file.
fn chapter(document: &str, file: &str) -> String {
    let start = document.find(&format!("\n## `{file}`\n")).unwrap_or_else(|| panic!("no chapter on {file}"));
    document[start + 4..].split("\n## ").next().unwrap().to_owned()
}

/// The keys of all objects in a value, except those that are names of metrics, baselines or kinds of spans.
fn keys(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                found.push(key.clone());
                if !["metrics", "validation", "baselines", "totals"].contains(&key.as_str()) {
                    keys(value, found);
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| keys(value, found)),
        _ => {}
    }
}

#[test]
fn the_document_has_every_field() {
    let ((_place, run), document) = (written(), document());
    for (file, title) in [
        (METRICS, METRICS),
        (SUMMARY, SUMMARY),
        (PLAN, PLAN),
        (PROFILE, PROFILE),
        (SCHEDULE, SCHEDULE),
        ("trace/worker-0.jsonl", "trace/worker-N.jsonl"),
    ] {
        let text = std::fs::read_to_string(run.file(file)).unwrap();
        let mut found = Vec::new();
        for value in serde_json::Deserializer::from_str(&text).into_iter::<Value>() {
            keys(&value.unwrap(), &mut found);
        }
        let chapter = chapter(&document, title);
        for key in found {
            let told = [format!("`{key}`"), format!(".{key}`")].iter().any(|told| chapter.contains(told));
            assert!(told, "{file}: `{key}` is not in docs/run-folder.md");
        }
    }
}

#[test]
fn the_program_in_the_document_reads_a_run() {
    if !Command::new("python3").arg("--version").output().is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: there is no python3");
        return;
    }
    let program = document().split("```python\n").nth(1).unwrap().split("```").next().unwrap().to_owned();
    let (_place, run) = written();
    for folder in [before_versions().path(), run.path()] {
        let answer = Command::new("python3").arg("-c").arg(&program).arg(folder).output().unwrap();
        assert!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr));
        let text = String::from_utf8(answer.stdout).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 9);
        assert!(
            lines[7].starts_with("epoch 8: loss 0.2676201522350311, mae 0.6969402772701165, mse"),
            "{text}"
        );
        let expected = "graphsage-linear: best epoch 8, test {'mae': 0.7047662242050816,";
        assert!(lines[8].starts_with(expected), "{text}");
    }
}
