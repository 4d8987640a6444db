//! A trial of the command: it is killed, its files are damaged, its resources are cut, and it is fed what
//! nobody would write. `ci/trial` runs it.
//!
//! Every case follows from its number alone, so a case that failed can be repeated by it. The moment of a
//! kill is the one thing that the machine decides, too.

#![allow(clippy::print_stdout)]

mod command;
mod damage;
mod draw;
mod files;
mod forge;
mod fuzz;
mod inside;
mod kill;
mod options;
mod starve;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use command::{Fault, Kymo, Verdict};
use draw::Draw;

/// One way to try the command.
pub trait Kind: Sync {
    /// Tries one case in a new, empty folder.
    fn case(&self, draw: Draw, folder: &Path) -> Verdict;

    /// Tries several cases at once, where a process for each would take too long; what failed.
    fn batch(&self, cases: &[u64], folder: &Path) -> Vec<(u64, Fault)> {
        // Always the same folder: scenes know where they lie.
        let here = folder.join("here");
        let one = |&case: &u64| {
            let made = std::fs::create_dir(&here).map_err(Fault::from);
            let fault = made.and_then(|()| self.case(Draw::of(case), &here)).err();
            if fault.is_some() {
                let _ = std::fs::rename(&here, folder.join(case.to_string()));
            }
            files::remove(&here);
            Some((case, fault?))
        };
        cases.iter().filter_map(one).collect()
    }
}

/// Prepares a kind in a folder of its own.
type Prepare = fn(&Kymo, &Path) -> Verdict<Box<dyn Kind>>;

/// Every kind: its name, its cases at full scale, how many of them make a batch.
const KINDS: [(&str, usize, usize, Prepare); 5] = [
    ("kill", 541, 1, kill::prepare),
    ("damage", 18_000, 4, damage::prepare),
    ("starve", 1_000, 1, starve::prepare),
    ("fuzz", 31_000, 200, inside::prepare),
    ("options", 6_000, 4, options::prepare),
];

/// Failures of one class that are printed, and whose folders stay.
const SHOWN: usize = 3;

struct Args {
    scale: f64,
    only: Option<String>,
    case: Option<u64>,
    kymo: PathBuf,
}

fn main() -> std::process::ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [word, cases @ ..] = &args[..]
        && word == inside::WORD
    {
        return inside::serve(cases);
    }
    match parse(&args).and_then(|args| run(&args)) {
        Ok(true) => std::process::ExitCode::SUCCESS,
        Ok(false) => std::process::ExitCode::FAILURE,
        Err(fault) => {
            println!("the trial cannot run: {}: {}", fault.class, fault.text);
            std::process::ExitCode::from(2)
        }
    }
}

fn parse(args: &[String]) -> Verdict<Args> {
    let usage = |what: &str| {
        let kinds = KINDS.map(|kind| kind.0).join(", ");
        let options = "[--scale 0.1] [--only KIND] [--case N] [--kymo PATH]";
        Fault::new("usage", format!("{what}; ci/trial {options}, where KIND is one of {kinds}"))
    };
    let beside = std::env::current_exe()?;
    let beside = beside.parent().and_then(Path::parent).unwrap_or(Path::new(".")).join("kymo");
    let mut parsed = Args { scale: 0.1, only: None, case: None, kymo: beside };
    for pair in args.chunks(2) {
        let [option, value] = pair else { return Err(usage(&format!("{} has no value", pair[0]))) };
        let wrong = |_| usage(&format!("{option} cannot be '{value}'"));
        match option.as_str() {
            "--scale" => parsed.scale = value.parse().map_err(|_| wrong(()))?,
            "--case" => parsed.case = Some(value.parse().map_err(|_| wrong(()))?),
            "--kymo" => parsed.kymo = PathBuf::from(value).canonicalize()?,
            "--only" if KINDS.iter().any(|kind| kind.0 == value) => parsed.only = Some(value.clone()),
            _ => return Err(usage(&format!("there is no {option} {value}"))),
        }
    }
    if parsed.case.is_some() && parsed.only.is_none() {
        return Err(usage("--case needs --only"));
    }
    Ok(parsed)
}

/// Runs the kinds that were asked for; whether nothing failed.
fn run(args: &Args) -> Verdict<bool> {
    let root = tempfile::Builder::new().prefix("kymo-trial-").tempdir()?;
    let kymo = Kymo::new(&args.kymo, root.path())?;
    let (mut rows, mut failed) = (Vec::new(), 0);
    for (name, full, size, prepare) in KINDS {
        if args.only.as_ref().is_some_and(|only| only != name) {
            continue;
        }
        let begin = Instant::now();
        let folder = root.path().join(name);
        std::fs::create_dir(&folder)?;
        let scenes = folder.join("scenes");
        std::fs::create_dir(&scenes)?;
        let kind = prepare(&kymo, &scenes)?;
        let count = (full as f64 * args.scale).ceil() as u64;
        let cases: Vec<u64> = args.case.map_or((0..count).collect(), |case| vec![case]);
        let faults = all(name, &*kind, &cases, size, &folder);
        let classes: BTreeMap<&str, usize> = faults.iter().fold(BTreeMap::new(), |mut classes, fault| {
            *classes.entry(fault).or_default() += 1;
            classes
        });
        failed += faults.len();
        rows.push(format!(
            "{name:10}{:>8}{:>8}{:>8.1}",
            cases.len(),
            faults.len(),
            begin.elapsed().as_secs_f64()
        ));
        rows.extend(classes.iter().map(|(class, count)| format!("{:10}{:>8}{count:>8}  {class}", "", "")));
    }
    println!("\n{:10}{:>8}{:>8}{:>8}", "kind", "cases", "failed", "seconds");
    rows.iter().for_each(|row| println!("{row}"));
    kymo.remarks().iter().for_each(|(what, times)| println!("{what} ({times})"));
    if failed > 0 {
        println!("the folders of the cases printed above are in {}", root.keep().display());
    }
    Ok(failed == 0)
}

/// Tries all cases of a kind on all cores; the class of every failure.
fn all(name: &str, kind: &dyn Kind, cases: &[u64], size: usize, folder: &Path) -> Vec<&'static str> {
    let batches: Vec<&[u64]> = cases.chunks(size).collect();
    let (next, faults) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = |worker: usize| {
        while let Some(batch) = batches.get(next.fetch_add(1, Ordering::Relaxed)) {
            let place = folder.join(format!("worker-{worker}"));
            let found = match std::fs::create_dir(&place) {
                Ok(()) => kind.batch(batch, &place),
                Err(error) => vec![(batch[0], Fault::from(error))],
            };
            let mut faults = faults.lock().unwrap_or_else(PoisonError::into_inner);
            for (case, fault) in found {
                let before = faults.iter().filter(|&&class| class == fault.class).count();
                if before < SHOWN {
                    println!("{name} {case}: {}: {}", fault.class, fault.text);
                    println!("    again: ci/trial --only {name} --case {case}");
                    let _ = std::fs::rename(place.join(case.to_string()), folder.join(case.to_string()));
                }
                faults.push(fault.class);
            }
            drop(faults);
            files::remove(&place);
        }
    };
    let workers = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for worker in 0..workers {
            let work = &work;
            scope.spawn(move || work(worker));
        }
    });
    faults.into_inner().unwrap_or_else(PoisonError::into_inner)
}
