//! What `kymo simulate` says: one line for each size of the cluster and scheduler.

use std::fmt;

use kymo_plan::schedule::Scheduled;
use kymo_sim::{Cluster, Simulated};
use serde::Serialize;

use crate::cli::numbers;

/// Everything that was simulated.
#[derive(Serialize)]
pub(super) struct Report {
    pub(super) groups: usize,
    #[serde(rename = "simulations")]
    pub(super) lines: Vec<Line>,
    /// Schedulers that could not answer.
    pub(super) left_out: Vec<&'static str>,
}

/// One simulation.
#[derive(Serialize)]
pub(super) struct Line {
    pub(super) workers: usize,
    pub(super) strategy: &'static str,
    /// The scheduler that found the schedule, which differs where one asks others.
    by: &'static str,
    /// Seconds of the epoch.
    epoch: f64,
    /// Seconds that no schedule can beat.
    bound: f64,
    /// How far the schedule may be from the fastest.
    gap: f64,
    imbalance: f64,
    efficiency: f64,
    iterations: usize,
    /// Seconds of one all-reduce.
    all_reduce: f64,
    /// Seconds that all workers waited for each other.
    waiting: f64,
    /// Seconds that the scheduler took.
    scheduled: f64,
    /// Whether it finished within its time limit.
    complete: bool,
    /// Why the answer of another scheduler was taken, where it was.
    note: Option<String>,
}

impl Line {
    pub(super) fn new(
        cluster: &Cluster,
        strategy: &'static str,
        found: &Scheduled,
        simulated: &Simulated,
    ) -> Self {
        Line {
            workers: cluster.workers,
            strategy,
            by: found.by,
            epoch: simulated.seconds,
            bound: found.bound,
            gap: found.gap(),
            imbalance: simulated.imbalance,
            efficiency: simulated.efficiency,
            iterations: simulated.iterations,
            all_reduce: cluster.all_reduce.seconds(cluster.workers),
            waiting: simulated.waiting.iter().sum(),
            scheduled: found.took.as_secs_f64(),
            complete: found.complete,
            note: found.note.clone(),
        }
    }

    fn cells(&self) -> [String; 9] {
        let over = if self.bound > 0.0 { self.epoch / self.bound } else { 1.0 };
        let cut = if self.complete { " " } else { "*" };
        [
            self.workers.to_string(),
            self.strategy.to_owned(),
            format!("{:.3} s", self.epoch),
            format!("{over:.4}"),
            format!("{:.2} %", 100.0 * self.gap),
            format!("{:.2}", self.imbalance),
            format!("{:.2} %", 100.0 * self.efficiency),
            self.iterations.to_string(),
            format!("{:.1} ms{cut}", 1000.0 * self.scheduled),
        ]
    }
}

/// Gives all lines of one question the highest bound; those that are `apart` answer another one.
pub(super) fn share_bounds(lines: &mut [Line], apart: impl Fn(&Line) -> bool) {
    let highest = lines.iter().filter(|line| !apart(line)).map(|line| line.bound).fold(0.0, f64::max);
    lines.iter_mut().filter(|line| !apart(line)).for_each(|line| line.bound = highest);
}

impl Report {
    pub(super) fn leave_out(&mut self, name: &'static str) {
        if !self.left_out.contains(&name) {
            self.left_out.push(name);
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let heads = [
            "workers",
            "strategy",
            "epoch",
            "/ bound",
            "gap",
            "imbalance",
            "efficiency",
            "iterations",
            "scheduled ",
        ];
        let mut rows = vec![heads.map(String::from)];
        rows.extend(self.lines.iter().map(Line::cells));
        let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..heads.len()).map(width).collect();
        for row in &rows {
            let mut line = String::new();
            for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                // Names stand to the left, numbers to the right.
                let cell = if column == 1 { format!("{cell:<width$}") } else { format!("{cell:>width$}") };
                line.push_str(if column == 0 { "" } else { "  " });
                line.push_str(&cell);
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        writeln!(f, "{} in virtual time", numbers::plural(self.groups as u64, ["group", "groups"]))?;
        if self.lines.iter().any(|line| !line.complete) {
            writeln!(
                f,
                "* cut short by the time limit, a quick search did the rest; give more with --time-limit"
            )?;
        }
        for line in &self.lines {
            if let Some(note) = &line.note {
                writeln!(f, "{} on {} workers: {note}", line.strategy, line.workers)?;
            }
        }
        if !self.left_out.is_empty() {
            writeln!(f, "left out, name them to learn why: {}", self.left_out.join(", "))?;
        }
        Ok(())
    }
}
