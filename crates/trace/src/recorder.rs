//! The recorder of one worker: takes spans while the worker runs.
//!
//! Totals are exact however long a run is; spans are held up to a limit. Where there are more, the shortest
//! are left out and counted, of the whole run: what a timeline is looked at for are the long ones.
//!
//! Spans may be nested. In the totals, a moment belongs to the innermost span of work or waiting that was
//! open: a computation that waits is busy only while it does not wait, and an evaluation that computes is not
//! busy twice. Sending and receiving run beside the rest and subtract nothing. For this a span must be known
//! while it is open, so spans with others inside are made with `open` or `time`; `record` is for those that
//! contain nothing. A recorder follows one thread: what another thread records while a span is open is taken
//! to lie inside it.
//!
//! Times count from the making of the recorder. The wall clock of that moment is kept too, so that timelines
//! of workers in other processes can be aligned with this one.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::span::{Kind, Part, Span, Totals};
use crate::timeline::WorkerTrace;

/// Spans held unless another limit is set: more than a viewer shows at a time, and no more than a short run
/// writes in a few milliseconds.
pub const LIMIT: usize = 1 << 14;

/// Records what one worker does.
pub struct Recorder {
    worker: usize,
    zero: Instant,
    /// The wall clock at zero, in nanoseconds since 1970.
    origin: u64,
    limit: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    spans: Vec<Span>,
    /// Nanoseconds of the shortest spans that are held.
    shortest: u64,
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
    /// A recorder that counts time from now.
    pub fn new(worker: usize) -> Recorder {
        let (zero, wall) = (Instant::now(), SystemTime::now());
        // A clock set before 1970 leaves the origin unknown, which is 0.
        let since = wall.duration_since(UNIX_EPOCH).unwrap_or_default();
        let origin = u64::try_from(since.as_nanos()).unwrap_or(0);
        Recorder { worker, zero, origin, limit: LIMIT, state: Mutex::default() }
    }

    /// Holds at most this number of spans.
    pub fn with_limit(self, spans: usize) -> Recorder {
        Recorder { limit: spans, ..self }
    }

    /// The worker's number.
    pub fn worker(&self) -> usize {
        self.worker
    }

    /// Records a span that began at `begun` and ends now, with no other span inside.
    pub fn record(&self, kind: Kind, name: impl Into<Cow<'static, str>>, begun: Instant, bytes: u64) {
        let (start, end) = (self.since_zero(begun), self.since_zero(Instant::now()));
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
        let start = self.since_zero(Instant::now());
        state.open.push(Frame { id, start, inside: 0 });
        Open { recorder: self, id, kind, name, bytes: 0 }
    }

    /// What the spans that have ended add up to.
    pub fn totals(&self) -> Totals {
        self.lock().totals
    }

    /// How many spans were too short to be held: they are in the totals only.
    pub fn left_out(&self) -> u64 {
        self.lock().left_out
    }

    /// Everything up to now; spans that are open are not in it.
    pub fn trace(&self) -> WorkerTrace {
        let state = self.lock();
        WorkerTrace {
            worker: self.worker,
            origin: self.origin,
            error: 0,
            wall: self.since_zero(Instant::now()),
            left_out: state.left_out,
            totals: state.totals,
            spans: state.spans.clone(),
        }
    }

    fn since_zero(&self, moment: Instant) -> u64 {
        u64::try_from(moment.saturating_duration_since(self.zero).as_nanos()).unwrap_or(u64::MAX)
    }

    /// A panic elsewhere does not spoil the records: that is when they are needed most.
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
        let end = self.recorder.since_zero(Instant::now());
        let name = std::mem::take(&mut self.name);
        // The start is in the frame.
        let span = Span { kind: self.kind, name, start: end, end, bytes: self.bytes };
        self.recorder.lock().close(Some(self.id), span, self.recorder.limit);
    }
}

impl State {
    /// Ends a span; `id` is that of its frame if it was open.
    fn close(&mut self, id: Option<u64>, mut span: Span, limit: usize) {
        // Guards are mostly dropped in the reverse order of their making; others are found below the top.
        let place = id.and_then(|id| self.open.iter().rposition(|frame| frame.id == id));
        let frame = place.map(|place| self.open.remove(place));
        let around = place.unwrap_or(self.open.len()).checked_sub(1).and_then(|top| self.open.get_mut(top));
        let inside = frame.as_ref().map_or(0, |frame| frame.inside);
        span.start = frame.map_or(span.start, |frame| frame.start);
        let length = span.length();
        if let Some(around) = around {
            around.inside += match span.kind.part() {
                // What began earlier is inside only with its end.
                Part::Busy | Part::Waiting => span.end.saturating_sub(span.start.max(around.start)),
                // It subtracts nothing itself, but what was inside it does.
                Part::Beside => inside,
            };
        }
        self.totals.add(span.kind, length.saturating_sub(inside), span.bytes);
        // Stages are few, and stay in any case.
        if length < self.shortest && span.kind != Kind::Stage {
            self.left_out += 1;
            return;
        }
        self.spans.push(span);
        if self.spans.len() > limit {
            self.thin(limit / 2);
        }
    }

    /// Leaves all but this many of the longest spans out, from now on, too.
    fn thin(&mut self, held: usize) {
        let mut lengths: Vec<u64> = self.spans.iter().map(Span::length).collect();
        let (_, &mut longest_out, _) = lengths.select_nth_unstable_by_key(held, |&length| Reverse(length));
        self.shortest = longest_out.saturating_add(1);
        let before = self.spans.len();
        self.spans.retain(|span| span.length() >= self.shortest || span.kind == Kind::Stage);
        self.left_out += (before - self.spans.len()) as u64;
    }
}

#[cfg(test)]
mod tests;
