//! A priced plan: what every worker will do in an epoch and what that costs, to be read, checked and
//! compared.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::epoch::EpochPlan;
use crate::error::{Error, Result};

/// Bytes that a worker sends in an epoch, by what they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sent {
    /// Rows of neighbours, and their gradients.
    pub neighbours: u64,
    /// States that go with their vertices from step to step, and their gradients.
    pub states: u64,
    /// Rows that move between structure and time encoders, and their gradients.
    pub shuffled: u64,
    /// Rows that all workers look at, and their gradients.
    pub collected: u64,
    /// Rows of the other ends of pairs that a task asks about, and their gradients.
    pub pairs: u64,
    /// Numbers of vertices that go with collected rows.
    pub named: u64,
    /// Gradients of parameters.
    pub gradients: u64,
}

impl Sent {
    /// Rows of all kinds: what goes from one worker to another.
    pub fn rows(&self) -> u64 {
        self.neighbours + self.states + self.shuffled + self.collected + self.pairs
    }

    /// Everything.
    pub fn total(&self) -> u64 {
        self.rows() + self.named + self.gradients
    }
}

/// Bytes of the snapshots of a worker, or of its parts of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotBytes {
    /// Of all of them.
    pub all: u64,
    /// Of the largest.
    pub largest: u64,
    /// That a reader works in.
    pub reader: u64,
}

/// Rows of neighbours that a worker keeps as they were sent or received last, so that they need not be sent
/// again where they have hardly moved (DGC, section 5.2).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LastRows {
    /// What they take.
    pub bytes: u64,
    /// The share of all such rows that they are.
    pub share: f64,
}

/// What one worker will do in an epoch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Share {
    /// Vertices and steps at which they are present that it works on, each counted in every window.
    pub cells: u64,
    /// Edges that come in there.
    pub edges: u64,
    /// Bytes it sends.
    pub sent: Sent,
    /// Bytes of memory that it needs at least: the snapshots of a window and those that are read
    /// meanwhile, the reader's room, what a window computes, parameters.
    pub memory: u64,
    /// Bytes of memory with which it reads and aggregates everything once: all snapshots and products stay.
    /// It holds that much, or what it may take if that is less.
    #[serde(default)]
    pub most: u64,
    /// What its snapshots take.
    #[serde(default)]
    pub snapshots: SnapshotBytes,
    /// Rows that may stay as they were; missing where all are exact.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_rows: Option<LastRows>,
    /// Seconds of computing.
    pub seconds: f64,
}

impl Share {
    /// With rows kept as they were last, as a share of all that are exchanged: as large a one as there is
    /// memory for. The bytes of rows that go to neighbours are then the most that is sent.
    pub fn keep_last_rows(&mut self, all: LastRows, each: u64) {
        let steps = 16u64;
        let bytes = |sixteenths: u64| (all.bytes as u128 * sixteenths as u128).div_ceil(steps as u128) as u64;
        let fits = |sixteenths: &u64| self.memory.saturating_add(bytes(*sixteenths)) <= each;
        let kept = (0..=steps).rev().find(fits).unwrap_or(0);
        let (bytes, share) = (bytes(kept), kept as f64 / steps as f64);
        (self.memory, self.most) = (self.memory + bytes, self.most + bytes);
        self.last_rows = Some(LastRows { bytes, share });
    }

    /// As if there were this many times the windows; what follows from the number of iterations stays.
    pub(crate) fn scale(&mut self, times: f64) {
        let scaled = |value: u64| (value as f64 * times).round() as u64;
        let Sent { neighbours, states, shuffled, collected, pairs, named, gradients } = self.sent;
        self.sent = Sent {
            neighbours: scaled(neighbours),
            states: scaled(states),
            shuffled: scaled(shuffled),
            collected: scaled(collected),
            pairs: scaled(pairs),
            named: scaled(named),
            gradients,
        };
        (self.cells, self.edges) = (scaled(self.cells), scaled(self.edges));
        self.seconds *= times;
    }
}

/// What all workers will do in an epoch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The strategy.
    pub strategy: String,
    /// Who runs what, when.
    pub epoch: EpochPlan,
    /// One for each worker.
    pub workers: Vec<Share>,
    /// Windows of an epoch.
    pub windows: usize,
    /// Iterations of an epoch: steps of the optimiser.
    pub iterations: usize,
    /// Predicted seconds of an epoch.
    pub seconds: f64,
    /// Seconds of an epoch that no schedule can beat, where windows are scheduled.
    pub bound: Option<f64>,
    /// The schedule as a chart, where there is one.
    #[serde(skip)]
    pub chart: Option<String>,
    /// Edges between vertices of different workers, over all steps that are trained on.
    pub edge_cut: u64,
    /// Steps that were looked at and steps that are trained on, where not all were looked at: then everything
    /// is an estimate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampled: Option<[usize; 2]>,
    /// Something to know about how it was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// The busiest worker over the mean: 1 where all are equally busy, or nobody is; at most their number, where
/// one does everything.
pub fn imbalance(seconds: &[f64]) -> f64 {
    let most = seconds.iter().copied().fold(0.0, f64::max);
    let mean = seconds.iter().sum::<f64>() / seconds.len().max(1) as f64;
    if mean > 0.0 { most / mean } else { 1.0 }
}

impl Plan {
    /// Bytes that all workers send in an epoch.
    pub fn bytes(&self) -> u64 {
        self.workers.iter().map(|share| share.sent.total()).sum()
    }

