//! `trace/worker-N.jsonl` in the folder of a run: the timeline of one worker.
//!
//! The first line says whose it is, when it began, what its spans add up to, and how many there are and were
//! left out; then follows one span a line. A file is there whole or not at all.
//!
//! Workers may be processes on several machines, so each counts time from a moment of its own and keeps the
//! wall clock of that moment. Whatever combines timelines shifts them to the earliest of these moments.

use std::io::Write;
use std::path::{Path, PathBuf};

use kymo_files::write_whole;
use serde::{Deserialize, Serialize};

use crate::align::align;
use crate::error::{Error, Result};
use crate::schema::folder::{TRACES, trace_name, worker_of};
use crate::schema::{self, record};
use crate::span::{Span, Totals};

/// What one worker did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkerTrace {
    /// The worker's number.
    pub worker: usize,
    /// The wall clock at the moment from which the other times count, in nanoseconds since 1970; 0 where it
    /// is not known: in files written before there was this field, and in simulations.
    pub origin: u64,
    /// Nanoseconds by which the origin may be wrong beside those of other workers, whose clocks are others; 0
    /// where all go by one.
    pub error: u64,
    /// Nanoseconds from the origin to the end of the record.
    pub wall: u64,
    /// Spans that were too short to be held beside longer ones: they are in the totals only.
    pub left_out: u64,
    /// What all spans add up to.
    pub totals: Totals,
    /// The spans, in the order in which they ended.
    pub spans: Vec<Span>,
}

/// The first line of a file.
#[derive(Serialize, Deserialize)]
struct Head {
    #[serde(default, serialize_with = "Head::write_version")]
    version: u32,
    worker: usize,
    #[serde(default)]
    origin: u64,
    #[serde(default)]
    error: u64,
    wall: u64,
    spans: usize,
    left_out: u64,
    totals: Totals,
}

record!(Head, 1, "the head of a timeline", "trace the run again");

/// Where the timelines of a run are.
fn folder_of(run: &Path) -> PathBuf {
    run.join(TRACES)
}

impl WorkerTrace {
    /// Writes the timeline into the folder of a run and says where; an older one of this worker is replaced.
    pub fn write(&self, run: &Path) -> Result<PathBuf> {
        let folder = folder_of(run);
        std::fs::create_dir_all(&folder).map_err(Error::resource("cannot create", &folder))?;
        let path = folder.join(trace_name(self.worker));
        write_whole(&path, |out| self.write_to(out))?;
        Ok(path)
    }

    /// The timeline as the text of its file: how it travels from one process to another.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.write_to(&mut bytes).map_err(Error::resource("cannot write", Path::new("a timeline")))?;
        Ok(bytes)
    }

    fn write_to(&self, out: &mut impl Write) -> std::io::Result<()> {
        let head = Head {
            version: Head::VERSION,
            worker: self.worker,
            origin: self.origin,
            error: self.error,
            wall: self.wall,
            spans: self.spans.len(),
            left_out: self.left_out,
            totals: self.totals,
        };
        serde_json::to_writer(&mut *out, &head)?;
        out.write_all(b"\n")?;
        for span in &self.spans {
            serde_json::to_writer(&mut *out, span)?;
            out.write_all(b"\n")?;
        }
        Ok(())
    }

    /// Reads one file.
    pub fn read(path: &Path) -> Result<WorkerTrace> {
        let text = std::fs::read(path).map_err(Error::resource("cannot read", path))?;
        WorkerTrace::from_bytes(&text, path)
    }

    /// The timeline from the text of its file; errors name `path`.
    pub fn from_bytes(text: &[u8], path: &Path) -> Result<WorkerTrace> {
        let mut lines = text.split_inclusive(|&byte| byte == b'\n').enumerate();
        let wrong = |index: usize, problem: String| {
            Error::line(path, index + 1, format!("{problem}; trace the run again"))
        };
        let Some((_, first)) = lines.next() else {
            return Err(Error::file(path, "is empty; trace the run again"));
        };
        let head: Head = schema::from_json(first).map_err(|problem| Error::line(path, 1, problem))?;
        let mut spans = Vec::new();
        for (index, line) in lines {
            let span: Span = serde_json::from_slice(line)
                .map_err(|error| wrong(index, format!("is not a span: {error}")))?;
            if span.end < span.start {
                let problem = format!("the span ends at {} and begins at {}", span.end, span.start);
                return Err(wrong(index, problem));
            }
            spans.push(span);
        }
        if spans.len() != head.spans {
            let problem = format!("has {} spans where its first line says {}", spans.len(), head.spans);
            return Err(Error::file(path, format!("{problem}; trace the run again")));
        }
        let Head { worker, origin, error, wall, left_out, totals, .. } = head;
        Ok(WorkerTrace { worker, origin, error, wall, left_out, totals, spans })
    }
}

