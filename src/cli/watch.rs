//! Watching long work: a progress bar on a terminal, nothing elsewhere, and signals that end the work
//! cleanly.

use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use kymo_graph::Progress;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use super::console::Console;

/// SIGHUP, where there is one.
#[cfg(unix)]
const HANG_UP: Option<i32> = Some(signal_hook::consts::SIGHUP);
#[cfg(not(unix))]
const HANG_UP: Option<i32> = None;

/// A display that follows a [`Progress`] until it is dropped; signals stop the work from its beginning on.
pub struct Watch {
    done: Arc<AtomicBool>,
    display: Option<JoinHandle<()>>,
}

impl Watch {
    /// Follows `progress`; `work` says what is being done.
    pub fn begin(progress: &Progress, work: &'static str, console: &Console) -> Watch {
        // Where handlers cannot be set, signals end the process as they do by default.
        let _ = stop_at_signals(progress, &console.received);
        let done = Arc::new(AtomicBool::new(false));
        let display = (!console.quiet && io::stderr().is_terminal()).then(|| {
            let (done, progress) = (done.clone(), progress.clone());
            // Where there is no thread for it, nothing is shown.
            std::thread::Builder::new().spawn(move || show(&done, &progress, work)).ok()
        });
        Watch { done, display: display.flatten() }
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

/// Lets signals stop the work; `received` becomes the exit code of the last one.
fn stop_at_signals(progress: &Progress, received: &Arc<AtomicUsize>) -> io::Result<()> {
    let stop = progress.stop_flag();
    for signal in signals() {
        let code = 128 + signal;
        // The second one ends the process at once: the first may have come while a disk hangs. Not the second
        // SIGHUP: a terminal that is closed sends one, and its shell another.
        if Some(signal) != HANG_UP {
            flag::register_conditional_shutdown(signal, code, stop.clone())?;
        }
        flag::register_usize(signal, received.clone(), code as usize)?;
        flag::register(signal, stop.clone())?;
    }
    Ok(())
}

/// The signals that ask to stop, without those that were ignored when the process began.
pub(super) fn signals() -> impl Iterator<Item = i32> {
    let ignored = ignored();
    // Where it cannot be known whether SIGHUP is ignored, it is left as it is: under nohup it must stay so.
    let hang_up = HANG_UP.filter(|_| ignored.is_some());
    let is_ignored = move |signal: i32| ignored.is_some_and(|mask| mask >> (signal - 1) & 1 == 1);
    [SIGINT, SIGTERM].into_iter().chain(hang_up).filter(move |&signal| !is_ignored(signal))
}

/// The signals that were ignored when the process began, signal N in bit N - 1, where the system says so.
fn ignored() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(mask.trim(), 16).ok()
}

fn show(done: &AtomicBool, progress: &Progress, work: &'static str) {
    let bar = ProgressBar::new(1);
    let style = |template| ProgressStyle::with_template(template).ok();
    let unknown = style("{spinner} {prefix} ({elapsed})");
    let known = style("{prefix} {wide_bar} {percent:>3}%  {msg}{eta} left");
    let mut is_known = None;
    while !done.load(Ordering::Relaxed) {
        let (total, units) = progress.work();
        if is_known != Some(total > 0) {
            is_known = Some(total > 0);
            let style = if total > 0 { &known } else { &unknown };
            style.iter().for_each(|style| bar.set_style(style.clone()));
            // Not before: it is drawn at once.
            bar.set_prefix(work);
        }
        bar.set_length(total.max(1));
        bar.set_position(units);
        bar.set_message(match (progress.rows(), progress.steps()) {
            (0, 0) => String::new(),
            (rows, 0) => format!("{} rows  ", super::numbers::count(rows as f64)),
            (0, steps) => format!("{steps} steps  "),
            (rows, steps) => format!("{} rows, {steps} steps  ", super::numbers::count(rows as f64)),
        });
        bar.tick();
        std::thread::park_timeout(Duration::from_millis(100));
    }
    bar.finish_and_clear();
}