    /// The most memory that a worker needs.
    pub fn memory(&self) -> u64 {
        self.workers.iter().map(|share| share.memory).max().unwrap_or(0)
    }

    /// The busiest worker over the mean.
    pub fn imbalance(&self) -> f64 {
        imbalance(&self.workers.iter().map(|share| share.seconds).collect::<Vec<f64>>())
    }

    /// Fails where a worker needs more memory than there is for each; says what is missing.
    pub fn check_memory(&self, each: u64) -> Result<()> {
        let Some((worker, share)) = self.workers.iter().enumerate().max_by_key(|(_, share)| share.memory)
        else {
            return Ok(());
        };
        if share.memory <= each {
            return Ok(());
        }
        let problem = format!(
            "{} needs {} at worker {worker}, {} more than the {} it may use; give more memory, use more \
             workers, shorten the \
             window, or choose another strategy (kymo plan compares them)",
            self.strategy,
            readable(share.memory),
            readable(share.memory - each),
            readable(each)
        );
        Err(Error::settings("run.memory", problem))
    }
}

/// Bytes with a unit: `812 B`, `1.2 GiB`.
pub fn readable(bytes: u64) -> String {
    let (mut value, mut units) = (bytes as f64, ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"].into_iter());
    let mut unit = None;
    // What counts is what is printed: a byte less than a MiB is 1.0 MiB, not 1024.0 KiB.
    while (10.0 * value).round() / 10.0 >= 1024.0 {
        unit = units.next();
        value /= 1024.0;
    }
    unit.map_or(format!("{bytes} B"), |unit| format!("{value:.1} {unit}"))
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} over {} workers: {} windows in {} iterations, {} edges between workers",
            self.strategy,
            self.workers.len(),
            self.windows,
            self.iterations,
            self.edge_cut
        )?;
        writeln!(
            f,
            "worker       cells       edges      memory     at most  neighbours      states    shuffled   \
             gradients   seconds"
        )?;
        for (worker, share) in self.workers.iter().enumerate() {
            let sent = share.sent;
            writeln!(
                f,
                "{worker:>6}{:>12}{:>12}{:>12}{:>12}{:>12}{:>12}{:>12}{:>12}{:>10.3}",
                share.cells,
                share.edges,
                readable(share.memory),
                readable(share.most),
                readable(sent.neighbours + sent.collected + sent.pairs + sent.named),
                readable(sent.states),
                readable(sent.shuffled),
                readable(sent.gradients),
                share.seconds
            )?;
        }
        write!(
            f,
            "an epoch: {:.3} s, {} between workers; imbalance {:.2}",
            self.seconds,
            readable(self.bytes()),
            self.imbalance()
        )?;
        if let Some(bound) = self.bound.filter(|bound| *bound > 0.0) {
            let gap = 100.0 * (self.seconds / bound - 1.0);
            write!(
                f,
                "\nno schedule takes less than {bound:.3} s: this one is within {gap:.2} % of the best"
            )?;
        }
        if let Some([looked, all]) = self.sampled {
            write!(
                f,
                "\npriced from {looked} of {all} steps: all figures are estimates (--exact looks at all)"
            )?;
        }
        if let Some(note) = &self.note {
            write!(f, "\n{note}")?;
        }
        match &self.chart {
            Some(chart) => write!(f, "\n\n{}", chart.trim_end()),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_go_by_1024() {
        let cases = [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            ((1 << 20) - 1, "1.0 MiB"),
            (1_288_490_189, "1.2 GiB"),
            (1 << 60, "1.0 EiB"),
            (u64::MAX, "16.0 EiB"),
        ];
        for (bytes, text) in cases {
            assert_eq!(readable(bytes), text);
        }
    }

    #[test]
    fn last_rows_are_kept_as_far_as_there_is_room() {
        let kept = |each: u64| {
            let mut share = Share { memory: 1000, most: 5000, ..Share::default() };
            share.keep_last_rows(LastRows { bytes: 1601, share: 1.0 }, each);
            let rows = share.last_rows.unwrap();
            assert_eq!((share.memory, share.most), (1000 + rows.bytes, 5000 + rows.bytes));
            (rows.bytes, rows.share)
        };
        assert_eq!([kept(10_000), kept(2601)], [(1601, 1.0), (1601, 1.0)]);
        assert_eq!([kept(2600), kept(1101), kept(1100)], [(1501, 0.9375), (101, 0.0625), (0, 0.0)]);
        // A plan that does not fit without them is refused as ever.
        assert_eq!(kept(7), (0, 0.0));
    }

    #[test]
    fn a_plan_that_does_not_fit_says_by_how_much() {
        let share = |memory| Share { memory, ..Share::default() };
        let plan = Plan {
            strategy: "pts".into(),
            epoch: EpochPlan::default(),
            workers: vec![share(1 << 20), share(3 << 20)],
            windows: 1,
            iterations: 1,
            seconds: 0.0,
            edge_cut: 0,
            bound: None,
            chart: None,
            sampled: None,
            note: None,
        };
        assert!(plan.check_memory(3 << 20).is_ok());
        let error = plan.check_memory(2 << 20).unwrap_err().to_string();
        assert!(error.contains("pts needs 3.0 MiB at worker 1, 1.0 MiB more than the 2.0 MiB"), "{error}");
    }
}
