//! Where the time of a run's workers went, as a table.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::align::earliest;
use crate::bytes::readable;
use crate::span::Totals;
use crate::timeline::WorkerTrace;

/// Where the time of one worker went.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkerTime {
    /// The worker's number.
    pub worker: usize,
    /// Seconds at work.
    pub busy: f64,
    /// Seconds of waiting for others, all-reduces among them.
    pub waiting: f64,
    /// Bytes received.
    pub bytes_in: u64,
    /// Bytes sent.
    pub bytes_out: u64,
}

/// Where the time of all workers went.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimeSummary {
    /// One entry a worker.
    pub workers: Vec<WorkerTime>,
    /// Seconds that the run took.
    pub wall: f64,
    /// The busiest worker's time at work over the mean of all workers: 1 where all work equally long, at most
    /// the number of workers. Nothing where none of them did anything.
    ///
    /// Schedules, plans and simulations define it in the same way. In summaries of version 0 it is the
    /// busiest over the least busy worker.
    pub imbalance: Option<f64>,
    /// Time at work over the time that all workers had; nothing where they had none.
    pub efficiency: Option<f64>,
    /// The share of communication that no worker waited for, from 0 to 1; nothing where it is not known how
    /// long communication took.
    ///
    /// Waiting for a slow worker counts like waiting for the network, so this is 0 where workers waited
    /// longer than messages were in flight.
    pub hidden: Option<f64>,
}

fn seconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1e9
}

impl TimeSummary {
    /// From each worker's number and totals, the time that the run took, and, where it is known, the time
    /// that messages were in flight, summed over workers.
    pub fn new(workers: &[(usize, Totals)], wall: Duration, in_flight: Option<Duration>) -> TimeSummary {
        let wall = wall.as_secs_f64();
        let time = |(worker, totals): &(usize, Totals)| WorkerTime {
            worker: *worker,
            busy: seconds(totals.busy()),
            waiting: seconds(totals.waiting()),
            bytes_in: totals.bytes_in(),
            bytes_out: totals.bytes_out(),
        };
        let workers: Vec<WorkerTime> = workers.iter().map(time).collect();
        let busy = || workers.iter().map(|worker| worker.busy);
        let most = busy().fold(0.0, f64::max);
        let mean = busy().sum::<f64>() / workers.len().max(1) as f64;
        let available = workers.len() as f64 * wall;
        let waiting: f64 = workers.iter().map(|worker| worker.waiting).sum();
        let share = |part: f64, whole: f64| (whole > 0.0).then(|| part / whole);
        TimeSummary {
            imbalance: share(most, mean),
            efficiency: share(busy().sum(), available),
            hidden: in_flight
                .and_then(|whole| share(waiting, whole.as_secs_f64()))
                .map(|exposed| (1.0 - exposed).max(0.0)),
            wall,
            workers,
        }
    }

    /// From the timelines of a run, which took from the earliest of their origins to the last of their ends.
    pub fn of(traces: &[WorkerTrace], in_flight: Option<Duration>) -> TimeSummary {
        let workers: Vec<(usize, Totals)> = traces.iter().map(|trace| (trace.worker, trace.totals)).collect();
        let earliest = earliest(traces);
        let end = |trace: &WorkerTrace| trace.wall.saturating_add(trace.late(earliest));
        let wall = traces.iter().map(end).max().unwrap_or(0);
        TimeSummary::new(&workers, Duration::from_nanos(wall), in_flight)
    }
}

