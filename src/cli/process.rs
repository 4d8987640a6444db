//! The command as a process: what it exits with, whatever happens.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::{IsTerminal, Write};
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::sync::atomic::Ordering;

use clap::Parser;
use kymo_run::{Class, Error};

use super::console::{complain, unless_closed};
use super::{Command, cannot_print};

/// Bytes below which memory has ended: about what a thread takes.
const LEAST: usize = 4 << 20;

/// Runs the command as it was typed; the exit code.
pub fn main() -> u8 {
    guarded(|| match Command::try_parse() {
        Ok(command) => {
            let code = match command.run() {
                Ok(()) => 0,
                Err(error) if command.silent.load(Ordering::Relaxed) => error.class().exit_code(),
                Err(error) => exit_code(&error, command.received.load(Ordering::Relaxed)),
            };
            Some(command.told.load(Ordering::Relaxed)).filter(|&told| told > 0).unwrap_or(code)
        }
        Err(answer) => answered(&answer),
    })
}

/// Does the work; a panic is reported as the bug that it is. The stack is unwound, so that what was begun is
/// cleared away.
fn guarded(work: impl FnOnce() -> u8) -> u8 {
    std::panic::set_hook(Box::new(|panic| {
        end_without_memory();
        complain(&bug(panic));
    }));
    catch_unwind(AssertUnwindSafe(work)).unwrap_or(Class::Bug.exit_code())
}

fn bug(panic: &PanicHookInfo) -> String {
    let place = panic.location().map(|place| format!(" at {place}")).unwrap_or_default();
    let payload = panic.payload();
    let said = payload.downcast_ref::<String>().map(String::as_str).or(payload.downcast_ref().copied());
    let said = said.unwrap_or("no message");
    let mut text = format!(
        "kymo {} panicked{place}: {said}\nthis is a bug: please report it with these lines",
        env!("CARGO_PKG_VERSION")
    );
    // It is there where RUST_BACKTRACE asks for it.
    let backtrace = Backtrace::capture();
    if backtrace.status() == BacktraceStatus::Captured {
        text.push_str(&format!("\n{backtrace}"));
    }
    text
}

/// Ends the process where there is no memory left to speak of: for those who fail for the lack of it, as
/// threads that begin, but panic or abort.
pub fn end_without_memory() {
    if memmap2::MmapMut::map_anon(LEAST).is_err() {
        without_memory(LEAST);
    }
}

/// Ends the process, which cannot have this many bytes, as an error of the machine. Nothing is allocated, and
/// nothing is cleared away, since others may hold what that needs: a later command finds what a kill leaves.
pub fn without_memory(bytes: usize) -> ! {
    let mut line = [0; 256];
    let mut rest = &mut line[..];
    // A bar that stands on the terminal has not ended its line.
    let begin = if std::io::stderr().is_terminal() { "\n" } else { "" };
    let _ = writeln!(
        rest,
        "{begin}error: memory has ended: {bytes} bytes more were refused; free memory, raise the limit \
         (ulimit -v), or ask for less: --memory, --hidden, --window, --workers"
    );
    let left = rest.len();
    say_at_once(&line[..line.len() - left]);
    signal_hook::low_level::exit(Class::Resource.exit_code().into())
}

/// Writes to standard error past its lock, which the one who ran out of memory may hold.
#[cfg(unix)]
fn say_at_once(line: &[u8]) {
    let _ = rustix::io::write(std::io::stderr(), line);
}

#[cfg(not(unix))]
fn say_at_once(line: &[u8]) {
    let _ = std::io::stderr().write_all(line);
}

/// Says what went wrong; the exit code. To be stopped by a signal is no error, and shells know its code.
fn exit_code(error: &Error, received: usize) -> u8 {
    let class = error.class();
    if class != Class::Stopped {
        complain(&format!("error: {error}"));
        return class.exit_code();
    }
    complain(&error.to_string());
    u8::try_from(received).ok().filter(|&code| code > 0).unwrap_or(class.exit_code())
}

/// Prints help, the version, or what is wrong with the options; the exit code.
fn answered(answer: &clap::Error) -> u8 {
    let printed = answer.print().and_then(|()| std::io::stdout().flush());
    match unless_closed(printed, ()) {
        Err(error) if !answer.use_stderr() => exit_code(&cannot_print(error).into(), 0),
        _ => u8::try_from(answer.exit_code()).unwrap_or(Class::Settings.exit_code()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn the_code_of_a_stop_is_that_of_its_signal() {
        let stopped = Error::from(kymo_graph::Error::Interrupted);
        assert_eq!([0, 129, 143].map(|received| exit_code(&stopped, received)), [130, 129, 143]);
        // A signal that came while something else went wrong is not the news.
        assert_eq!(exit_code(&Error::settings("--x", "wrong"), 143), 2);
    }

    /// Panics as the command would, in the process that the next test starts.
    #[test]
    fn panics_where_it_is_asked_to() {
        if std::env::var_os("KYMO_TEST_PANICS").is_some() {
            std::process::exit(guarded(|| panic!("because of {}", "this")).into());
        }
    }

    /// A panic exits with 70 and asks for a report, also where nobody can read it.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_panic_is_a_bug_of_kymo() {
        let panics = |stderr: Stdio| {
            Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "cli::process::tests::panics_where_it_is_asked_to", "--nocapture"])
                .env("KYMO_TEST_PANICS", "yes")
                .env_remove("RUST_BACKTRACE")
                .stderr(stderr)
                .output()
                .unwrap()
        };
        let output = panics(Stdio::piped());
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(70), "{said}");
        let version = env!("CARGO_PKG_VERSION");
        assert!(said.contains(&format!("kymo {version} panicked at src/cli/process.rs")), "{said}");
        assert!(said.contains(": because of this\n"), "{said}");
        assert!(said.contains("this is a bug") && said.lines().count() == 2, "{said}");
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        assert_eq!(panics(full.into()).status.code(), Some(70));
    }
}
