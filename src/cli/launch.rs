//! `kymo launch`: starts a command, and starts it again where a new start can mend what ended it.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use clap::{Args, Parser};
use kymo_comm::remote::neighbours::Process;
use kymo_run::{Class, Error, Result};
use signal_hook::flag;

use super::console::{Console, complain};
use super::{Command, Verb, watch};

/// Start a command, and start it again where it was killed
///
/// The command is usually `mpirun ... kymo train STORE ... -o RUN --resume`: what was killed goes on from the
/// last checkpoint of RUN, with as many workers as it is then started with, and comes to the bits of a
/// training that was left alone. It is started again after it was killed, lost a worker or lacked something
/// of the machine (exit codes 5 and 4), and after any code that is not Kymo's; not after an error that would
/// come again (2, 3, 6, 70), nor after it was asked to stop. Signals are passed on to the command, which is
/// then not started again. The exit code is that of the last try.
#[derive(Args, Debug)]
#[command(after_help = "Open MPI is told to let waiting processes sleep (OMPI_MCA_mpi_yield_when_idle=1) \
                  where nothing else was\nset. Its option orte_enable_recovery makes mpirun exit with 0 \
                  though processes were lost: leave it out.\n\n\
                  Examples:\n  \
                  kymo launch -- mpirun -n 4 kymo train demo -o first --resume\n  \
                  kymo launch --retries 10 --pause 60 -- mpirun --hostfile hosts kymo train demo -o first \
                  --resume")]
pub struct Launch {
    /// How many times to start the command again
    #[arg(long, value_name = "N", default_value_t = 3)]
    retries: u32,
    /// Seconds before the command is started again; twice as many before the second time, and so on
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
    pause: f64,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// What is set for the command where it is not set already: Open MPI's processes let others work while they
/// wait.
const DEFAULTS: [(&str, &str); 1] = [("OMPI_MCA_mpi_yield_when_idle", "1")];

/// How often it is looked whether the command has ended, or this one was asked to.
const LOOK: Duration = Duration::from_millis(20);

/// Runs the command until it ends for good; what it exited with.
pub fn run(args: &Launch, out: &Console) -> Result<u8> {
    let pause = Duration::try_from_secs_f64(args.pause).map_err(|_| {
        Error::settings("--pause", format!("found {}, expected seconds, at least 0", args.pause))
    })?;
    check(&args.command)?;
    let received = Arc::new(AtomicUsize::new(0));
    for signal in watch::signals() {
        // Where a handler cannot be set, the signal ends this process as it does by default.
        let _ = flag::register_usize(signal, received.clone(), signal as usize);
    }
    let say = |text: &str| {
        if !out.quiet {
            complain(&format!("launch: {text}"));
        }
    };
    let mut stopped = false;
    for number in 1u32.. {
        let begun = Instant::now();
        let (mut child, mut hung) = (start(&args.command)?, Hung::default());
        let status = loop {
            let signal = received.swap(0, Ordering::Relaxed);
            if signal > 0 {
                stopped = true;
                pass_on(&mut child, signal as i32);
            }
            if hung.is_hung(child.id()) {
                say("all processes that the launcher has started have ended, and it has not: it is killed");
                // One that has ended meanwhile needs no signal.
                let _ = child.kill();
            }
            match child.try_wait().map_err(Error::resource("cannot wait for", Path::new(&args.command[0])))? {
                Some(status) => break status,
                None => std::thread::sleep(LOOK),
            }
        };
        // Both may have been asked to stop, and the command was quicker.
        stopped |= received.load(Ordering::Relaxed) > 0;
        let code = code(status);
        let happened = format!(
            "try {number} of {} ended after {:.0} s with code {code}, {}",
            args.retries as u64 + 1,
            begun.elapsed().as_secs_f64(),
            meaning(code)
        );
        let wait = pause.saturating_mul(number);
        match () {
            () if code == 0 => return Ok(code),
            () if stopped => say(&format!("{happened}; it was asked to stop")),
            () if !can_be_mended(code) => say(&format!("{happened}; a new start would end the same way")),
            () if number > args.retries => {
                say(&format!("{happened}; that was the last; --retries N allows more"));
            }
            () => {
                say(&format!("{happened}; starting it again in {:.1} s", wait.as_secs_f64()));
                let begun = Instant::now();
                while begun.elapsed() < wait && received.load(Ordering::Relaxed) == 0 {
                    std::thread::sleep(LOOK.min(wait));
                }
                if received.load(Ordering::Relaxed) == 0 {
                    continue;
                }
                say("asked to stop; it is not started again");
            }
        }
        return Ok(code);
    }
    Ok(0)
}

/// Refuses a training that would begin anew at every start, or be refused since its folder is there.
fn check(command: &[OsString]) -> Result<()> {
    let is_kymo = |word: &OsString| Path::new(word).file_stem().is_some_and(|name| name == "kymo");
    let starts = (0..command.len()).filter(|&at| is_kymo(&command[at]));
    for at in starts {
        if let Ok(Command { verb: Verb::Train(train), .. }) = Command::try_parse_from(&command[at..])
            && !train.goes_on()
        {
            let problem = "kymo train has to be given both -o RUN and --resume here: without them a new \
                           start \
                           would not go on where the last one ended";
            return Err(Error::settings("COMMAND", problem));
        }
    }
    Ok(())
}

fn start(command: &[OsString]) -> Result<Child> {
    let Some((program, args)) = command.split_first() else {
        return Err(Error::settings("COMMAND", "there is none; write it behind --"));
    };
    let mut start = std::process::Command::new(program);
    start.args(args).stdin(Stdio::null());
    for (name, value) in DEFAULTS.into_iter().filter(|(name, _)| std::env::var_os(name).is_none()) {
        start.env(name, value);
    }
    // A terminal sends Ctrl-C to all processes of a group: the command gets it from here, once.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut start, 0);
    start.spawn().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            let problem = format!("there is no program {}; install it, or give its path", program.display());
            Error::settings("COMMAND", problem)
        }
        _ => Error::resource("cannot start", Path::new(program))(error),
    })
}

