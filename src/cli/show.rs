//! How training goes, while it goes: a bar on a terminal, a line an epoch elsewhere.

use std::io::IsTerminal;
use std::time::Instant;

use indicatif::{ProgressBar, ProgressStyle};
use kymo_graph::Progress;
use kymo_run::RunContext;
use kymo_run::train::{EpochProgress, Observer};
use kymo_trace::schema::EpochRecord;

use super::numbers::{bytes, count};
use super::train::number;

/// Shows training on standard error, and passes Ctrl-C on to it.
pub struct Show {
    progress: Progress,
    deciding: &'static str,
    epochs: usize,
    bar: Option<ProgressBar>,
    quiet: bool,
    begun: Instant,
    /// Epochs seen by this process.
    seen: usize,
}

impl Show {
    /// Nothing seen yet; `quiet` says nothing where there is no terminal.
    pub fn new(progress: &Progress, context: &RunContext, quiet: bool) -> Show {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(1);
            if let Ok(style) = ProgressStyle::with_template("{prefix} {wide_bar} {msg}") {
                bar.set_style(style);
            }
            bar
        });
        let (deciding, epochs) = (context.deciding().name(), context.settings.train.epochs);
        Show { progress: progress.clone(), deciding, epochs, bar, quiet, begun: Instant::now(), seen: 0 }
    }

    /// Removes the bar.
    pub fn close(&mut self) {
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
    #[allow(clippy::print_stderr)]
    fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.println(text),
            None => eprintln!("{text}"),
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
        let text = format!(
            "epoch {:>3}/{}  loss {}  validation {} {reached}{}  {} edges/s  {}  at most {} left",
            line.epoch,
            self.epochs,
            number(line.loss),
            self.deciding,
            if line.best { " *" } else { "  " },
            count(line.edges_per_second),
            bytes(line.memory),
            self.left(line.epoch),
        );
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
