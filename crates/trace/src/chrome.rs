//! Timelines in the format of Chrome's tracing, which Perfetto reads too.
//!
//! Workers are shown as the threads of a process; what was predicted and what was measured are two processes.
//! Times are microseconds; their fractions keep the nanoseconds.

use std::io::Write;
use std::path::Path;

use kymo_files::write_whole;
use serde::Serialize;
use serde_json::{Value, json};

use crate::align::earliest;
use crate::error::Result;
use crate::span::{Kind, Span};
use crate::timeline::WorkerTrace;

#[derive(Serialize)]
struct Event<'a> {
    name: &'a str,
    cat: &'static str,
    ph: &'static str,
    ts: f64,
    dur: f64,
    pid: u32,
    tid: usize,
    args: Args,
}

#[derive(Serialize)]
struct Args {
    bytes: u64,
}

fn microseconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1000.0
}

/// Threads that viewers show for a worker, for the stages of the run, and for what is read ahead for the
/// worker, beside each other.
struct Lanes {
    worker: usize,
    /// Whether a stage was shown.
    stages: bool,
    /// When each thread that reads is done with what it reads.
    readers: Vec<u64>,
}

impl Lanes {
    /// Numbers of threads from one lane of a worker to the next.
    const STRIDE: usize = 10_000;

    /// The number of the thread that a span is shown at, and what it is called if it is a new one.
    fn of(&mut self, span: &Span) -> (usize, Option<String>) {
        match span.kind {
            Kind::Stage => {
                let is_new = !std::mem::replace(&mut self.stages, true);
                (self.worker + Lanes::STRIDE, is_new.then(|| "stages of the run".to_owned()))
            }
            Kind::Prepare => self.reader(span),
            _ => (self.worker, None),
        }
    }

    /// The same for a span of reading: the first thread that is done by then.
    fn reader(&mut self, span: &Span) -> (usize, Option<String>) {
        let free = self.readers.iter().position(|&end| end <= span.start);
        let lane = free.unwrap_or(self.readers.len());
        match self.readers.get_mut(lane) {
            Some(end) => *end = span.end,
            None => self.readers.push(span.end),
        }
        let name = || format!("reading for worker {}", self.worker);
        (self.worker + Lanes::STRIDE * (lane + 2), free.is_none().then(name))
    }
}

fn event(process: u32, thread: usize, late: u64, span: &Span) -> Event<'_> {
    Event {
        name: &span.name,
        cat: span.kind.name(),
        ph: "X",
        ts: microseconds(span.start.saturating_add(late)),
        dur: microseconds(span.length()),
        pid: process,
        tid: thread,
        args: Args { bytes: span.bytes },
    }
}

/// What a viewer writes beside a thread, and where it puts it.
fn about(process: u32, thread: usize, name: &str, place: usize) -> [Value; 2] {
    [("thread_name", json!({ "name": name })), ("thread_sort_index", json!({ "sort_index": place }))]
        .map(|(name, args)| json!({ "name": name, "ph": "M", "pid": process, "tid": thread, "args": args }))
}

/// Writes timelines into one file; a file that was there is replaced.
///
/// Timelines that began at different moments are shown on one clock, which is 0 at the earliest of their
/// origins. Within a worker, events are in the order of their starts, and outer spans come before inner ones.
pub fn export(traces: &[WorkerTrace], path: &Path) -> Result<()> {
    export_beside(&[("workers", traces)], path)
}

