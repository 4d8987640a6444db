//! How training goes, while it goes: a bar on a terminal, a line an epoch elsewhere.

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Instant;

use indicatif::{ProgressBar, ProgressStyle};
use kymo_graph::Progress;
use kymo_run::RunContext;
use kymo_run::train::{EpochProgress, Observer};
use kymo_run::workers::WorkerGroup;
use kymo_trace::schema::EpochRecord;

use super::console::{Console, complain, error_columns};
use super::numbers::{bytes, count};
use super::train::number;
use super::waiting::Waiting;

/// Shows training on standard error, and passes Ctrl-C on to it.
pub struct Show {
    progress: Progress,
    deciding: &'static str,
    epochs: usize,
    bar: Option<ProgressBar>,
    quiet: bool,
    columns: Option<usize>,
    begun: Instant,
    /// Epochs seen by this process.
    seen: usize,
    waiting: Option<Waiting>,
}

impl Show {
    /// Nothing seen yet. With `json` nothing is said where there is no terminal, on a quiet console nowhere.
    pub fn new(progress: &Progress, context: &RunContext, json: bool, console: &Console) -> Show {
        let quiet = json || console.quiet;
        let bar = (!console.quiet && std::io::stderr().is_terminal()).then(|| {
            let bar = ProgressBar::new(1);
            if let Ok(style) = ProgressStyle::with_template("{prefix} {wide_bar} {msg}") {
                bar.set_style(style);
            }
            bar
        });
        let (deciding, epochs) = (context.deciding().name(), context.settings.train.epochs);
        let (progress, begun, columns) = (progress.clone(), Instant::now(), error_columns());
        Show { progress, deciding, epochs, bar, quiet, columns, begun, seen: 0, waiting: None }
    }

    /// Says from now on whom the others wait for.
    pub fn name_the_slow(&mut self, group: Arc<WorkerGroup>) {
        if self.bar.is_some() || !self.quiet {
            self.waiting = Some(Waiting::begin(group, self.bar.clone()));
        }
    }

    /// Removes the bar.
    pub fn close(&mut self) {
        self.waiting = None;
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }

    fn left(&self, epoch: usize) -> String {
        let each = self.begun.elapsed().as_secs_f64() / self.seen.max(1) as f64;
        let seconds = each * (self.epochs - epoch.min(self.epochs)) as f64;
        match seconds {
            seconds if seconds < 100.0 => format!("{seconds:.0} s"),
            seconds if seconds < 6000.0 => format!("{:.0} min", seconds / 60.0),
            seconds => format!("{:.1} h", seconds / 3600.0),
        }
    }
}

impl Show {
    /// A line above the bar, or just a line.
    fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.println(text),
            None => complain(text),
        }
    }
}

impl Observer for Show {
    fn progress(&mut self, now: &EpochProgress) {
        let Some(bar) = &self.bar else { return };
        bar.set_length(now.windows as u64);
        bar.set_position(now.window as u64);
        bar.set_prefix(format!("epoch {}/{}", now.epoch, now.epochs));
        bar.set_message(format!("loss {}  {} edges/s", number(now.loss), count(now.edges_per_second)));
    }

    fn epoch(&mut self, line: &EpochRecord) {
        self.seen += 1;
        if self.quiet && self.bar.is_none() {
            return;
        }
        let reached = line.validation.get(self.deciding).map_or("-".into(), |value| number(*value));
        let mark = if line.best { " *" } else { "  " };
        let mut parts = vec![
            format!("epoch {:>3}/{}", line.epoch, self.epochs),
            format!("loss {}", number(line.loss)),
            format!("validation {} {reached}{mark}", self.deciding),
            format!("{} edges/s", count(line.edges_per_second)),
            bytes(line.memory),
            format!("at most {} left", self.left(line.epoch)),
        ];
        // A narrow terminal gets what matters most: first memory is left out, then the rate, then the time.
        for least in [4, 3, 3] {
            if self.columns.is_some_and(|columns| parts.join("  ").chars().count() > columns) {
                parts.remove(least);
            }
        }
        let text = parts.join("  ");
        self.say(&text);
    }

    fn stop(&self) -> bool {
        self.progress.check().is_err()
    }

    fn note(&mut self, text: &str) {
        if !self.quiet || self.bar.is_some() {
            self.say(text);
        }
    }
}
