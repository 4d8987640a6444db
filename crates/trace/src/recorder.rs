//! The recorder of one worker: takes spans while the worker runs.
//!
//! Totals are exact however long a run is; spans are held up to a limit, and those beyond it are counted.
//!
//! Spans may lie inside each other. In the totals, a moment belongs to the innermost span of work or waiting that was open:
//! a computation that waits is busy only while it does not wait, and an evaluation that computes is not busy twice. Sending
//! and receiving go on beside the rest and take nothing away. For this a span must be known while it is open, so spans with
//! others inside are made with `open` or `time`; `record` is for those that contain nothing. A recorder follows one thread:
//! what another thread records while a span is open is taken to lie inside it.

use std::borrow::Cow;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::span::{Kind, Part, Span, Totals};
use crate::timeline::WorkerTrace;

/// Spans held unless another limit is set: some 15 megabytes.
pub const LIMIT: usize = 1 << 18;

/// Records what one worker does.
pub struct Recorder {
    worker: usize,
    origin: Instant,
    limit: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    spans: Vec<Span>,
    left_out: u64,
    totals: Totals,
    open: Vec<Frame>,
    opened: u64,
}

/// A span that is open.
struct Frame {
    id: u64,
    start: u64,
    /// Nanoseconds of work and waiting inside it.
    inside: u64,
}

/// A span that ends when this is dropped.
#[must_use = "the span ends when this is dropped"]
pub struct Open<'a> {
    recorder: &'a Recorder,
    id: u64,
    kind: Kind,
    name: Cow<'static, str>,
    bytes: u64,
}

impl Recorder {
    /// A recorder that counts time from `origin`, which all workers of a run should share.
    pub fn new(worker: usize, origin: Instant) -> Recorder {
        Recorder { worker, origin, limit: LIMIT, state: Mutex::default() }
    }

    /// Holds at most so many spans.
    pub fn with_limit(self, spans: usize) -> Recorder {
        Recorder { limit: spans, ..self }
    }

    /// The worker's number.
    pub fn worker(&self) -> usize {
        self.worker
    }

    /// Takes a span that began at `begun` and ends now, with no other span inside.
    pub fn record(&self, kind: Kind, name: impl Into<Cow<'static, str>>, begun: Instant, bytes: u64) {
        let (start, end) = (self.since_origin(begun), self.since_origin(Instant::now()));
        self.lock().close(None, Span { kind, name: name.into(), start, end, bytes }, self.limit);
    }

    /// Runs `work` within a span.
    pub fn time<T>(&self, kind: Kind, name: impl Into<Cow<'static, str>>, work: impl FnOnce() -> T) -> T {
        let _open = self.open(kind, name);
        work()
    }

