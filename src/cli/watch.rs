//! Watching long work: a progress bar on a terminal, nothing elsewhere, and Ctrl-C that ends the work
//! cleanly.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use kymo_graph::Progress;

/// A display that follows a [`Progress`] until it is dropped.
pub struct Watch {
    done: Arc<AtomicBool>,
    display: Option<JoinHandle<()>>,
}

impl Watch {
    /// Follows `progress`; `work` says what is being done.
    pub fn begin(progress: &Progress, work: &'static str) -> Watch {
        let interrupted = progress.clone();
        // The second interruption ends the process at once: the first may have come while a disk hangs.
        let handler =
            move || if interrupted.check().is_err() { std::process::exit(130) } else { interrupted.stop() };
        // A handler that is set already (in a program that uses this as a library) stays.
        let _ = ctrlc::set_handler(handler);
        let done = Arc::new(AtomicBool::new(false));
        let display = std::io::stderr().is_terminal().then(|| {
            let (done, progress) = (done.clone(), progress.clone());
            std::thread::spawn(move || show(&done, &progress, work))
        });
        Watch { done, display }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.done.store(true, Ordering::Relaxed);
        if let Some(display) = self.display.take() {
            display.thread().unpark();
            // The display has nothing to say about its end.
            let _ = display.join();
        }
    }
}

fn show(done: &AtomicBool, progress: &Progress, work: &'static str) {
    let bar = ProgressBar::new(0);
    if let Ok(style) = ProgressStyle::with_template("{prefix} {wide_bar} {percent:>3}%  {msg}  {eta} left") {
        bar.set_style(style);
    }
    bar.set_prefix(work);
    while !done.load(Ordering::Relaxed) {
        let (total, units) = progress.work();
        bar.set_length(total.max(1));
        bar.set_position(units);
        bar.set_message(match (progress.rows(), progress.steps()) {
            (rows, 0) => format!("{} rows", super::numbers::count(rows as f64)),
            (0, steps) => format!("{steps} steps"),
            (rows, steps) => format!("{} rows, {steps} steps", super::numbers::count(rows as f64)),
        });
        std::thread::park_timeout(Duration::from_millis(100));
    }
    bar.finish_and_clear();
}