/// The timelines of all workers of a run on one clock, in the order of their numbers; files with other names
/// are skipped.
pub fn merge(run: &Path) -> Result<Vec<WorkerTrace>> {
    let folder = folder_of(run);
    let mut traces = Vec::new();
    for entry in std::fs::read_dir(&folder).map_err(Error::resource("cannot read", &folder))? {
        let entry = entry.map_err(Error::resource("cannot read", &folder))?;
        let Some(worker) = entry.file_name().to_str().and_then(worker_of) else { continue };
        let path = entry.path();
        let trace = WorkerTrace::read(&path)?;
        if trace.worker != worker {
            let problem = format!("is the timeline of worker {}; rename it to match", trace.worker);
            return Err(Error::file(&path, problem));
        }
        traces.push(trace);
    }
    traces.sort_by_key(|trace| trace.worker);
    align(&mut traces);
    Ok(traces)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::span::Kind;
    use proptest::prelude::*;

    fn trace(worker: usize, spans: Vec<(usize, String, u64, u64, u64)>) -> WorkerTrace {
        let mut trace = WorkerTrace {
            worker,
            origin: 1_700_000_000_000_000_000,
            wall: 1 << 40,
            left_out: worker as u64,
            ..Default::default()
        };
        for (kind, name, start, length, bytes) in spans {
            let kind = Kind::ALL[kind % Kind::ALL.len()];
            trace.totals.add(kind, length, bytes);
            trace.spans.push(Span { kind, name: name.into(), start, end: start + length, bytes });
        }
        trace
    }

    fn one() -> Vec<(usize, String, u64, u64, u64)> {
        vec![(0, "step".into(), 1, 2, 3)]
    }

    #[test]
    fn files_read_like_this() {
        let run = tempfile::tempdir().unwrap();
        let path = trace(2, one()).write(run.path()).unwrap();
        assert!(path.ends_with("trace/worker-2.jsonl"));
        let text = std::fs::read_to_string(path).unwrap();
        let totals = r#"{"compute":{"time":2,"bytes":3,"count":1}}"#;
        let moments = r#""origin":1700000000000000000,"error":0,"wall":1099511627776"#;
        let head =
            format!(r#"{{"version":1,"worker":2,{moments},"spans":1,"left_out":2,"totals":{totals}}}"#);
        let span = r#"{"kind":"compute","name":"step","start":1,"end":3,"bytes":3}"#;
        assert_eq!(text, format!("{head}\n{span}\n"));
    }

    #[test]
    fn files_from_before_there_were_versions_still_read() {
        let run = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder_of(run.path())).unwrap();
        for worker in 0..2 {
            let head = r#""wall":9,"spans":1,"left_out":0,"totals":{"wait":{"time":2,"bytes":0,"count":1}}"#;
            let span = r#"{"kind":"wait","name":"halo","start":1,"end":3,"bytes":0}"#;
            let path = folder_of(run.path()).join(trace_name(worker));
            std::fs::write(path, format!("{{\"worker\":{worker},{head}}}\n{span}\n")).unwrap();
        }
        for trace in merge(run.path()).unwrap() {
            // They shared one origin: nothing is shifted.
            assert_eq!((trace.origin, trace.wall, trace.spans[0].start, trace.spans[0].end), (0, 9, 1, 3));
        }
    }

    #[test]
    fn bad_files_are_named_with_the_line() {
        let run = tempfile::tempdir().unwrap();
        assert!(merge(run.path()).unwrap_err().to_string().starts_with("cannot read"));
        let path = trace(0, one()).write(run.path()).unwrap();
        let good = std::fs::read_to_string(&path).unwrap();
        let answer = |text: &str| {
            std::fs::write(&path, text).unwrap();
            merge(run.path()).unwrap_err().to_string()
        };
        let head = good.lines().next().unwrap();
        for (text, problem) in [
            (String::new(), "worker-0.jsonl: is empty"),
            ("{}\n".into(), "worker-0.jsonl, line 1: is not the head of a timeline: missing field `worker`"),
            (
                good.replace("\"version\":1", "\"version\":2"),
                "line 1: is the head of a timeline of version 2, and this Kymo knows up to 1; update Kymo",
            ),
            (format!("{good}{{\n"), "worker-0.jsonl, line 3: is not a span"),
            (
                good.replace("\"end\":3", "\"end\":0"),
                "worker-0.jsonl, line 2: the span ends at 0 and begins at 1",
            ),
            (good.replace("\"compute\",", "\"sleep\","), "line 2: is not a span: unknown variant `sleep`"),
            (format!("{head}\n"), "worker-0.jsonl: has 0 spans where its first line says 1"),
            (good.replace("\"worker\":0", "\"worker\":7"), "worker-0.jsonl: is the timeline of worker 7"),
        ] {
            let error = answer(&text);
            assert!(error.contains(problem), "{error}");
        }
    }

    #[test]
    fn other_files_are_skipped() {
        let run = tempfile::tempdir().unwrap();
        trace(0, one()).write(run.path()).unwrap();
        for name in ["worker-1.jsonl.partial", "worker-.jsonl", "worker-01.jsonl", "notes"] {
            std::fs::write(folder_of(run.path()).join(name), "x").unwrap();
        }
        assert_eq!(merge(run.path()).unwrap(), [trace(0, one())]);
    }

    proptest! {
        // Every file is synced to the disk, which is slow.
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn timelines_come_back(
            workers in prop::collection::vec(
                prop::collection::vec(
                    (0usize..9, ".{0,20}", 0u64..1 << 50, 0u64..1 << 50, 0u64..1 << 50),
                    0..20,
                ),
                0..12,
            )
        ) {
            let run = tempfile::tempdir().unwrap();
            let traces: Vec<WorkerTrace> =
                workers.into_iter().enumerate().map(|(worker, spans)| trace(worker, spans)).collect();
            std::fs::create_dir(folder_of(run.path())).unwrap();
            for trace in &traces {
                // Written twice: the second replaces the first.
                WorkerTrace { worker: trace.worker, ..Default::default() }.write(run.path()).unwrap();
                trace.write(run.path()).unwrap();
            }
            prop_assert_eq!(merge(run.path()).unwrap(), traces);
        }
    }
}
