//! Whom training waits for, said while it waits: in the bar, or in a line where there is none.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use indicatif::ProgressBar;
use kymo_run::workers::WorkerGroup;

use super::console::complain;

/// How often it is asked.
const LOOK: Duration = Duration::from_millis(500);

/// How long a worker is waited for before the bar names it.
const IN_THE_BAR: Duration = Duration::from_secs(2);

/// How long a worker is waited for before a line names it.
const IN_A_LINE: Duration = Duration::from_secs(10);

/// Asks a worker whom it waits for, until it is dropped.
pub struct Waiting {
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Waiting {
    /// Names those that the worker of `group` waits for.
    pub fn begin(group: Arc<WorkerGroup>, bar: Option<ProgressBar>) -> Waiting {
        let ended = Arc::new(AtomicBool::new(false));
        let end = ended.clone();
        let work = move || {
            let place = |rank| match group.host(rank) {
                Some(host) => format!("worker {rank} on {host}"),
                None => format!("worker {rank}"),
            };
            let mut lines = Lines::default();
            while !end.load(Ordering::Relaxed) {
                let waits = group.waits_for();
                match &bar {
                    Some(bar) => {
                        if let Some((rank, time)) = waits.filter(|(_, time)| *time >= IN_THE_BAR) {
                            bar.set_message(waits_for(&place(rank), time));
                        }
                    }
                    None => lines.next(waits, place).iter().for_each(|line| complain(line)),
                }
                std::thread::park_timeout(LOOK);
            }
        };
        // Where there is no thread for it, nobody is named.
        Waiting { ended, thread: std::thread::Builder::new().name("waiting".into()).spawn(work).ok() }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // It has nothing to say about its end.
            let _ = thread.join();
        }
    }
}

fn waits_for(worker: &str, time: Duration) -> String {
    format!("waiting for {worker} for {} s", time.as_secs())
}

/// What is said in lines: once that a worker is waited for, and once that it is back.
#[derive(Default)]
struct Lines {
    /// Who was named, and how long it was waited for.
    named: Option<(usize, Duration)>,
}

impl Lines {
    fn next(&mut self, waits: Option<(usize, Duration)>, place: impl Fn(usize) -> String) -> Option<String> {
        let long = waits.filter(|(_, time)| *time >= IN_A_LINE);
        match (self.named, long) {
            (None, Some((rank, time))) => {
                self.named = long;
                Some(waits_for(&place(rank), time))
            }
            // The same wait goes on; it may turn out that another one is the reason.
            (Some((before, _)), Some((rank, time))) => {
                self.named = long;
                (before != rank).then(|| waits_for(&place(rank), time))
            }
            (Some((rank, time)), None) => {
                self.named = None;
                Some(format!("{} is back after {} s", place(rank), time.as_secs()))
            }
            (None, None) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Said once when it begins to be long, and once when it is over; short waits are not worth a word.
    #[test]
    fn lines_are_few() {
        let mut lines = Lines::default();
        let mut said = |waits: Option<(usize, u64)>| {
            let waits = waits.map(|(rank, seconds)| (rank, Duration::from_secs(seconds)));
            lines.next(waits, |rank| format!("worker {rank} on h")).unwrap_or_default()
        };
        assert_eq!(said(Some((2, 9))), "");
        assert_eq!(said(Some((2, 10))), "waiting for worker 2 on h for 10 s");
        assert_eq!(said(Some((2, 13))), "");
        assert_eq!(said(Some((3, 14))), "waiting for worker 3 on h for 14 s");
        assert_eq!(said(None), "worker 3 on h is back after 14 s");
        assert_eq!(said(None), "");
        assert_eq!(said(Some((1, 11))), "waiting for worker 1 on h for 11 s");
        assert_eq!(said(Some((1, 0))), "worker 1 on h is back after 11 s", "it waits for the next message");
    }
}
