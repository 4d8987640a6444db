//! Running the command, and judging how it ended.

use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use kymo::Class;

/// After this a command hangs.
pub const LIMIT: Duration = Duration::from_secs(20);

/// After this a command that may rightly take long is asked to stop.
pub const LONG: Duration = Duration::from_secs(3);

/// What a Rust program exits with when it panics, and perhaps cannot say so.
const PANIC: i32 = 101;

/// Kilobytes of address space for what nobody knows the size of, so that the machine survives.
pub const ADDRESSES: u64 = 4 << 20;

/// What was wrong with a case: the class it is counted in, and what was seen.
#[derive(Debug)]
pub struct Fault {
    pub class: &'static str,
    pub text: String,
}

impl Fault {
    pub fn new(class: &'static str, text: impl Into<String>) -> Fault {
        Fault { class, text: text.into() }
    }
}

impl From<std::io::Error> for Fault {
    fn from(error: std::io::Error) -> Fault {
        Fault::new("the trial itself failed", error.to_string())
    }
}

/// What came of a case.
pub type Verdict<T = ()> = Result<T, Fault>;

/// How a command ended.
pub struct Answer {
    pub shown: String,
    pub code: Option<i32>,
    pub signal: Option<i32>,
    pub out: Vec<u8>,
    pub err: String,
    /// The last signal it was sent.
    pub sent: Option<&'static str>,
}

/// The command under trial.
#[derive(Clone)]
pub struct Kymo {
    path: PathBuf,
    home: PathBuf,
    remarks: Arc<Mutex<BTreeMap<String, usize>>>,
}

impl Kymo {
    pub fn new(path: &Path, home: &Path) -> Verdict<Kymo> {
        let kymo = Kymo { path: path.into(), home: home.into(), remarks: Arc::default() };
        kymo.done(home, "--version")?;
        Ok(kymo)
    }

    /// Notes something that is no failure, such as what cannot be tried here.
    pub fn remark(&self, what: &str) {
        let mut remarks = self.remarks.lock().unwrap_or_else(PoisonError::into_inner);
        *remarks.entry(what.into()).or_default() += 1;
    }