#[cfg(unix)]
fn pass_on(child: &mut Child, signal: i32) {
    use rustix::process::{Pid, Signal, kill_process};
    // One that has ended meanwhile needs no signal.
    if let (Some(process), Some(signal)) = (Pid::from_raw(child.id() as i32), Signal::from_named_raw(signal))
    {
        let _ = kill_process(process, signal);
    }
}

#[cfg(not(unix))]
fn pass_on(child: &mut Child, _: i32) {
    let _ = child.kill();
}

/// Launchers that end when the processes they have started end, or ought to: mpirun of Open MPI 4.1 may wait
/// for ever where one was killed while all joined, and does not even end when it is asked to.
const LAUNCHERS: [&str; 4] = ["mpirun", "mpiexec", "orterun", "prterun"];

/// How long such a launcher may take to end.
const HUNG: Duration = Duration::from_secs(5);

/// Whether a launcher has lost all that it started.
#[derive(Default)]
struct Hung {
    looked: Option<Instant>,
    /// When it was last seen with processes that live, if it ever was.
    seen: Option<Instant>,
}

impl Hung {
    /// To be asked again and again; where the system does not tell, no launcher hangs.
    fn is_hung(&mut self, launcher: u32) -> bool {
        if self.looked.is_none_or(|looked| looked.elapsed() > HUNG / 10) {
            self.looked = Some(Instant::now());
            match has_children(launcher) {
                Some(true) => self.seen = Some(Instant::now()),
                // It may still be about to start some, or wait for their ends.
                Some(false) => {}
                None => self.seen = None,
            }
        }
        // Said once: it takes a moment until it has ended.
        self.seen.take_if(|seen| seen.elapsed() > HUNG).is_some()
    }
}

/// Whether a launcher has processes that live; nothing where it is none, or cannot be known.
fn has_children(launcher: u32) -> Option<bool> {
    let folder = format!("/proc/{launcher}");
    let name = std::fs::read_to_string(format!("{folder}/comm")).ok()?;
    if !LAUNCHERS.contains(&name.trim()) {
        return None;
    }
    let mut children = Vec::new();
    for thread in std::fs::read_dir(format!("{folder}/task")).ok()?.flatten() {
        let list = std::fs::read_to_string(thread.path().join("children")).ok()?;
        children.extend(list.split_whitespace().filter_map(|id| id.parse::<u32>().ok()));
    }
    Some(children.into_iter().any(|id| Process::living(id).is_some()))
}

/// The exit code; for what a signal ended, that which shells give it.
fn code(status: ExitStatus) -> u8 {
    #[cfg(unix)]
    let signal = std::os::unix::process::ExitStatusExt::signal(&status);
    #[cfg(not(unix))]
    let signal: Option<i32> = None;
    let code = status.code().or(signal.map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

/// The signals that ask to stop, as exit codes.
const ASKED: [u8; 3] = [129, 130, 143];

fn class(code: u8) -> Option<Class> {
    Class::ALL.into_iter().find(|class| class.exit_code() == code)
}

/// Whether a new start may do better.
fn can_be_mended(code: u8) -> bool {
    matches!(class(code), None | Some(Class::Resource | Class::Peer)) && !ASKED.contains(&code)
}

fn meaning(code: u8) -> String {
    match (class(code), code) {
        _ if ASKED.contains(&code) => "stopped".into(),
        (Some(Class::Peer), _) => "since a worker was lost".into(),
        (Some(class), _) => format!("an error of the class {}", class.name()),
        (None, 0) => "success".into(),
        (None, 129..=192) => format!("killed by signal {}", code - 128),
        (None, _) => "which is not one of Kymo's".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_come_again_is_not_started_again() {
        for code in [2, 3, 6, 70, 129, 130, 143] {
            assert!(!can_be_mended(code), "{code}");
        }
        for code in [1, 4, 5, 134, 137, 139, 255] {
            assert!(can_be_mended(code), "{code}");
        }
        assert_eq!(
            (meaning(137), meaning(5)),
            ("killed by signal 9".into(), "since a worker was lost".into())
        );
    }

    #[test]
    fn a_training_must_be_able_to_go_on() {
        let checked = |line: &str| check(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        for line in [
            "mpirun -n 2 kymo train s -o r --resume",
            "mpirun -wdir /x/kymo /usr/bin/kymo -q train s --resume --output=r",
            "kymo train s -or --resume",
            "kymo predict r -o p",
            "./train.sh kymo",
        ] {
            assert!(checked(line).is_ok(), "{line}");
        }
        for line in ["mpirun kymo train s -o r", "kymo -q train s", "mpirun --x kymo kymo train s"] {
            let error = checked(line).unwrap_err();
            assert!(error.class() == Class::Settings && error.to_string().contains("--resume"), "{error}");
        }
    }
}
