//! Fuzzed cases, many in one process: a copy of this program, so that one which dies takes nobody with it.
//! It prints the number of a case when it begins and what was wrong when it ends; a case that began and did
//! not end is the one it died of.

use std::io::{BufRead, BufReader, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::Kind;
use crate::command::{ADDRESSES, Fault, Kymo, LIMIT, Verdict};
use crate::draw::Draw;
use crate::fuzz;

/// The first argument of the copy.
pub const WORD: &str = "--inside";

/// What the copy exits with where a case takes too long.
const HUNG: i32 = 99;

/// Classes by the word that the copy prints for them.
const CLASSES: [&str; 5] = [
    "panicked",
    "an error without a word",
    "a store that is not whole",
    "a failed ingest left a store",
    "settings that do not come back",
];

struct Inside {
    program: PathBuf,
}

/// There is nothing to prepare but the copy.
pub fn prepare(_: &Kymo, _: &Path) -> Verdict<Box<dyn Kind>> {
    Ok(Box::new(Inside { program: std::env::current_exe()? }))
}

impl Kind for Inside {
    fn case(&self, draw: Draw, folder: &Path) -> Verdict {
        self.batch(&[draw.case], folder).into_iter().next().map_or(Ok(()), |(_, fault)| Err(fault))
    }

    fn batch(&self, cases: &[u64], folder: &Path) -> Vec<(u64, Fault)> {
        let (mut faults, mut left) = (Vec::new(), cases);
        while let [first, .., last] | [first @ last] = left {
            let begun = match self.serve_from(*first, *last, folder, &mut faults) {
                Ok(None) => return faults,
                Ok(Some(begun)) => begun,
                Err(fault) => {
                    faults.push((*first, fault));
                    return faults;
                }
            };
            left = &left[left.iter().position(|&case| case > begun).unwrap_or(left.len())..];
        }
        faults
    }
}

impl Inside {
    /// Runs a copy over some cases; the case it died of, if it did.
    fn serve_from(
        &self,
        first: u64,
        last: u64,
        folder: &Path,
        faults: &mut Vec<(u64, Fault)>,
    ) -> Verdict<Option<u64>> {
        let mut command = Command::new("sh");
        command.arg("-c").arg(format!("ulimit -v {ADDRESSES}; exec \"$0\" \"$@\"")).arg(&self.program);
        command.arg(WORD).args([first.to_string(), last.to_string()]).arg(folder);
        let log = folder.join("stderr");
        let mut child = command.stdout(Stdio::piped()).stderr(std::fs::File::create(&log)?).spawn()?;
        let mut begun = first;
        for line in child.stdout.take().map(BufReader::new).into_iter().flat_map(BufRead::lines) {
            let line = line?;
            let (number, rest) = line.split_once(' ').unwrap_or((&line, ""));
            begun = number.parse().unwrap_or(begun);
            if let Some(class) = CLASSES.into_iter().find(|class| rest.starts_with(class)) {
                faults.push((begun, Fault::new(class, &rest[class.len()..])));
            }
        }
        let status = child.wait()?;
        if status.success() {
            return Ok(None);
        }
        let said = std::fs::read_to_string(&log).unwrap_or_default();
        let class = if status.code() == Some(HUNG) { "hung" } else { "aborted" };
        let last: Vec<&str> = said.lines().rev().take(3).collect();
        faults.push((begun, Fault::new(class, format!("{status}: {}", last.join(" / ")))));
        Ok(Some(begun))
    }
}

/// The copy: tries the cases from one number to another in a folder.
pub fn serve(args: &[String]) -> ExitCode {
    let [first, last, folder] = args else { return ExitCode::from(2) };
    let (Ok(first), Ok(last)) = (first.parse::<u64>(), last.parse::<u64>()) else { return ExitCode::from(2) };
    let place = Arc::new(Mutex::new(String::new()));
    let seen = Arc::clone(&place);
    std::panic::set_hook(Box::new(move |panic| {
        *seen.lock().unwrap_or_else(PoisonError::into_inner) = panic.to_string().replace('\n', " ");
    }));
    let began = Arc::new(Mutex::new(Instant::now()));
    let watched = Arc::clone(&began);
    std::thread::spawn(move || {
        while watched.lock().unwrap_or_else(PoisonError::into_inner).elapsed() < LIMIT {
            std::thread::sleep(Duration::from_millis(200));
        }
        std::process::exit(HUNG);
    });
    let mut out = std::io::stdout();
    for case in first..=last {
        *began.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        let folder = Path::new(folder).join(case.to_string());
        if writeln!(out, "{case}").and_then(|()| std::fs::create_dir_all(&folder)).is_err() {
            return ExitCode::FAILURE;
        }
        let tried = catch_unwind(AssertUnwindSafe(|| fuzz::case(&mut Draw::of(case), &folder)));
        let text = place.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match tried.unwrap_or(Err(Fault::new("panicked", text))) {
            Ok(()) => drop(std::fs::remove_dir_all(&folder)),
            Err(fault) => drop(writeln!(out, "{case} {} {}", fault.class, fault.text.replace('\n', " "))),
        }
    }
    ExitCode::SUCCESS
}
