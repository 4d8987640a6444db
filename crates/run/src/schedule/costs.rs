//! Where the costs of windows come from: measured in this run, or told beforehand.
//!
//! Times are never the same twice, and neither are schedules that follow them. Costs that are told beforehand
//! can be told again: a run by them is repeated to the bit. They are estimated from the edges of each window,
//! as `kymo plan` does, or are those that an earlier run measured.

use std::ops::Range;
use std::path::Path;

use kymo_graph::Step;
use kymo_plan::price::{Job, Rates, closing_seconds, window_seconds};
use kymo_plan::schedule::Reuse;
use kymo_plan::{Assignment, Window};
use kymo_trace::schema::{ProfileRecord, RunFolder, check_iterations, folder, read};

use super::probe;
use super::profile;
use crate::config::Parallel;
use crate::error::{Error, Result};
use crate::step::RunContext;

/// What `parallel.costs` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source<'a> {
    /// What windows take in this run.
    Measured,
    /// An estimate from their edges.
    Edges,
    /// What they took in an earlier run, by its profile.
    File(&'a Path),
}

impl Source<'_> {
    /// That of the settings.
    pub fn of(parallel: &Parallel) -> Source<'_> {
        match parallel.costs.as_str() {
            "measured" => Source::Measured,
            "edges" => Source::Edges,
            file => Source::File(Path::new(file)),
        }
    }
}

/// Costs that are told beforehand.
pub struct KnownCosts {
    /// Seconds of each window.
    pub windows: Vec<f64>,
    /// Seconds that close an iteration.
    pub closing: f64,
    /// What windows save each other that are run together.
    pub reuse: Reuse,
    /// Where they were measured, if they were.
    pub profile: Option<ProfileRecord>,
}

/// The costs that the settings tell beforehand, for this many workers; nothing where they are measured.
pub fn known(context: &RunContext, workers: usize, rates: Rates) -> Result<Option<KnownCosts>> {
    let path = match Source::of(&context.settings.parallel) {
        Source::Measured => return Ok(None),
        Source::Edges => return estimated(context, workers, rates).map(Some),
        Source::File(path) => path,
    };
    let record: ProfileRecord = read(path)?.ok_or_else(|| no_file(path))?;
    check_profile(&record, context).map_err(|problem| Error::file(path, problem))?;
    let (windows, closing) = (profile::costs(&record), record.closing);
    let reuse = profile::reuse(&record, &context.windows())?;
    Ok(Some(KnownCosts { windows, closing, reuse, profile: Some(record) }))
}

/// What windows would take on a machine of these rates: all steps have the same vertices, so windows differ
/// by their edges alone.
fn estimated(context: &RunContext, workers: usize, rates: Rates) -> Result<KnownCosts> {
    let windows = context.windows();
    let epoch = context.epochs(workers, Assignment::InTurns(workers)).plan(0);
    let job = Job {
        store: &context.store,
        windows: &windows,
        epoch: &epoch,
        sample: None,
        seen: None,
        presence: None,
        shares: None,
        work: &probe::work(context)?,
        workers,
        follows: false,
        pairs: &|_: &Window| Ok(Vec::new()),
    };
    Ok(KnownCosts {
        windows: window_seconds(&job, rates)?,
        closing: closing_seconds(&job, rates),
        reuse: Reuse::None,
        profile: None,
    })
}

fn no_file(path: &Path) -> Error {
    let problem = format!(
        "there is no file {}; expected measured, edges, or the profile.json of an earlier run",
        path.display()
    );
    Error::settings("parallel.costs", problem)
}

/// The same settings with a path that holds from everywhere.
pub fn absolute(mut parallel: Parallel) -> Result<Parallel> {
    if let Source::File(path) = Source::of(&parallel) {
        let whole = std::fs::canonicalize(path).map_err(|_| no_file(path))?;
        parallel.costs = whole.to_string_lossy().into_owned();
    }
    Ok(parallel)
}

/// Fails where a profile or a schedule that a run left in its folder is damaged, or of another run: training
/// would come upon it at its end.
pub fn check_left(path: &Path, context: &RunContext) -> Result<()> {
    let (files, parallel) = (RunFolder::open(path)?, &context.settings.parallel);
    let of = |name: &'static str| move |problem: String| Error::file(&path.join(name), problem);
    if let Some(schedule) = files.schedule()? {
        if schedule.strategy != parallel.strategy {
            let problem = format!("strategy is {}, the run has {}", schedule.strategy, parallel.strategy);
            return Err(of(folder::SCHEDULE)(problem));
        }
        check_iterations(&schedule.iterations, context.windows().len(), parallel.workers)
            .map_err(|problem| format!("{problem}: the schedule is of another run"))
            .map_err(of(folder::SCHEDULE))?;
    }
    if let Some(profile) = files.profile()? {
        check_profile(&profile, context).map_err(of(folder::PROFILE))?;
    }
    Ok(())
}

/// Says why a profile is not of the windows of a run.
fn check_profile(profile: &ProfileRecord, context: &RunContext) -> Result<(), String> {
    let windows: Vec<Range<Step>> = context.windows();
    let other = "it was measured on other data, or with another train.window, train.stride or split";
    if profile.seconds.len() != windows.len() {
        return Err(format!(
            "seconds has {} windows, the run has {}: {other}",
            profile.seconds.len(),
            windows.len()
        ));
    }
    if let Some(window) = profile.seconds.iter().position(Vec::is_empty) {
        return Err(format!("seconds[{window}] is empty: nothing was measured of this window"));
    }
    let edges = context.edges().map_err(|error| error.to_string())?;
    for (number, snapshot) in profile.snapshots.iter().enumerate() {
        let Some(&expected) = edges.get(snapshot.step) else {
            let (found, steps) = (snapshot.step, edges.len());
            return Err(format!("snapshots[{number}].step is {found}, the data has {steps} steps: {other}"));
        };
        if snapshot.edges != expected {
            let (found, step) = (snapshot.edges, snapshot.step);
            return Err(format!(
                "snapshots[{number}].edges is {found}, step {step} of the data has {expected}: {other}"
            ));
        }
    }
    Ok(())
}
