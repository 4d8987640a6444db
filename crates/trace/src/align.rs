//! Timelines on one clock: each worker counts time from a moment of its own, and all are shifted to the
//! earliest of these moments by the wall clock.

use crate::timeline::WorkerTrace;

impl WorkerTrace {
    /// Nanoseconds from `earliest` to the origin; none where the origin is not known.
    pub(crate) fn late(&self, earliest: u64) -> u64 {
        self.origin.saturating_sub(earliest)
    }
}

/// The earliest origin of timelines; 0 where none is known.
pub(crate) fn earliest(traces: &[WorkerTrace]) -> u64 {
    traces.iter().map(|trace| trace.origin).filter(|&origin| origin > 0).min().unwrap_or(0)
}

/// Brings timelines to one clock, which is 0 at the earliest of their origins.
///
/// A timeline whose origin is not known stays as it is: where none is known, all workers shared one.
pub fn align(traces: &mut [WorkerTrace]) {
    let earliest = earliest(traces);
    for trace in traces {
        let late = trace.late(earliest);
        for span in &mut trace.spans {
            span.start = span.start.saturating_add(late);
            span.end = span.end.saturating_add(late);
        }
        trace.wall = trace.wall.saturating_add(late);
        trace.origin = earliest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::span::{Kind, Span};
    use crate::timeline::merge;

    #[test]
    fn timelines_of_different_origins_are_brought_to_one_clock() {
        let run = tempfile::tempdir().unwrap();
        let begun = 1_700_000_000_000_000_000;
        for (worker, origin) in [(0, begun + 500), (1, begun), (2, begun + 7), (3, 0)] {
            let span = Span { kind: Kind::Wait, name: "halo".into(), start: 1, end: 3, bytes: 0 };
            let trace = WorkerTrace { worker, origin, wall: 10, spans: vec![span], ..Default::default() };
            trace.write(run.path()).unwrap();
        }
        let mut merged = merge(run.path()).unwrap();
        let moments = |trace: &WorkerTrace| (trace.spans[0].start, trace.spans[0].end, trace.wall);
        let found: Vec<_> = merged.iter().map(moments).collect();
        assert_eq!(found, [(501, 503, 510), (1, 3, 10), (8, 10, 17), (1, 3, 10)]);
        assert!(merged.iter().all(|trace| trace.origin == begun));
        // What is aligned stays as it is.
        let once = merged.clone();
        align(&mut merged);
        assert_eq!(merged, once);
    }
}