impl fmt::Display for TimeSummary {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let heads = ["worker", "busy", "waiting", "bytes in", "bytes out"].map(String::from);
        let row = |time: &WorkerTime| {
            [
                time.worker.to_string(),
                format!("{:.3} s", time.busy),
                format!("{:.3} s", time.waiting),
                readable(time.bytes_in),
                readable(time.bytes_out),
            ]
        };
        let rows: Vec<[String; 5]> = std::iter::once(heads).chain(self.workers.iter().map(row)).collect();
        for row in &rows {
            for (column, cell) in row.iter().enumerate() {
                let width = rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
                let gap = if column == 0 { "" } else { "  " };
                write!(f, "{gap}{cell:>width$}")?;
            }
            writeln!(f)?;
        }
        let percent = |share: f64| format!("{:.1} %", 100.0 * share);
        let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".into());
        writeln!(f, "wall                  {:.3} s", self.wall)?;
        writeln!(f, "imbalance             {}", or_none(self.imbalance.map(|value| format!("{value:.2}"))))?;
        writeln!(f, "efficiency            {}", or_none(self.efficiency.map(percent)))?;
        writeln!(f, "communication hidden  {}", or_none(self.hidden.map(percent)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::span::Kind;

    const SECOND: u64 = 1_000_000_000;

    fn totals(busy: u64, waiting: u64, sent: u64, received: u64) -> Totals {
        let mut totals = Totals::default();
        totals.add(Kind::Compute, busy, 0);
        totals.add(Kind::Wait, waiting, 0);
        totals.add(Kind::Send, 77, sent);
        totals.add(Kind::Receive, 77, received);
        totals
    }

    fn two() -> TimeSummary {
        let workers =
            [(0, totals(3 * SECOND, SECOND, 1536, 10)), (1, totals(2 * SECOND, SECOND / 2, 10, 3 << 20))];
        TimeSummary::new(&workers, Duration::from_secs(4), Some(Duration::from_secs(6)))
    }

    #[test]
    fn shares_are_what_they_say() {
        let summary = two();
        assert_eq!(summary.imbalance, Some(1.2));
        assert_eq!(summary.efficiency, Some(5.0 / 8.0));
        assert_eq!(summary.hidden, Some(0.75));
        let time = WorkerTime { worker: 1, busy: 2.0, waiting: 0.5, bytes_in: 3 << 20, bytes_out: 10 };
        assert_eq!(summary.workers[1], time);
    }

    #[test]
    fn what_cannot_be_said_is_left_open() {
        let idle =
            TimeSummary::new(&[(0, totals(SECOND, 0, 0, 0)), (1, Totals::default())], Duration::ZERO, None);
        // One of two workers did everything.
        assert_eq!((idle.imbalance, idle.efficiency, idle.hidden), (Some(2.0), None, None));
        let nobody = TimeSummary::of(&[], Some(Duration::ZERO));
        assert_eq!((nobody.imbalance, nobody.efficiency, nobody.hidden), (None, None, None));
        let all_waited = TimeSummary::new(
            &[(0, totals(1, 9 * SECOND, 0, 0))],
            Duration::from_secs(9),
            Some(Duration::from_secs(1)),
        );
        assert_eq!(all_waited.hidden, Some(0.0));
    }

    #[test]
    fn timelines_are_summarised_from_the_first_origin_to_the_last_end() {
        let trace = |worker, origin, wall| WorkerTrace {
            worker,
            origin,
            wall,
            totals: totals(SECOND, 0, 0, 0),
            ..Default::default()
        };
        let summary = TimeSummary::of(&[trace(0, 0, SECOND), trace(5, 0, 2 * SECOND)], None);
        assert_eq!((summary.wall, summary.efficiency, summary.workers[1].worker), (2.0, Some(0.5), 5));
        let late = TimeSummary::of(&[trace(0, 9 * SECOND, SECOND), trace(1, 6 * SECOND, SECOND)], None);
        assert_eq!((late.wall, late.efficiency), (4.0, Some(0.25)));
    }

    #[test]
    fn the_table_is_aligned() {
        let expected = "\
worker     busy  waiting  bytes in  bytes out
     0  3.000 s  1.000 s      10 B    1.5 KiB
     1  2.000 s  0.500 s   3.0 MiB       10 B
wall                  4.000 s
imbalance             1.20
efficiency            62.5 %
communication hidden  75.0 %
";
        assert_eq!(two().to_string(), expected);
        assert!(TimeSummary::of(&[], None).to_string().contains("imbalance             -\n"));
    }

    #[test]
    fn json_has_the_same_numbers() {
        let value = serde_json::to_value(two()).unwrap();
        assert_eq!(value["imbalance"], 1.2);
        assert_eq!(value["workers"][0]["bytes_out"], 1536);
        assert!(serde_json::to_value(TimeSummary::of(&[], None)).unwrap()["hidden"].is_null());
    }
}