    /// Begins a span that ends when the guard is dropped.
    pub fn open(&self, kind: Kind, name: impl Into<Cow<'static, str>>) -> Open<'_> {
        let name = name.into();
        let mut state = self.lock();
        let id = state.opened;
        state.opened += 1;
        let start = self.since_origin(Instant::now());
        state.open.push(Frame { id, start, inside: 0 });
        Open { recorder: self, id, kind, name, bytes: 0 }
    }

    /// What the spans that have ended add up to.
    pub fn totals(&self) -> Totals {
        self.lock().totals
    }

    /// How many spans went beyond the limit: they are in the totals only.
    pub fn left_out(&self) -> u64 {
        self.lock().left_out
    }

    /// Everything up to now; spans that are open are not in it.
    pub fn trace(&self) -> WorkerTrace {
        let state = self.lock();
        WorkerTrace {
            worker: self.worker,
            wall: self.since_origin(Instant::now()),
            left_out: state.left_out,
            totals: state.totals,
            spans: state.spans.clone(),
        }
    }

    fn since_origin(&self, moment: Instant) -> u64 {
        u64::try_from(moment.saturating_duration_since(self.origin).as_nanos()).unwrap_or(u64::MAX)
    }

    /// Records are of use also after a panic, then most of all.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open<'_> {
    /// Adds to the bytes that the span moved.
    pub fn add_bytes(&mut self, bytes: u64) {
        self.bytes += bytes;
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        let end = self.recorder.since_origin(Instant::now());
        let name = std::mem::take(&mut self.name);
        // The start is in the frame.
        let span = Span { kind: self.kind, name, start: end, end, bytes: self.bytes };
        self.recorder.lock().close(Some(self.id), span, self.recorder.limit);
    }
}

impl State {
    /// Ends a span; `id` is that of its frame if it was open.
    fn close(&mut self, id: Option<u64>, mut span: Span, limit: usize) {
        // Guards are mostly dropped in the order opposite to their making; those that are not are found below the top.
        let place = id.and_then(|id| self.open.iter().rposition(|frame| frame.id == id));
        let frame = place.map(|place| self.open.remove(place));
        let around = place.unwrap_or(self.open.len()).checked_sub(1).and_then(|top| self.open.get_mut(top));
        let inside = frame.as_ref().map_or(0, |frame| frame.inside);
        span.start = frame.map_or(span.start, |frame| frame.start);
        let length = span.end.saturating_sub(span.start);
        if let Some(around) = around {
            around.inside += match span.kind.part() {
                // What began earlier is inside only with its end.
                Part::Busy | Part::Waiting => span.end.saturating_sub(span.start.max(around.start)),
                // It takes nothing away itself, but what was inside it does.
                Part::Beside => inside,
            };
        }
        self.totals.add(span.kind, length.saturating_sub(inside), span.bytes);
        if self.spans.len() < limit {
            self.spans.push(span);
        } else {
            self.left_out += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    const PAUSE: Duration = Duration::from_millis(4);

    fn pause() -> Instant {
        let begun = Instant::now();
        std::thread::sleep(PAUSE);
        begun
    }

    /// Lengths of the spans of each kind, as they stand in the timeline.
    fn lengths(recorder: &Recorder, kind: Kind) -> u64 {
        let spans = recorder.trace().spans;
        spans.iter().filter(|span| span.kind == kind).map(|span| span.end - span.start).sum()
    }

    #[test]
    fn waiting_inside_is_no_work() {
        let recorder = Recorder::new(3, Instant::now());
        {
            let _span = recorder.open(Kind::Compute, "step");
            pause();
            recorder.record(Kind::Wait, "halo", pause(), 0);
            recorder.time(Kind::AllReduce, "gradient", || recorder.record(Kind::Wait, "peers", pause(), 0));
        }
        let totals = recorder.totals();
        let (compute, reduce) = (lengths(&recorder, Kind::Compute), lengths(&recorder, Kind::AllReduce));
        let spans = recorder.trace().spans;
        let halo = spans[0].end - spans[0].start;
        let peers = spans[1].end - spans[1].start;
        assert_eq!(totals.of(Kind::Compute).time, compute - halo - reduce);
        assert_eq!(totals.of(Kind::AllReduce).time, reduce - peers);
        assert_eq!(totals.of(Kind::Wait).time, halo + peers);
        assert_eq!(totals.busy() + totals.waiting(), compute);
        assert!(totals.busy() >= PAUSE.as_nanos() as u64 && totals.waiting() >= 2 * PAUSE.as_nanos() as u64);
    }

    #[test]
    fn work_inside_work_counts_once_and_messages_take_nothing_away() {
        let recorder = Recorder::new(0, Instant::now());
        recorder.time(Kind::Evaluate, "validation", || {
            recorder.time(Kind::Compute, "forward", pause);
            let mut message = recorder.open(Kind::Receive, "halo");
            message.add_bytes(8);
            message.add_bytes(4);
            recorder.record(Kind::Wait, "halo", pause(), 0);
            pause();
        });
        let totals = recorder.totals();
        let whole = lengths(&recorder, Kind::Evaluate);
        assert_eq!(totals.busy() + totals.waiting(), whole);
        assert_eq!(totals.of(Kind::Evaluate).time, whole - totals.of(Kind::Compute).time - totals.waiting());
        assert_eq!(totals.of(Kind::Receive).bytes, 12);
    }

    #[test]
    fn what_began_before_takes_away_only_its_end() {
        let recorder = Recorder::new(0, Instant::now());
        let begun = pause();
        let span = recorder.open(Kind::Compute, "step");
        recorder.record(Kind::Wait, "early", begun, 0);
        drop(span);
        let spans = recorder.trace().spans;
        assert_eq!(recorder.totals().busy(), spans[1].end - spans[0].end);
    }

    #[test]
    fn guards_may_be_dropped_in_any_order() {
        let recorder = Recorder::new(0, Instant::now());
        let outer = recorder.open(Kind::Load, "outer");
        let inner = recorder.open(Kind::Compute, "inner");
        drop(outer);
        recorder.record(Kind::Wait, "inside inner", pause(), 0);
        drop(inner);
        let totals = recorder.totals();
        assert_eq!(
            totals.of(Kind::Compute).time,
            lengths(&recorder, Kind::Compute) - totals.of(Kind::Wait).time
        );
        assert_eq!(totals.of(Kind::Load).time, lengths(&recorder, Kind::Load));
        assert!(recorder.lock().open.is_empty());
    }

    #[test]
    fn moments_before_the_origin_are_the_origin() {
        let begun = pause();
        let recorder = Recorder::new(0, Instant::now());
        recorder.record(Kind::Load, "early", begun, 0);
        let trace = recorder.trace();
        assert_eq!(trace.spans[0].start, 0);
        assert_eq!(trace.totals.of(Kind::Load).time, trace.spans[0].end);
    }

    proptest! {
        /// The limit takes away spans and no totals.
        #[test]
        fn totals_go_on_beyond_the_limit(limit in 0usize..20, bytes in prop::collection::vec(0u64..100, 0..30)) {
            let recorder = Recorder::new(0, Instant::now()).with_limit(limit);
            for &bytes in &bytes {
                recorder.record(Kind::Send, "part", Instant::now(), bytes);
            }
            let trace = recorder.trace();
            prop_assert_eq!(trace.spans.len(), bytes.len().min(limit));
            prop_assert_eq!(trace.left_out, bytes.len().saturating_sub(limit) as u64);
            prop_assert_eq!(recorder.left_out(), trace.left_out);
            prop_assert_eq!(trace.totals.of(Kind::Send).count, bytes.len() as u64);
            prop_assert_eq!(trace.totals.bytes_out(), bytes.iter().sum::<u64>());
        }
    }
}