/// Writes groups of timelines beside each other, each under its name and with a clock of its own.
pub fn export_beside(groups: &[(&str, &[WorkerTrace])], path: &Path) -> Result<()> {
    Ok(write_whole(path, |out| {
        let traces = || groups.iter().flat_map(|(_, traces)| traces.iter());
        let left_out: u64 = traces().map(|trace| trace.left_out).sum();
        let error = traces().map(|trace| trace.error).max().unwrap_or(0);
        let notes =
            json!({ "spans left out": left_out, "clocks agree within (microseconds)": microseconds(error) });
        write!(out, "{{\"displayTimeUnit\":\"ms\",\"otherData\":{notes},\"traceEvents\":[")?;
        let mut separator = "\n";
        for (process, (name, traces)) in (1..).zip(groups) {
            let named =
                json!({ "name": "process_name", "ph": "M", "pid": process, "args": { "name": name } });
            write!(out, "{separator}{named}")?;
            separator = ",\n";
            let earliest = earliest(traces);
            for trace in *traces {
                let late = trace.late(earliest);
                let worker = trace.worker;
                for line in about(process, worker, &format!("worker {worker}"), worker) {
                    write!(out, "{separator}{line}")?;
                }
                let mut spans: Vec<&Span> = trace.spans.iter().collect();
                spans.sort_by_key(|span| (span.start, std::cmp::Reverse(span.end)));
                let mut lanes = Lanes { worker, stages: false, readers: Vec::new() };
                for span in spans {
                    let (thread, new) = lanes.of(span);
                    for line in new.iter().flat_map(|name| about(process, thread, name, worker)) {
                        write!(out, "{separator}{line}")?;
                    }
                    out.write_all(separator.as_bytes())?;
                    serde_json::to_writer(&mut *out, &event(process, thread, late, span))?;
                }
            }
        }
        out.write_all(b"\n]}\n")
    })?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn exported(traces: &[WorkerTrace]) -> Value {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.json");
        export(traces, &path).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
    }

    fn span(kind: Kind, name: &'static str, start: u64, end: u64, bytes: u64) -> Span {
        Span { kind, name: name.into(), start, end, bytes }
    }

    #[test]
    fn events_have_the_numbers_and_the_order_of_the_spans() {
        let spans = vec![
            span(Kind::Wait, "halo \"a\"", 1500, 1750, 0),
            span(Kind::Compute, "step", 1500, 4_000_001, 0),
            span(Kind::Send, "out", 0, 10, 12),
        ];
        let traces = [
            WorkerTrace { worker: 0, left_out: 3, spans, ..Default::default() },
            WorkerTrace { worker: 4, left_out: 1, ..Default::default() },
        ];
        let file = exported(&traces);
        assert_eq!(file["otherData"]["spans left out"], 4);
        let event = |name: &str, kind: &str, ts: f64, dur: f64, bytes: u64| {
            let args = json!({ "bytes": bytes });
            json!({
                "name": name, "cat": kind, "ph": "X", "ts": ts, "dur": dur, "pid": 1, "tid": 0, "args": args
            })
        };
        let name = |worker: usize| {
            let args = json!({ "name": format!("worker {worker}") });
            json!({ "name": "thread_name", "ph": "M", "pid": 1, "tid": worker, "args": args })
        };
        let events = file["traceEvents"].as_array().unwrap();
        assert_eq!(events.len(), 8);
        assert_eq!(events[0]["args"]["name"], "workers");
        assert_eq!((&events[1], &events[6]), (&name(0), &name(4)));
        assert_eq!(events[7]["args"]["sort_index"], 4);
        let expected = [
            event("out", "send", 0.0, 0.01, 12),
            event("step", "compute", 1.5, 3998.501, 0),
            event("halo \"a\"", "wait", 1.5, 0.25, 0),
        ];
        assert_eq!(events[3..6], expected);
        assert_eq!(exported(&[])["traceEvents"].as_array().unwrap().len(), 1);
    }

    #[test]
    fn stages_and_readers_have_lanes_of_their_own() {
        let spans = vec![
            span(Kind::Compute, "step", 10, 20, 0),
            span(Kind::Prepare, "snapshot", 10, 30, 0),
            span(Kind::Prepare, "snapshot", 15, 25, 0),
            span(Kind::Stage, "profiling", 0, 40, 0),
            span(Kind::Stage, "optimised", 40, 50, 0),
        ];
        let file = exported(&[WorkerTrace { worker: 0, spans, ..Default::default() }]);
        let events = file["traceEvents"].as_array().unwrap();
        let lanes = |kind: &str| -> Vec<u64> {
            let of = events.iter().filter(|event| event["cat"] == kind);
            of.map(|event| event["tid"].as_u64().unwrap()).collect()
        };
        let named = |thread: u64| {
            let mut names = events.iter().filter(|event| event["name"] == "thread_name");
            names.find(|event| event["tid"] == thread).unwrap()["args"]["name"].as_str().unwrap()
        };
        let (stages, readers) = (lanes("stage"), lanes("prepare"));
        assert!(stages.len() == 2 && stages[0] == stages[1] && named(stages[0]) == "stages of the run");
        assert!(readers[0] != readers[1] && !readers.contains(&stages[0]));
        assert!(readers.iter().all(|&reader| named(reader) == "reading for worker 0"));
        assert_eq!((lanes("compute"), named(0)), (vec![0], "worker 0"));
    }

    #[test]
    fn groups_are_processes_of_their_own() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.json");
        let trace = |start| {
            [WorkerTrace { spans: vec![span(Kind::Compute, "x", start, start + 1, 0)], ..Default::default() }]
        };
        export_beside(&[("done", &trace(1000)), ("predicted", &trace(2000))], &path).unwrap();
        let file: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let events = file["traceEvents"].as_array().unwrap();
        let shown: Vec<(u64, f64)> = (events.iter())
            .filter(|event| event["ph"] == "X")
            .map(|event| (event["pid"].as_u64().unwrap(), event["ts"].as_f64().unwrap()))
            .collect();
        assert_eq!(shown, [(1, 1.0), (2, 2.0)]);
        let names: Vec<&str> = (events.iter())
            .filter(|event| event["name"] == "process_name")
            .map(|event| event["args"]["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["done", "predicted"]);
    }

    #[test]
    fn a_group_is_on_one_clock_and_leaves_others_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.json");
        let trace = |worker, origin| WorkerTrace {
            worker,
            origin,
            spans: vec![span(Kind::Compute, "x", 1000, 2000, 0)],
            ..Default::default()
        };
        let begun = 1_700_000_000_000_000_000;
        let measured = [trace(0, begun + 5000), trace(1, begun), trace(2, 0)];
        export_beside(&[("measured", &measured), ("predicted", &[trace(0, 0)])], &path).unwrap();
        let file: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let events = file["traceEvents"].as_array().unwrap().iter().filter(|event| event["ph"] == "X");
        let starts: Vec<f64> = events.map(|event| event["ts"].as_f64().unwrap()).collect();
        assert_eq!(starts, [6.0, 1.0, 1.0, 1.0]);
    }

    proptest! {
        #[test]
        fn nanoseconds_are_kept(spans in prop::collection::vec((0u64..1 << 45, 0u64..1 << 45), 0..30)) {
            let load = |(start, length)| span(Kind::Load, "x", start, start + length, 0);
            let spans: Vec<Span> = spans.into_iter().map(load).collect();
            let file = exported(&[WorkerTrace { spans: spans.clone(), ..Default::default() }]);
            let nanoseconds = |value: &Value| (value.as_f64().unwrap() * 1000.0).round() as u64;
            let events = file["traceEvents"].as_array().unwrap();
            let times = |event: &Value| (nanoseconds(&event["ts"]), nanoseconds(&event["dur"]));
            let mut found: Vec<(u64, u64)> = events[3..].iter().map(times).collect();
            prop_assert!(found.is_sorted_by_key(|span| span.0));
            found.sort();
            let times = |span: &Span| (span.start, span.end - span.start);
            let mut wanted: Vec<(u64, u64)> = spans.iter().map(times).collect();
            wanted.sort();
            prop_assert_eq!(found, wanted);
        }
    }
}
