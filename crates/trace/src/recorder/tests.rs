//! What recorders hold, add up and align.

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
    let recorder = Recorder::new(3);
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
fn work_inside_work_counts_once_and_messages_subtract_nothing() {
    let recorder = Recorder::new(0);
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
fn what_began_before_subtracts_only_its_end() {
    let recorder = Recorder::new(0);
    let begun = pause();
    let span = recorder.open(Kind::Compute, "step");
    recorder.record(Kind::Wait, "early", begun, 0);
    drop(span);
    let spans = recorder.trace().spans;
    assert_eq!(recorder.totals().busy(), spans[1].end - spans[0].end);
}

#[test]
fn guards_may_be_dropped_in_any_order() {
    let recorder = Recorder::new(0);
    let outer = recorder.open(Kind::Load, "outer");
    let inner = recorder.open(Kind::Compute, "inner");
    drop(outer);
    recorder.record(Kind::Wait, "inside inner", pause(), 0);
    drop(inner);
    let totals = recorder.totals();
    assert_eq!(totals.of(Kind::Compute).time, lengths(&recorder, Kind::Compute) - totals.of(Kind::Wait).time);
    assert_eq!(totals.of(Kind::Load).time, lengths(&recorder, Kind::Load));
    assert!(recorder.lock().open.is_empty());
}

#[test]
fn moments_before_zero_are_zero() {
    let begun = pause();
    let recorder = Recorder::new(0);
    recorder.record(Kind::Load, "early", begun, 0);
    let trace = recorder.trace();
    assert_eq!(trace.spans[0].start, 0);
    assert_eq!(trace.totals.of(Kind::Load).time, trace.spans[0].end);
}

#[test]
fn the_origin_is_the_wall_clock_of_the_making() {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    let before = now();
    let recorder = Recorder::new(0);
    let after = now();
    pause();
    recorder.record(Kind::Load, "later", Instant::now(), 0);
    let trace = recorder.trace();
    assert!((before..=after).contains(&trace.origin), "{before} {} {after}", trace.origin);
    // Times count from the same moment.
    assert!(trace.spans[0].start >= PAUSE.as_nanos() as u64 && trace.wall >= trace.spans[0].end);
}

proptest! {
    /// However many spans there are, totals are of all of them, and those that are held are the longest: all
    /// from some length on.
    #[test]
    fn the_longest_are_held(
        limit in 0usize..20,
        lengths in prop::collection::vec(0u64..50, 0..90),
    ) {
        let recorder = Recorder::new(0).with_limit(limit);
        for (start, &length) in (0..).zip(&lengths) {
            let end = start + length;
            let span = Span { kind: Kind::Send, name: "part".into(), start, end, bytes: length };
            recorder.lock().close(None, span, limit);
        }
        let stage = Span { kind: Kind::Stage, name: "all".into(), start: 0, end: 0, bytes: 0 };
        recorder.lock().close(None, stage, usize::MAX);
        let trace = recorder.trace();
        let sent = trace.spans.iter().filter(|span| span.kind == Kind::Send);
        let held: Vec<u64> = sent.map(Span::length).collect();
        prop_assert!(held.len() <= limit && trace.spans.len() == held.len() + 1);
        prop_assert!(lengths.len() > limit || held.len() == lengths.len());
        let shortest = held.iter().min().copied().unwrap_or(u64::MAX);
        let long: Vec<u64> = lengths.iter().copied().filter(|&length| length >= shortest).collect();
        prop_assert_eq!(&held, &long);
        // Half of them at least, where they are not all of one length.
        let distinct = lengths.iter().collect::<std::collections::BTreeSet<_>>().len();
        prop_assert!(distinct < lengths.len() || held.len() >= lengths.len().min(limit / 2));
        prop_assert_eq!(trace.left_out, (lengths.len() - held.len()) as u64);
        prop_assert_eq!(recorder.left_out(), trace.left_out);
        prop_assert_eq!(trace.totals.of(Kind::Send).count, lengths.len() as u64);
        prop_assert_eq!(trace.totals.bytes_out(), lengths.iter().sum::<u64>());
    }
}