    /// What was noted, and how often.
    pub fn remarks(&self) -> BTreeMap<String, usize> {
        self.remarks.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The command in a folder; caches of the user stay out of it.
    pub fn plain(&self, folder: &Path, args: &[impl AsRef<str>]) -> Command {
        let mut command = Command::new(&self.path);
        command.args(args.iter().map(AsRef::as_ref));
        self.within(command, folder)
    }

    /// The command behind some words of a shell, which limit it or redirect what it prints.
    pub fn limited(
        &self,
        folder: &Path,
        before: &str,
        redirected: &str,
        args: &[impl AsRef<str>],
    ) -> Command {
        let mut command = Command::new("sh");
        command.arg("-c").arg(format!("{before}; exec \"$0\" \"$@\" {redirected}")).arg(&self.path);
        command.args(args.iter().map(AsRef::as_ref));
        self.within(command, folder)
    }

    fn within(&self, mut command: Command, folder: &Path) -> Command {
        let cache = self.home.join("cache");
        command.current_dir(folder).env("HOME", &self.home).env("XDG_CACHE_HOME", cache);
        command.env_remove("RUST_BACKTRACE");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs the command without any hindrance; arguments are separated by blanks.
    pub fn run(&self, folder: &Path, args: &str) -> Verdict<Answer> {
        finish(self.plain(folder, &words(args)), &[(LIMIT, "KILL")])
    }

    /// The same, where anything but success is a failure of the trial itself.
    pub fn done(&self, folder: &Path, args: &str) -> Verdict<Answer> {
        let answer = self.run(folder, args)?;
        let failed = format!("{} does not work without hindrance: {}", answer.shown, answer.err);
        if answer.code == Some(0) { Ok(answer) } else { Err(Fault::new("the trial itself failed", failed)) }
    }
}

/// The words of a line.
pub fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

/// What to do with a command that runs.
pub enum Next {
    /// Look again after this time.
    Wait(Duration),
    /// Send it a signal.
    Send(&'static str),
}

/// Runs a command to its end, with signals that are sent when their time has come.
pub fn finish(command: Command, signals: &[(Duration, &'static str)]) -> Verdict<Answer> {
    let mut signals = signals.iter();
    let mut next = signals.next();
    conduct(command, |elapsed| match next {
        Some((after, signal)) if elapsed >= *after => {
            next = signals.next();
            Next::Send(signal)
        }
        _ => {
            let pause = (elapsed / 20).clamp(Duration::from_micros(300), Duration::from_millis(20));
            Next::Wait(next.map_or(pause, |(after, _)| pause.min(after.saturating_sub(elapsed))))
        }
    })
}

/// Runs a command to its end; `next` is asked after how long it has run what to do.
pub fn conduct(mut command: Command, mut next: impl FnMut(Duration) -> Next) -> Verdict<Answer> {
    let words: Vec<String> = command.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
    // Without the shell's words and the program before.
    let shown = if command.get_program() == "sh" { &words[3..] } else { &words };
    let shown = format!("kymo {}", shown.join(" "));
    let (mut child, begin) = (command.spawn()?, Instant::now());
    let (out, err) = (reader(child.stdout.take()), reader(child.stderr.take()));
    let mut sent = None;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        match next(begin.elapsed()) {
            Next::Wait(pause) if pause.is_zero() => {}
            Next::Wait(pause) => std::thread::sleep(pause),
            Next::Send(signal) => {
                send(&mut child, signal)?;
                sent = Some(signal);
            }
        }
    };
    let text = |bytes: std::thread::JoinHandle<Vec<u8>>| bytes.join().unwrap_or_default();
    Ok(Answer {
        shown,
        code: status.code(),
        signal: status.signal(),
        out: text(out),
        err: String::from_utf8_lossy(&text(err)).into_owned(),
        sent,
    })
}

fn reader(stream: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut stream) = stream {
            let _ = stream.read_to_end(&mut bytes);
        }
        bytes
    })
}

fn send(child: &mut Child, signal: &str) -> Verdict {
    match signal {
        "KILL" => child.kill()?,
        _ => drop(Command::new("kill").arg(format!("-{signal}")).arg(child.id().to_string()).output()?),
    }
    Ok(())
}

impl Answer {
    /// A fault of this answer.
    pub fn fault(&self, class: &'static str) -> Fault {
        let ended = match (self.code, self.signal) {
            (Some(code), _) => format!("exit {code}"),
            (_, signal) => format!("signal {}", signal.unwrap_or(0)),
        };
        let said: String = self.err.trim().chars().take(400).collect();
        Fault::new(class, format!("{}: {ended}: {said}", self.shown))
    }

    /// Whether it was ended by a signal that it was sent, or stopped at one.
    pub fn stopped(&self) -> bool {
        let number = match self.sent {
            Some("KILL") => 9,
            Some("TERM") => 15,
            Some("INT") => 2,
            _ => return false,
        };
        self.signal == Some(number) || self.code == Some(128 + number) && number != 9
    }

    /// Success, or an error that the documents know, in words. That it was asked to stop is no error, unless
    /// it had to be killed.
    pub fn documented(&self) -> Verdict {
        if self.err.contains("panicked at") || self.code == Some(PANIC) {
            return Err(self.fault("panicked"));
        }
        if self.stopped() {
            return if self.sent == Some("KILL") { Err(self.fault("hung")) } else { Ok(()) };
        }
        let Some(code) = self.code else {
            let class = if self.signal == Some(6) { "aborted" } else { "ended by a signal" };
            return Err(self.fault(class));
        };
        let class = Class::ALL.into_iter().find(|class| i32::from(class.exit_code()) == code);
        match class {
            _ if code == 0 => Ok(()),
            None => Err(self.fault("undocumented exit code")),
            Some(Class::Bug) => Err(self.fault("called itself a bug")),
            Some(Class::Stopped) => Err(self.fault("stopped without being asked")),
            Some(_) => self.in_words(),
        }
    }

    /// The error: one paragraph, but for those about options, which show the usage behind it.
    pub fn error(&self) -> Option<&str> {
        // The C library may have said something about an error before.
        let begin = if self.err.starts_with("error: ") { 0 } else { self.err.find("\nerror: ")? + 1 };
        Some(self.err[begin..].trim_start_matches("error: ").trim_end())
    }

    fn in_words(&self) -> Verdict {
        let usage = |error: &str| error.contains("--help'");
        match self.error() {
            Some(error) if !error.is_empty() && (usage(error) || !error.contains("\n\n")) => Ok(()),
            Some(error) if !error.is_empty() => Err(self.fault("an error of several paragraphs")),
            _ => Err(self.fault("an error without a word")),
        }
    }
}
