//! Where the command speaks: standard output, which fits the terminal, and standard error, which may be gone.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use terminal_size::{Width, terminal_size_of};

use super::layout;

/// The columns of a report where nobody says how wide it may be.
const USUAL: usize = 80;
/// The fewest columns that reports are made for.
const LEAST: usize = 24;

/// Standard output, and what verbs must know about how they were started.
pub struct Console {
    out: Box<dyn Write>,
    columns: Option<usize>,
    /// Whether only results and errors are shown.
    pub quiet: bool,
    /// Whether another process speaks: nothing is shown, not even errors.
    pub silent: bool,
    /// The exit code of the signal that stopped the work; 0 where none did.
    pub(super) received: Arc<AtomicUsize>,
}

impl Console {
    /// Writes to `out`, in lines of this many columns where they are known.
    pub fn new(out: impl Write + 'static, columns: Option<usize>) -> Console {
        Console { out: Box::new(out), columns, quiet: false, silent: false, received: Arc::default() }
    }

    /// Standard output, as wide as the terminal, or as COLUMNS says where there is none.
    pub fn standard() -> Console {
        let terminal = terminal_size_of(io::stdout()).map(|(Width(columns), _)| columns.into());
        let said = || std::env::var("COLUMNS").ok()?.parse().ok();
        Console::new(io::stdout(), terminal.or_else(said).filter(|&columns| columns > 0))
    }

    /// How wide a report may be.
    pub fn columns(&self) -> usize {
        self.columns.unwrap_or(USUAL).max(LEAST)
    }

    /// How wide a chart may be that is cut, not scaled: what goes to a file gets more room.
    pub fn chart_columns(&self) -> usize {
        self.columns.map_or(kymo_plan::schedule::WIDTH, |_| self.columns())
    }

    /// A line that goes on below itself, `indent` columns from the left, where it does not fit.
    pub fn hanging(&self, line: &str, indent: usize) -> String {
        let mut text = String::new();
        let columns = self.columns.map_or(usize::MAX, |_| self.columns());
        layout::wrap(line, columns, indent.min(columns / 2), &mut text);
        text
    }

    /// Text whose lines fit, where it is known how wide they may be: what goes to a file stays as it is.
    pub fn fit(&self, text: &str) -> String {
        match self.columns {
            Some(_) => layout::fit(text, self.columns()),
            None => text.to_owned(),
        }
    }
}

impl Write for Console {
    /// A reader that closed our output, as `head` does, has read enough: that is no failure, and the work
    /// that was asked for is still done.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        unless_closed(self.out.write(bytes), bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        unless_closed(self.out.flush(), ())
    }
}

/// What was done, or `all` where nobody reads it any more.
pub(super) fn unless_closed<T>(done: io::Result<T>, all: T) -> io::Result<T> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(all),
        done => done,
    }
}

/// A line on standard error. Where that is closed or full nobody can be told, and the work matters more.
pub fn complain(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// The columns of standard error, where it is a terminal.
pub(super) fn error_columns() -> Option<usize> {
    terminal_size_of(io::stderr()).map(|(Width(columns), _)| usize::from(columns).max(LEAST))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Refuses(io::ErrorKind);
    impl Write for Refuses {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Err(self.0.into())
        }
    }

    #[test]
    fn a_closed_pipe_is_no_failure_and_a_full_disk_is_one() {
        let mut closed = Console::new(Refuses(io::ErrorKind::BrokenPipe), None);
        assert!(writeln!(closed, "text").is_ok() && closed.flush().is_ok());
        let mut full = Console::new(Refuses(io::ErrorKind::StorageFull), None);
        assert!(writeln!(full, "text").is_err() && full.flush().is_err());
    }

    #[test]
    fn only_a_known_width_changes_prose() {
        let text = "word ".repeat(30);
        assert_eq!(Console::new(io::sink(), None).fit(&text), text);
        let narrow = Console::new(io::sink(), Some(3));
        assert_eq!(narrow.columns(), LEAST);
        assert!(narrow.fit(&text).lines().all(|line| line.len() <= LEAST));
        assert_eq!(Console::new(io::sink(), None).columns(), USUAL);
        assert_eq!(Console::new(io::sink(), None).hanging(text.trim_end(), 4).lines().count(), 1);
        assert_eq!(narrow.hanging("name  what it is, at length", 6), "name  what it is, at\n      length\n");
    }
}
